// SPDX-License-Identifier: Apache-2.0
// What each chart shows, computed from the model. `colour` gives the theme's colour of a name.

/** @import { RateModel } from "../documents.gen.js" */
/** @import { Model, Thresholds } from "./model.js" */
/** @import { Series, Value, View } from "./series.js" */

import { CLASSES } from "./model.js";
import { naturally } from "./order.js";
import { held, median } from "./series.js";

/** @typedef {(name: string) => string} Colour */

const GRID_POINTS = 300;
const QUEUES = 8;
/** With more ports, the chart shows the range of their thresholds. */
const MOST_LINES = 48;
const SHORTEST_S = 60;
const MARGIN_S = 3;
const CLASS_TITLES = { small: "Small", medium: "Medium", large: "Large" };

/**
 * The window and its policy changes, which all charts share.
 * @param {Model} model
 */
function frame(model) {
  const { from, to } = model.held ?? { from: start(model), to: model.now };
  const marks = model.marks(from).map(({ at, scheme }) => ({
    at,
    scheme,
    label: model.titleOf(scheme),
    colour: model.colourOf(scheme),
  }));
  return { from, to, marks, times: { now: model.now, kind: model.times } };
}

/**
 * The window's start; later if the history is shorter than the window.
 * @param {Model} model
 */
function start(model) {
  const begun = model.policies[model.policies.length - 1]?.created_at ?? model.now;
  const filled = [...model.fct].filter(([, bin]) => CLASSES.some((name) => bin[name].n));
  const first = Math.min(begun, ...filled.map(([at]) => at));
  return Math.max(model.now - model.windowS, Math.min(first - MARGIN_S, model.now - SHORTEST_S));
}

/**
 * @template Bin
 * @param {Map<number, Bin>} bins
 * @returns {[number, Bin][]} By time.
 */
const ascending = (bins) => [...bins].sort(([a], [b]) => a - b);

/**
 * @param {Model} model
 * @param {[number, unknown][]} bins
 */
const centres = (model, bins) => bins.map(([at]) => at + model.binS / 2);

/** @type {(value: Value) => Value} A logarithmic axis has no place for 0. */
const positive = (value) => (value !== null && value > 0 ? value : null);

/** @type {(model: Model, colour: Colour) => View} */
export function fctView(model, colour) {
  const bins = ascending(model.fct);
  const series = CLASSES.flatMap((name) => {
    const title = CLASS_TITLES[name];
    const common = { group: title, colour: colour(`class-${name}`) };
    /** @param {"mean" | "p99"} figure */
    const column = (figure) => bins.map(([, bin]) => positive(bin[name][figure]));
    return [
      { ...common, label: `${title} mean`, values: column("mean"), width: 2 },
      { ...common, label: `${title} p99`, values: column("p99"), dash: [4, 3], width: 1.25 },
    ];
  });
  return { ...frame(model), x: centres(model, bins), series };
}

/** @type {(model: Model, colour: Colour) => View} */
export function missesView(model, colour) {
  const bins = ascending(model.misses);
  const values = bins.map(([, bin]) => bin.ratio);
  const series = [{ label: "Missed", values, colour: colour("bad"), fill: colour("bad-fill"), width: 1.6 }];
  return { ...frame(model), x: centres(model, bins), series };
}

/** @type {(model: Model, port: string, colour: Colour) => View} An empty port means all ports. */
export function thresholdsView(model, port, colour) {
  const shown = frame(model);
  const { from, to } = shown;
  const x = Array.from({ length: GRID_POINTS }, (_, i) => from + ((i + 1) * (to - from)) / GRID_POINTS);
  const series = port ? onePort(model, port, x, colour) : everyPort(model, x, colour);
  return { ...shown, x, series, empty: emptyThresholds(model) };
}

/** @param {Model} model */
function emptyThresholds(model) {
  const scheme = model.scheme(model.snapshot?.policy?.policy.scheme ?? "");
  return scheme?.threshold_rule === "none" ? `${scheme.title} has one queue and no thresholds.` : null;
}

/** @type {(model: Model, port: string, x: number[], colour: Colour) => Series[]} */
function onePort(model, port, x, colour) {
  const changes = model.thresholds.get(port) ?? [];
  const count = Math.max(0, ...changes.map((change) => change.thresholds_bytes.length));
  return Array.from({ length: count }, (_, i) => ({
    label: `Queue ${i} to ${i + 1}`,
    group: `${i}│${i + 1}`,
    colour: colour(`queue-${i}`),
    values: held(changes, x, threshold(i)),
    width: 1.8,
  }));
}

/** @type {(i: number) => (change: Thresholds) => Value} */
const threshold = (i) => (change) => change.thresholds_bytes[i] ?? null;

/**
 * The first threshold of each port, below which flows stay in the first queue, and the median over the ports. Of many
 * ports, the lowest and the highest instead of each.
 * @type {(model: Model, x: number[], colour: Colour) => Series[]}
 */
function everyPort(model, x, colour) {
  const ports = [...model.thresholds].sort(([a], [b]) => naturally(a, b));
  const lines = ports.map(([label, changes]) => ({
    label,
    colour: colour("accent-soft"),
    values: held(changes, x, threshold(0)),
    width: 1.2,
    legend: false,
  }));
  if (!lines.length) return [];
  const shown = lines.length > MOST_LINES ? bounds(lines, x, colour) : lines;
  const values = x.map((_, i) => median(lines.map((line) => line.values[i])));
  const label = "Median, queue 0 to 1";
  return [...shown, { label, group: "Median", colour: colour("accent"), values, width: 2 }];
}

/**
 * The lowest and the highest value of many lines. Hundreds of lines would hide each other, and take long to draw.
 * @type {(lines: Series[], x: number[], colour: Colour) => Series[]}
 */
function bounds(lines, x, colour) {
  const known = x.map((_, i) => lines.map(({ values }) => values[i]).filter((value) => value !== null));
  /** @type {(label: string, pick: (...values: number[]) => number) => Series} */
  const bound = (label, pick) => ({
    label: `${label} of ${lines.length} ports`,
    group: label,
    colour: colour("accent-soft"),
    values: known.map((values) => (values.length ? pick(...values) : null)),
    width: 1.2,
  });
  return [bound("Lowest", Math.min), bound("Highest", Math.max)];
}

/** @type {(model: Model, colour: Colour) => View} */
export function queuesView(model, colour) {
  const shown = frame(model);
  const first = model.held?.from ?? model.now - model.windowS;
  const run = model.rates.filter((row) => row.at >= first && row.at <= shown.to);
  const series = usedQueues(model, run).map((queue) => ({
    label: `Queue ${queue}`,
    group: String(queue),
    values: run.map((row) => row.queue_rates_bps[queue] ?? 0),
    colour: colour(`queue-${queue}`),
    fill: colour(`queue-${queue}`),
    width: 0,
  }));
  return { ...shown, x: run.map((row) => row.at), series };
}

/**
 * The queues of the policy, and those below them that carried traffic under an earlier one.
 * @param {Model} model
 * @param {RateModel[]} run
 */
function usedQueues(model, run) {
  const wanted = model.snapshot?.policy?.policy.queues ?? 1;
  const carrying = run.map((row) => row.queue_rates_bps.findLastIndex((bps) => bps > 0));
  const highest = Math.max(wanted - 1, ...carrying);
  return Array.from({ length: Math.min(QUEUES, highest + 1) }, (_, queue) => queue);
}
