// SPDX-License-Identifier: Apache-2.0
// The network as a drawing: switches over their hosts, links as wide and as warm as they are loaded. A link between
// switches is two lines, one a direction; each line is a port that can be chosen.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 480;
const HEIGHT = 240;
const LEVEL_Y = { spine: 40, leaf: 118, host: 200 };

export class TopologyView {
  constructor(element, choose) {
    this.element = element;
    this.choose = choose;
    this.key = null;
    this.lines = new Map();
    this.nodes = new Map();
  }

  draw(model, chosen) {
    const { topology } = model;
    if (!topology?.switches.length) {
      if (this.key !== "") {
        this.key = "";
        this.element.innerHTML =
          '<p class="empty">No network yet. It appears here when a testbed starts.</p>';
      }
      return;
    }
    const key = JSON.stringify(topology.ports);
    if (key !== this.key) this.build(topology, key);
    if (model.snapshot) this.update(model.snapshot, chosen);
  }

  build(topology, key) {
    this.key = key;
    this.lines.clear();
    this.nodes.clear();
    const at = layout(topology);
    const root = make("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "group",
      "aria-label": `${topology.kind} network`,
    });
    const links = make("g", {});
    const names = make("g", {});
    for (const port of topology.ports) links.append(this.link(port, at));
    for (const node of topology.switches) names.append(this.switchNode(node.name, at.get(node.name)));
    for (const node of topology.hosts) names.append(this.hostNode(node.name, at.get(node.name)));
    root.append(links, names);
    this.element.replaceChildren(root);
  }

  link(port, at) {
    const id = `${port.switch}:${port.number}`;
    const [from, to] = [at.get(port.switch), at.get(port.peer)];
    const shift = port.edge ? { x: 0, y: 0 } : across(from, to, 3);
    const ends = { x1: from.x + shift.x, y1: from.y + shift.y, x2: to.x + shift.x, y2: to.y + shift.y };
    const group = make("g", { class: "link", "data-port": id, tabindex: "0", role: "button" });
    const title = make("title", {});
    const line = make("line", { ...ends, class: "load" });
    group.append(title, make("line", { ...ends, class: "reach" }), line);
    group.addEventListener("click", () => this.choose(id));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.choose(id);
    });
    this.lines.set(id, { group, line, title, peer: port.peer });
    return group;
  }

  switchNode(name, { x, y }) {
    const group = make("g", { class: "switch", transform: `translate(${x} ${y})` });
    const width = 30 + Math.max(0, name.length - 2) * 6;
    group.append(make("rect", { x: -width / 2, y: -11, width, height: 22, rx: 5 }), label(name, 0, 4));
    this.nodes.set(name, group);
    return group;
  }

  hostNode(name, { x, y }) {
    const group = make("g", { class: "host", transform: `translate(${x} ${y})` });
    group.append(make("circle", { r: 5.5 }), label(name, 0, 20));
    this.nodes.set(name, group);
    return group;
  }

  update(snapshot, chosen) {
    for (const [id, { group, line, title, peer }] of this.lines) {
      const row = snapshot.ports[id];
      const load = row?.load ?? null;
      line.style.strokeWidth = load === null ? 1.2 : 1.4 + 3.6 * Math.min(1, load);
      line.style.stroke = load === null ? "var(--link-idle)" : heat(load);
      group.classList.toggle("chosen", id === chosen);
      group.dataset.load = load === null ? "" : String(load);
      const text = `Port ${id} to ${peer}: ${load === null ? "no figures" : `${Math.round(load * 100)} % loaded`}`;
      title.textContent = text;
      group.setAttribute("aria-label", text);
    }
    const switches = new Map(snapshot.health.controller.switches.map((s) => [s.name, s.connected]));
    const hosts = new Map(
      snapshot.health.agents.filter((a) => a.kind === "host").map((a) => [a.name, a.alive]),
    );
    const demoted = new Set(snapshot.sanctions.map((s) => s.host));
    for (const [name, group] of this.nodes) {
      group.classList.toggle("demoted", demoted.has(name));
      const up = group.classList.contains("switch") ? switches.get(name) : hosts.get(name);
      group.dataset.state = up === undefined ? "unknown" : up ? "up" : "down";
    }
  }
}

/** Loads go from the idle colour over amber to red. */
function heat(load) {
  const share = Math.round(Math.min(1, Math.max(0, load)) * 100);
  return share < 50
    ? `color-mix(in oklab, var(--link-warm) ${share * 2}%, var(--link-idle))`
    : `color-mix(in oklab, var(--link-hot) ${(share - 50) * 2}%, var(--link-warm))`;
}

/** Leaves are the switches that have hosts; the others stand above them. Hosts hang under their leaf. */
function layout(topology) {
  const at = new Map();
  const leaves = topology.switches.filter((s) => topology.ports.some((p) => p.switch === s.name && p.edge));
  const spines = topology.switches.filter((s) => !leaves.includes(s));
  const flat = spines.length === 0;
  const levels = flat ? { leaf: 72, host: 184 } : LEVEL_Y;
  spread(spines, levels.spine, at);
  spread(leaves, levels.leaf, at);
  for (const leaf of leaves) hang(topology, leaf, WIDTH / leaves.length, levels.host, at);
  return at;
}

function spread(nodes, y, at) {
  nodes.forEach((node, i) => {
    at.set(node.name, { x: ((i + 0.5) * WIDTH) / nodes.length, y });
  });
}

function hang(topology, leaf, room, y, at) {
  const hosts = topology.ports.filter((p) => p.switch === leaf.name && p.edge).map((p) => p.peer);
  const centre = at.get(leaf.name).x;
  const step = Math.min(64, (room - 14) / hosts.length);
  hosts.forEach((name, i) => {
    at.set(name, { x: centre + (i - (hosts.length - 1) / 2) * step, y });
  });
}

function across(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: (-(to.y - from.y) / length) * distance, y: ((to.x - from.x) / length) * distance };
}

function label(text, x, y) {
  const node = make("text", { x, y });
  node.textContent = text;
  return node;
}

function make(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
