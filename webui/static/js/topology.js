// SPDX-License-Identifier: Apache-2.0
// The drawing of the network. The width and colour of a line show its load. A link between switches is two
// lines, one for each direction; each line is a port that can be chosen. Marks name the chosen port, and show links
// that are down or impaired. In a large network one looks for a node by its name.

/** @import { Point } from "./pure/layout.js" */
/** @import { LinkCondition } from "./pure/links.js" */
/** @import { Model } from "./pure/model.js" */
/** @import { Port, SnapshotModel, TopologyModel } from "./documents.gen.js" */

import { byId, element, setOptions, setText } from "./dom.js";
import { LinkMarks } from "./link-marks.js";
import { HEIGHT, heat, hostLabels, isDense, layout, sideways, WIDTH } from "./pure/layout.js";
import { linkConditions } from "./pure/links.js";
import { portId } from "./pure/model.js";
import { nodesNamed, portOf } from "./pure/search.js";
import { rove } from "./roving.js";

const SVG = "http://www.w3.org/2000/svg";
const LINE_GAP = 3;
const IDLE_WIDTH = 1.2;
const EMPTY = "No network yet. It appears here when a testbed starts.";

/** @typedef {{ group: SVGElement, line: SVGElement, title: SVGElement, node: string, peer: string }} Link */

export class TopologyView {
  /**
   * @param {HTMLElement} container
   * @param {(port: string) => void} choose
   * @param {(port: string) => void} openMenu
   */
  constructor(container, choose, openMenu) {
    this.container = container;
    this.choose = choose;
    this.openMenu = openMenu;
    this.marks = new LinkMarks();
    /** @type {string | null} */
    this.key = null;
    /** @type {Map<string, Link>} */
    this.links = new Map();
    /** @type {Map<string, SVGElement>} */
    this.nodes = new Map();
    /** @type {TopologyModel | null} */
    this.topology = null;
    this.search = byId("node-search", HTMLInputElement);
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", ({ key }) => {
      const port = key === "Enter" && this.topology && portOf(this.topology, this.find());
      if (port) this.choose(port);
    });
  }

  /**
   * @param {Model} model
   * @param {string} chosen
   */
  draw({ topology, snapshot }, chosen) {
    if (!topology?.switches.length) return this.showEmpty();
    const key = JSON.stringify([topology.ports, topology.hosts]);
    if (key !== this.key) this.build(topology);
    this.key = key;
    if (!snapshot) return;
    const conditions = linkConditions(topology, snapshot.health.problems);
    this.update(snapshot, chosen, conditions);
    this.marks.show(chosen, conditions);
  }

  showEmpty() {
    if (this.key === "") return;
    this.key = "";
    this.topology = null;
    this.search.hidden = true;
    this.container.replaceChildren(element("p", { className: "empty", textContent: EMPTY }));
  }

  /** @param {TopologyModel} topology */
  build(topology) {
    this.links.clear();
    this.nodes.clear();
    this.marks = new LinkMarks();
    const at = layout(topology);
    /** @param {string} name */
    const place = (name) => at.get(name) ?? { x: 0, y: 0 };
    const links = topology.ports.map((port) => this.link(port, place(port.switch), place(port.peer)));
    const switches = topology.switches.map(({ name }) => this.node("switch", name, place(name)));
    const hosts = [...hostLabels(topology)].map(([name, label]) =>
      this.node("host", name, place(name), label),
    );
    const attributes = { role: "group", "aria-label": `${topology.kind} network` };
    const root = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, ...attributes });
    root.append(make("g", {}, ...links), make("g", {}, ...switches, ...hosts), this.marks.group);
    rove(root, links);
    this.container.replaceChildren(root);
    this.topology = topology;
    this.offerSearch(topology, root);
  }

  /**
   * Where nodes are too close for their labels, one finds them by name.
   * @param {TopologyModel} topology
   * @param {SVGElement} root
   */
  offerSearch(topology, root) {
    const dense = isDense(topology);
    root.classList.toggle("dense", dense);
    this.search.hidden = !dense;
    const names = [...topology.switches, ...topology.hosts].map(({ name }) => ({ value: name, text: name }));
    setOptions(byId("node-names", HTMLDataListElement), dense ? names : []);
    this.find();
  }

  /** Shows what the text of the search names, and dims all else. Returns the names of these nodes. */
  find() {
    const text = this.search.hidden ? "" : this.search.value;
    const found = this.topology ? nodesNamed(this.topology, text) : new Set();
    this.container.classList.toggle("searched", text.trim() !== "");
    for (const [name, node] of this.nodes) {
      node.classList.toggle("found", found.has(name));
      if (found.has(name)) node.parentNode?.append(node); // before those that it touches
    }
    for (const { group, node, peer } of this.links.values())
      group.classList.toggle("found", found.has(node) || found.has(peer));
    setText(byId("node-count", HTMLElement), text.trim() ? `${found.size} found` : "");
    return found;
  }

  /**
   * @param {Port} port
   * @param {Point} from
   * @param {Point} to
   */
  link(port, from, to) {
    const id = portId(port);
    const shift = port.edge ? { x: 0, y: 0 } : sideways(from, to, LINE_GAP);
    const ends = { x1: from.x + shift.x, y1: from.y + shift.y, x2: to.x + shift.x, y2: to.y + shift.y };
    const title = make("title");
    const line = make("line", { ...ends, class: "load" });
    const attributes = { class: "link", "data-port": id, tabindex: "-1", role: "button" };
    const group = make("g", attributes, title, make("line", { ...ends, class: "reach" }), line);
    group.addEventListener("click", () => this.choose(id));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.choose(id);
    });
    group.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.openMenu(id);
    });
    this.marks.add(id, { x: ends.x1, y: ends.y1 }, { x: ends.x2, y: ends.y2 });
    this.links.set(id, { group, line, title, node: port.switch, peer: port.peer });
    return group;
  }

  /**
   * @param {"switch" | "host"} kind
   * @param {string} name
   * @param {Point} at
   * @param {string} [label]
   */
  node(kind, name, { x, y }, label = name) {
    const parts = kind === "switch" ? switchParts(label) : hostParts(label);
    const group = make("g", { class: kind, transform: `translate(${x} ${y})` }, ...parts);
    if (kind === "host") group.dataset.host = name;
    this.nodes.set(name, group);
    return group;
  }

  /**
   * @param {SnapshotModel} snapshot
   * @param {string} chosen
   * @param {Map<string, LinkCondition>} conditions
   */
  update(snapshot, chosen, conditions) {
    for (const [id, link] of this.links) {
      showLoad(id, link, snapshot.ports[id]?.load ?? null, conditions.get(id));
      link.group.classList.toggle("chosen", id === chosen);
      link.group.setAttribute("aria-pressed", String(id === chosen));
    }
    showSigns(conditions);
    const { controller, agents } = snapshot.health;
    const hosts = agents.filter((agent) => agent.kind === "host");
    /** @type {Map<string, boolean>} */
    const up = new Map([
      ...controller.switches.map(({ name, connected }) => /** @type {const} */ ([name, connected])),
      ...hosts.map(({ name, alive }) => /** @type {const} */ ([name, alive])),
    ]);
    const demoted = new Set(snapshot.sanctions.map((sanction) => sanction.host));
    for (const [name, node] of this.nodes) {
      node.classList.toggle("demoted", demoted.has(name));
      node.dataset.state = up.has(name) ? (up.get(name) ? "up" : "down") : "unknown";
    }
  }
}

/**
 * Shows the meaning of the signs that the drawing has.
 * @param {Map<string, LinkCondition>} conditions
 */
function showSigns(conditions) {
  const states = new Set([...conditions.values()].map(({ state }) => state));
  for (const sign of document.querySelectorAll(".signs span"))
    sign.toggleAttribute("hidden", ![...states].some((state) => state && sign.classList.contains(state)));
}

/**
 * @param {string} id
 * @param {Link} link
 * @param {number | null} load
 * @param {LinkCondition | undefined} condition
 */
function showLoad(id, { group, line, title, peer }, load, condition) {
  const known = load === null ? "load unknown" : `load ${Math.round(load * 100)} %`;
  const text = [`Port ${id} to ${peer}: ${known}`, ...(condition?.reasons ?? [])].join("; ");
  group.dataset.load = load === null ? "" : String(load);
  group.dataset.link = condition?.state ?? "";
  // Most links of a large network have the load that they had a second ago.
  if (title.textContent === text) return;
  line.style.strokeWidth = String(load === null ? IDLE_WIDTH : 1.4 + 3.6 * Math.min(1, load));
  line.style.stroke = load === null ? "var(--link-idle)" : heat(load);
  title.textContent = text;
  group.setAttribute("aria-label", text);
}

/** @param {string} name */
function switchParts(name) {
  const width = 30 + Math.max(0, name.length - 2) * 6;
  return [make("rect", { x: -width / 2, y: -11, width, height: 22, rx: 5 }), label(name, 4)];
}

/** @param {string} name */
const hostParts = (name) => [make("circle", { r: 5.5 }), label(name, 20)];

/**
 * @param {string} text
 * @param {number} y
 */
function label(text, y) {
  const node = make("text", { x: 0, y });
  node.textContent = text;
  return node;
}

/**
 * A new SVG element.
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {...SVGElement} children
 */
function make(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}
