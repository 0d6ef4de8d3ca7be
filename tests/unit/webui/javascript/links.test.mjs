// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { linkConditions } from "../../../../webui/static/js/pure/links.js";
import { portId } from "../../../../webui/static/js/pure/model.js";
import { topology } from "./documents.mjs";

/**
 * The network with other values at some ports.
 * @param {Record<string, Partial<ReturnType<typeof topology>["ports"][number]>>} changes
 */
function network(changes = {}) {
  const whole = topology({ leaves: 4, spines: 2, hosts: 2 });
  return { ...whole, ports: whole.ports.map((port) => ({ ...port, ...changes[portId(port)] })) };
}

test("linkConditions: nothing of a network whose links are alike", () => {
  assert.equal(linkConditions(network(), []).size, 0);
});

test("linkConditions: a link that is down", () => {
  const found = linkConditions(network({ "s1:3": { up: false } }), []);
  assert.deepEqual([...found], [["s1:3", { state: "down", reasons: ["the link is down"] }]]);
});

test("linkConditions: a slower or longer link than most of its kind, not a faster one", () => {
  const [edge] = network().ports.filter((port) => port.edge);
  const rate_bps = edge.rate_bps / 2;
  const found = linkConditions(
    network({
      "s1:1": { rate_bps, delay_ns: edge.delay_ns + 5_000_000 },
      "s2:1": { rate_bps: 3 * edge.rate_bps },
    }),
    [],
  );
  assert.deepEqual([...found.keys()], ["s1:1"]);
  const condition = found.get("s1:1");
  assert.equal(condition?.state, "impaired");
  assert.match(condition?.reasons.join() ?? "", /its rate is .* of most links to hosts is .*its delay is/);
});

test("linkConditions: no link is unusual if no value has the majority", () => {
  const whole = network();
  const ports = whole.ports.map((port, i) => ({ ...port, rate_bps: 1e6 * (1 + (i % 2)), edge: true }));
  assert.equal(linkConditions({ ...whole, ports: ports.slice(0, 4) }, []).size, 0);
});

test("linkConditions: what the controller reports of a port, by its number or its interface", () => {
  const problem = "the description says 10 Gb/s, but the port runs at 1 Gb/s";
  const problems = [
    { kind: "rate", where: "s1:swp1", problem },
    { kind: "uplink-down", where: "s1:s1-eth2", problem: "the uplink is down" },
    { kind: "agent-disk", where: "h1", problem: "full" },
  ];
  const found = linkConditions(network({ "s1:1": { name: "swp1" } }), problems);
  assert.deepEqual(
    [...found],
    [
      ["s1:1", { state: "impaired", reasons: [problem] }],
      ["s1:2", { state: "down", reasons: ["the uplink is down"] }],
    ],
  );
});
