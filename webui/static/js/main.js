// SPDX-License-Identifier: Apache-2.0
// The dashboard: loads the history, follows the live stream, and draws once for each snapshot.

/** @import { Options } from "./chart.js" */
/** @import { Handlers } from "./live.js" */
/** @import { State } from "./pure/address.js" */
/** @import { FctAnswer, SnapshotModel } from "./documents.gen.js" */

import { Address } from "./address.js";
import { Chart } from "./chart.js";
import { startClasses } from "./classes.js";
import { Control } from "./control.js";
import { byId, setOptions, setText } from "./dom.js";
import { EventFilter } from "./event-filter.js";
import { FlowList } from "./flow-list.js";
import { loadFigures, loadHistory, loadNetwork, loadPolicies, loadRates } from "./history.js";
import { HostView } from "./host-view.js";
import { startLive } from "./live.js";
import {
  announceEvent,
  showComponents,
  showEvents,
  showFabric,
  showFigures,
  showLiveState,
} from "./panels.js";
import { PortMenu } from "./port-menu.js";
import * as format from "./pure/format.js";
import { LIVE_BIN_S, Model } from "./pure/model.js";
import { fctView, missesView, queuesView, thresholdsView } from "./pure/views.js";
import { showSanctions } from "./sanctions.js";
import { Scoreboard } from "./scoreboard.js";
import { colour, onThemeChange, startTheme } from "./theme.js";
import { TimeControls } from "./time-controls.js";
import { TopologyView } from "./topology.js";
import { follow, report, showTrouble } from "./trouble.js";
import { showValidity } from "./validity.js";
import { showWatched } from "./watched.js";

const model = new Model();
const address = new Address();
/** The port whose thresholds are shown; empty: all ports. */
let thresholdsPort = "";
const selects = {
  thresholds: byId("thresholds-port", HTMLSelectElement),
  queues: byId("queues-port", HTMLSelectElement),
};

/**
 * @param {string} name
 * @param {Options} options
 */
function chart(name, options) {
  return new Chart(byId(`${name}-chart`, HTMLElement), byId(`${name}-legend`, HTMLElement), options);
}

const charts = {
  fct: chart("fct", {
    name: "Flow completion time",
    log: true,
    format: format.time,
    empty: "No flows have finished yet. Their times appear when agents deliver flow records.",
  }),
  thresholds: chart("thresholds", {
    name: "Demotion thresholds",
    log: true,
    steps: true,
    format: format.bytes,
    empty: "No thresholds yet. The controller writes them when it has set up the ports.",
  }),
  queues: chart("queues", {
    name: "Traffic by queue",
    stacked: true,
    format: format.rate,
    empty: "No traffic at this port yet.",
  }),
  misses: chart("misses", {
    name: "Missed deadlines",
    format: format.percent,
    reach: 0.05,
    empty: "No flow with a deadline has finished yet.",
  }),
};

const controls = new TimeControls(model, address, Object.values(charts));
const hostView = new HostView(model, address);
const flowList = new FlowList(model, address);
const portMenu = new PortMenu(model);
const topology = new TopologyView(byId("topology", HTMLElement), choosePort, openPortMenu);
const eventFilter = new EventFilter(() => showEvents(model, eventFilter));
const menuButton = byId("port-open", HTMLButtonElement);
const scoreboard = new Scoreboard(model);
const control = new Control(model, () => loadPolicies(model).then(redraw));

function redraw() {
  charts.fct.draw(fctView(model, colour));
  charts.misses.draw(missesView(model, colour));
  charts.thresholds.draw(thresholdsView(model, thresholdsPort, colour));
  charts.queues.draw(queuesView(model, colour));
  topology.draw(model, model.port);
  controls.show();
}

function fillPorts() {
  const ports = model.ports();
  if (!model.port && ports.length) model.showPort(busiest(ports));
  const options = ports.map((id) => ({ value: id, text: portLabel(id) }));
  setOptions(selects.thresholds, [{ value: "", text: "All ports" }, ...options]);
  setOptions(selects.queues, options);
  selects.thresholds.value = thresholdsPort;
  selects.queues.value = model.port;
  setText(menuButton, model.port ? `Port ${model.port}…` : "");
  menuButton.disabled = !model.port;
}

/** @param {string} id */
function portLabel(id) {
  const peer = model.peer(id);
  return peer ? `${id} → ${peer}` : id;
}

/** @param {string[]} ports */
function busiest(ports) {
  /** @param {string} id */
  const rate = (id) => model.snapshot?.ports[id]?.rate_bps ?? 0;
  return [...ports].sort((a, b) => rate(b) - rate(a))[0];
}

/** @param {string} id */
function choosePort(id) {
  address.set({ thresholds: id, queues: id });
}

/** @param {string} id */
function openPortMenu(id) {
  if (id !== model.port) choosePort(id);
  portMenu.open(id);
}

/** What the page loads, as it names it if that fails. */
const [LIVE, HISTORY, SCORES, HOST, FLOWS] = ["live picture", "history", "scoreboard", "host", "flows"];
let figuresAt = 0;
/** Whether the charts lack what was before the first snapshot. */
let lacksHistory = true;

/**
 * Fetches what a snapshot only points to: a new policy version, a new network, or bins that are wider than
 * the snapshot's.
 * @param {SnapshotModel} snapshot
 */
async function followUp(snapshot) {
  const newest = model.policies[0];
  const { policy } = snapshot;
  if (policy && (newest?.version !== policy.version || newest.state !== policy.state))
    await loadPolicies(model);
  if (snapshot.health.controller.expected !== (model.topology?.switches.length ?? 0))
    await loadNetwork(model);
  if (!model.held && model.binS > LIVE_BIN_S && snapshot.at - figuresAt > model.binS) {
    await loadFigures(model);
    figuresAt = snapshot.at;
  }
}

/** @type {Handlers} */
const handlers = {
  snapshot(snapshot) {
    model.take(snapshot);
    fillPorts();
    showFigures(model, snapshot);
    showFabric(snapshot.health);
    showComponents(snapshot);
    showWatched(snapshot);
    showSanctions(snapshot);
    showValidity(snapshot.validity);
    control.follow();
    control.notice(snapshot.policy);
    if (portMenu.dialog.open) portMenu.show();
    redraw();
    showTrouble(LIVE, "");
    hostView.fill();
    flowList.fillSchemes();
    follow(HISTORY, () => load().then(() => followUp(snapshot)));
    if (scoreboard.isDue(snapshot.at)) follow(SCORES, () => scoreboard.load());
    if (hostView.isDue(snapshot.at)) follow(HOST, () => hostView.load());
    if (flowList.isDue(snapshot.at)) follow(FLOWS, () => flowList.load());
  },
  event(event) {
    // Events before the first snapshot are older than the page.
    if (model.takeEvent(event) && model.snapshot) announceEvent(model, event);
    showEvents(model, eventFilter);
  },
  trouble: (problem) => showTrouble(LIVE, problem),
  state: showLiveState,
  resumed() {
    report(HISTORY, loadNetwork(model).then(reload));
  },
};

/** Fetches the history again. After a failure the next snapshot tries again. */
async function reload() {
  lacksHistory = true;
  await loadHistory(model);
  lacksHistory = false;
  redraw();
}

function listen() {
  const period = byId("window", HTMLSelectElement);
  const traffic = byId("traffic", HTMLSelectElement);
  traffic.addEventListener("change", () =>
    address.set({ traffic: /** @type {FctAnswer["source"]} */ (traffic.value) }),
  );
  period.addEventListener("change", () => address.set({ windowS: Number(period.value), range: null }));
  selects.thresholds.addEventListener("change", () => address.set({ thresholds: selects.thresholds.value }));
  selects.queues.addEventListener("change", () => address.set({ queues: selects.queues.value }));
  menuButton.addEventListener("click", () => openPortMenu(model.port));
  startClasses(model);
}

/**
 * Makes the page what its address says, and returns whether the history must be fetched again.
 * @param {State} state
 */
function adopt({ windowS, traffic, range, times, thresholds, queues }) {
  const stale =
    model.windowS !== windowS ||
    model.source !== traffic ||
    JSON.stringify(model.held) !== JSON.stringify(range);
  model.windowS = windowS;
  model.source = traffic;
  if (stale) model.held = range; // an equal range stays the same object, by which answers know their question
  model.times = times;
  thresholdsPort = thresholds;
  model.showPort(queues || model.port);
  byId("window", HTMLSelectElement).value = String(windowS);
  byId("traffic", HTMLSelectElement).value = traffic;
  return stale;
}

/** @param {State} state */
function followAddress(state) {
  const { source, port } = model;
  const stale = adopt(state);
  fillPorts();
  redraw();
  if (model.snapshot) showFigures(model, model.snapshot);
  if (stale) report(HISTORY, reload());
  else if (port !== model.port) report(HISTORY, loadRates(model).then(redraw));
  if (source !== model.source) report(SCORES, scoreboard.load());
  report(HOST, hostView.load());
  report(FLOWS, flowList.adopt());
}

/** Loads what is lacking. */
async function load() {
  if (!model.schemes.length) {
    await loadNetwork(model);
    control.build();
    fillPorts();
    showEvents(model, eventFilter);
  }
  if (lacksHistory) await reload();
}

startTheme(byId("theme", HTMLButtonElement));
onThemeChange(redraw);
listen();
adopt(address.state);
address.follow(followAddress);
showEvents(model, eventFilter);
redraw();
startLive(handlers);
follow(HISTORY, load);
report(HOST, hostView.load());
report(FLOWS, flowList.adopt());
// For the browser tests and for the console.
Object.assign(window, { sluice: { model, charts } });
