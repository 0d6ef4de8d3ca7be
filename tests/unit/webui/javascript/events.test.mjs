// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { eventDetail, eventTitle } from "../../../../webui/static/js/pure/events.js";

const titleOf = (/** @type {string} */ name) => name.toUpperCase();

test("eventTitle: words in sentence case", () => {
  assert.equal(eventTitle("policy-applied"), "Policy applied");
  assert.equal(eventTitle("openflow-error"), "Openflow error");
});

test("eventDetail: scheme and version come first", () => {
  const document = { switch: "s1", version: 4, scheme: "pias" };
  assert.equal(eventDetail(document, titleOf), "PIAS · version 4 · switch s1");
});

test("eventDetail: sizes and times with their units", () => {
  const document = { host: "h2", sent_bytes: 1_200_000, duration_s: 0.95, term_s: 10 };
  assert.equal(eventDetail(document, titleOf), "host h2 · sent 1.2 MB · duration 950 ms · term 10 s");
});

test("eventDetail: lists as JSON, null by name, nothing of an empty document", () => {
  assert.equal(eventDetail({ ports: ["s1:2"], error: null }, titleOf), 'ports ["s1:2"] · error null');
  assert.equal(eventDetail({}, titleOf), "");
});
