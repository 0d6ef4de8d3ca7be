// SPDX-License-Identifier: Apache-2.0
// What the server warns of when it has taken a policy.

import { byId, element } from "./dom.js";

/** @param {string[]} warnings */
export function showWarnings(warnings) {
  const list = byId("control-warnings", HTMLElement);
  list.hidden = !warnings.length;
  list.replaceChildren(...warnings.map((textContent) => element("li", { textContent })));
}
