// SPDX-License-Identifier: Apache-2.0
// Whether the figures are valid: a banner above the page, and a mark in its bar.

/** @import { ValidityModel } from "./documents.gen.js" */

import { byId, element, setChildren, setText } from "./dom.js";
import { validityBanner } from "./pure/validity.js";

/** @param {ValidityModel} validity */
export function showValidity(validity) {
  const shown = validityBanner(validity);
  const banner = byId("validity-banner", HTMLElement);
  banner.hidden = !shown;
  if (shown) {
    const head = element("strong", { textContent: `${shown.head}.` });
    setChildren(banner, element("p", {}, head, ` ${shown.text}`));
  }
  // Its figures change every few seconds, so the banner itself is no live region.
  setText(byId("validity-news", HTMLElement), shown ? shown.head : "");
  byId("validity-mark", HTMLElement).hidden = !shown;
  document.body.dataset.valid = String(validity.valid);
}
