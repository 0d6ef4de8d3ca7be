// SPDX-License-Identifier: Apache-2.0
// Marks on the links of the drawing: the name of the chosen port, and signs of links that are down or impaired.
// They differ in shape, so no one needs to tell colours apart.

/** @import { Point } from "./pure/layout.js" */
/** @import { LinkCondition } from "./pure/links.js" */

/** Where on the link the name of a port is, from its switch. */
const NAME_AT = 0.36;
const SIGN_AT = 0.6;
const CHARACTER = 6.2;
const SIGNS = { down: "M-4 -4 L4 4 M-4 4 L4 -4", impaired: "M0 -5.5 L5.5 0 L0 5.5 L-5.5 0 Z" };
const SVG = "http://www.w3.org/2000/svg";

export class LinkMarks {
  constructor() {
    this.group = make("g", { class: "marks", "aria-hidden": "true" });
    /** @type {Map<string, [Point, Point]>} */
    this.ends = new Map();
    this.key = "";
  }

  /**
   * @param {string} port
   * @param {Point} from
   * @param {Point} to
   */
  add(port, from, to) {
    this.ends.set(port, [from, to]);
  }

  /**
   * @param {string} chosen
   * @param {Map<string, LinkCondition>} conditions
   */
  show(chosen, conditions) {
    const key = JSON.stringify([chosen, [...conditions]]);
    if (key === this.key) return;
    this.key = key;
    const signs = [...conditions].map(([port, { state }]) => this.sign(port, state));
    this.group.replaceChildren(...signs, ...this.name(chosen));
  }

  /**
   * @param {string} port
   * @param {LinkCondition["state"]} state
   */
  sign(port, state) {
    const mark = make("g", { class: `sign ${state}`, transform: this.at(port, SIGN_AT) });
    if (state) mark.append(make("path", { d: SIGNS[state] }));
    return mark;
  }

  /** @param {string} port */
  name(port) {
    if (!this.ends.has(port)) return [];
    const width = port.length * CHARACTER + 10;
    const mark = make("g", { class: "chosen-port", transform: this.at(port, NAME_AT) });
    const text = make("text", { x: 0, y: 3.5 });
    text.textContent = port;
    mark.append(make("rect", { x: -width / 2, y: -8, width, height: 16, rx: 8 }), text);
    return [mark];
  }

  /**
   * @param {string} port
   * @param {number} share
   */
  at(port, share) {
    const [from, to] = this.ends.get(port) ?? [
      { x: 0, y: 0 },
      { x: 0, y: 0 },
    ];
    return `translate(${from.x + (to.x - from.x) * share} ${from.y + (to.y - from.y) * share})`;
  }
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 */
function make(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  return node;
}
