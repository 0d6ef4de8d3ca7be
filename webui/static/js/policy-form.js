// SPDX-License-Identifier: Apache-2.0
// The form of a policy's fields, built from their descriptions.

/** @import { PolicyField } from "./types.js" */

import { element } from "./dom.js";
import { applies, explanation, label, parse, placeholder } from "./pure/field-values.js";

/** @typedef {{ field: PolicyField, row: HTMLElement, input: HTMLInputElement | HTMLSelectElement }} Entry */

export class PolicyForm {
  /**
   * @param {HTMLElement} container
   * @param {PolicyField[]} fields
   */
  constructor(container, fields) {
    /** @type {Entry[]} */
    this.entries = fields.map(entry);
    this.none = element("p", { className: "none wide", textContent: "This scheme has no parameters." });
    container.replaceChildren(...this.entries.map(({ row }) => row), this.none);
  }

  /**
   * Shows the scheme's fields, all empty. An empty field stands for the value that its placeholder shows.
   * @param {string} scheme
   * @param {Readonly<Record<string, unknown>> | null} inForce The policy in force, if it is of that scheme.
   */
  show(scheme, inForce) {
    for (const { field, row, input } of this.entries) {
      row.hidden = !applies(field, scheme);
      input.disabled = row.hidden;
      input.value = "";
      setPlaceholder(input, placeholder(field, scheme, inForce));
    }
    this.none.hidden = this.entries.some(({ row }) => !row.hidden);
  }

  /** The values of the fields that were filled in, for the policy document. */
  values() {
    const filled = this.entries.filter(({ input }) => !input.disabled && input.value.trim());
    return Object.fromEntries(
      filled.map(({ field, input }) => [field.name, parse(field.kind, input.value.trim())]),
    );
  }

  /**
   * Marks the field of that name as wrong, and no other. Returns its title.
   * @param {string | null} name
   */
  flag(name) {
    for (const { field, row } of this.entries) row.classList.toggle("wrong", field.name === name);
    const wrong = this.entries.find(({ field }) => field.name === name);
    const details = wrong?.row.closest("details");
    if (details) details.open = true;
    wrong?.row.scrollIntoView({ block: "nearest" });
    return wrong?.field.title ?? name;
  }
}

/**
 * @param {PolicyField} field
 * @returns {Entry}
 */
function entry(field) {
  const input = field.kind === "boolean" ? choice() : textInput(field);
  input.name = field.name;
  const wide = field.kind.startsWith("list") ? " wide" : "";
  const row = element("label", { className: `field${wide}`, title: explanation(field) }, label(field), input);
  row.dataset.field = field.name;
  return { field, row, input };
}

/** @param {PolicyField} field */
function textInput({ kind }) {
  return element("input", { spellcheck: false, inputMode: kind === "integer" ? "numeric" : "text" });
}

/** The empty option stands for the default. */
function choice() {
  return element("select", {}, new Option("", ""), new Option("yes"), new Option("no"));
}

/**
 * @param {HTMLInputElement | HTMLSelectElement} input
 * @param {string} text
 */
function setPlaceholder(input, text) {
  if (input instanceof HTMLInputElement) input.placeholder = text;
  else input.options[0].text = text;
}
