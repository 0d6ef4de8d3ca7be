// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { Model } from "../../../../webui/static/js/pure/model.js";
import { change, fctSeries, NOW, portState, snapshot, topology, traffic } from "./documents.mjs";

/** @param {number[]} at */
const withBins = (at) => {
  const bins = {
    ...traffic(),
    fct: {
      ...traffic().fct,
      series: fctSeries(
        at,
        at.map((t) => t),
      ),
    },
  };
  return snapshot({ at: NOW, traffic: { scheduled: traffic(), watched: traffic(), all: bins } });
};

test("take: bins of snapshots overlap; the later one counts", () => {
  const model = new Model();
  model.take(withBins([NOW - 4, NOW - 2]));
  model.take(withBins([NOW - 2, NOW]));
  assert.deepEqual([...model.fct.keys()], [NOW - 4, NOW - 2, NOW]);
  assert.equal(model.fct.get(NOW)?.small.mean, NOW);
  assert.equal(model.now, NOW);
});

test("take: only the chosen flows count", () => {
  const model = new Model();
  model.source = "scheduled";
  model.take(withBins([NOW]));
  assert.equal(model.fct.size, 0);
});

test("take: what is older than the window is forgotten", () => {
  const model = new Model();
  model.mergeFct(fctSeries([NOW - 400, NOW - 10], [1, 1]));
  model.mergeMisses({ at: [NOW - 400, NOW - 10], n: [1, 1], missed: [0, 0], miss_ratio: [0, 0] });
  model.take(snapshot());
  assert.deepEqual([...model.fct.keys()], [NOW - 10]);
  assert.deepEqual([...model.misses.keys()], [NOW - 10]);
});

test("take: the threshold with which the window begins is kept", () => {
  const model = new Model();
  for (const at of [NOW - 900, NOW - 800, NOW - 100]) model.addThreshold(change(at, "s1:1", [at]));
  model.take(snapshot());
  assert.deepEqual(
    model.thresholds.get("s1:1")?.map((row) => row.at),
    [NOW - 800, NOW - 100],
  );
});

test("take: a change or a rate that is known is not added again", () => {
  const model = new Model();
  const again = snapshot({
    thresholds: { "s1:1": change(NOW - 5, "s1:1", [1]) },
    ports: { "s1:1": portState(NOW - 1, [8, 0]), "s1:2": portState(NOW - 1, null) },
  });
  model.showPort("s1:1");
  model.take(again);
  model.take(again);
  assert.equal(model.thresholds.get("s1:1")?.length, 1);
  assert.deepEqual(model.rates, [{ at: NOW - 1, rate_bps: 8, queue_rates_bps: [8, 0] }]);
  model.showPort("s1:2");
  model.take(again);
  assert.deepEqual(model.rates, []);
});

/**
 * Takes a snapshot each second, in which every port has another rate and other thresholds.
 * @param {Model} model
 * @param {number} seconds
 */
function watch(model, seconds) {
  const ports = ["s1:1", "s1:2", "s1:3"];
  const end = model.now + seconds;
  for (let at = model.now + 1; at <= end; at++) {
    const thresholds = Object.fromEntries(ports.map((port) => [port, change(at, port, [at])]));
    const rates = Object.fromEntries(ports.map((port) => [port, portState(at, [at])]));
    model.take(snapshot({ at, thresholds, ports: rates }));
  }
}

/** @param {Model} model */
const rowsKept = (model) =>
  model.fct.size + model.misses.size + model.rates.length + [...model.thresholds.values()].flat().length;

test("take: however long the page watches, it keeps no more than a window holds", () => {
  const model = new Model();
  model.snapshot = snapshot();
  model.windowS = 3_600;
  model.showPort("s1:1");
  watch(model, 4_000);
  const before = rowsKept(model);
  watch(model, 8_000);
  assert.ok(rowsKept(model) <= before + 3, `${before} rows, then ${rowsKept(model)}`);
  assert.ok((model.thresholds.get("s1:2")?.length ?? 0) <= 406);
  assert.equal(model.thresholds.get("s1:2")?.at(-1)?.at, model.now, "the newest change is kept");
});

test("take: while a range is held, nothing is added", () => {
  const model = new Model();
  model.snapshot = snapshot();
  model.showPort("s1:1");
  watch(model, 100);
  model.held = { from: NOW, to: NOW + 100 };
  const before = rowsKept(model);
  watch(model, 1_000);
  assert.equal(rowsKept(model), before);
  assert.equal(model.rates[0].at, NOW + 1, "the range's rates are not forgotten");
});

test("takeEvent: each once, the newest hundred", () => {
  const model = new Model();
  for (const id of [1, 2, 2, ...Array.from({ length: 110 }, (_, i) => i + 3)]) {
    model.takeEvent({ id, at: NOW, kind: "leading", document: {} });
  }
  assert.equal(model.events.length, 100);
  assert.deepEqual([model.events[0].id, model.events[99].id], [13, 112]);
});

test("ports: those of the network, the samples and the thresholds, in natural order", () => {
  const model = new Model();
  model.topology = topology({ leaves: 1, spines: 0, hosts: 2 });
  model.snapshot = snapshot({ ports: { "s1:10": portState(NOW, null) } });
  model.addThreshold(change(NOW, "s1:9", [1]));
  assert.deepEqual(model.ports(), ["s1:1", "s1:2", "s1:9", "s1:10"]);
  assert.equal(model.peer("s1:2"), "h2");
  assert.equal(model.peer("s1:10"), null);
  const { topology: before } = model;
  assert.ok(before);
  model.topology = { ...before, ports: before.ports.map((port) => ({ ...port, peer: "h9" })) };
  assert.equal(model.peer("s1:2"), "h9");
});

test("held: live bins do not disturb the range, and nothing in it is forgotten", () => {
  const model = new Model();
  model.held = { from: NOW - 3_000, to: NOW - 2_990 };
  assert.equal(model.binS, 0.5);
  model.mergeFct(fctSeries([NOW - 2_995], [7]));
  model.take(withBins([NOW - 4, NOW - 2]));
  assert.deepEqual([...model.fct.keys()], [NOW - 2_995]);
  model.held = null;
  model.take(withBins([NOW - 4, NOW - 2]));
  assert.deepEqual([...model.fct.keys()], [NOW - 4, NOW - 2]);
});
