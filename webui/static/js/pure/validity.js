// SPDX-License-Identifier: Apache-2.0
// What the page says of figures that are not valid.

/** @import { ValidityModel } from "../documents.gen.js" */

/** The most reasons that the banner names. */
const MOST_REASONS = 3;

/** @param {string} text */
export const sentence = (text) =>
  text && `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?$/, ".")}`;

/**
 * The banner above the page; null if nothing says that the figures are not valid.
 * @param {ValidityModel} validity
 * @returns {{ head: string, text: string } | null}
 */
export function validityBanner({ reasons }) {
  if (!reasons.length) return null;
  const remedies = [...new Set(reasons.map((reason) => sentence(reason.remedy)))];
  const shown = reasons.slice(0, MOST_REASONS).map((reason) => sentence(reason.problem));
  const more = reasons.length - shown.length;
  const rest = more > 0 ? [`And ${more} more reasons.`] : [];
  return { head: "What the page shows is not valid", text: [...shown, ...rest, ...remedies].join(" ") };
}
