// SPDX-License-Identifier: Apache-2.0
// A table of flows. A column's title sorts by it; a host's name is a link to its view.

/** @import { Sort } from "./pure/address.js" */
/** @import { Row } from "./pure/flow-rows.js" */

import { element, setChildren } from "./dom.js";
import { COLUMNS } from "./pure/address.js";
import { sorted, TITLES, toggled } from "./pure/flow-rows.js";

/**
 * @typedef {object} Look
 * @property {string} empty  The text of a table without rows.
 * @property {(host: string) => string} address  Of the view of a host; empty for a name that is no host's.
 * @property {(sort: Sort) => void} onSort
 */

export class FlowTable {
  /**
   * @param {HTMLTableElement} table
   * @param {Look} look
   */
  constructor(table, look) {
    this.table = table;
    this.look = look;
    this.buttons = new Map(COLUMNS.map((column) => [column, this.heading(column)]));
    const headings = [...this.buttons].map(([column, button]) => {
      const heading = element("th", { scope: "col" }, button);
      heading.dataset.column = column;
      return heading;
    });
    this.body = element("tbody");
    table.replaceChildren(element("thead", {}, element("tr", {}, ...headings)), this.body);
    /** @type {Sort} */
    this.sort = { column: "started", descending: true };
  }

  /** @param {string} column */
  heading(column) {
    const button = element("button", { type: "button", textContent: TITLES[column] });
    button.addEventListener("click", () => this.look.onSort(toggled(this.sort, column)));
    // A browser does not scroll to a control of which it shows a part.
    button.addEventListener("focus", () => button.scrollIntoView({ block: "nearest", inline: "nearest" }));
    return button;
  }

  /**
   * @param {Row[]} rows
   * @param {Sort} sort
   */
  show(rows, sort) {
    this.sort = sort;
    for (const [column, button] of this.buttons) {
      const direction = sort.descending ? "descending" : "ascending";
      button.parentElement?.setAttribute("aria-sort", column === sort.column ? direction : "none");
    }
    const made = sorted(rows, sort).map((row) => this.row(row));
    setChildren(this.body, ...(made.length ? made : [this.emptyRow()]));
  }

  /** Whether a reader is at one of the rows, so that replacing them would disturb. */
  get isInUse() {
    return this.body.contains(document.activeElement);
  }

  /** @param {Row} row */
  row({ id, state, late, note, cells }) {
    const made = element("tr", { title: note });
    made.dataset.id = id;
    made.dataset.state = state;
    made.append(...COLUMNS.map((column) => this.cell(column, cells[column].text, late)));
    return made;
  }

  /**
   * @param {string} column
   * @param {string} text
   * @param {boolean} late
   */
  cell(column, text, late) {
    const href = column === "src" || column === "dst" ? this.look.address(text) : "";
    const content = href ? this.link(text, href) : text;
    const cell = element("td", {}, content);
    if (late && column === "deadline") cell.classList.add("missed");
    return cell;
  }

  /**
   * @param {string} host
   * @param {string} href
   */
  link(host, href) {
    const link = element("a", { href, textContent: host });
    link.dataset.host = host;
    return link;
  }

  emptyRow() {
    const { empty } = this.look;
    const cell = element("td", { textContent: empty, colSpan: COLUMNS.length, className: "empty" });
    return element("tr", {}, cell);
  }
}
