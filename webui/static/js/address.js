// SPDX-License-Identifier: Apache-2.0
// The address of the page and what it shows follow each other. A step that a reader would want to take back is an
// entry of the browser's history.

/** @import { State } from "./pure/address.js" */

import { readState, writeState } from "./pure/address.js";

export class Address {
  constructor() {
    /** @type {State} */
    this.state = readState(location.search);
    /** @type {((state: State) => void)[]} */
    this.listeners = [];
    addEventListener("popstate", () => this.take(readState(location.search)));
  }

  /**
   * Calls this function after every change, whoever made it.
   * @param {(state: State) => void} listener
   */
  follow(listener) {
    this.listeners.push(listener);
  }

  /**
   * Changes parts of the state, as a new entry of the history. The same state again changes nothing.
   * @param {Partial<State>} changes
   */
  set(changes) {
    const state = { ...this.state, ...changes };
    const search = writeState(state, location.search);
    if (search === writeState(this.state, location.search)) return;
    history.pushState(null, "", location.pathname + search + location.hash);
    this.take(state);
  }

  /** @param {State} state */
  take(state) {
    this.state = state;
    for (const listener of this.listeners) listener(state);
  }
}
