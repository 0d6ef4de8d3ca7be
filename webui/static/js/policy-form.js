// SPDX-License-Identifier: Apache-2.0
// The form of a scheme's policy fields, built from their descriptions.

/** @import { FieldModel } from "./documents.gen.js" */

import { element } from "./dom.js";
import { canEnter, explanation, label, parse, placeholder } from "./pure/field-values.js";

/** @typedef {{ field: FieldModel, row: HTMLElement, input: HTMLInputElement | HTMLSelectElement }} Entry */

export class PolicyForm {
  /** @param {HTMLElement} container */
  constructor(container) {
    this.container = container;
    /** @type {Entry[]} */
    this.entries = [];
  }

  /**
   * Shows these fields, all empty. An empty field means the value that its placeholder shows.
   * @param {FieldModel[]} fields
   * @param {Readonly<Record<string, unknown>> | null} inForce The policy in force, if it is of the same scheme.
   */
  show(fields, inForce) {
    this.entries = fields.filter(canEnter).map((field) => entry(field, placeholder(field, inForce)));
    this.container.replaceChildren(...this.entries.map(({ row }) => row));
  }

  /**
   * Lets empty fields show what they mean now.
   * @param {Readonly<Record<string, unknown>>} policy The whole policy that the document gives.
   */
  mean(policy) {
    for (const { field, input } of this.entries) {
      const text = placeholder(field, policy);
      if (input instanceof HTMLInputElement) input.placeholder = text;
      else input.options[0].textContent = text;
    }
  }

  /** The values of the fields that were filled in, for the policy document. */
  values() {
    const filled = this.entries.filter(({ input }) => input.value.trim());
    return Object.fromEntries(
      filled.map(({ field, input }) => [field.name, parse(field.kind, input.value.trim())]),
    );
  }

  /**
   * Marks the field of that name as wrong, and no other. Returns the field's label in the form.
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
 * @param {FieldModel} field
 * @param {string} standard What an empty input means.
 * @returns {Entry}
 */
function entry(field, standard) {
  const words = field.kind === "boolean" ? ["yes", "no"] : field.options;
  const input = words ? choice(standard, words) : textInput(field, standard);
  input.name = field.name;
  const wide = field.kind.startsWith("list") ? " wide" : "";
  const row = element("label", { className: `field${wide}`, title: explanation(field) }, label(field), input);
  row.dataset.field = field.name;
  return { field, row, input };
}

/** @type {(field: FieldModel, placeholder: string) => HTMLInputElement} */
function textInput({ kind }, placeholder) {
  return element("input", {
    placeholder,
    spellcheck: false,
    inputMode: kind === "integer" ? "numeric" : "text",
  });
}

/** @type {(standard: string, words: string[]) => HTMLSelectElement} */
function choice(standard, words) {
  return element("select", {}, new Option(standard, ""), ...words.map((word) => new Option(word)));
}
