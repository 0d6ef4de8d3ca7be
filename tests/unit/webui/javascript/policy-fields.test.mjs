// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { applies, placeholder } from "../../../../webui/static/js/pure/field-values.js";
import { policyFields } from "../../../../webui/static/js/pure/policy-fields.js";
import { policyVersion, SCHEMES } from "./documents.mjs";

const FIELDS = policyFields(SCHEMES);

/** @param {string} scheme */
const offered = (scheme) => FIELDS.filter((field) => applies(field, scheme));

/** @param {string} scheme */
const names = (scheme) => offered(scheme).map((field) => field.name);

/**
 * @param {string} scheme
 * @param {import("../../../../webui/static/js/types.js").Policy | null} inForce
 */
const placeholders = (scheme, inForce) =>
  Object.fromEntries(
    offered(scheme).map((field) => [field.name, placeholder(field, scheme, inForce && { ...inForce })]),
  );

test("policyFields: each scheme's own", () => {
  assert.deepEqual(names("tcp"), []);
  assert.deepEqual(names("hull"), ["mark_at"]);
  assert.deepEqual(names("datcp"), ["mark_min", "mark_max"]);
  assert.deepEqual(names("pias"), ["queues", "mark_at", "thresholds"]);
  assert.deepEqual(names("sluice"), ["queues", "mark_at", "thresholds", "window_ms", "interval_ms"]);
  const adaptive = ["queues", "mark_at", "thresholds", "percentiles", "window_ms", "interval_ms"];
  assert.deepEqual(names("adaptive"), adaptive);
});

test("policyFields: defaults of the scheme", () => {
  assert.deepEqual(placeholders("adaptive", null), {
    queues: "3",
    mark_at: "97.5 KB",
    thresholds: "20 KB, 1 MB",
    percentiles: "10, 20",
    window_ms: "500",
    interval_ms: "100",
  });
  assert.deepEqual(placeholders("datcp", null), { mark_min: "80 KB", mark_max: "120 KB" });
});

test("policyFields: the names are those of the policy in force", () => {
  const { policy } = policyVersion();
  assert.equal(placeholders("pias", { ...policy, queues: 2, thresholds: [5_000] }).thresholds, "5 KB");
  for (const { name } of FIELDS) assert.ok(name in policy, name);
});

test("policyFields: every field is explained and has bounds", () => {
  for (const { title, help, low, high } of FIELDS) {
    assert.ok(title && help);
    assert.ok(low !== null && high !== null && low < high);
  }
});
