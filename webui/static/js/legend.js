// SPDX-License-Identifier: Apache-2.0
// The keys above a chart: each shows a value, and hides or shows its series when it is clicked.

/** @import { Series, Value } from "./pure/series.js" */

import { element, inside } from "./dom.js";
import { keyOf, latest } from "./pure/series.js";

/** With more keys there is room only for their names; the values are in the titles. */
const MOST_WITH_VALUES = 3;

export class Legend {
  /**
   * @param {HTMLElement} container
   * @param {{ format: (value: number) => string, compact: boolean }} look `compact`: never show values.
   * @param {() => void} onToggle
   */
  constructor(container, look, onToggle) {
    this.container = container;
    this.look = look;
    this.onToggle = onToggle;
    /** @type {Set<string>} */
    this.hidden = new Set();
  }

  /** @param {Series} series */
  shows(series) {
    return !this.hidden.has(keyOf(series));
  }

  /** @param {Series[]} series */
  build(series) {
    const keys = new Map(series.filter((s) => s.legend !== false).map((s) => [keyOf(s), s]));
    this.container.replaceChildren(...[...keys.values()].map((s) => this.item(s)));
    this.container.classList.toggle("many", keys.size > MOST_WITH_VALUES || this.look.compact);
  }

  /** @param {Series} series */
  item(series) {
    const key = keyOf(series);
    const swatch = element("i");
    swatch.style.setProperty("--key", series.colour);
    const label = element("span", { className: "label", textContent: key });
    const item = element("button", { type: "button", className: "key" }, swatch, label, element("b"));
    item.dataset.series = key;
    item.setAttribute("aria-pressed", String(this.shows(series)));
    item.addEventListener("click", () => {
      if (!this.hidden.delete(key)) this.hidden.add(key);
      this.onToggle();
    });
    return item;
  }

  /**
   * Writes into each key the values of its series: those at that place, or the latest.
   * @param {Series[]} series
   * @param {number | null | undefined} index
   */
  showValues(series, index) {
    for (const item of this.container.querySelectorAll("button")) {
      const group = series.filter((s) => keyOf(s) === item.dataset.series);
      const text = group.map((s) => this.text(valueAt(s, index))).join(" / ");
      inside(item, "b").textContent = text;
      item.title = `${group[0]?.label}: ${text}. Click to hide or show`;
    }
  }

  /** @param {Value} value */
  text(value) {
    return value === null ? "–" : this.look.format(value);
  }
}

/**
 * @param {Series} series
 * @param {number | null | undefined} index
 */
function valueAt({ values }, index) {
  return index === null || index === undefined ? latest(values) : (values[index] ?? null);
}
