// SPDX-License-Identifier: Apache-2.0
// Looking for a switch, a host or a port in the drawing of a large network.

/** @import { TopologyModel } from "../documents.gen.js" */

import { portId } from "./model.js";

/**
 * The nodes that a text names, as `layout` names them: those with exactly this name, address or port, and if there are
 * none, all of whose names or addresses it is a part. A port is at both of its ends.
 * @param {TopologyModel} topology
 * @param {string} text
 * @returns {Set<string>}
 */
export function nodesNamed(topology, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return new Set();
  const exact = nodesWith(topology, (name) => name === wanted);
  return exact.size ? exact : nodesWith(topology, (name) => name.includes(wanted));
}

/**
 * @param {TopologyModel} topology
 * @param {(name: string) => boolean} isNamed
 */
function nodesWith(topology, isNamed) {
  /** @param {string[]} names */
  const any = (...names) => names.some((name) => isNamed(name.toLowerCase()));
  /** @type {Map<string, string[]>} What one may call the hosts behind each port. */
  const behind = new Map();
  for (const { port, name, ipv4, ipv6, mac } of topology.hosts)
    behind.set(port, [...(behind.get(port) ?? []), name, ipv4, ipv6, mac]);
  const switches = topology.switches.filter(({ name }) => any(name)).map(({ name }) => name);
  const ends = topology.ports.flatMap((port) => {
    const id = portId(port);
    if (any(id, port.name)) return [port.switch, port.peer];
    return port.edge && any(port.peer, ...(behind.get(id) ?? [])) ? [port.peer] : [];
  });
  return new Set([...switches, ...ends]);
}

/**
 * The one port that these nodes mean: that towards a lone host, or that of the first node towards the second.
 * @param {TopologyModel} topology
 * @param {Set<string>} nodes
 * @returns {string} Empty: none.
 */
export function portOf({ ports }, nodes) {
  const [first, second] = nodes;
  const port =
    nodes.size === 1
      ? ports.find(({ peer, edge }) => edge && peer === first)
      : nodes.size === 2 && ports.find((port) => port.switch === first && port.peer === second);
  return port ? portId(port) : "";
}
