// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";
import { HEADINGS, scoreCurves, scoreRows } from "../../../../webui/static/js/pure/scoreboard.js";

/** @import { ClassScoreModel, ComparedModel } from "../../../../webui/static/js/documents.gen.js" */
/** @import { EstimateModel, ScoreboardAnswer } from "../../../../webui/static/js/documents.gen.js" */
/** @import { VersionScoreModel } from "../../../../webui/static/js/documents.gen.js" */

/** @type {(value: number | null, against?: ComparedModel | null) => EstimateModel} */
const figure = (value, against = null) => ({
  value,
  low: value && value * 0.9,
  high: value && value * 1.1,
  against,
});
const none = figure(null);
const cdf = { us: [100, 1000, 10_000], share: [0.1, 0.5, 1] };
const empty = { us: [], share: [] };
/** @type {(mean: EstimateModel, curve: ClassScoreModel["cdf"]) => ClassScoreModel} */
const classOf = (mean, curve) => ({ n: 1, mean_us: mean, p99_us: none, slowdown: none, cdf: curve });

/** @type {(version: number, scheme: string, small: number, against?: ComparedModel | null) => VersionScoreModel} */
const score = (version, scheme, small, against = null) => ({
  version,
  scheme,
  since: 0,
  until: null,
  flows: 40,
  unfinished: 0,
  deadlines: 0,
  missed: 0,
  retransmissions: 7,
  classes: {
    small: classOf(figure(small, against), cdf),
    medium: classOf(none, empty),
    large: classOf(none, empty),
    all: classOf(none, empty),
  },
  miss_ratio: none,
  retransmissions_per_flow: figure(0.2),
});

/** @type {ComparedModel} */
const better = { ratio: 0.5, low: 0.4, high: 0.6, verdict: "better", detectable: 0.1 };
/** @type {ScoreboardAnswer} */
const BOARD = {
  source: "all",
  against: 1,
  confidence_percent: 95,
  versions: [score(1, "dctcp", 4000), score(2, "pias", 2000, better)],
};

test("scoreRows: a cell for each heading, the ratio with its sign", () => {
  const [base, other] = scoreRows(BOARD);
  assert.equal(base.cells.length, HEADINGS.length);
  assert.deepEqual([base.base, other.base], [true, false]);
  assert.equal(base.cells[0].text, "4 ms");
  assert.equal(base.cells[0].ratio, "");
  assert.deepEqual([other.cells[0].text, other.cells[0].ratio], ["2 ms", "×0.50▼"]);
  assert.match(other.cells[0].title, /^1 flows; 95 % interval 1.8 ms to 2.2 ms; better/);
  assert.equal(other.cells[1].text, "–");
  assert.equal(other.cells.at(-1)?.text, "7");
});

test("scoreCurves: from the fastest flow to the share that is shown", () => {
  const { curves, low, high } = scoreCurves(BOARD, "small", 200, 100);
  assert.deepEqual([low, high], [100, 10_000]);
  assert.equal(curves.length, 2);
  assert.equal(curves[0].path, "M0.0 90.0L100.0 50.0L200.0 0.0");
});

test("scoreCurves: of the class that is asked for", () => {
  const large = structuredClone(BOARD);
  large.versions[1].classes.large.cdf = { us: [1e6, 1e8], share: [0.5, 1] };
  const { curves, low, high } = scoreCurves(large, "large", 200, 100);
  assert.deepEqual([curves.length, curves[0].version, low, high], [1, 2, 1e6, 1e8]);
});
