// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { answerText, schemeText } from "../../../../webui/static/js/pure/policy-text.js";
import { policyVersion, SCHEMES, scheme } from "./documents.mjs";

test("schemeText: paper, queues, thresholds, congestion control", () => {
  assert.equal(
    schemeText(scheme(), 3),
    "Bai et al., NSDI 2015. 3 queues, fixed thresholds, congestion control sluice_dctcp.",
  );
  assert.match(schemeText(scheme({ threshold_rule: "none" }), 1), /One queue, no thresholds/);
});

test("schemeText: every rule for thresholds has words", () => {
  for (const known of SCHEMES) assert.doesNotMatch(schemeText(known, 2), /undefined/);
});

test("answerText: applied, pending, replaced", () => {
  const fast = policyVersion({ version: 4, created_at: 10, applied_at: 10.25 });
  assert.equal(answerText(fast), "Version 4 applied in 250 ms.");
  assert.equal(answerText({ ...fast, applied_at: 12.5 }), "Version 4 applied in 2.5 s.");
  assert.match(answerText({ ...fast, state: "pending", applied_at: null }), /^Version 4 is pending/);
  assert.match(answerText({ ...fast, state: "superseded", applied_at: null }), /^Version 4 was replaced/);
});
