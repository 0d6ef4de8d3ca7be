// SPDX-License-Identifier: Apache-2.0
// Values of policy fields as text, and typed text as values.

/** @import { FieldKind, FieldValue, PolicyField } from "../types.js" */

import { bytes, time } from "./format.js";

/** @typedef {string | number | boolean} Entered  Text where the input is no value of its kind. */

/** @type {(field: PolicyField, scheme: string) => boolean} */
export const applies = (field, scheme) => field.applies_to === null || field.applies_to.includes(scheme);

/** @param {PolicyField} field */
export function label({ title, kind, unit }) {
  return unit && (kind === "integer" || kind === "number") ? `${title}, ${unit}` : title;
}

/**
 * The help text and the bounds.
 * @param {PolicyField} field
 */
export function explanation({ kind, low, high, unit, help }) {
  if (low === null || high === null) return help;
  const [least, most] = [low, high].map((bound) => valueText(itemKind(kind), bound));
  return `${help} From ${least} to ${most}${unit && kind === "integer" ? ` ${unit}` : ""}.`;
}

/**
 * What an empty input stands for: the value in force, or the scheme's default.
 * @param {PolicyField} field
 * @param {string} scheme
 * @param {Readonly<Record<string, unknown>> | null} inForce The policy in force, if it is of that scheme.
 */
export function placeholder(field, scheme, inForce) {
  const known = /** @type {FieldValue | null | undefined} */ (inForce?.[field.name]);
  const value = known ?? defaultOf(field, scheme);
  return value === null ? "" : valueText(field.kind, value);
}

/**
 * @param {PolicyField} field
 * @param {string} scheme
 * @returns {FieldValue | null}
 */
export function defaultOf(field, scheme) {
  const value = field.default;
  return typeof value === "object" && !Array.isArray(value) ? (value?.[scheme] ?? null) : value;
}

/**
 * @param {FieldKind} kind
 * @param {FieldValue} value
 * @returns {string}
 */
export function valueText(kind, value) {
  if (Array.isArray(value)) return value.map((item) => valueText(itemKind(kind), item)).join(", ") || "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (kind === "size") return bytes(value);
  if (kind === "duration") return time(value / 1000);
  return String(value);
}

/**
 * The value for the policy document. Text that does not fit goes to the server unchanged, because its refusal
 * names the problem.
 * @param {FieldKind} kind
 * @param {string} text
 * @returns {Entered | Entered[]}
 */
export function parse(kind, text) {
  if (kind.startsWith("list")) return parts(text).map((part) => parseOne(itemKind(kind), part));
  return parseOne(kind, text);
}

/**
 * @param {FieldKind} kind
 * @param {string} text
 * @returns {Entered}
 */
function parseOne(kind, text) {
  if (kind === "boolean") return text === "yes";
  if (kind === "size" || kind === "duration")
    return /^\d+$/.test(text) ? Number(text) : text.replace(/\s+/g, "");
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

/**
 * @param {FieldKind} kind
 * @returns {FieldKind}
 */
function itemKind(kind) {
  if (kind === "list of sizes") return "size";
  return kind === "list of numbers" ? "number" : kind;
}

/** @param {string} text */
const parts = (text) => text.split(/[,;]\s*/).filter(Boolean);
