// SPDX-License-Identifier: Apache-2.0
// What the page says about a network that is simulated.

/** @import { LiveHealthModel } from "../documents.gen.js" */

/** A factor below this is real time, within the precision of the figure. */
const SLOW = 1.05;

/**
 * The label, empty if the network is real, and its explanation.
 * @param {Pick<LiveHealthModel, "fabric" | "dilation">} health
 */
export function fabricNote({ fabric, dilation }) {
  if (fabric !== "simulator") return { text: "", title: "" };
  const slow = dilation !== null && dilation >= SLOW;
  return {
    text: slow ? `Simulated, ${dilation.toFixed(1)}× slower` : "Simulated",
    title: slow
      ? "The machine is too slow for real time. Completion times are simulated time. Rates are for each second of the wall clock."
      : "A simulated network in real time.",
  };
}
