// SPDX-License-Identifier: Apache-2.0
// The scoreboard as rows of text and as curves.

/** @import { ClassScoreModel, EstimateModel, ScoreboardAnswer } from "../documents.gen.js" */
/** @import { VersionScoreModel } from "../documents.gen.js" */

import { digits, percent, time } from "./format.js";

/** @typedef {{ text: string, ratio: string, verdict: string, title: string }} Cell */
/** @typedef {{ version: number, scheme: string, base: boolean, flows: number, cells: Cell[] }} Row */
/** @typedef {{ scheme: string, version: number, path: string }} Curve */

export const HEADINGS = [
  "Small, mean",
  "Small, p99",
  "Medium, mean",
  "Medium, p99",
  "Large, mean",
  "Large, p99",
  "Slowdown",
  "Missed",
  "Retransmitted",
];
const SIGNS = { better: "▼", worse: "▲", "not sure": "" };
const WORDS = { better: "better", worse: "worse", "not sure": "not sure whether it is better" };
/** A few slow flows do not decide about the length of the axis. */
const SHOWN_SHARE = 0.995;

/**
 * @param {ScoreboardAnswer} board
 * @returns {Row[]}
 */
export function scoreRows(board) {
  return board.versions.map((one) => ({
    version: one.version,
    scheme: one.scheme,
    base: one.version === board.against,
    flows: one.flows,
    cells: cells(one),
  }));
}

/**
 * @param {VersionScoreModel} one
 * @returns {Cell[]}
 */
function cells({ classes, miss_ratio, retransmissions_per_flow, retransmissions }) {
  const retransmitted = cell(retransmissions_per_flow, (value) => `${digits(value)} a flow`);
  return [
    ...[classes.small, classes.medium, classes.large].flatMap(timeCells),
    cell(classes.all.slowdown, digits, classes.all.n),
    cell(miss_ratio, percent),
    { ...retransmitted, text: digits(retransmissions) },
  ];
}

/** @param {ClassScoreModel} score */
const timeCells = ({ n, mean_us, p99_us }) => [cell(mean_us, time, n), cell(p99_us, time, n)];

/**
 * @param {EstimateModel} figure
 * @param {(value: number) => string} format
 * @param {number} [flows]
 * @returns {Cell}
 */
function cell({ value, low, high, against }, format, flows) {
  if (value === null) return { text: "–", ratio: "", verdict: "", title: "No flow has this figure" };
  const counted = flows === undefined ? "" : `${flows} flows; `;
  const interval = low === null || high === null ? "" : `95 % interval ${format(low)} to ${format(high)}`;
  const range = `${counted}${interval}`;
  if (!against) return { text: format(value), ratio: "", verdict: "", title: range };
  const { ratio, verdict } = against;
  const times = ratio === null ? "" : `×${ratio.toFixed(2)}${SIGNS[verdict]}`;
  return { text: format(value), ratio: times, verdict, title: `${range}; ${WORDS[verdict]}` };
}

/** @typedef {keyof VersionScoreModel["classes"]} SizeClass */

/**
 * The distributions of a class's FCT as paths of an SVG with this view box, over a logarithmic axis.
 * @param {ScoreboardAnswer} board
 * @param {SizeClass} group
 * @param {number} width
 * @param {number} height
 * @returns {{ curves: Curve[], low: number, high: number }}
 */
export function scoreCurves(board, group, width, height) {
  const shown = board.versions
    .map(({ scheme, version, classes }) => ({ scheme, version, cdf: classes[group].cdf }))
    .filter(({ cdf }) => cdf.us.length > 1);
  const low = Math.min(...shown.map(({ cdf }) => cdf.us[0]));
  const high = Math.max(...shown.map(({ cdf }) => reached(cdf)), low * 1.01);
  const scale = width / Math.log(high / low);
  const curves = shown.map(({ scheme, version, cdf: { us, share } }) => {
    const points = us.map((value, i) => {
      const x = Math.min(width, Math.log(value / low) * scale);
      return `${x.toFixed(1)} ${(height * (1 - share[i])).toFixed(1)}`;
    });
    return { scheme, version, path: `M${points.join("L")}` };
  });
  return { curves, low, high };
}

/** @param {{ us: number[], share: number[] }} cdf */
function reached({ us, share }) {
  const at = share.findIndex((value) => value >= SHOWN_SHARE);
  return us[at < 0 ? us.length - 1 : at];
}
