// SPDX-License-Identifier: Apache-2.0
// Where the drawing of the network puts each node, and how a link's load shows.

/** @import { TopologyModel } from "../documents.gen.js" */

import { portId } from "./model.js";

/** @typedef {{ x: number, y: number }} Point */

export const WIDTH = 480;
export const HEIGHT = 240;
const LEVELS = { spine: 40, leaf: 118, host: 200 };
const LEVELS_WITHOUT_SPINES = { spine: 0, leaf: 72, host: 184 };
const WIDEST_STEP = 64;
const LEAF_GAP = 14;
const LABEL_WIDTH = 20;
const LEARNED = "mac-";

/**
 * The place of every node by name. Leaves are the switches with hosts; all others are spines above them.
 * @param {TopologyModel} topology
 * @returns {Map<string, Point>}
 */
export function layout(topology) {
  const hosts = hostsBySwitch(topology);
  const names = topology.switches.map((node) => node.name);
  const leaves = names.filter((name) => hosts.has(name));
  const spines = names.filter((name) => !hosts.has(name));
  const levels = spines.length ? LEVELS : LEVELS_WITHOUT_SPINES;
  const at = new Map([...spread(spines, levels.spine), ...spread(leaves, levels.leaf)]);
  const room = WIDTH / leaves.length;
  return new Map([
    ...at,
    ...leaves.flatMap((leaf) => hang(hosts.get(leaf) ?? [], at.get(leaf)?.x ?? 0, room, levels.host)),
  ]);
}

/**
 * Whether the labels of the hosts, or of the switches of a level, would lie one over another.
 * @param {TopologyModel} topology
 */
export function isDense({ switches, ports }) {
  const most = Math.max(switches.length / 2, ports.filter(({ edge }) => edge).length);
  return most > WIDTH / LABEL_WIDTH;
}

/**
 * What stands at the end of every edge port: the name by which `layout` places it, and its label. Several hosts behind
 * one port share a node. A host that no one has named shows its address.
 * @param {TopologyModel} topology
 * @returns {Map<string, string>}
 */
export function hostLabels(topology) {
  /** @type {Map<string, string[]>} */
  const behind = new Map();
  for (const host of topology.hosts) {
    const label = host.name.startsWith(LEARNED) && host.ipv4 ? host.ipv4 : host.name;
    behind.set(host.port, [...(behind.get(host.port) ?? []), label]);
  }
  const edges = topology.ports.filter((port) => port.edge);
  return new Map(
    edges.map((port) => {
      const [first, ...others] = behind.get(portId(port)) ?? [port.name || port.peer];
      return [port.peer, others.length ? `${first} +${others.length}` : (first ?? port.peer)];
    }),
  );
}

/** @param {TopologyModel} topology */
function hostsBySwitch(topology) {
  /** @type {Map<string, string[]>} */
  const hosts = new Map();
  for (const port of topology.ports) {
    if (port.edge) hosts.set(port.switch, [...(hosts.get(port.switch) ?? []), port.peer]);
  }
  return hosts;
}

/**
 * Nodes side by side over the whole width.
 * @param {string[]} names
 * @param {number} y
 * @returns {[string, Point][]}
 */
function spread(names, y) {
  return names.map((name, i) => [name, { x: ((i + 0.5) * WIDTH) / names.length, y }]);
}

/**
 * Hosts side by side below their leaf.
 * @param {string[]} names
 * @param {number} centre
 * @param {number} room
 * @param {number} y
 * @returns {[string, Point][]}
 */
function hang(names, centre, room, y) {
  const step = Math.min(WIDEST_STEP, (room - LEAF_GAP) / names.length);
  return names.map((name, i) => [name, { x: centre + (i - (names.length - 1) / 2) * step, y }]);
}

/**
 * A step of that length to the side of the line between two nodes. It keeps the two directions of
 * a link apart.
 * @param {Point} from
 * @param {Point} to
 * @param {number} distance
 * @returns {Point}
 */
export function sideways(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: (-(to.y - from.y) / length) * distance, y: ((to.x - from.x) / length) * distance };
}

/**
 * The CSS colour of a load from 0 to 1: from the idle colour over amber to red.
 * @param {number} load
 */
export function heat(load) {
  const share = Math.round(Math.min(1, Math.max(0, load)) * 100);
  return share < 50
    ? `color-mix(in oklab, var(--link-warm) ${share * 2}%, var(--link-idle))`
    : `color-mix(in oklab, var(--link-hot) ${(share - 50) * 2}%, var(--link-warm))`;
}
