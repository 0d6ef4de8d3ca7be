// SPDX-License-Identifier: Apache-2.0

/** @import { OverrideModel } from "../../../../webui/static/js/documents.gen.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { namesPort, overrideOf, portThresholds } from "../../../../webui/static/js/pure/port-thresholds.js";
import { NOW, policyVersion, SCHEMES } from "./documents.mjs";

/**
 * What the menu says of s1:2.
 * @param {string} name Scheme of the policy.
 * @param {OverrideModel[]} overrides
 */
function menu(name, overrides = [], { flows = 12, version = 1, acts_at = ["*"] } = {}) {
  const inForce = policyVersion({}, name);
  const policy = { ...inForce, policy: { ...inForce.policy, overrides, acts_at } };
  const change = {
    at: NOW,
    port: "s1:2",
    policy_version: version,
    thresholds_bytes: [10_000, 200_000],
    flows,
  };
  const scheme = SCHEMES.find((known) => known.name === name);
  return portThresholds({ policy, thresholds: { "s1:2": change } }, scheme, "s1:2");
}

test("namesPort: a port, all of its switch, all", () => {
  for (const names of [["s1:2"], ["x", "s1:*"], ["*"]]) assert.ok(namesPort(names, "s1:2"), String(names));
  for (const names of [["s1:22"], ["s11:*"], ["s1"], []]) assert.ok(!namesPort(names, "s1:2"), String(names));
});

test("overrideOf: the last one that names the port", () => {
  /** @type {OverrideModel[]} */
  const overrides = [
    { ports: ["s1:2"], thresholds: [1] },
    { ports: ["s1:*"], freeze: true },
    { ports: ["s2:*"], thresholds: [2] },
  ];
  assert.equal(overrideOf(overrides, "s1:2"), overrides[1]);
  assert.equal(overrideOf(overrides, "s3:1"), null);
});

test("portThresholds: where they come from", () => {
  assert.match(menu("adaptive").source, /^Computed by this port at \d\d:\d\d:\d\d, from 12 flows\.$/);
  assert.match(menu("adaptive", [], { flows: 0 }).source, /^The values with which Adaptive starts/);
  assert.equal(menu("pias").source, "Set by version 1 of the policy.");
  const fixed = menu("pias", [{ ports: ["s1:*"], thresholds: [1, 2] }]);
  assert.equal(fixed.source, "Fixed by hand: the override of s1:* sets them.");
  assert.match(menu("adaptive", [{ ports: ["*"], freeze: true }]).source, /^Frozen by the override of \*\./);
  assert.match(
    menu("adaptive", [], { version: 0 }).source,
    /Version 1 of the policy is not in force here yet/,
  );
});

test("portThresholds: what may change", () => {
  assert.deepEqual(
    ["tcp", "pias", "adaptive", "sluice"].map((name) => [menu(name).canFix, menu(name).canFreeze]),
    [
      [false, false],
      [true, false],
      [true, true],
      [true, true],
    ],
  );
  assert.equal(menu("tcp").source, "TCP has one queue and no thresholds.");
  const idle = menu("adaptive", [], { acts_at: ["s2:*"] });
  assert.deepEqual([idle.canFix, idle.source], [false, "The policy does not act at this port."]);
});

test("portThresholds: only an override that names the port itself can be removed here", () => {
  assert.equal(menu("adaptive", [{ ports: ["s1:*"], freeze: true }]).isOwn, false);
  assert.equal(menu("adaptive", [{ ports: ["s1:2"], freeze: true }]).isOwn, true);
});

test("portThresholds: before the first policy, and before the controller has set up the port", () => {
  assert.equal(
    portThresholds({ policy: null, thresholds: {} }, undefined, "s1:2").source,
    "There is no policy yet.",
  );
  const early = portThresholds({ policy: policyVersion(), thresholds: {} }, SCHEMES[0], "s1:2");
  assert.deepEqual([early.rows, early.source], [[], "The controller has not set up this port yet."]);
});
