// SPDX-License-Identifier: Apache-2.0
// Fetches into the model what happened before the page was opened.

/** @import { Model } from "./pure/model.js" */
/** @import { DeadlinesAnswer, FctAnswer, PolicyAnswer, PortsAnswer, SchemesAnswer } from "./types.js" */
/** @import { ThresholdsAnswer, TopologyAnswer } from "./types.js" */

import { get } from "./api.js";

const MOST_POLICIES = 200;
/** Threshold changes of one port that the chart can show side by side. */
const THRESHOLD_STEPS = 400;
const FINEST_THRESHOLD_S = 0.5;

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
  const span = Date.now() / 1000 - windowStart(model);
  const resolution_s = Math.max(FINEST_THRESHOLD_S, span / THRESHOLD_STEPS);
  /** @type {ThresholdsAnswer} */
  const answer = await get("thresholds", { since: windowStart(model), resolution_s });
  model.thresholds.clear();
  for (const change of answer.history) model.addThreshold(change);
  for (const change of Object.values(answer.now)) model.addThreshold(change);
}

/**
 * @param {Model} model
 * @param {string} port Empty: none is chosen yet.
 */
export async function loadRates(model, port) {
  if (!port) return;
  /** @type {PortsAnswer} */
  const answer = await get("ports", { since: windowStart(model), port });
  model.rates.set(port, answer.history[port] ?? []);
}

/**
 * Everything that the charts show.
 * @param {Model} model
 * @param {string} port The port whose queues are shown.
 */
export async function loadHistory(model, port) {
  await Promise.all([loadPolicies(model), loadFigures(model), loadThresholds(model), loadRates(model, port)]);
}

/** @param {Model} model */
const windowStart = (model) => model.held?.from ?? Date.now() / 1000 - model.windowS;
