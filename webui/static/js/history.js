// SPDX-License-Identifier: Apache-2.0
// Fetches into the model what happened before the page was opened.

/** @import { Range } from "./pure/address.js" */
/** @import { Model } from "./pure/model.js" */
/** @import { DeadlinesAnswer, FctAnswer, PolicyAnswer, PortsAnswer } from "./documents.gen.js" */
/** @import { SchemesAnswer, ThresholdsAnswer, TopologyAnswer } from "./documents.gen.js" */

import { get } from "./api.js";

const MOST_POLICIES = 200;

/** @param {Model} model */
export async function loadNetwork(model) {
  /** @type {[SchemesAnswer, TopologyAnswer]} */
  const [{ schemes }, { topology }] = await Promise.all([get("schemes"), get("topology")]);
  model.schemes = schemes;
  model.topology = topology;
}

/** @param {Model} model */
export async function loadPolicies(model) {
  /** @type {PolicyAnswer} */
  const answer = await get("policy", { limit: MOST_POLICIES });
  model.policies = answer.history;
}

/** @param {Model} model */
export async function loadFigures(model) {
  const { held, source } = model;
  /** @type {Record<string, string | number>} */
  const query = { window_s: model.windowS, bin_s: model.binS, source };
  if (held) Object.assign(query, { window_s: held.to - held.from, until: held.to });
  /** @type {[FctAnswer, DeadlinesAnswer]} */
  const [fct, misses] = await Promise.all([get("fct", query), get("deadlines", query)]);
  if (model.held !== held || model.source !== source) return; // a later request has the answer
  model.fct.clear();
  model.misses.clear();
  if (fct.series) model.mergeFct(fct.series);
  if (misses.series) model.mergeMisses(misses.series);
}

/** @param {Model} model */
async function loadThresholds(model) {
  const { held, thresholdStepS: resolution_s } = model;
  /** @type {ThresholdsAnswer} */
  const answer = await get("thresholds", { since: windowStart(model), resolution_s });
  if (model.held !== held) return;
  model.thresholds.clear();
  const changes = [...answer.history, ...Object.values(answer.now)];
  for (const change of changes.filter(shown(held))) model.addThreshold(change);
}

/** @param {Model} model */
export async function loadRates(model) {
  const { held, port } = model;
  if (!port) return;
  /** @type {PortsAnswer} */
  const answer = await get("ports", { since: windowStart(model), port });
  if (model.held === held && model.port === port)
    model.rates = (answer.history[port] ?? []).filter(shown(held));
}

/**
 * Everything that the charts show.
 * @param {Model} model
 */
export async function loadHistory(model) {
  await Promise.all([loadPolicies(model), loadFigures(model), loadThresholds(model), loadRates(model)]);
}

/**
 * Whether the charts show a row of this time: none after a range that is held.
 * @type {(held: Range | null) => (row: { at: number }) => boolean}
 */
const shown =
  (held) =>
  ({ at }) =>
    !held || at <= held.to;

/** @param {Model} model */
const windowStart = (model) => model.held?.from ?? Date.now() / 1000 - model.windowS;
