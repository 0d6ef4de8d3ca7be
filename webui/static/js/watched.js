// SPDX-License-Identifier: Apache-2.0
// The table of TCP connections outside the schedule.

/** @import { Row } from "./pure/connections.js" */
/** @import { LiveHealthModel, SnapshotModel } from "./documents.gen.js" */

import { byId, element, setChildren, setText } from "./dom.js";
import { connectionRows, connectionSummary } from "./pure/connections.js";

const COLUMNS = 10;

/** @param {SnapshotModel} snapshot */
export function showWatched(snapshot) {
  const rows = connectionRows(snapshot.connections, snapshot.at).map(tableRow);
  setChildren(byId("watched", HTMLElement), ...(rows.length ? rows : [emptyRow(snapshot)]));
  const summary = byId("watched-summary", HTMLElement);
  setText(summary, connectionSummary(snapshot.connections));
  summary.dataset.state = snapshot.connections.lost ? "pending" : "";
}

/** @param {Row} row */
function tableRow({ id, state, cells, late, reason }) {
  const made = element("tr", { title: reason }, ...cells.map((text) => element("td", { textContent: text })));
  made.dataset.state = state;
  made.dataset.id = id;
  if (late) made.lastElementChild?.classList.add("missed");
  return made;
}

/** @param {SnapshotModel} snapshot */
function emptyRow(snapshot) {
  const watching = snapshot.health.agents.some(watches);
  const textContent = watching
    ? "No connection now. Start one on a host, for example with iperf or curl."
    : "No host agent watches connections.";
  return element("tr", {}, element("td", { textContent, colSpan: COLUMNS, className: "empty" }));
}

/** @param {LiveHealthModel["agents"][number]} agent */
const watches = (agent) => agent.kind === "host" && agent.status.watch.watching;
