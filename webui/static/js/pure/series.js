// SPDX-License-Identifier: Apache-2.0
// Operations on the values that a chart draws.

/** @import { Times } from "./address.js" */

/** @typedef {number | null} Value  Null where there is nothing to draw. */

/**
 * One line or layer of a chart.
 * @typedef {object} Series
 * @property {string} label
 * @property {string} [group]  Series of one group share a legend key and are hidden together.
 * @property {Value[]} values
 * @property {string} colour
 * @property {number[]} [dash]
 * @property {string} [fill]
 * @property {number} [width]
 * @property {boolean} [legend]  False: the series has no legend key.
 */

/** @typedef {{ at: number, scheme: string, label: string, colour: string }} PolicyMark  A policy change. */

/**
 * What one chart shows.
 * @typedef {object} View
 * @property {number} from
 * @property {number} to
 * @property {number[]} x
 * @property {Series[]} series
 * @property {PolicyMark[]} marks
 * @property {{ now: number, kind: Times }} times  How the axis writes times.
 * @property {string | null} [empty]  Text for a chart without values, in place of the chart's own.
 */

/** @type {(series: Series) => string} */
export const keyOf = (series) => series.group ?? series.label;

/**
 * The last value that is not null.
 * @param {Value[]} values
 */
export function latest(values) {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i];
  return null;
}

/**
 * Replaces each layer by the sum of itself and the layers after it: the last layer is at the
 * bottom. A layer that is not shown counts as 0.
 * @param {{ values: Value[], show: boolean }[]} layers
 */
export function stacked(layers) {
  /** @type {Value[][]} */
  const sums = [];
  /** @type {Value[]} */
  let below = [];
  for (const layer of [...layers].reverse()) {
    const base = below;
    below = layer.values.map((value, i) =>
      value === null ? null : (layer.show ? value : 0) + (base[i] ?? 0),
    );
    sums.push(below);
  }
  return sums.reverse();
}

/**
 * The value in force at each time of `x`: that of the last change at or before it.
 * @template {{ at: number }} Change
 * @param {Change[]} changes The oldest first.
 * @param {number[]} x Increasing.
 * @param {(change: Change) => Value} value
 */
export function held(changes, x, value) {
  let next = 0;
  /** @type {Value} */
  let current = null;
  return x.map((at) => {
    while (next < changes.length && changes[next].at <= at) current = value(changes[next++]);
    return current;
  });
}

/**
 * The lower median of the values that are not null.
 * @param {Value[]} values
 */
export function median(values) {
  // A typed array sorts by value, without a function that compares.
  const known = Float64Array.from(values.filter((value) => value !== null)).sort();
  return known.length ? known[Math.floor((known.length - 1) / 2)] : null;
}
