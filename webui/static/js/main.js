// SPDX-License-Identifier: Apache-2.0
// The dashboard: loads history, follows the live stream, redraws once a snapshot.

import { Chart } from "./chart.js";
import { Control } from "./control.js";
import { startLive } from "./live.js";
import { showConnections, showEvents, showKpis, showLiveState } from "./panels.js";
import * as format from "./pure/format.js";
import { Model } from "./pure/model.js";
import { fctView, missesView, queuesView, thresholdsView } from "./pure/views.js";
import { showSanctions } from "./sanctions.js";
import { onThemeChange, startTheme } from "./theme.js";
import { TopologyView } from "./topology.js";
import { showWatched } from "./watched.js";

const byId = (id) => document.getElementById(id);
const model = new Model();
const choice = { thresholds: "", queues: "" };

function chart(name, options) {
  return new Chart(byId(`${name}-chart`), byId(`${name}-legend`), options);
}

const charts = {
  fct: chart("fct", {
    name: "Flow completion time",
    log: true,
    format: format.time,
    empty: "No flows have finished yet. Their times appear as agents deliver records.",
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
    empty: "No traffic counted at this port yet.",
  }),
  misses: chart("misses", {
    name: "Share of deadlines missed",
    format: format.percent,
    max: { floor: 0.05 },
    empty: "No flow with a deadline has finished yet.",
  }),
};

const topology = new TopologyView(byId("topology"), choosePort);
const control = new Control(model, () => model.loadPolicies().then(redraw));

/** Nobody sees a hidden tab: it keeps its data up to date and draws when it is shown again. */
function redraw() {
  if (document.hidden) return;
  charts.fct.draw(fctView(model));
  charts.misses.draw(missesView(model));
  charts.thresholds.draw(thresholdsView(model, choice.thresholds));
  charts.queues.draw(queuesView(model, choice.queues));
  topology.draw(model, choice.queues);
}

function fillPorts() {
  const ports = model.ports();
  if (!choice.queues && ports.length) choice.queues = busiest(ports);
  for (const [id, all] of [
    ["thresholds-port", true],
    ["queues-port", false],
  ])
    fillSelect(byId(id), ports, all);
  byId("thresholds-port").value = choice.thresholds;
  byId("queues-port").value = choice.queues;
}

function fillSelect(select, ports, all) {
  const wanted = [...(all ? [["", "All ports"]] : []), ...ports.map((id) => [id, portLabel(id)])];
  const key = JSON.stringify(wanted);
  if (select.dataset.key === key) return;
  select.dataset.key = key;
  select.replaceChildren(...wanted.map(([value, text]) => new Option(text, value)));
}

function portLabel(id) {
  const peer = model.peer(id);
  return peer ? `${id} → ${peer}` : id;
}

function busiest(ports) {
  const rate = (id) => model.snapshot?.ports[id]?.rate_bps ?? 0;
  return [...ports].sort((a, b) => rate(b) - rate(a))[0];
}

async function choosePort(id) {
  choice.thresholds = choice.queues = id;
  fillPorts();
  redraw();
  await model.loadRates(id);
  redraw();
}

async function loadHistory() {
  await Promise.all([
    model.loadPolicies(),
    model.loadFigures(),
    model.loadThresholds(),
    model.loadRates(choice.queues),
  ]);
}

/** What a snapshot only hints at is fetched: a new policy version, a new network, bins wider than the live ones. */
async function followUp(snapshot) {
  const newest = model.policies[0];
  const { policy } = snapshot;
  if (policy && (!newest || newest.version !== policy.version || newest.state !== policy.state))
    await model.loadPolicies();
  if (snapshot.health.controller.expected !== (model.topology?.switches.length ?? 0))
    await model.loadNetwork();
  if (model.binS > 2 && snapshot.at - (followUp.at ?? 0) > model.binS) {
    followUp.at = snapshot.at;
    await model.loadFigures();
  }
}

function report(promise) {
  promise.catch((error) => console.warn("sluice:", error.message));
}

const handlers = {
  snapshot(snapshot) {
    model.take(snapshot);
    fillPorts();
    showKpis(model);
    showConnections(model);
    showWatched(model.snapshot);
    showSanctions(model.snapshot);
    control.follow();
    control.notice(snapshot.policy);
    redraw();
    report(load().then(() => followUp(snapshot)));
  },
  event(event) {
    model.takeEvent(event);
    showEvents(model);
  },
  state: showLiveState,
  resumed() {
    report(model.loadNetwork().then(loadHistory).then(redraw));
  },
};

function listen() {
  document.addEventListener("visibilitychange", redraw);
  byId("window").addEventListener("change", (event) => {
    model.windowS = Number(event.target.value);
    report(loadHistory().then(redraw));
  });
  byId("thresholds-port").addEventListener("change", (event) => {
    choice.thresholds = event.target.value;
    redraw();
  });
  byId("queues-port").addEventListener("change", (event) => {
    choice.queues = event.target.value;
    redraw();
    report(model.loadRates(choice.queues).then(redraw));
  });
}

/** The first load, tried again with the next snapshot when it fails; afterwards nothing to do. */
let loading = null;

function load() {
  loading ??= loadAll().catch((error) => {
    loading = null;
    throw error;
  });
  return loading;
}

async function loadAll() {
  await model.loadNetwork();
  control.build();
  fillPorts();
  showEvents(model);
  await loadHistory();
  redraw();
}

startTheme(byId("theme"));
onThemeChange(redraw);
listen();
showEvents(model);
redraw();
startLive(handlers);
report(load());
window.sluice = { model, charts, choice };
