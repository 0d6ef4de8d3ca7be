// SPDX-License-Identifier: Apache-2.0

/**
 * Compares names so that h2 comes before h10.
 * @param {string} a
 * @param {string} b
 */
export function naturally(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}
