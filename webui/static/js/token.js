// SPDX-License-Identifier: Apache-2.0
// The access token that a policy change needs. It comes from the address or from its field, and is kept for
// this tab.

import { byId } from "./dom.js";

const STORAGE_KEY = "sluice-token";

export class Token {
  /** @param {string} id The id of the input; that of the row around it ends with "-field". */
  constructor(id = "token") {
    this.field = byId(`${id}-field`, HTMLElement);
    this.input = byId(id, HTMLInputElement);
    takeFromAddress();
    addEventListener("hashchange", takeFromAddress);
  }

  get value() {
    return this.input.value.trim() || sessionStorage.getItem(STORAGE_KEY);
  }

  ask() {
    this.field.hidden = false;
    this.input.focus();
  }

  /** The server accepted the token: keeps it, and hides the field. */
  keep() {
    if (this.value) sessionStorage.setItem(STORAGE_KEY, this.value);
    this.input.value = "";
    this.field.hidden = true;
  }

  forget() {
    sessionStorage.removeItem(STORAGE_KEY);
  }
}

/** Moves the token of `#token=…` from the address, where others could read it, into the tab's storage. */
function takeFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  sessionStorage.setItem(STORAGE_KEY, given);
  history.replaceState(null, "", location.pathname + location.search);
}
