// SPDX-License-Identifier: Apache-2.0
// The figures at the top of the page.

/** @import { PolicyVersionModel, TrafficModel } from "../documents.gen.js" */
/** @import { Quantity } from "./format.js" */

import { clock, digits, timeParts } from "./format.js";

const NONE = { text: "–", unit: "" };

/**
 * Value and unit of each figure, by its name in the page.
 * @param {TrafficModel} traffic
 * @returns {Record<string, Quantity>}
 */
export function figures({ fct, deadlines }) {
  const { mean, p99 } = fct.classes.small;
  const { miss_ratio } = deadlines;
  const slowdown = fct.slowdown.all.mean;
  return {
    flows: { text: digits(fct.flows_per_s), unit: "/s" },
    "small-mean": mean === null ? NONE : timeParts(mean),
    "small-p99": p99 === null ? NONE : timeParts(p99),
    slowdown: slowdown === null ? NONE : { text: digits(slowdown), unit: "×" },
    misses: miss_ratio === null ? NONE : { text: digits(miss_ratio * 100), unit: "%" },
  };
}

/** @param {Pick<TrafficModel, "deadlines">} traffic */
export function missesNote({ deadlines }) {
  return deadlines.n ? `${deadlines.missed} of ${deadlines.n}, last 30 s` : "No deadline flows, last 30 s";
}

/** @param {Pick<PolicyVersionModel, "version" | "state" | "applied_at">} policy */
export function policyNote(policy) {
  const since = policy.applied_at === null ? "" : ` ${clock(policy.applied_at)}`;
  return `${policyState(policy)}${since}`;
}

/** @param {Pick<PolicyVersionModel, "version" | "state">} policy */
export function policyState({ version, state }) {
  return `Version ${version} ${state}`;
}
