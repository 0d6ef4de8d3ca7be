// SPDX-License-Identifier: Apache-2.0
// One Tab stop for many controls: Tab reaches the one that had the focus last, and the arrow keys move between them.

/** @type {Record<string, number>} */
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/**
 * Makes these controls one stop. The caller gives them their tabindex -1.
 * @param {Element} container
 * @param {(HTMLElement | SVGElement)[]} items In the order of the arrow keys.
 */
export function rove(container, items) {
  items[0]?.setAttribute("tabindex", "0");
  container.addEventListener("focusin", ({ target }) => {
    const reached = items.find((item) => item === target);
    if (!reached) return;
    for (const item of items) item.setAttribute("tabindex", item === reached ? "0" : "-1");
  });
  container.addEventListener("keydown", (event) => {
    const next = event instanceof KeyboardEvent ? destination(event, items) : undefined;
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
}

/**
 * The control to which a key moves the focus.
 * @param {KeyboardEvent} event
 * @param {(HTMLElement | SVGElement)[]} items
 */
function destination({ key, target }, items) {
  const now = items.indexOf(/** @type {HTMLElement | SVGElement} */ (target));
  if (now < 0) return undefined;
  if (key === "Home") return items[0];
  if (key === "End") return items[items.length - 1];
  const step = STEPS[key];
  return step ? items[(now + step + items.length) % items.length] : undefined;
}
