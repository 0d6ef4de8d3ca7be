// SPDX-License-Identifier: Apache-2.0
// Ranges of time that the charts can hold.

/** @import { Range } from "./address.js" */

import { LONGEST_S, SHORTEST_S } from "./address.js";

/** @typedef {"in" | "out" | "earlier" | "later" | "hold" | "live"} Step */

const FACTOR = 2;
const SHARE = 0.25;

/** @type {Record<string, Step>} */
const KEYS = {
  "+": "in",
  "=": "in",
  "-": "out",
  ArrowLeft: "earlier",
  ArrowRight: "later",
  p: "hold",
  P: "hold",
  0: "live",
  Escape: "live",
};

/**
 * What a key does at a chart; null: nothing.
 * @param {{ key: string, ctrlKey: boolean, metaKey: boolean, altKey: boolean }} event
 */
export function stepOf({ key, ctrlKey, metaKey, altKey }) {
  return ctrlKey || metaKey || altKey ? null : (KEYS[key] ?? null);
}

/**
 * The range after a step; null: the charts follow the clock again. No range ends in the future.
 * @param {Range} shown
 * @param {Step} step
 * @param {number} now
 * @returns {Range | null}
 */
export function stepped({ from, to }, step, now) {
  const span = to - from;
  const centre = (from + to) / 2;
  if (step === "live") return null;
  if (step === "hold") return fitted(from, to, now);
  if (step === "in") return fitted(centre - span / FACTOR / 2, centre + span / FACTOR / 2, now);
  if (step === "out") return fitted(centre - (span * FACTOR) / 2, centre + (span * FACTOR) / 2, now);
  const shift = span * SHARE * (step === "earlier" ? -1 : 1);
  return fitted(from + shift, to + shift, now);
}

/**
 * The range between two times in any order, widened if it is too short to show anything.
 * @param {number} a
 * @param {number} b
 * @param {number} now
 */
export function between(a, b, now) {
  return fitted(Math.min(a, b), Math.max(a, b), now);
}

/**
 * @param {number} from
 * @param {number} to
 * @param {number} now
 * @returns {Range}
 */
function fitted(from, to, now) {
  const span = Math.min(LONGEST_S, Math.max(SHORTEST_S, to - from));
  const end = Math.min(now, (from + to) / 2 + span / 2);
  return { from: rounded(end - span), to: rounded(end) };
}

/** @param {number} at As the address writes it. */
const rounded = (at) => Math.round(at * 10) / 10;
