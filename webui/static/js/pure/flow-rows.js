// SPDX-License-Identifier: Apache-2.0
// Flows as rows of a table: those under way and those that have ended have the same columns.

/** @import { ActiveFlowModel, FlowModel } from "../documents.gen.js" */
/** @import { Filter, Sort, Times } from "./address.js" */

import { bytes, digits, time } from "./format.js";
import { naturally } from "./order.js";
import { moment } from "./times.js";

/** @typedef {{ value: string | number | null, text: string }} Cell  `value` gives the order; null comes last. */

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {"active" | "finished" | "unfinished"} state
 * @property {boolean} late  The deadline has passed.
 * @property {string} note  What does not fit a cell.
 * @property {Record<string, Cell>} cells  By column.
 */

/** @type {Record<string, string>} */
export const TITLES = {
  started: "Started",
  src: "From",
  dst: "To",
  size_class: "Class",
  bytes: "Size",
  fct: "Time",
  slowdown: "Slowdown",
  deadline: "Deadline",
  srtt: "Round trip",
  retransmissions: "Retransmissions",
  control: "Control",
  scheme: "Scheme",
  status: "Status",
  source: "Source",
  label: "Label",
};
const CLASS_ORDER = ["small", "medium", "large"];
/** @type {Record<string, string>} */
const SOURCES = { scheduled: "Scheduled", watched: "Own", background: "Background" };

/** @type {(text: string | null) => Cell} */
const words = (text) => ({ value: text || null, text: text ?? "" });
/** @type {(value: number | null, format: (value: number) => string) => Cell} */
const number = (value, format) => ({ value, text: value === null ? "" : format(value) });

/**
 * @param {FlowModel} flow
 * @param {number} now
 * @param {Times} times
 * @returns {Row}
 */
export function endedRow(flow, now, times) {
  const { fct_us, ideal_us, deadline_us, met } = flow;
  const slowdown = fct_us === null || ideal_us === null ? null : fct_us / ideal_us;
  const finished = flow.status === "finished";
  return {
    id: flow.id,
    state: flow.status,
    late: met === false,
    note: flow.reason,
    cells: {
      ...common(flow, now, times),
      size_class: { value: CLASS_ORDER.indexOf(flow.size_class), text: flow.size_class },
      fct: number(fct_us ?? flow.lasted_us, time),
      slowdown: number(slowdown, (value) => `${digits(value)} ×`),
      deadline: number(deadline_us, (us) => `${met ? "Met" : "Missed"}, ${time(us)}`),
      scheme: words(flow.scheme),
      status: words(finished ? "Finished" : "Unfinished"),
    },
  };
}

/**
 * @param {ActiveFlowModel} flow
 * @param {number} now
 * @param {Times} times
 * @returns {Row}
 */
export function activeRow(flow, now, times) {
  const left_us = flow.deadline_at === null ? null : (flow.deadline_at - now) * 1e6;
  return {
    id: flow.id,
    state: "active",
    late: left_us !== null && left_us < 0,
    note: progress(flow),
    cells: {
      ...common(flow, now, times),
      size_class: words(""),
      fct: number(Math.max(0, now - flow.started_at) * 1e6, time),
      slowdown: words(""),
      deadline: number(left_us, (us) => (us < 0 ? "Passed" : `In ${time(us)}`)),
      scheme: words(""),
      status: words("Active"),
    },
  };
}

/** @param {ActiveFlowModel} flow */
function progress({ acked_bytes, bytes: size, rate_bps }) {
  if (rate_bps !== null) return `${digits(rate_bps / 1e6)} Mb/s`;
  if (acked_bytes === null) return "";
  return size === null
    ? `${bytes(acked_bytes)} acknowledged`
    : `${bytes(acked_bytes)} of ${bytes(size)} acknowledged`;
}

/**
 * The columns that both kinds of flows fill alike.
 * @param {ActiveFlowModel | FlowModel} flow
 * @param {number} now
 * @param {Times} times
 * @returns {Record<string, Cell>}
 */
function common(flow, now, times) {
  return {
    started: { value: flow.started_at, text: moment(flow.started_at, now, times) },
    src: words(flow.src),
    dst: words(flow.dst),
    bytes: number(flow.bytes, bytes),
    srtt: number(flow.srtt_us, time),
    retransmissions: number(flow.retransmissions, String),
    control: words(flow.congestion_control),
    source: words(SOURCES[flow.source]),
    label: words(flow.label),
  };
}

/**
 * The rows in this order. A cell without a value comes last in either direction.
 * @param {Row[]} rows
 * @param {Sort} sort
 */
export function sorted(rows, { column, descending }) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [a.cells[column].value, b.cells[column].value];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    if (typeof left === "number" && typeof right === "number") return sign * (left - right);
    return sign * naturally(String(left), String(right));
  });
}

/**
 * The order after a click on a column: largest first where that is what one looks for, else the other direction.
 * @param {Sort} sort
 * @param {string} column
 * @returns {Sort}
 */
export function toggled(sort, column) {
  if (sort.column === column) return { column, descending: !sort.descending };
  const numbers = ["started", "bytes", "fct", "slowdown", "srtt", "retransmissions"];
  return { column, descending: numbers.includes(column) };
}

/** Whether the filter lets a flow under way through. @type {(flow: ActiveFlowModel, filter: Filter) => boolean} */
export function passes(flow, filter) {
  if (filter.status && filter.status !== "active") return false;
  if (filter.size_class || filter.scheme || filter.met) return false; // not known before the end
  if (filter.source && filter.source !== flow.source) return false;
  if (filter.label && filter.label !== flow.label) return false;
  return !filter.host || [flow.src, flow.dst].includes(filter.host);
}

/**
 * The query for a page of ended flows; null if the filter lets none through.
 * @param {Filter} filter
 * @param {number | null} before
 * @param {number} limit
 */
export function query(filter, before, limit) {
  if (filter.status === "active") return null;
  const given = Object.entries(filter).filter(([, value]) => value);
  return Object.fromEntries([...given, ["limit", limit], ...(before === null ? [] : [["before", before]])]);
}
