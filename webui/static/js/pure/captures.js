// SPDX-License-Identifier: Apache-2.0
// What the page says of a capture.

/** @import { CaptureAnswer } from "../types.js" */

import { bytes, time } from "./format.js";

/** @param {CaptureAnswer} capture */
export function captureText(capture) {
  const { state, problem, seconds, packets, lost, full, size, snap_bytes } = capture;
  if (state === "running") return `Capturing for ${time(seconds * 1e6)}…`;
  if (state === "failed") return `No packets: ${problem}.`;
  const parts = [`${packets} packets, ${bytes(size)}, the first ${snap_bytes} bytes of each.`];
  if (full) parts.push("The size ended the capture before its time.");
  if (lost) parts.push(`${lost} packets are missing, because the machine was too busy.`);
  return parts.join(" ");
}

/**
 * The name in a Content-Disposition header.
 * @param {string | null} header
 */
export const fileName = (header) => /filename="([\w.-]+)"/.exec(header ?? "")?.[1] ?? "capture.pcap";
