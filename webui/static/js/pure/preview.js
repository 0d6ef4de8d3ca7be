// SPDX-License-Identifier: Apache-2.0
// What a change of the policy would change, as text.

/** @import { FieldModel, PolicyChange } from "../documents.gen.js" */

import { valueText } from "./field-values.js";

/** @typedef {{ field: string, title: string, before: string, after: string, because: string }} ChangeRow */

/** The scheme is what the user has just chosen, and these follow from it without a choice. */
const OBVIOUS = ["scheme", "untagged_queue"];

/**
 * @param {PolicyChange[]} changes
 * @param {FieldModel[]} fields Fields of both schemes.
 * @returns {ChangeRow[]}
 */
export function changeRows(changes, fields) {
  return changes
    .filter(({ field }) => !OBVIOUS.includes(field))
    .map(({ field, title, before, after, because }) => {
      const known = fields.find(({ name }) => name === field);
      return { field, title, before: text(known, before), after: text(known, after), because };
    });
}

/**
 * @param {FieldModel | undefined} field
 * @param {PolicyChange["before"]} value
 */
function text(field, value) {
  if (value === null || (Array.isArray(value) && !value.length)) return "–";
  const unit = field?.unit && !/size|duration/.test(field.kind) ? ` ${field.unit}` : "";
  return field
    ? `${valueText(field.kind, /** @type {PolicyChange["before"]} */ (value))}${unit}`
    : String(value);
}

/** @param {number} count */
export function previewTitle(count) {
  if (!count) return "Nothing else changes: the network keeps its values.";
  return count === 1 ? "Apply also changes one value" : `Apply also changes ${count} values`;
}
