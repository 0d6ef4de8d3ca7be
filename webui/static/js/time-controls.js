// SPDX-License-Identifier: Apache-2.0
// What time the charts show: pause, zoom, and absolute or relative times. A drag over a chart and the keys at a
// chart do the same as the buttons.

/** @import { Address } from "./address.js" */
/** @import { Chart } from "./chart.js" */
/** @import { Times } from "./pure/address.js" */
/** @import { Model } from "./pure/model.js" */
/** @import { Step } from "./pure/zoom.js" */

import { byId } from "./dom.js";
import { rangeText } from "./pure/times.js";
import { between, stepOf, stepped } from "./pure/zoom.js";

export class TimeControls {
  /**
   * @param {Model} model
   * @param {Address} address
   * @param {Chart[]} charts
   */
  constructor(model, address, charts) {
    this.model = model;
    this.address = address;
    this.charts = charts;
    this.hold = byId("hold", HTMLButtonElement);
    this.range = byId("range", HTMLElement);
    this.times = byId("times", HTMLSelectElement);
    this.hold.addEventListener("click", () => this.step(model.held ? "live" : "hold"));
    for (const button of document.querySelectorAll("button[data-step]"))
      if (button instanceof HTMLElement)
        button.addEventListener("click", () => this.step(/** @type {Step} */ (button.dataset.step)));
    this.times.addEventListener("change", () =>
      address.set({ times: /** @type {Times} */ (this.times.value) }),
    );
    for (const chart of charts) this.listen(chart);
  }

  /** @param {Chart} chart */
  listen(chart) {
    chart.onSelect = (a, b) => this.address.set({ range: between(a, b, this.model.now) });
    chart.container.addEventListener("keydown", (event) => {
      const step = stepOf(event);
      if (!step) return;
      event.preventDefault();
      this.step(step);
    });
  }

  /** @param {Step} step */
  step(step) {
    const shown = this.charts[0].view;
    if (shown) this.address.set({ range: stepped(shown, step, this.model.now) });
  }

  /** Shows in the controls what the charts show. */
  show() {
    const { held, now, times } = this.model;
    this.hold.setAttribute("aria-pressed", String(Boolean(held)));
    this.range.textContent = held ? rangeText(held, now, times) : "";
    this.range.hidden = !held;
    this.times.value = times;
  }
}
