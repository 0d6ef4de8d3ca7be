// SPDX-License-Identifier: Apache-2.0
// The parts of the page that are text: figures of the moment, connections, events.

import { age, bytes, clock, digits, timeParts } from "./pure/format.js";

export function showKpis(model) {
  const { fct, deadlines, policy } = model.snapshot;
  const none = { text: "–", unit: "" };
  const small = fct.classes.small;
  setKpi("flows", { text: digits(fct.flows_per_s), unit: "/s" });
  setKpi("small-mean", small.mean === null ? none : timeParts(small.mean));
  setKpi("small-p99", small.p99 === null ? none : timeParts(small.p99));
  setKpi(
    "misses",
    deadlines.miss_ratio === null ? none : { text: digits(deadlines.miss_ratio * 100), unit: "%" },
  );
  note(
    "misses",
    deadlines.n ? `${deadlines.missed} of ${deadlines.n}, last 30 s` : "no deadline flows, last 30 s",
  );
  showPolicy(model, policy);
}

function showPolicy(model, policy) {
  const tile = kpi("policy");
  if (!policy) return;
  const scheme = model.scheme(policy.policy.scheme);
  tile.querySelector(".swatch").style.background = scheme.colour;
  tile.querySelector(".value").textContent = scheme.title;
  tile.dataset.state = policy.state;
  tile.dataset.version = policy.version;
  const since = policy.applied_at === null ? "" : ` ${clock(policy.applied_at)}`;
  note("policy", `v${policy.version} ${policy.state}${since}`);
}

const kpi = (name) => document.querySelector(`[data-kpi="${name}"]`);

function setKpi(name, { text, unit }) {
  kpi(name).querySelector(".value").textContent = text;
  kpi(name).querySelector(".unit").textContent = unit;
}

function note(name, text) {
  kpi(name).querySelector("small").textContent = text;
}

export function showConnections(model) {
  const { controller, agents, store } = model.snapshot.health;
  const element = document.getElementById("connections");
  const expected = Math.max(controller.expected, controller.switches.length);
  const groups = [
    group("Controller", [
      pill(
        controller.alive ? "running" : "away",
        controller.alive ? "up" : "down",
        controller.age_s === null ? "never seen" : `last wrote ${age(controller.age_s)} ago`,
      ),
    ]),
    group(
      `Switches ${controller.connected}/${expected}`,
      controller.switches.map((s) =>
        pill(
          s.name,
          s.connected ? "up" : "down",
          s.connected ? `policy ${s.policy_version ?? "–"}` : "not connected",
        ),
      ),
    ),
    ...["host", "port"].map((kind) =>
      agentGroup(
        kind,
        agents.filter((agent) => agent.kind === kind),
      ),
    ),
  ];
  element.replaceChildren(...groups.filter(Boolean));
  const summary = document.getElementById("connections-summary");
  const { status } = model.snapshot.health;
  summary.textContent = status === "ok" ? "all up" : "degraded";
  summary.dataset.state = status === "ok" ? "applied" : "pending";
  summary.title = `store: ${store.kind}`;
}

function agentGroup(kind, agents) {
  const alive = agents.filter((agent) => agent.alive).length;
  const title = kind === "host" ? "Host agents" : "Port agents";
  const pills = agents
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }))
    .map((agent) => pill(agent.name, agent.alive ? "up" : "down", `heard ${age(agent.age_s)} ago`));
  return group(`${title} ${alive}/${agents.length}`, pills);
}

function group(title, pills) {
  const element = document.createElement("div");
  element.className = "group";
  const heading = document.createElement("h3");
  heading.textContent = title;
  const list = document.createElement("div");
  list.className = "pills";
  if (pills.length) list.append(...pills);
  else list.innerHTML = '<span class="none">none yet</span>';
  element.append(heading, list);
  return element;
}

function pill(text, state, title) {
  const element = document.createElement("span");
  element.className = "pill";
  element.dataset.state = state;
  element.textContent = text;
  element.title = title;
  const hidden = document.createElement("span");
  hidden.className = "visually-hidden";
  hidden.textContent = `, ${state}, ${title}`;
  element.append(hidden);
  return element;
}

const PRIVATE = new Set(["version", "scheme"]);

function sentence(kind) {
  const words = kind.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function detail(model, document) {
  const first = [];
  if (document.scheme) first.push(model.scheme(document.scheme).title);
  if (document.version) first.push(`v${document.version}`);
  const rest = Object.entries(document)
    .filter(([name]) => !PRIVATE.has(name))
    .map(([name, value]) => `${name.replace(/_bytes$/, "").replaceAll("_", " ")} ${valueText(name, value)}`);
  return [...first, ...rest].join(" · ");
}

function valueText(name, value) {
  if (name.endsWith("_bytes") && typeof value === "number") return bytes(value);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

export function showEvents(model) {
  const list = document.getElementById("events");
  if (!model.events.length) {
    list.innerHTML = '<li class="empty">Nothing has happened yet.</li>';
    return;
  }
  list.replaceChildren(...[...model.events].reverse().map((event) => eventRow(model, event)));
}

function eventRow(model, event) {
  const row = document.createElement("li");
  row.dataset.kind = event.kind;
  row.innerHTML = '<time></time><span class="kind"></span><span class="detail"></span>';
  const [time, kind, text] = row.children;
  time.textContent = clock(event.at);
  time.dateTime = new Date(event.at * 1000).toISOString();
  kind.textContent = sentence(event.kind);
  text.textContent = detail(model, event.document);
  row.title = text.textContent;
  return row;
}

export function showLiveState(state, lastMs) {
  document.body.dataset.live = state;
  const text = {
    connecting: "Connecting…",
    live: "Live",
    stale: `Stale since ${clock((lastMs ?? Date.now()) / 1000)}, reconnecting…`,
  };
  const element = document.querySelector("#live .text");
  if (element.textContent !== text[state]) element.textContent = text[state];
}
