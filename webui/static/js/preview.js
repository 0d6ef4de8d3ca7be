// SPDX-License-Identifier: Apache-2.0
// What applying the form would change, before it is applied.

/** @import { FieldModel, PolicyPreview } from "./documents.gen.js" */

import { previewPolicy } from "./api.js";
import { element } from "./dom.js";
import { changeRows, previewTitle } from "./pure/preview.js";

const TYPING_MS = 250;

export class Preview {
  /**
   * @param {HTMLElement} container
   * @param {(preview: PolicyPreview) => void} onAnswer
   */
  constructor(container, onAnswer) {
    this.container = container;
    this.onAnswer = onAnswer;
    this.asked = 0;
    this.timer = 0;
  }

  /**
   * Asks the server, once no key has been pressed for a moment.
   * @param {Record<string, unknown>} document
   * @param {FieldModel[]} fields
   */
  ask(document, fields) {
    clearTimeout(this.timer);
    this.asked += 1;
    this.timer = setTimeout(() => this.fetch(document, fields, this.asked), TYPING_MS);
  }

  /** Shows nothing. */
  clear() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.container.replaceChildren();
  }

  /**
   * @param {Record<string, unknown>} document
   * @param {FieldModel[]} fields
   * @param {number} number
   */
  async fetch(document, fields, number) {
    try {
      const preview = await previewPolicy(document);
      if (number !== this.asked) return;
      this.onAnswer(preview);
      this.show(preview, fields);
    } catch (error) {
      if (number !== this.asked) return;
      const text = error instanceof Error ? error.message : String(error);
      this.container.replaceChildren(element("p", { className: "refused", textContent: text }));
    }
  }

  /**
   * @param {PolicyPreview} preview
   * @param {FieldModel[]} fields
   */
  show({ changes }, fields) {
    const rows = changeRows(changes, fields);
    const title = element("h3", { textContent: changes.length ? previewTitle(rows.length) : "" });
    const list = element(
      "ul",
      {},
      ...rows.map(({ title, before, after, because }) =>
        element(
          "li",
          { title: because },
          element("b", { textContent: title }),
          ` ${before} → ${after} `,
          element("small", { textContent: because }),
        ),
      ),
    );
    this.container.replaceChildren(title, list);
  }
}
