// SPDX-License-Identifier: Apache-2.0

/** @import { CaptureAnswer } from "../../../../webui/static/js/types.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { captureText, fileName } from "../../../../webui/static/js/pure/captures.js";

/**
 * @param {Partial<CaptureAnswer>} different
 * @returns {CaptureAnswer}
 */
const capture = (different) => ({
  id: "0123456789abcdef",
  port: "s1:2",
  agent: "ports",
  seconds: 5,
  bytes: 1_000_000,
  snap_bytes: 128,
  by: "owner",
  address: "127.0.0.1",
  at: 1,
  state: "done",
  problem: "",
  packets: 30,
  lost: 0,
  full: false,
  size: 4_344,
  ...different,
});

test("captureText: while it runs, when it is done, and when it failed", () => {
  assert.equal(captureText(capture({ state: "running" })), "Capturing for 5 s…");
  assert.equal(captureText(capture({})), "30 packets, 4.34 KB, the first 128 bytes of each.");
  const failed = capture({ state: "failed", problem: "tcpdump is missing" });
  assert.equal(captureText(failed), "No packets: tcpdump is missing.");
});

test("captureText: what the file does not have", () => {
  const text = captureText(capture({ full: true, lost: 7 }));
  assert.match(text, /The size ended the capture before its time\. 7 packets are missing/);
});

test("fileName: only a plain name is taken from the header", () => {
  assert.equal(fileName('attachment; filename="s1-2-20260101T120000Z.pcap"'), "s1-2-20260101T120000Z.pcap");
  assert.equal(fileName('attachment; filename="../../x"'), "capture.pcap");
  assert.equal(fileName(null), "capture.pcap");
});
