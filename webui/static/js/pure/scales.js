// SPDX-License-Identifier: Apache-2.0
// Ranges and tick positions of the value axes.

/** @typedef {[low: number, high: number]} Range */

const HEADROOM = 1.08;

/**
 * Range of a linear axis: from 0 to a little above the highest value, and at least up to `floor`.
 * @param {number | null} high
 * @param {number} floor
 * @returns {Range}
 */
export function linearRange(high, floor) {
  return [0, Math.max(high ?? 0, floor) * HEADROOM || 1];
}

/**
 * Range of a logarithmic axis: wider than the values, and at least a factor of four.
 * @param {number | null} low
 * @param {number | null} high
 * @returns {Range}
 */
export function logRange(low, high) {
  if (!low || !high || low < 0 || high < 0) return [100, 1e6]; // nothing to draw
  return [low / 1.4, Math.max(high * 1.4, low * 4)];
}

/**
 * Ticks of a logarithmic axis, fewer per decade the more decades there are.
 * @param {number} low
 * @param {number} high
 */
export function logSplits(low, high) {
  const decades = Math.log10(high / low);
  const steps = decades > 3.2 ? [1] : decades > 1.6 ? [1, 3] : [1, 2, 5];
  const splits = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of steps) splits.push(step * 10 ** power);
  }
  return splits.filter((value) => value >= low && value <= high);
}
