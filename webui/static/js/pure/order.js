// SPDX-License-Identifier: Apache-2.0

// Made once: with its options in each call, localeCompare is many times slower.
const collator = new Intl.Collator("en", { numeric: true });

/**
 * Compares names so that h2 comes before h10.
 * @param {string} a
 * @param {string} b
 */
export function naturally(a, b) {
  return collator.compare(a, b);
}
