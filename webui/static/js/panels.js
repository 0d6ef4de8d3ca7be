// SPDX-License-Identifier: Apache-2.0
// The parts of the page that are text: current figures, components, events, and the state of the stream.

/** @import { EventFilter } from "./event-filter.js" */
/** @import { LiveState } from "./live.js" */
/** @import { Model } from "./pure/model.js" */
/** @import { EventModel, LiveHealthModel, PolicyVersionModel, ProblemModel } from "./documents.gen.js" */
/** @import { SnapshotModel } from "./documents.gen.js" */

import { announce } from "./announce.js";
import { byId, element, inside, setChildren, setText } from "./dom.js";
import { severityOf } from "./pure/event-filter.js";
import { eventDetail, eventTitle } from "./pure/events.js";
import { fabricNote } from "./pure/fabric.js";
import { figures, missesNote, policyNote } from "./pure/figures.js";
import { age, clock } from "./pure/format.js";
import { naturally } from "./pure/order.js";
import { sentence } from "./pure/validity.js";

/** @param {string} name */
const tile = (name) => inside(document, `[data-kpi="${name}"]`);

/**
 * @param {Model} model
 * @param {SnapshotModel} snapshot
 */
export function showFigures(model, snapshot) {
  const traffic = snapshot.traffic[model.source];
  for (const [name, { text, unit }] of Object.entries(figures(traffic))) {
    setText(inside(tile(name), ".value"), text);
    setText(inside(tile(name), ".unit"), unit);
  }
  setText(inside(tile("misses"), "small"), missesNote(traffic));
  if (snapshot.policy) showPolicy(model, snapshot.policy);
}

/**
 * @param {Model} model
 * @param {PolicyVersionModel} policy
 */
function showPolicy(model, policy) {
  const shown = tile("policy");
  const { scheme } = policy.policy;
  inside(shown, ".swatch").style.background = model.colourOf(scheme);
  setText(inside(shown, ".value"), model.titleOf(scheme));
  setText(inside(shown, "small"), policyNote(policy));
  shown.dataset.state = policy.state;
  shown.dataset.version = String(policy.version);
}

/** @param {SnapshotModel} snapshot */
export function showComponents({ health, validity }) {
  const { status, store, controller, agents, problems } = health;
  const expected = Math.max(controller.expected, controller.switches.length);
  setChildren(
    byId("components", HTMLElement),
    group("Controller", [controllerPill(controller)]),
    group(`Switches ${controller.connected}/${expected}`, controller.switches.map(switchPill)),
    agentGroup("Host agents", agents, "host"),
    agentGroup("Port agents", agents, "port"),
    ...(problems.length ? [group("Problems", problems.map(problemPill))] : []),
    ...(validity.note ? [group("Figures", [note(validity.note)])] : []),
  );
  const summary = byId("components-summary", HTMLElement);
  setText(summary, status === "ok" ? "All up" : "Degraded");
  summary.dataset.state = status === "ok" ? "applied" : "pending";
  summary.title = `Store: ${store.kind}`;
}

/** @param {LiveHealthModel} health */
export function showFabric(health) {
  const shown = byId("fabric", HTMLElement);
  const { text, title } = fabricNote(health);
  shown.hidden = !text;
  setText(shown, text);
  shown.title = title;
}

/** @param {string} text */
const note = (text) => element("span", { className: "none", textContent: sentence(text) });

/** @param {ProblemModel} found */
function problemPill({ where, problem }) {
  return pill(where, false, problem);
}

/** @param {LiveHealthModel["controller"]} controller */
function controllerPill({ alive, age_s }) {
  const title = age_s === null ? "Never seen" : `Last write ${age(age_s)} ago`;
  return pill(alive ? "Running" : "Away", alive, title);
}

/** @param {LiveHealthModel["controller"]["switches"][number]} state */
function switchPill({ name, connected, policy_version }) {
  return pill(name, connected, connected ? `Policy version ${policy_version ?? "–"}` : "Not connected");
}

/**
 * @param {string} title
 * @param {LiveHealthModel["agents"][number][]} agents
 * @param {LiveHealthModel["agents"][number]["kind"]} kind
 */
function agentGroup(title, agents, kind) {
  const members = agents.filter((agent) => agent.kind === kind);
  const alive = members.filter((agent) => agent.alive).length;
  const pills = members
    .sort((a, b) => naturally(a.name, b.name))
    .map((agent) => pill(agent.name, agent.alive, `Last heartbeat ${age(agent.age_s)} ago`));
  return group(`${title} ${alive}/${members.length}`, pills);
}

/**
 * @param {string} title
 * @param {HTMLElement[]} pills
 */
function group(title, pills) {
  const none = element("span", { className: "none", textContent: "None yet" });
  const list = element("div", { className: "pills" }, ...(pills.length ? pills : [none]));
  return element("div", { className: "group" }, element("h3", { textContent: title }), list);
}

/**
 * @param {string} text
 * @param {boolean} up
 * @param {string} title
 */
function pill(text, up, title) {
  const state = up ? "up" : "down";
  const spoken = element("span", { className: "visually-hidden", textContent: `, ${state}, ${title}` });
  const made = element("span", { className: "pill", title }, text, spoken);
  made.dataset.id = text;
  made.dataset.state = state;
  return made;
}

/**
 * @param {Model} model
 * @param {EventFilter} filter
 */
export function showEvents(model, filter) {
  const chosen = filter.chosen(model.events, (event) => eventText(model, event));
  const rows = chosen.reverse().map((event) => eventRow(model, event));
  const textContent = model.events.length ? "No event passes the filter." : "No events yet.";
  const none = element("li", { className: "empty", textContent });
  setChildren(byId("events", HTMLElement), ...(rows.length ? rows : [none]));
}

/**
 * @param {Model} model
 * @param {EventModel} event
 */
const eventText = (model, { kind, document }) =>
  `${eventTitle(kind)} ${eventDetail(document, (scheme) => model.titleOf(scheme))}`;

/**
 * @param {Model} model
 * @param {EventModel} event
 */
export function announceEvent(model, { kind, document }) {
  const detail = eventDetail(document, (scheme) => model.titleOf(scheme));
  announce(detail ? `${eventTitle(kind)}: ${detail}` : eventTitle(kind));
}

/**
 * @param {Model} model
 * @param {EventModel} event
 */
function eventRow(model, { id, at, kind, document }) {
  const title = eventDetail(document, (scheme) => model.titleOf(scheme));
  const row = element(
    "li",
    { title },
    element("time", { textContent: clock(at), dateTime: new Date(at * 1000).toISOString() }),
    element("span", { className: "kind" }, spokenSeverity(kind), eventTitle(kind)),
    element("span", { className: "detail", textContent: title }),
  );
  row.dataset.id = String(id);
  row.dataset.kind = kind;
  row.dataset.severity = severityOf(kind);
  return row;
}

/** @param {string} kind */
function spokenSeverity(kind) {
  const severity = severityOf(kind);
  const textContent = severity === "note" ? "" : `${severity === "problem" ? "Problem" : "Warning"}: `;
  return element("span", { className: "visually-hidden", textContent });
}

/** @type {(state: LiveState, lastMs: number) => void} */
export function showLiveState(state, lastMs) {
  document.body.dataset.live = state;
  const since = clock(lastMs / 1000);
  const texts = { connecting: "Connecting…", live: "Live", stale: `Stale since ${since}, reconnecting…` };
  setText(inside(document, "#live .text"), texts[state]);
}
