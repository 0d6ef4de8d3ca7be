// SPDX-License-Identifier: Apache-2.0
// The table of TCP connections outside the schedule: open ones first, then those that ended within a minute.

/** @import { ConnectionsAnswer, FlowModel, LivingConnectionModel } from "../documents.gen.js" */

import { bytes, rate, time } from "./format.js";

/**
 * @typedef {object} Row
 * @property {string} id
 * @property {"living" | "ended" | "unfinished"} state
 * @property {string[]} cells  In the order of the table's columns.
 * @property {boolean} late  The deadline, which is the last cell, has passed.
 * @property {string} reason  Why it did not finish.
 */

/**
 * @param {ConnectionsAnswer} connections
 * @param {number} now
 * @returns {Row[]}
 */
export function connectionRows({ living, ended }, now) {
  return [...living.map((connection) => livingRow(connection, now)), ...ended.map(endedRow)];
}

/** @param {ConnectionsAnswer} connections */
export function connectionSummary({ living, ended, lost }) {
  return `${living.length} open, ${ended.length} ended${lost ? `, ${lost} missed` : ""}`;
}

/**
 * @param {LivingConnectionModel} connection
 * @param {number} now
 * @returns {Row}
 */
function livingRow(connection, now) {
  const { bytes: sent, rate_bps, started_at, deadline_at } = connection;
  const late = deadline_at !== null && deadline_at < now;
  const left = deadline_at === null ? "" : late ? "Passed" : `In ${time((deadline_at - now) * 1e6)}`;
  const figures = ["Open", bytes(sent), rate(rate_bps), time((now - started_at) * 1e6)];
  return { id: connection.id, state: "living", cells: cells(connection, figures, left), late, reason: "" };
}

/**
 * @param {FlowModel} connection
 * @returns {Row}
 */
function endedRow(connection) {
  const { id, bytes: sent, met, reason } = connection;
  const finished = connection.status === "finished";
  const us = finished ? connection.fct_us : connection.lasted_us;
  const mean = us ? rate((sent * 8e6) / us) : "";
  const figures = [finished ? "Finished" : "Unfinished", bytes(sent), mean, us === null ? "" : time(us)];
  const deadline = met === null ? "" : met ? "Met" : "Missed";
  const state = finished ? "ended" : "unfinished";
  return { id, state, cells: cells(connection, figures, deadline), late: met === false, reason };
}

/**
 * @param {LivingConnectionModel | FlowModel} connection
 * @param {string[]} figures State, bytes, rate and duration.
 * @param {string} deadline
 */
function cells(connection, figures, deadline) {
  const { src, src_port, dst, dst_port, retransmissions, srtt_us, congestion_control } = connection;
  const again = retransmissions === null ? "" : String(retransmissions);
  const roundTrip = srtt_us === null ? "" : time(srtt_us);
  const ends = [endpoint(src, src_port), endpoint(dst, dst_port)];
  return [...ends, ...figures, again, roundTrip, congestion_control, deadline];
}

/**
 * @param {string} name
 * @param {number | null} port
 */
function endpoint(name, port) {
  if (port === null) return name;
  return name.includes(":") ? `[${name}]:${port}` : `${name}:${port}`;
}
