// SPDX-License-Identifier: Apache-2.0
// Quantities as text. Prefixes are decimal, as in the API.

/** @typedef {{ text: string, unit: string }} Quantity */
/** @typedef {[scale: number, unit: string][]} Steps  The largest scale first. */

/** @type {Steps} */
const TIME_US = [
  [1e6, "s"],
  [1e3, "ms"],
  [1, "µs"],
];
/** @type {Steps} */
const BYTES = [
  [1e9, "GB"],
  [1e6, "MB"],
  [1e3, "KB"],
  [1, "B"],
];
/** @type {Steps} */
const BITS_PER_S = [
  [1e9, "Gb/s"],
  [1e6, "Mb/s"],
  [1e3, "kb/s"],
  [1, "b/s"],
];

/** @type {(value: number, steps: Steps) => Quantity} */
function scaled(value, steps) {
  const [scale, unit] = steps.find(([scale]) => Math.abs(value) >= scale) ?? steps[steps.length - 1];
  return { text: digits(value / scale), unit };
}

/** @type {(quantity: Quantity) => string} */
const joined = ({ text, unit }) => `${text} ${unit}`;

/**
 * Three significant digits, without zeros at the end.
 * @param {number} value
 */
export function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const fixed = value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  return fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed;
}

/** @param {number} us */
export const timeParts = (us) => scaled(us, TIME_US);
/** @param {number} us */
export const time = (us) => joined(timeParts(us));
/** @param {number} count */
export const bytes = (count) => joined(scaled(count, BYTES));
/** @param {number} bps */
export const rate = (bps) => joined(scaled(bps, BITS_PER_S));
/** @param {number} share 0 to 1 */
export const percent = (share) => `${digits(share * 100)} %`;

/**
 * Local time of day.
 * @param {number} epochS
 */
export function clock(epochS) {
  return new Date(epochS * 1000).toLocaleTimeString("en-GB", { hour12: false });
}

/** @param {number} seconds */
export function age(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}
