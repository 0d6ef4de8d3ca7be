// SPDX-License-Identifier: Apache-2.0
// What small, medium and large mean.

/** @import { ClassesAnswer, FlowModel } from "../documents.gen.js" */

import { bytes } from "./format.js";

/**
 * One line for each class.
 * @param {ClassesAnswer} classes
 * @returns {{ name: string, limits: string, seen: string }[]}
 */
export function classRows({ limits_bytes: [small, medium], seen }) {
  /** @type {[FlowModel["size_class"], string, string][]} */
  const known = [
    ["small", "Small", `up to ${bytes(small)}`],
    ["medium", "Medium", `up to ${bytes(medium)}`],
    ["large", "Large", `over ${bytes(medium)}`],
  ];
  return known.map(([key, name, limits]) => {
    const found = seen[key];
    const range = found ? `${bytes(found.least_bytes)} to ${bytes(found.most_bytes)}` : "none";
    return { name, limits, seen: range };
  });
}

/**
 * Whether flows have a class that these limits would not give them: their workload is scaled.
 * @param {ClassesAnswer} classes
 */
export function isScaled({ limits_bytes: [small, medium], seen }) {
  const bounds = /** @type {const} */ ([
    [seen.small, 1, small],
    [seen.medium, small + 1, medium],
    [seen.large, medium + 1, Number.POSITIVE_INFINITY],
  ]);
  return bounds.some(([found, low, high]) => found && (found.least_bytes < low || found.most_bytes > high));
}
