// SPDX-License-Identifier: Apache-2.0
// What the page could not load: in its bar, until it has been loaded.

import { ApiError } from "./api.js";
import { byId, setText } from "./dom.js";

/** By what could not be loaded. @type {Map<string, string>} */
const problems = new Map();
/** What someone waits for now. @type {Set<string>} */
const asked = new Set();

/**
 * Shows a problem, or that there is none any more.
 * @param {string} what
 * @param {string} problem Empty: none.
 */
export function showTrouble(what, problem) {
  if (problem) problems.set(what, problem);
  else problems.delete(what);
  const shown = byId("trouble", HTMLElement);
  shown.hidden = !problems.size;
  setText(shown, problems.size ? `Not loaded: ${[...problems.keys()].join(", ")}` : "");
  shown.title = [...problems].map(([name, text]) => `${name}: ${text}`).join("\n");
}

/**
 * Shows it if this fails.
 * @param {string} what
 * @param {Promise<unknown>} loading
 */
export async function report(what, loading) {
  try {
    await loading;
    showTrouble(what, "");
  } catch (error) {
    showTrouble(what, error instanceof ApiError ? error.message : "the server does not answer");
  }
}

/**
 * Loads what a snapshot points to, unless an earlier answer is still outstanding: a slow server is not asked again.
 * @param {string} what
 * @param {() => Promise<unknown>} load
 */
export async function follow(what, load) {
  if (asked.has(what)) return;
  asked.add(what);
  await report(what, load());
  asked.delete(what);
}
