// SPDX-License-Identifier: Apache-2.0
// What the page says of a scheme, and of a policy change.

/** @import { PolicyVersionModel, SchemeModel } from "../documents.gen.js" */

import { time } from "./format.js";

const THRESHOLDS = {
  none: "no thresholds",
  static: "fixed thresholds",
  percentile: "thresholds from percentiles of flow sizes",
  online: "thresholds optimised at each port",
};

/**
 * @param {Pick<SchemeModel, "paper" | "threshold_rule" | "congestion_control">} scheme
 * @param {number} queues
 */
export function schemeText({ paper, threshold_rule, congestion_control }, queues) {
  const count = queues === 1 ? "One queue" : `${queues} queues`;
  return `${paper}. ${count}, ${THRESHOLDS[threshold_rule]}, congestion control ${congestion_control}.`;
}

/**
 * What became of a policy change.
 * @param {Pick<PolicyVersionModel, "version" | "state" | "created_at" | "applied_at">} answer
 */
export function answerText({ version, state, created_at, applied_at }) {
  if (state === "pending") return `Version ${version} is pending: the controller has not confirmed it yet.`;
  if (applied_at === null) return `Version ${version} was replaced before it was applied.`;
  return `Version ${version} applied in ${time((applied_at - created_at) * 1e6)}.`;
}
