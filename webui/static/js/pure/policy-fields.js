// SPDX-License-Identifier: Apache-2.0
// The fields of the policy that the page offers, as data. The form knows nothing else about them.

/** @import { FieldValue, PolicyField, Scheme } from "../types.js" */

const MOST_BYTES = 1e9;

/**
 * @param {Scheme[]} schemes
 * @returns {PolicyField[]}
 */
export function policyFields(schemes) {
  const queued = schemes.filter((scheme) => scheme.threshold_rule !== "none");
  const percentile = schemes.filter((scheme) => scheme.threshold_rule === "percentile");
  const adaptive = schemes.filter((scheme) => ["percentile", "online"].includes(scheme.threshold_rule));
  return [
    {
      name: "queues",
      title: "Queues",
      kind: "integer",
      ...{ low: 1, high: 8, unit: null },
      default: byScheme(queued, (scheme) => scheme.queues),
      help: "Priority queues of each port. Queue 0 is served first.",
      applies_to: names(queued),
    },
    ...marks(schemes),
    {
      name: "thresholds",
      title: "Thresholds",
      kind: "list of sizes",
      ...{ low: 1, high: MOST_BYTES, unit: "bytes" },
      default: byScheme(queued, (scheme) => scheme.thresholds_bytes),
      help: "A flow moves to the next queue when it has sent this much. The values must increase.",
      applies_to: names(queued),
    },
    {
      name: "percentiles",
      title: "Percentiles",
      kind: "list of numbers",
      ...{ low: 0, high: 100, unit: null },
      default: byScheme(percentile, (scheme) => scheme.thresholds_bytes.map((_, i) => 10 * (i + 1))),
      help: "Percentiles of completed flow sizes that become the thresholds. The values must increase.",
      applies_to: names(percentile),
    },
    {
      name: "window_ms",
      title: "Window",
      kind: "integer",
      ...{ low: 10, high: 3_600_000, unit: "ms" },
      default: 500,
      help: "Each port remembers the flows that completed within this time.",
      applies_to: names(adaptive),
    },
    {
      name: "interval_ms",
      title: "Interval",
      kind: "integer",
      ...{ low: 10, high: 600_000, unit: "ms" },
      default: 100,
      help: "Time between two adjustments of the thresholds.",
      applies_to: names(adaptive),
    },
  ];
}

/**
 * The thresholds of the schemes' ECN marking.
 * @param {Scheme[]} schemes
 * @returns {PolicyField[]}
 */
function marks(schemes) {
  const steep = schemes.filter((scheme) => ["port", "phantom"].includes(scheme.marking));
  const ramp = schemes.filter((scheme) => scheme.marking === "red");
  /** @type {(name: string, title: string, help: string, takers: Scheme[], place: number) => PolicyField} */
  const mark = (name, title, help, takers, place) => ({
    name,
    title,
    kind: "size",
    ...{ low: 1, high: MOST_BYTES, unit: "bytes" },
    default: byScheme(takers, (scheme) => scheme.marks_bytes[place]),
    help,
    applies_to: names(takers),
  });
  return [
    mark("mark_at", "Marking threshold", "A longer backlog of the port marks packets.", steep, 0),
    mark("mark_min", "Marking minimum", "A shorter backlog of the port marks no packet.", ramp, 0),
    mark("mark_max", "Marking maximum", "A longer backlog of the port marks every packet.", ramp, 1),
  ];
}

/** @type {(schemes: Scheme[]) => string[]} */
const names = (schemes) => schemes.map((scheme) => scheme.name);

/** @type {(schemes: Scheme[], value: (scheme: Scheme) => FieldValue) => Record<string, FieldValue>} */
const byScheme = (schemes, value) =>
  Object.fromEntries(schemes.map((scheme) => [scheme.name, value(scheme)]));
