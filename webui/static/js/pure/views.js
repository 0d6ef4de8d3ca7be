// SPDX-License-Identifier: Apache-2.0
// From the model to what each chart shows. Pure: no DOM, no fetching.

import { colour } from "../theme.js";
import { CLASSES } from "./model.js";

const GRID_POINTS = 300;
const QUEUES = 8;
const SHORTEST_S = 60;

function frame(model) {
  const marks = model.marks().map((mark) => {
    const scheme = model.scheme(mark.scheme);
    return { at: mark.at, scheme: mark.scheme, label: scheme.title, colour: scheme.colour };
  });
  return { from: start(model), to: model.now, marks };
}

/** The window's start, or that of what there is to show when it is younger. */
function start(model) {
  const begun = model.policies.length ? model.policies[model.policies.length - 1].created_at : model.now;
  const first = Math.min(
    begun,
    ...[...model.fct].filter(([, bin]) => CLASSES.some((name) => bin[name].n)).map(([at]) => at),
  );
  return Math.max(model.now - model.windowS, Math.min(first - 3, model.now - SHORTEST_S));
}

const ascending = (bins) => [...bins.keys()].sort((a, b) => a - b);

export function fctView(model) {
  const at = ascending(model.fct);
  const series = [];
  for (const name of CLASSES) {
    const common = { group: name, colour: colour(`class-${name}`) };
    const column = (figure) => at.map((t) => positive(model.fct.get(t)[name][figure]));
    series.push({ ...common, label: `${name} mean`, values: column("mean"), width: 2 });
    series.push({ ...common, label: `${name} p99`, values: column("p99"), dash: [4, 3], width: 1.25 });
  }
  return { ...frame(model), x: at.map((t) => t + model.binS / 2), series };
}

function positive(value) {
  return value > 0 ? value : null;
}

export function missesView(model) {
  const at = ascending(model.misses);
  const values = at.map((t) => model.misses.get(t).ratio);
  const stroke = colour("bad");
  const series = [{ label: "miss ratio", values, colour: stroke, fill: colour("bad-fill"), width: 1.6 }];
  return { ...frame(model), x: at.map((t) => t + model.binS / 2), series };
}

export function thresholdsView(model, port) {
  const { from, to, marks } = frame(model);
  const x = Array.from({ length: GRID_POINTS }, (_, i) => from + ((i + 1) * (to - from)) / GRID_POINTS);
  const series = port ? onePort(model, port, x) : everyPort(model, x);
  return { from, to, marks, x, series, empty: emptyThresholds(model) };
}

function emptyThresholds(model) {
  const name = model.snapshot?.policy?.policy.scheme;
  const rule = name ? model.scheme(name).threshold_rule : null;
  if (rule === "none") return `${model.scheme(name).title} has one queue and no thresholds.`;
  return null;
}

function onePort(model, port, x) {
  const changes = model.thresholds.get(port) || [];
  const count = Math.max(0, ...changes.map((change) => change.thresholds_bytes.length));
  return Array.from({ length: count }, (_, i) => ({
    label: `queue ${i} to ${i + 1}`,
    group: `${i}│${i + 1}`,
    colour: colour(`queue-${i}`),
    values: held(changes, x, (change) => change.thresholds_bytes[i] ?? null),
    width: 1.8,
  }));
}

/** The first threshold of each port: where short flows end. */
function everyPort(model, x) {
  const names = [...model.thresholds.keys()].sort();
  const lines = names.map((name) => ({
    label: name,
    colour: colour("accent-soft"),
    values: held(model.thresholds.get(name), x, (change) => change.thresholds_bytes[0] ?? null),
    width: 1.2,
    legend: false,
  }));
  const values = x.map((_, i) => median(lines.map((line) => line.values[i])));
  return lines.length
    ? [
        ...lines,
        { label: "median of queue 0 to 1", group: "median", colour: colour("accent"), values, width: 2 },
      ]
    : [];
}

function median(values) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  return known.length ? known[Math.floor((known.length - 1) / 2)] : null;
}

/** The value in force at each time of the grid: that of the last change before it. */
function held(changes, x, value) {
  let next = 0;
  let current = null;
  return x.map((at) => {
    while (next < changes.length && changes[next].at <= at) current = value(changes[next++]);
    return current;
  });
}

export function queuesView(model, port) {
  const run = (model.rates.get(port) || []).filter((row) => row.at >= model.now - model.windowS);
  const used = usedQueues(model, run);
  const series = used.map((queue) => ({
    label: `queue ${queue}`,
    group: String(queue),
    values: run.map((row) => row.queue_rates_bps[queue] ?? 0),
    colour: colour(`queue-${queue}`),
    fill: colour(`queue-${queue}`),
    width: 0,
  }));
  return { ...frame(model), x: run.map((row) => row.at), series };
}

function usedQueues(model, run) {
  const wanted = model.snapshot?.policy?.policy.queues ?? 1;
  let highest = wanted - 1;
  for (const row of run) {
    row.queue_rates_bps.forEach((bps, queue) => {
      if (bps > 0 && queue > highest) highest = queue;
    });
  }
  return Array.from({ length: Math.min(QUEUES, highest + 1) }, (_, queue) => queue);
}
