// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { HEIGHT, hostLabels, layout, sideways, WIDTH } from "../../../../webui/static/js/pure/layout.js";
import { topology } from "./documents.mjs";

/**
 * @param {ReturnType<typeof layout>} at
 * @param {string} name
 */
function place(at, name) {
  const point = at.get(name);
  assert.ok(point, `${name} has no place`);
  return point;
}

for (const size of [
  { leaves: 1, spines: 0, hosts: 3 },
  { leaves: 12, spines: 12, hosts: 12 },
]) {
  test(`layout: ${JSON.stringify(size)} is inside the drawing, no two nodes at one place`, () => {
    const network = topology(size);
    const at = layout(network);
    assert.equal(at.size, network.switches.length + network.hosts.length);
    assert.equal(new Set([...at.values()].map(({ x, y }) => `${x} ${y}`)).size, at.size);
    for (const { x, y } of at.values()) assert.ok(x > 0 && x < WIDTH && y > 0 && y < HEIGHT);
  });
}

test("layout: hosts hang centred below their leaf, in the order of its ports", () => {
  const at = layout(topology({ leaves: 2, spines: 1, hosts: 3 }));
  assert.ok(place(at, "h4").x < place(at, "h5").x && place(at, "h5").x < place(at, "h6").x);
  assert.equal(place(at, "h5").x, place(at, "s2").x);
  assert.ok(place(at, "h3").x < place(at, "h4").x);
});

test("sideways: at a right angle, opposite for the opposite direction", () => {
  const [a, b] = [
    { x: 0, y: 0 },
    { x: 30, y: 40 },
  ];
  const step = sideways(a, b, 5);
  assert.equal(step.x * 30 + step.y * 40, 0);
  assert.equal(Math.hypot(step.x, step.y), 5);
  assert.deepEqual(sideways(b, a, 5), { x: -step.x, y: -step.y });
  assert.ok(Number.isFinite(sideways(a, a, 5).x));
});

test("hostLabels: hosts that a switch has learned stand behind their port", () => {
  const network = topology({ leaves: 1, spines: 0, hosts: 3 });
  const learned = { mac: "", ipv6: "", port: "s1:1", vlan: 0 };
  network.hosts = [
    { ...learned, name: "mac-0200", ipv4: "192.0.2.7" },
    { ...learned, name: "web1", ipv4: "192.0.2.8" },
    { ...learned, name: "db1", ipv4: "", port: "s1:2" },
  ];
  const labels = [...hostLabels(network).values()];
  assert.deepEqual(labels, ["192.0.2.7 +1", "db1", network.ports[2]?.name || "h3"]);
});
