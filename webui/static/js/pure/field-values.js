// SPDX-License-Identifier: Apache-2.0
// Values of policy fields as text, and typed text as values.

/** @import { FieldModel, PolicyChange } from "../documents.gen.js" */

import { bytes, time } from "./format.js";

/** @typedef {string | number | boolean} Entered  Text where the input is no value of its kind. */

/** Significant digits that hide the rounding errors of binary fractions. */
const PRECISION = 12;
/** A word instead of a list, for example "optimal". The server says which there are. */
const WORD = /^[a-z]+$/;

/**
 * Whether the form offers the field: its value fits on one line, and there is a choice.
 * @param {FieldModel} field
 */
export function canEnter({ kind, allowed, low, high, ...field }) {
  const single = allowed === String(field.default) || (low !== null && low === high);
  return kind !== "list of override" && !single;
}

/**
 * The title, with the unit unless values are entered with theirs or the title names it.
 * @param {FieldModel} field
 */
export function label({ title, kind, unit }) {
  const own = /size|duration/.test(kind) || title.toLowerCase().includes(unit);
  return own ? title : `${title}, ${unit}`;
}

/** @param {FieldModel} field */
export const explanation = ({ help, allowed }) => `${help} Allowed: ${allowed}.`;

/**
 * What an empty input means: the value in force, or the default.
 * @param {FieldModel} field
 * @param {Readonly<Record<string, unknown>> | null} inForce The policy in force, if it is of the same scheme.
 */
export function placeholder(field, inForce) {
  const known = /** @type {PolicyChange["before"] | undefined} */ (inForce?.[field.name]);
  return valueText(field.kind, known ?? field.default);
}

/**
 * @param {FieldModel["kind"]} kind
 * @param {PolicyChange["before"]} value
 * @returns {string}
 */
export function valueText(kind, value) {
  if (value === null) return "none";
  if (Array.isArray(value)) return value.map((item) => itemText(kind, item)).join(", ") || "none";
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object")
    return Object.entries(value)
      .map(([name, number]) => `${name} = ${number}`)
      .join(", ");
  if (kind === "size") return bytes(value);
  if (kind === "duration") return time(value / 1000);
  return String(Number(value.toPrecision(PRECISION)));
}

/**
 * @param {FieldModel["kind"]} kind
 * @param {unknown} item
 */
function itemText(kind, item) {
  if (typeof item === "number") return valueText(itemKind(kind), item);
  return typeof item === "string" ? item : JSON.stringify(item);
}

/**
 * The value for the policy document. "none" is the empty list, as `valueText` writes it. Text that does not fit
 * goes to the server unchanged, because its refusal names the problem.
 * @param {FieldModel["kind"]} kind
 * @param {string} text
 * @returns {Entered | Entered[] | Record<string, Entered>}
 */
export function parse(kind, text) {
  if (kind === "table") return Object.fromEntries(parts(text).map(named));
  if (!kind.startsWith("list")) return parseOne(kind, text);
  if (kind === "list of size" && WORD.test(text.trim()) && text.trim() !== "none") return text.trim();
  const items = text.trim() === "none" ? [] : parts(text);
  return kind === "list of text" ? items : items.map((item) => parseOne(itemKind(kind), item));
}

/**
 * @param {FieldModel["kind"]} kind
 * @param {string} text
 * @returns {Entered}
 */
function parseOne(kind, text) {
  if (kind === "boolean") return text === "yes";
  if (kind === "size" || kind === "duration")
    return /^\d+$/.test(text) ? Number(text) : text.replace(/\s+/g, "");
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

/** @type {(kind: FieldModel["kind"]) => FieldModel["kind"]} */
const itemKind = (kind) => (kind === "list of size" ? "size" : "number");

/**
 * A name and its value, from "name = 1".
 * @param {string} text
 * @returns {[string, Entered]}
 */
function named(text) {
  const [name, value = ""] = text.split("=", 2);
  return [name.trim(), parseOne("number", value.trim())];
}

/** @param {string} text */
const parts = (text) => text.split(/[,;]\s*/).filter(Boolean);
