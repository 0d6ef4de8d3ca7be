// SPDX-License-Identifier: Apache-2.0
// What the page knows: history from the API, kept going by snapshots. No DOM here.

import { get } from "../api.js";

export const CLASSES = ["small", "medium", "large"];
const LIVE_BIN_S = 2;
const PORT_MEMORY_S = 3700;

export class Model {
  constructor() {
    this.windowS = 300;
    this.snapshot = null;
    this.schemes = [];
    this.topology = null;
    this.policies = [];
    this.fct = new Map();
    this.misses = new Map();
    this.thresholds = new Map();
    this.rates = new Map();
    this.events = [];
  }

  get binS() {
    return Math.max(LIVE_BIN_S, this.windowS / 240);
  }

  get now() {
    return this.snapshot ? this.snapshot.at : Date.now() / 1000;
  }

  scheme(name) {
    return this.schemes.find((scheme) => scheme.name === name) || { name, title: name, colour: "#888888" };
  }

  async loadNetwork() {
    const [schemes, topology] = await Promise.all([get("schemes"), get("topology")]);
    this.schemes = schemes.schemes;
    this.topology = topology.topology;
  }

  async loadPolicies() {
    this.policies = (await get("policy", { limit: 200 })).history;
  }

  async loadFigures() {
    const query = { window_s: this.windowS, bin_s: this.binS };
    const [fct, misses] = await Promise.all([get("fct", query), get("deadlines", query)]);
    this.fct.clear();
    this.misses.clear();
    this.mergeFct(fct.series);
    this.mergeMisses(misses.series);
  }

  async loadThresholds() {
    const since = Date.now() / 1000 - this.windowS;
    const answer = await get("thresholds", { since, resolution_s: Math.max(0.5, this.windowS / 400) });
    this.thresholds.clear();
    for (const change of answer.history) this.addThreshold(change);
    for (const change of Object.values(answer.now)) this.addThreshold(change);
  }

  async loadRates(port) {
    if (!port) return;
    const answer = await get("ports", { since: Date.now() / 1000 - this.windowS, port });
    this.rates.set(port, answer.history[port] || []);
  }

  take(snapshot) {
    this.snapshot = snapshot;
    if (this.binS === LIVE_BIN_S) {
      this.mergeFct(snapshot.fct.series);
      this.mergeMisses(snapshot.deadlines.series);
    }
    for (const change of Object.values(snapshot.thresholds)) this.addThreshold(change);
    for (const [port, row] of Object.entries(snapshot.ports)) this.addRate(port, row);
    this.forget(snapshot.at - this.windowS - 2 * this.binS);
  }

  takeEvent(event) {
    if (this.events.some((known) => known.id === event.id)) return;
    this.events.push(event);
    if (this.events.length > 100) this.events.shift();
  }

  mergeFct(series) {
    series.at.forEach((at, i) => {
      const bin = {};
      for (const name of CLASSES) {
        bin[name] = { n: series[name].n[i], mean: series[name].mean[i], p99: series[name].p99[i] };
      }
      this.fct.set(at, bin);
    });
  }

  mergeMisses(series) {
    series.at.forEach((at, i) => {
      this.misses.set(at, { n: series.n[i], ratio: series.miss_ratio[i] });
    });
  }

  addThreshold(change) {
    const list = this.thresholds.get(change.port) || [];
    const last = list[list.length - 1];
    if (!last || change.at > last.at) list.push(change);
    this.thresholds.set(change.port, list);
  }

  addRate(port, row) {
    if (row.rate_bps === null) return;
    const list = this.rates.get(port) || [];
    const last = list[list.length - 1];
    if (!last || row.at > last.at)
      list.push({ at: row.at, rate_bps: row.rate_bps, queue_rates_bps: row.queue_rates_bps });
    while (list.length && list[0].at < row.at - PORT_MEMORY_S) list.shift();
    this.rates.set(port, list);
  }

  forget(before) {
    for (const bins of [this.fct, this.misses])
      for (const at of bins.keys()) if (at < before) bins.delete(at);
    // The change before the window is the value with which the window begins.
    for (const list of this.thresholds.values()) while (list.length > 1 && list[1].at < before) list.shift();
  }

  /** Policy changes in the window, oldest first: when they took effect, and under which scheme. */
  marks() {
    const from = this.now - this.windowS;
    return this.policies
      .map((row) => ({
        at: row.applied_at ?? row.created_at,
        version: row.version,
        state: row.state,
        scheme: row.policy.scheme,
      }))
      .filter((mark) => mark.at >= from && mark.state !== "pending")
      .sort((a, b) => a.at - b.at);
  }

  ports() {
    const known = new Set([...Object.keys(this.snapshot?.ports || {}), ...this.thresholds.keys()]);
    for (const port of this.topology?.ports || []) known.add(`${port.switch}:${port.number}`);
    return [...known].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  }

  peer(id) {
    const port = (this.topology?.ports || []).find((p) => `${p.switch}:${p.number}` === id);
    return port ? port.peer : null;
  }
}
