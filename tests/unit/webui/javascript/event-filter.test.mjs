// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { filterOf, passes, severityOf, withFilter } from "../../../../webui/static/js/pure/event-filter.js";

const ALL = { kind: "", severity: "", where: "", text: "" };

/**
 * @param {string} kind
 * @param {Record<string, unknown>} document
 */
const event = (kind, document = {}) => ({ id: 1, at: 1, kind, document });

test("filterOf: the filter of an address is the one that was written into it", () => {
  const filter = { kind: "host-demoted", severity: "problem", where: "s1:2", text: "a & b=c" };
  const search = withFilter("?window=300", filter);
  assert.deepEqual(filterOf(search), filter);
  assert.equal(new URLSearchParams(search).get("window"), "300");
  assert.equal(withFilter(search, ALL), "?window=300");
  assert.equal(withFilter("", ALL), "");
  assert.deepEqual(filterOf(""), ALL);
});

test("passes: by kind, and by the least severity", () => {
  const demoted = event("host-demoted");
  assert.ok(passes(ALL, demoted, ""));
  assert.ok(passes({ ...ALL, kind: "host-demoted" }, demoted, ""));
  assert.ok(!passes({ ...ALL, kind: "host-restored" }, demoted, ""));
  assert.deepEqual(["host-demoted", "agent-expired", "policy-applied"].map(severityOf), [
    "problem",
    "warning",
    "note",
  ]);
  for (const [severity, kinds] of [
    ["problem", [true, false, false]],
    ["warning", [true, true, false]],
    ["note", [true, true, true]],
    ["no-such-word", [true, true, true]],
  ])
    assert.deepEqual(
      ["host-demoted", "agent-expired", "policy-applied"].map((kind) =>
        passes({ ...ALL, severity: String(severity) }, event(kind), ""),
      ),
      kinds,
    );
});

test("passes: a switch includes its ports, but not a switch whose name begins alike", () => {
  const where = (/** @type {string} */ place) => ({ ...ALL, where: place });
  const demoted = event("host-demoted", { port: "s1:2", host: "h2" });
  for (const place of ["s1", "S1:2", " h2 "]) assert.ok(passes(where(place), demoted, ""), place);
  for (const place of ["s", "s2", "s1:", "s1:22", "h"]) assert.ok(!passes(where(place), demoted, ""), place);
  assert.ok(!passes(where("s1"), event("switch-connected", { switch: "s10" }), ""));
});
