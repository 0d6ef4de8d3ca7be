// SPDX-License-Identifier: Apache-2.0
// The explanation of the size classes, which a button beside each figure opens.

/** @import { Model } from "./pure/model.js" */
/** @import { ClassesAnswer } from "./documents.gen.js" */

import { get } from "./api.js";
import { byId, element } from "./dom.js";
import { classRows, isScaled } from "./pure/classes.js";

const SCALED =
  "The flows shown have other limits, because their scenario's workload is scaled (its key scale scales the limits, too).";
const PLAIN = "A scenario whose workload is scaled scales the limits, too.";

/** @param {Model} model */
export function startClasses(model) {
  byId("classes", HTMLElement).addEventListener("toggle", (event) => {
    if (event instanceof ToggleEvent && event.newState === "open") show(model).catch(failed);
  });
}

/** @param {Model} model */
async function show(model) {
  /** @type {ClassesAnswer} */
  const classes = await get("classes", { source: model.source });
  const rows = classRows(classes).map(({ name, limits, seen }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", textContent: name }),
      element("td", { textContent: limits }),
      element("td", { textContent: seen }),
    ),
  );
  byId("classes-rows", HTMLElement).replaceChildren(...rows);
  byId("classes-note", HTMLElement).textContent = isScaled(classes) ? SCALED : PLAIN;
}

/** @param {Error} error */
function failed(error) {
  byId("classes-note", HTMLElement).textContent = error.message;
}
