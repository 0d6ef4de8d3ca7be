// SPDX-License-Identifier: Apache-2.0
// What the port menu says of a port's thresholds: their values, where they come from, and what may change.

/** @import { OverrideModel, SchemeModel, SnapshotModel } from "../documents.gen.js" */

import { bytes, clock } from "./format.js";

/**
 * @typedef {object} PortThresholds
 * @property {{ label: string, text: string }[]} rows  One for each threshold.
 * @property {string} source  Where they come from, in sentences.
 * @property {"" | "fixed" | "frozen"} state  What the deciding override does.
 * @property {boolean} isOwn  An override names the port itself, so it can be removed here.
 * @property {boolean} canFix
 * @property {boolean} canFreeze
 * @property {number} count  How many thresholds an override must have.
 */

/**
 * Whether one of the names is of this port, of its whole switch, or of all ports.
 * @param {string[]} names
 * @param {string} port
 */
export function namesPort(names, port) {
  const [node] = port.split(":");
  return names.some((name) => name === port || name === `${node}:*` || name === "*");
}

/**
 * The override that decides for a port: the last one that names it.
 * @param {OverrideModel[]} overrides
 * @param {string} port
 */
export const overrideOf = (overrides, port) =>
  overrides.findLast((override) => namesPort(override.ports, port)) ?? null;

/**
 * @param {Pick<SnapshotModel, "policy" | "thresholds">} snapshot
 * @param {SchemeModel | undefined} scheme The scheme of the policy in force.
 * @param {string} port
 * @returns {PortThresholds}
 */
export function portThresholds({ policy, thresholds }, scheme, port) {
  const nothing = { rows: [], state: /** @type {const} */ (""), isOwn: false };
  const no = { ...nothing, canFix: false, canFreeze: false, count: 0 };
  if (!policy || !scheme) return { ...no, source: "There is no policy yet." };
  const { overrides, acts_at, queues } = policy.policy;
  const isOwn = overrides.some(({ ports }) => ports.includes(port));
  if (scheme.threshold_rule === "none")
    return { ...no, source: `${scheme.title} has one queue and no thresholds.` };
  if (!namesPort(acts_at, port)) return { ...no, isOwn, source: "The policy does not act at this port." };
  const override = overrideOf(overrides, port);
  const adapts = scheme.threshold_rule !== "static";
  return {
    rows: (thresholds[port]?.thresholds_bytes ?? []).map(row),
    source: sentences(policy, thresholds[port], scheme, override),
    state: override === null ? "" : "thresholds" in override ? "fixed" : "frozen",
    isOwn,
    canFix: true,
    canFreeze: adapts,
    count: queues - 1,
  };
}

/**
 * @param {number} value
 * @param {number} i
 */
const row = (value, i) => ({ label: `Queue ${i} to ${i + 1}`, text: bytes(value) });

/**
 * @param {NonNullable<SnapshotModel["policy"]>} policy
 * @param {SnapshotModel["thresholds"][string] | undefined} change
 * @param {SchemeModel} scheme
 * @param {OverrideModel | null} override
 */
function sentences(policy, change, scheme, override) {
  if (!change) return "The controller has not set up this port yet.";
  const late = change.policy_version < policy.version;
  const pending = late
    ? ` Version ${policy.version} of the policy is not in force here yet; these are of version ${change.policy_version}.`
    : "";
  return `${origin(policy.version, change, scheme, late ? null : override)}${pending}`;
}

/**
 * @param {number} version
 * @param {SnapshotModel["thresholds"][string]} change
 * @param {SchemeModel} scheme
 * @param {OverrideModel | null} override
 */
function origin(version, change, scheme, override) {
  const when = `${clock(change.at)}${change.flows ? `, from ${change.flows} flows` : ""}`;
  if (override && "thresholds" in override)
    return `Fixed by hand: the override of ${override.ports.join(", ")} sets them.`;
  if (override) return `Frozen by the override of ${override.ports.join(", ")}. They are those of ${when}.`;
  if (scheme.threshold_rule === "static") return `Set by version ${version} of the policy.`;
  return change.flows
    ? `Computed by this port at ${when}.`
    : `The values with which ${scheme.title} starts: too few flows have passed this port to move them.`;
}
