// SPDX-License-Identifier: Apache-2.0

/** @import { ClassesAnswer } from "../../../../webui/static/js/documents.gen.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { classRows, isScaled } from "../../../../webui/static/js/pure/classes.js";

/**
 * @param {Partial<ClassesAnswer["seen"]>} seen
 * @returns {ClassesAnswer}
 */
const classes = (seen) => ({
  limits_bytes: [100_000, 10_000_000],
  seen: { small: null, medium: null, large: null, ...seen },
});

/**
 * @param {number} least_bytes
 * @param {number} most_bytes
 */
const seen = (least_bytes, most_bytes) => ({ n: 2, least_bytes, most_bytes });

test("classRows: the limits, and the sizes that flows have", () => {
  assert.deepEqual(classRows(classes({ small: seen(60, 1_900) })), [
    { name: "Small", limits: "up to 100 KB", seen: "60 B to 1.9 KB" },
    { name: "Medium", limits: "up to 10 MB", seen: "none" },
    { name: "Large", limits: "over 10 MB", seen: "none" },
  ]);
});

test("isScaled: only if a flow contradicts the limits", () => {
  assert.equal(isScaled(classes({})), false);
  assert.equal(
    isScaled(classes({ small: seen(1, 100_000), medium: seen(100_001, 1e7), large: seen(1e8, 1e9) })),
    false,
  );
  assert.equal(isScaled(classes({ medium: seen(2_100, 150_000) })), true);
  assert.equal(isScaled(classes({ large: seen(210_000, 1e9) })), true);
  assert.equal(isScaled(classes({ small: seen(60, 150_000) })), true);
});
