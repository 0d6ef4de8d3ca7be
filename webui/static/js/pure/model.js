// SPDX-License-Identifier: Apache-2.0
// What the page knows: history, which history.js fetches, and the snapshots that follow it.

/** @import { DeadlineSeriesModel, EventModel, FctAnswer, FctSeriesModel } from "../documents.gen.js" */
/** @import { FlowModel, PolicyVersionModel, Port, RateModel, SchemeModel } from "../documents.gen.js" */
/** @import { SnapshotModel, ThresholdModel, TopologyModel } from "../documents.gen.js" */
/** @import { Range, Times } from "./address.js" */

import { naturally } from "./order.js";

/** @typedef {Record<FlowModel["size_class"], { n: number, mean: number | null, p99: number | null }>} FctBin */
/** @typedef {{ n: number, ratio: number | null }} MissBin */
/** @typedef {Pick<ThresholdModel, "at" | "thresholds_bytes">} Thresholds  What ports had from this time on. */

/** @type {FlowModel["size_class"][]} */
export const CLASSES = ["small", "medium", "large"];
/** Bins of the snapshots; only at this width do they continue the history. */
export const LIVE_BIN_S = 2;
const MOST_BINS = 240;
/** Bins of a range that is held: fewer, because it may hold few flows. */
const HELD_BINS = 150;
const FINEST_BIN_S = 0.5;
const MOST_EVENTS = 100;
/** Threshold changes of one port that a window keeps: a chart is not wider. */
const THRESHOLD_STEPS = 400;
const FINEST_THRESHOLD_S = 0.5;
const UNKNOWN_COLOUR = "#888888";

/** @param {Port} port */
export const portId = (port) => `${port.switch}:${port.number}`;

export class Model {
  windowS = 300;
  /** The range that the charts hold; null: they follow the clock. @type {Range | null} */
  held = null;
  /** How times are written. @type {Times} */
  times = "absolute";
  /** Whose flows the figures count. @type {FctAnswer["source"]} */
  source = "all";
  /** @type {SnapshotModel | null} */
  snapshot = null;
  /** @type {SchemeModel[]} */
  schemes = [];
  /** @type {TopologyModel | null} */
  topology = null;
  /** The newest first. @type {PolicyVersionModel[]} */
  policies = [];
  /** By the start of the bin. @type {Map<number, FctBin>} */
  fct = new Map();
  /** By the start of the bin. @type {Map<number, MissBin>} */
  misses = new Map();
  /** By port, the oldest first. @type {Map<string, Thresholds[]>} */
  thresholds = new Map();
  /** The port whose queues are shown; empty: none yet. */
  port = "";
  /** Of that port alone, the oldest first. @type {RateModel[]} */
  rates = [];
  /** The oldest first. @type {EventModel[]} */
  events = [];
  /** By port, of that topology. @type {{ of: TopologyModel | null, peers: Map<string, string> }} */
  #peers = { of: null, peers: new Map() };

  get binS() {
    if (this.held) return Math.max(FINEST_BIN_S, (this.held.to - this.held.from) / HELD_BINS);
    return Math.max(LIVE_BIN_S, this.windowS / MOST_BINS);
  }

  /** The shortest time between two threshold changes of a port that are kept. */
  get thresholdStepS() {
    const span = this.held ? this.now - this.held.from : this.windowS;
    return Math.max(FINEST_THRESHOLD_S, span / THRESHOLD_STEPS);
  }

  get now() {
    return this.snapshot ? this.snapshot.at : Date.now() / 1000;
  }

  /** @param {string} name */
  scheme(name) {
    return this.schemes.find((scheme) => scheme.name === name);
  }

  /** @param {string} name */
  titleOf(name) {
    return this.scheme(name)?.title ?? name;
  }

  /** @param {string} name */
  colourOf(name) {
    return this.scheme(name)?.colour ?? UNKNOWN_COLOUR;
  }

  /**
   * Shows another port. Its rates must be fetched.
   * @param {string} port
   */
  showPort(port) {
    if (port !== this.port) this.rates = [];
    this.port = port;
  }

  /**
   * Continues the history. A range that is held stays as it is.
   * @param {SnapshotModel} snapshot
   */
  take(snapshot) {
    this.snapshot = snapshot;
    if (this.held) return;
    if (this.binS === LIVE_BIN_S) {
      const { fct, deadlines } = snapshot.traffic[this.source];
      this.mergeFct(fct.series);
      this.mergeMisses(deadlines.series);
    }
    for (const change of Object.values(snapshot.thresholds)) this.addThreshold(change);
    this.#addRate(snapshot);
    this.forget(snapshot.at - this.windowS - 2 * this.binS);
  }

  /**
   * Returns whether the event is new.
   * @param {EventModel} event
   */
  takeEvent(event) {
    if (this.events.some((known) => known.id === event.id)) return false;
    this.events.push(event);
    if (this.events.length > MOST_EVENTS) this.events.shift();
    return true;
  }

  /** @param {FctSeriesModel} series */
  mergeFct(series) {
    series.at.forEach((at, i) => {
      /** @param {FlowModel["size_class"]} name */
      const bin = (name) => ({ n: series[name].n[i], mean: series[name].mean[i], p99: series[name].p99[i] });
      this.fct.set(at, { small: bin("small"), medium: bin("medium"), large: bin("large") });
    });
  }

  /** @param {DeadlineSeriesModel} series */
  mergeMisses(series) {
    series.at.forEach((at, i) => {
      this.misses.set(at, { n: series.n[i], ratio: series.miss_ratio[i] });
    });
  }

  /**
   * Adds the change unless it is known. The later of two within one step counts.
   * @param {ThresholdModel} change
   */
  addThreshold({ port, at, thresholds_bytes }) {
    const list = this.thresholds.get(port) ?? [];
    const last = list[list.length - 1]?.at ?? Number.NEGATIVE_INFINITY;
    if (at <= last) return;
    const step = this.thresholdStepS;
    if (Math.floor(at / step) === Math.floor(last / step)) list.pop();
    list.push({ at, thresholds_bytes });
    this.thresholds.set(port, list);
  }

  /** @param {SnapshotModel} snapshot */
  #addRate({ ports }) {
    const { at, rate_bps, queue_rates_bps } = ports[this.port] ?? { rate_bps: null };
    const last = this.rates[this.rates.length - 1]?.at ?? 0;
    if (rate_bps !== null && queue_rates_bps !== null && at > last)
      this.rates.push({ at, rate_bps, queue_rates_bps });
  }

  /** @param {number} before */
  forget(before) {
    for (const bins of [this.fct, this.misses])
      for (const at of bins.keys()) if (at < before) bins.delete(at);
    while (this.rates.length && this.rates[0].at < before) this.rates.shift();
    for (const [port, list] of this.thresholds) {
      // The last change before the window stays, because it holds when the window begins.
      while (list.length > 1 && list[1].at < before) list.shift();
      if (!(port in (this.snapshot?.thresholds ?? {})) && list[0].at < before && list.length === 1)
        this.thresholds.delete(port);
    }
  }

  /**
   * Policy changes after this time, the oldest first: when each took effect, and its scheme.
   * @param {number} from
   */
  marks(from = this.now - this.windowS) {
    return this.policies
      .filter((row) => row.state !== "pending")
      .map((row) => ({ at: row.applied_at ?? row.created_at, scheme: row.policy.scheme }))
      .filter((mark) => mark.at >= from)
      .sort((a, b) => a.at - b.at);
  }

  /** Names of all ports, in natural order. */
  ports() {
    const known = new Set([...Object.keys(this.snapshot?.ports ?? {}), ...this.thresholds.keys()]);
    for (const port of this.topology?.ports ?? []) known.add(portId(port));
    return [...known].sort(naturally);
  }

  /**
   * The node at the other end of a port.
   * @param {string} id
   */
  peer(id) {
    if (this.#peers.of !== this.topology) {
      const ports = this.topology?.ports ?? [];
      this.#peers = { of: this.topology, peers: new Map(ports.map((port) => [portId(port), port.peer])) };
    }
    return this.#peers.peers.get(id) ?? null;
  }
}
