// SPDX-License-Identifier: Apache-2.0
// The part of the form that makes a sweep of a run: schemes, loads and seeds.

import { byId } from "./dom.js";
import { numbers, words } from "./pure/sweep-axes.js";

export class SweepFields {
  constructor() {
    this.chosen = byId("as-sweep", HTMLInputElement);
    for (const radio of document.querySelectorAll("input[name=kind]")) {
      radio.addEventListener("change", () => this.follow());
    }
    this.follow();
  }

  follow() {
    byId("axes", HTMLElement).hidden = !this.chosen.checked;
  }

  /** The keys of the request. */
  values() {
    if (!this.chosen.checked) return {};
    const text = (/** @type {string} */ id) => byId(id, HTMLInputElement).value;
    return {
      sweep: true,
      schemes: words(text("schemes")),
      loads: numbers(text("loads")),
      seeds: numbers(text("seeds")),
    };
  }
}
