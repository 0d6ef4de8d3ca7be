// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { isDense } from "../../../../webui/static/js/pure/layout.js";
import { portId } from "../../../../webui/static/js/pure/model.js";
import { nodesNamed, portOf } from "../../../../webui/static/js/pure/search.js";
import { topology } from "./documents.mjs";

const NETWORK = topology({ leaves: 4, spines: 2, hosts: 10 });
NETWORK.hosts = NETWORK.hosts.map((host, i) => {
  const port = NETWORK.ports.find(({ peer }) => peer === host.name);
  return { ...host, ipv4: `192.0.2.${i + 1}`, port: port ? portId(port) : "" };
});

/** @param {string} text */
const search = (text) => {
  const nodes = nodesNamed(NETWORK, text);
  return { nodes: [...nodes].sort(), port: portOf(NETWORK, nodes) };
};

test("search: a whole name counts alone, else each that it is a part of", () => {
  assert.deepEqual(search(" H1 "), { nodes: ["h1"], port: "s1:1" });
  assert.deepEqual(search("192.0.2.13"), { nodes: ["h13"], port: "s2:3" });
  assert.deepEqual(search("h4").nodes, ["h4"]);
  assert.deepEqual(search("h39").nodes.concat(search("2.39").nodes), ["h39", "h39"]);
  assert.equal(search("192.0.2.1").nodes.length, 1);
  assert.equal(search("0.2.1").nodes.length, 11);
});

test("search: a port is at both ends, and nothing is found without a text or a match", () => {
  const between = NETWORK.ports.find(({ edge }) => !edge);
  assert.ok(between);
  const port = `${between.switch}:${between.number}`;
  assert.deepEqual(search(port), { nodes: [between.switch, between.peer].sort(), port });
  assert.deepEqual(search(""), { nodes: [], port: "" });
  assert.deepEqual(search("nobody"), { nodes: [], port: "" });
});

test("isDense: when the labels of the hosts would lie one over another", () => {
  assert.ok(isDense(NETWORK));
  assert.ok(!isDense(topology({ leaves: 4, spines: 2, hosts: 2 })));
});
