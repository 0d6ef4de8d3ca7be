// SPDX-License-Identifier: Apache-2.0
// The card that compares the versions of the policy.

/** @import { Model } from "./pure/model.js" */
/** @import { ScoreboardAnswer } from "./documents.gen.js" */
/** @import { Cell, Row, SizeClass } from "./pure/scoreboard.js" */

import { get } from "./api.js";
import { byId, element, setChildren } from "./dom.js";
import { time } from "./pure/format.js";
import { HEADINGS, scoreCurves, scoreRows } from "./pure/scoreboard.js";
import { report } from "./trouble.js";

const EVERY_S = 5;
const [WIDTH, HEIGHT] = [300, 150];
const SVG = "http://www.w3.org/2000/svg";

export class Scoreboard {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.fetchedAt = 0;
    /** @type {number | null} The version that the user has chosen as the base. */
    this.against = null;
    this.body = byId("scoreboard", HTMLElement);
    this.plot = byId("scoreboard-plot", HTMLElement);
    this.choice = byId("scoreboard-against", HTMLSelectElement);
    this.group = byId("scoreboard-class", HTMLSelectElement);
    /** @type {ScoreboardAnswer | null} */
    this.board = null;
    const headings = ["Version", "Flows", ...HEADINGS].map((text) => element("th", { textContent: text }));
    byId("scoreboard-head", HTMLElement).replaceChildren(element("tr", {}, ...headings));
    this.choice.addEventListener("change", () => {
      this.against = Number(this.choice.value);
      report("scoreboard", this.load());
    });
    this.group.addEventListener("change", () => this.board && this.draw(this.board));
  }

  /**
   * Whether the scores are old, and can be shown.
   * @param {number} now Epoch seconds.
   */
  isDue(now) {
    return this.model.schemes.length > 0 && now - this.fetchedAt >= EVERY_S;
  }

  async load() {
    this.fetchedAt = this.model.now;
    /** @type {Record<string, string | number>} */
    const query = { source: this.model.source };
    if (this.against !== null) query.against = this.against;
    this.show(await get("scoreboard", query));
  }

  /** @param {ScoreboardAnswer} board */
  show(board) {
    this.board = board;
    const rows = scoreRows(board);
    const none = element("td", {
      colSpan: 2 + HEADINGS.length,
      className: "empty",
      textContent: "No version has flows that lived wholly under it yet.",
    });
    setChildren(this.body, ...(rows.length ? rows.map((row) => this.row(row)) : [element("tr", {}, none)]));
    const options = rows.map(
      ({ version, scheme }) => new Option(this.name(version, scheme), String(version)),
    );
    setChildren(this.choice, ...options);
    this.choice.value = String(board.against ?? "");
    this.draw(board);
  }

  /**
   * @param {number} version
   * @param {string} scheme
   */
  name(version, scheme) {
    return `${version} ${this.model.titleOf(scheme)}`;
  }

  /** @param {Row} row */
  row({ version, scheme, base, flows, cells }) {
    const swatch = element("i", { className: "swatch" });
    swatch.style.background = this.model.colourOf(scheme);
    const head = element("th", { scope: "row" }, swatch, this.name(version, scheme));
    const count = element("td", { textContent: String(flows) });
    const made = element("tr", {}, head, count, ...cells.map(figure));
    made.dataset.version = String(version);
    made.dataset.base = String(base);
    return made;
  }

  /** @param {ScoreboardAnswer} board */
  draw(board) {
    const group = /** @type {SizeClass} */ (this.group.value);
    const flows = group === "all" ? "all flows" : `${group} flows`;
    const { curves, low, high } = scoreCurves(board, group, WIDTH, HEIGHT);
    if (!curves.length) return this.plot.replaceChildren();
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `-1 -2 ${WIDTH + 2} ${HEIGHT + 4}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Distribution of the completion times of ${flows}, by version`);
    for (const { scheme, version, path } of curves) {
      const line = document.createElementNS(SVG, "path");
      line.setAttribute("d", path);
      line.style.stroke = this.model.colourOf(scheme);
      line.dataset.version = String(version);
      const title = document.createElementNS(SVG, "title");
      title.textContent = this.name(version, scheme);
      line.append(title);
      svg.append(line);
    }
    const ends = element("p", {}, element("span", { textContent: time(low) }));
    ends.append(
      element("span", { textContent: `FCT of ${flows}` }),
      element("span", { textContent: time(high) }),
    );
    this.plot.replaceChildren(svg, ends);
  }
}

/** @param {Cell} cell */
function figure({ text, ratio, verdict, title }) {
  const compared = element("small", { textContent: ratio });
  compared.dataset.verdict = verdict;
  return element("td", { title }, `${text} `, compared);
}
