// SPDX-License-Identifier: Apache-2.0
// Tells screen readers what has just happened, without moving the focus.

import { byId, setText } from "./dom.js";

/** @param {string} text */
export function announce(text) {
  setText(byId("announcement", HTMLElement), text);
}
