// SPDX-License-Identifier: Apache-2.0
// Events as text.

import { bytes, time } from "./format.js";

/**
 * "policy-applied" becomes "Policy applied".
 * @param {string} kind
 */
export function eventTitle(kind) {
  const words = kind.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Scheme and version first, then every other key with its value.
 * @param {Record<string, unknown>} document
 * @param {(scheme: string) => string} titleOf
 */
export function eventDetail({ scheme, version, ...rest }, titleOf) {
  const first = [];
  if (scheme) first.push(titleOf(String(scheme)));
  if (version) first.push(`version ${version}`);
  return [...first, ...Object.entries(rest).map(([name, value]) => pair(name, value))].join(" · ");
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function pair(name, value) {
  const words = name.replace(/_(bytes|s)$/, "").replaceAll("_", " ");
  return `${words} ${valueText(name, value)}`;
}

/**
 * @param {string} name
 * @param {unknown} value
 */
function valueText(name, value) {
  if (typeof value === "number" && name.endsWith("_bytes")) return bytes(value);
  if (typeof value === "number" && name.endsWith("_s")) return time(value * 1e6);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}
