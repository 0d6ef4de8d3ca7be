// SPDX-License-Identifier: Apache-2.0
// What the page shows, as the query of its address: it survives a reload and can be sent to someone. An
// invalid value counts as not given. Keys of others stay.

/** @import { FctAnswer } from "../documents.gen.js" */

/** @typedef {{ from: number, to: number }} Range  Epoch seconds. */
/** @typedef {"absolute" | "relative"} Times */
/** @typedef {{ column: string, descending: boolean }} Sort */

/**
 * Which flows the list shows; empty: any.
 * @typedef {object} Filter
 * @property {string} host
 * @property {string} size_class
 * @property {string} scheme
 * @property {string} status
 * @property {string} met
 * @property {string} source
 * @property {string} label
 */

/**
 * @typedef {object} State
 * @property {string} host  The host of the host view; empty: none.
 * @property {number} windowS
 * @property {FctAnswer["source"]} traffic
 * @property {string} thresholds  The port of this chart; empty: all ports.
 * @property {string} queues  The port of this chart; empty: the page chooses.
 * @property {Range | null} range  The time that the charts hold; null: they follow the clock.
 * @property {Times} times
 * @property {Filter} filter
 * @property {Sort} sort
 * @property {number | null} before  Where the page of the flow list begins; null: with the newest flow.
 */

export const WINDOWS_S = [120, 300, 900, 3600];
/** The longest range, a day, which is also the longest window of the API. */
export const LONGEST_S = 86_400;
export const SHORTEST_S = 2;
export const COLUMNS = [
  "started",
  "src",
  "dst",
  "size_class",
  "bytes",
  "fct",
  "slowdown",
  "deadline",
  "srtt",
  "retransmissions",
  "control",
  "scheme",
  "status",
  "source",
  "label",
];
/** @type {Filter} */
export const NO_FILTER = {
  host: "",
  size_class: "",
  scheme: "",
  status: "",
  met: "",
  source: "",
  label: "",
};
/** @type {State} */
export const START = {
  host: "",
  windowS: 300,
  traffic: "all",
  thresholds: "",
  queues: "",
  range: null,
  times: "absolute",
  filter: NO_FILTER,
  sort: { column: "started", descending: true },
  before: null,
};

const NAME = /^[A-Za-z0-9._:-]{1,64}$/;
const PORT = /^[A-Za-z0-9._-]{1,64}:[0-9]{1,9}$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a label has none.
const LABEL = /^[^\u0000-\u001f\u007f]{1,64}$/;
/** What each part of the filter may be. @type {Record<keyof Filter, RegExp>} */
const FILTERS = {
  host: NAME,
  size_class: /^(small|medium|large)$/,
  scheme: /^[A-Za-z0-9._+-]{1,64}$/,
  status: /^(active|finished|unfinished)$/,
  met: /^(true|false)$/,
  source: /^(scheduled|watched|background)$/,
  label: LABEL,
};
const KEYS = ["host", "window", "traffic", "thresholds", "queues", "from", "to", "times", "sort", "before"];
const LATEST_S = 1e11;

/** @param {keyof Filter} name */
const filterKey = (name) => `flow-${name.replace("_", "-")}`;
const FILTER_NAMES = /** @type {(keyof Filter)[]} */ (Object.keys(FILTERS));

/**
 * @param {string} search The query of an address.
 * @returns {State}
 */
export function readState(search) {
  const query = new URLSearchParams(search);
  /** @type {(key: string, allowed: RegExp) => string} */
  const text = (key, allowed) => {
    const value = query.get(key) ?? "";
    return allowed.test(value) ? value : "";
  };
  const windowS = Number(query.get("window"));
  const before = Number(text("before", /^[0-9]{1,15}$/));
  return {
    host: text("host", NAME),
    windowS: WINDOWS_S.includes(windowS) ? windowS : START.windowS,
    traffic: /** @type {FctAnswer["source"]} */ (
      text("traffic", /^(all|watched|scheduled)$/) || START.traffic
    ),
    thresholds: text("thresholds", PORT),
    queues: text("queues", PORT),
    range: readRange(query),
    times: text("times", /^relative$/) ? "relative" : "absolute",
    filter: readFilter(text),
    sort: readSort(query.get("sort") ?? ""),
    before: before || null,
  };
}

/** @param {(key: string, allowed: RegExp) => string} text */
function readFilter(text) {
  const filter = { ...NO_FILTER };
  for (const name of FILTER_NAMES) filter[name] = text(filterKey(name), FILTERS[name]);
  return filter;
}

/**
 * @param {URLSearchParams} query
 * @returns {Range | null}
 */
function readRange(query) {
  const [from, to] = ["from", "to"].map((key) => Number(query.get(key) ?? NaN));
  const valid = from > 0 && to <= LATEST_S && to - from >= SHORTEST_S && to - from <= LONGEST_S;
  return valid ? { from, to } : null;
}

/**
 * @param {string} text A column, after "-" if the largest value comes first.
 * @returns {Sort}
 */
function readSort(text) {
  const column = text.replace(/^-/, "");
  return COLUMNS.includes(column) ? { column, descending: text.startsWith("-") } : START.sort;
}

/**
 * The query of an address that shows this state, with the keys of others in `search`; empty at the start.
 * @param {State} state
 * @param {string} search
 */
export function writeState(state, search = "") {
  const query = new URLSearchParams(search);
  for (const key of [...KEYS, ...FILTER_NAMES.map(filterKey)]) query.delete(key);
  const { sort, range } = state;
  const sorted = (sort.descending ? "-" : "") + sort.column;
  /** @type {[string, string | number | null, string | number | null][]} */
  const entries = [
    ["host", state.host, ""],
    ["window", state.windowS, START.windowS],
    ["traffic", state.traffic, START.traffic],
    ["thresholds", state.thresholds, ""],
    ["queues", state.queues, ""],
    ["from", range?.from.toFixed(1) ?? null, null],
    ["to", range?.to.toFixed(1) ?? null, null],
    ["times", state.times, START.times],
    ...FILTER_NAMES.map(
      (name) => /** @type {[string, string, string]} */ ([filterKey(name), state.filter[name], ""]),
    ),
    ["sort", sorted, "-started"],
    ["before", state.before, null],
  ];
  for (const [key, value, usual] of entries) if (value !== usual) query.set(key, String(value));
  const text = query.toString();
  return text && `?${text}`;
}
