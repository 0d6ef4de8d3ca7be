// SPDX-License-Identifier: Apache-2.0
// What is wrong with a link: it is down, or slower than the others of its kind, or the controller reports a problem.

/** @import { Port, ProblemModel, TopologyModel } from "../documents.gen.js" */

import { rate, time } from "./format.js";
import { portId } from "./model.js";

/** @typedef {"" | "down" | "impaired"} LinkState */
/** @typedef {{ state: LinkState, reasons: string[] }} LinkCondition */
/** @typedef {{ rate_bps: number | null, delay_ns: number | null }} Usual */

const DOWN = new Set(["link-down", "uplink-down", "port-down"]);

/**
 * The condition of each port's link, by the port's id. Only links with something to say are in it.
 * @param {TopologyModel} topology
 * @param {ProblemModel[]} problems
 * @returns {Map<string, LinkCondition>}
 */
export function linkConditions(topology, problems) {
  const usual = { edge: usualOf(topology, true), core: usualOf(topology, false) };
  /** @param {string} place */
  const reported = (place) => problems.filter(({ where }) => where === place);
  /** @type {[string, LinkCondition][]} */
  const found = topology.ports.map((port) => [
    portId(port),
    condition(port, port.edge ? usual.edge : usual.core, [
      ...reported(portId(port)),
      ...reported(`${port.switch}:${port.name || `${port.switch}-eth${port.number}`}`),
    ]),
  ]);
  return new Map(found.filter(([, { state }]) => state));
}

/**
 * @param {Port} port
 * @param {Usual} usual
 * @param {ProblemModel[]} problems
 * @returns {LinkCondition}
 */
function condition(port, usual, problems) {
  const isDown = !port.up || problems.some(({ kind }) => DOWN.has(kind));
  const others = port.edge ? "most links to hosts" : "most links between switches";
  const reasons = problems.map(({ problem }) => problem);
  if (isDown && !reasons.length) reasons.push("the link is down");
  if (usual.rate_bps !== null && port.rate_bps < usual.rate_bps)
    reasons.push(`its rate is ${rate(port.rate_bps)}, that of ${others} is ${rate(usual.rate_bps)}`);
  if (usual.delay_ns !== null && port.delay_ns > usual.delay_ns)
    reasons.push(`its delay is ${delay(port.delay_ns)}, that of ${others} is ${delay(usual.delay_ns)}`);
  return { state: isDown ? "down" : reasons.length ? "impaired" : "", reasons };
}

/** @param {number} ns */
const delay = (ns) => time(ns / 1000);

/**
 * Rate and delay of more than half of the links of this kind; null if no value has so many.
 * @param {TopologyModel} topology
 * @param {boolean} edge
 * @returns {Usual}
 */
function usualOf(topology, edge) {
  const ports = topology.ports.filter((port) => port.edge === edge);
  return {
    rate_bps: majority(ports.map((port) => port.rate_bps)),
    delay_ns: majority(ports.map((port) => port.delay_ns)),
  };
}

/** @param {number[]} values */
function majority(values) {
  const middle = [...values].sort((a, b) => a - b)[values.length >> 1];
  return values.filter((value) => value === middle).length * 2 > values.length ? middle : null;
}
