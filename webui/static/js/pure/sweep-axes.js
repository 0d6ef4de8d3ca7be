// SPDX-License-Identifier: Apache-2.0
// The axes of a sweep, as a form has them: words between commas or spaces.

/** @param {string} text Undefined if it has no word: then the scenario decides. */
export function words(text) {
  const found = text.split(/[\s,]+/).filter(Boolean);
  return found.length ? found : undefined;
}

/** @param {number} value Whether it is a number that JavaScript does not round. */
const isExact = (value) =>
  Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));

/**
 * The numbers of a text. A word that is no number, or one too long, stays, so that the server can name it.
 * @param {string} text
 */
export function numbers(text) {
  return words(text)?.map((word) => (isExact(Number(word)) ? Number(word) : word));
}
