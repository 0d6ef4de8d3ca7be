// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { NO_FILTER, readState, START, writeState } from "../../../../webui/static/js/pure/address.js";

test("an address without a query is the start, and the start needs no query", () => {
  assert.deepEqual(readState(""), START);
  assert.equal(writeState(START), "");
});

test("every part of the state survives", () => {
  /** @type {import("../../../../webui/static/js/pure/address.js").State} */
  const state = {
    host: "h3",
    windowS: 900,
    traffic: "watched",
    thresholds: "s1:2",
    queues: "s2:1",
    range: { from: 1_700_000_000.5, to: 1_700_000_060.5 },
    times: "relative",
    filter: {
      host: "fd00::7",
      size_class: "large",
      scheme: "pias",
      status: "active",
      met: "false",
      source: "watched",
      label: "shuffle & sort=1 #2",
    },
    sort: { column: "fct", descending: true },
    before: 12_345,
  };
  assert.deepEqual(readState(writeState(state)), state);
  const ascending = { ...START, sort: { column: "started", descending: false } };
  assert.deepEqual(readState(writeState(ascending)), ascending);
});

test("keys of others stay, and own keys are replaced", () => {
  assert.equal(writeState({ ...START, host: "h1" }, "?other=7&host=h2&before=3"), "?other=7&host=h1");
});

test("what an address may not say counts as not given", () => {
  const wrong = [
    "host=<b>",
    "window=7",
    "queues=:",
    "from=1",
    "from=9&to=3",
    "from=0&to=99999999999",
    "times=never",
    "flow-host=a%20b",
    "flow-size-class=tiny",
    "flow-label=%00",
    "sort=-colour",
    "before=-1",
    "before=9e99",
  ];
  for (const query of wrong) assert.deepEqual(readState(`?${query}`), START, query);
  assert.deepEqual(readState("?flow-met=maybe").filter, NO_FILTER);
});
