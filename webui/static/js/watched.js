// SPDX-License-Identifier: Apache-2.0
// Other programs' connections: those that live, above those that have ended within the last minute.

import { bytes, rate, time } from "./pure/format.js";

const COLUMNS = 10;

export function showWatched(snapshot) {
  const { living, ended, lost } = snapshot.connections;
  const rows = [...living.map((c) => livingRow(c, snapshot.at)), ...ended.map(endedRow)];
  document.getElementById("watched").replaceChildren(...(rows.length ? rows : [emptyRow(snapshot)]));
  const summary = document.getElementById("watched-summary");
  summary.textContent = `${living.length} living, ${ended.length} ended${lost ? `, ${lost} missed` : ""}`;
  summary.dataset.state = lost ? "pending" : "";
}

function livingRow(c, now) {
  const left =
    c.deadline_at === null ? "" : c.deadline_at < now ? "passed" : `in ${time((c.deadline_at - now) * 1e6)}`;
  return row(
    "living",
    c,
    ["lives", bytes(c.bytes), rate(c.rate_bps), time((now - c.started_at) * 1e6)],
    left,
  );
}

function endedRow(c) {
  const finished = c.status === "finished";
  const us = finished ? c.fct_us : c.lasted_us;
  const mean = us ? rate((c.bytes * 8e6) / us) : "";
  const met = c.met === null ? "" : c.met ? "met" : "missed";
  const element = row(
    finished ? "ended" : "unfinished",
    c,
    [c.status, bytes(c.bytes), mean, us === null ? "" : time(us)],
    met,
  );
  element.title = c.reason;
  return element;
}

function row(state, c, figures, deadline) {
  const again = c.retransmissions === null ? "" : String(c.retransmissions);
  const rtt = c.srtt_us === null ? "" : time(c.srtt_us);
  const element = document.createElement("tr");
  element.dataset.state = state;
  element.dataset.id = c.id;
  const texts = [
    end(c.src, c.src_port),
    end(c.dst, c.dst_port),
    ...figures,
    again,
    rtt,
    c.congestion_control,
    deadline,
  ];
  element.append(...texts.map(cell));
  if (deadline === "missed" || deadline === "passed") element.lastChild.className = "missed";
  return element;
}

function cell(text) {
  const element = document.createElement("td");
  element.textContent = text;
  return element;
}

function end(name, port) {
  if (port === null) return name;
  return name.includes(":") ? `[${name}]:${port}` : `${name}:${port}`;
}

function emptyRow(snapshot) {
  const watching = snapshot.health.agents.some((agent) => agent.status.watching);
  const element = document.createElement("tr");
  const only = cell(
    watching
      ? "None now. Start one on a host, with iperf or curl, and it appears here."
      : "No host agent watches connections.",
  );
  only.colSpan = COLUMNS;
  only.className = "empty";
  element.append(only);
  return element;
}
