// SPDX-License-Identifier: Apache-2.0
// Times as text: absolute, by the clock of the browser's place, or relative to now.

/** @import { Range, Times } from "./address.js" */

import { age, clock } from "./format.js";

/** @param {number} epochS */
const day = (epochS) => new Date(epochS * 1000).toLocaleDateString("sv-SE");

/**
 * A moment; with its day unless that is today.
 * @param {number} at
 * @param {number} now
 * @param {Times} times
 */
export function moment(at, now, times) {
  if (times === "relative") return at > now ? `in ${age(at - now)}` : `${age(now - at)} ago`;
  return day(at) === day(now) ? clock(at) : `${day(at)} ${clock(at)}`;
}

/**
 * The label of a tick of the time axis.
 * @param {number} at
 * @param {number} now
 * @param {Times} times
 */
export function tick(at, now, times) {
  if (times === "absolute") return clock(at).replace(/:00$/, "");
  const ago = Math.round(now - at);
  if (ago === 0) return "now";
  const text = Math.abs(ago) < 60 || ago % 60 ? minutes(Math.abs(ago)) : age(Math.abs(ago));
  return `${ago > 0 ? "−" : "+"}${text}`;
}

/** @param {number} seconds */
function minutes(seconds) {
  const whole = Math.floor(seconds / 60);
  return whole ? `${whole} min ${seconds % 60} s` : `${seconds} s`;
}

/**
 * @param {Range} range
 * @param {number} now
 * @param {Times} times
 */
export function rangeText({ from, to }, now, times) {
  return `${moment(from, now, times)} – ${moment(to, now, times)}`;
}

/**
 * Ticks at whole steps before now, so that relative labels are round.
 * @param {number} low
 * @param {number} high
 * @param {number} now
 * @param {number} step
 */
export function splitsBefore(low, high, now, step) {
  const splits = [];
  for (let i = Math.floor((now - low) / step); now - i * step <= high; i--) splits.push(now - i * step);
  return splits;
}
