// SPDX-License-Identifier: Apache-2.0
// Elements of the page. A missing element is a defect of the template, so these functions throw.

/**
 * The element with this id.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (found instanceof type) return found;
  throw new Error(`the page has no ${type.name} with the id ${id}`);
}

/**
 * The first element inside `parent` that matches.
 * @param {ParentNode} parent
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function inside(parent, selector) {
  const found = parent.querySelector(selector);
  if (found instanceof HTMLElement) return found;
  throw new Error(`the page has no ${selector}`);
}

/**
 * A new element with these properties and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Partial<HTMLElementTagNameMap[Tag]>} properties
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/**
 * Writes a text, if it differs. A live region would read the same text aloud again, and the browser would lay out the
 * page again.
 * @param {Element} target
 * @param {string} text
 */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/**
 * Makes these the children of `parent`, and touches only what differs: a hovered, focused or selected child stays, and
 * a live region reads nothing aloud twice. A child with a `data-id` continues the one with this id; any other the one
 * in its place.
 * @param {Element} parent
 * @param {...Node} children
 */
export function setChildren(parent, ...children) {
  const old = [...parent.childNodes];
  const byKey = new Map(old.map((node, place) => [keyOf(node, place), node]));
  const shown = children.map((child, place) => continued(byKey.get(keyOf(child, place)), child));
  const kept = new Set(shown);
  for (const node of old) if (!kept.has(node)) node.remove();
  let next = parent.firstChild;
  for (const node of shown) {
    if (node === next) next = node.nextSibling;
    else parent.insertBefore(node, next);
  }
}

/**
 * @param {Node} node
 * @param {number} place
 */
const keyOf = (node, place) => (node instanceof HTMLElement && node.dataset.id) || place;

/**
 * The old node with the content of the new one, or the new one if they are of different kinds.
 * @param {ChildNode | undefined} before
 * @param {Node} now
 */
function continued(before, now) {
  if (before?.nodeName !== now.nodeName) return now;
  if (before.isEqualNode(now)) return before;
  if (!(before instanceof Element && now instanceof Element)) before.nodeValue = now.nodeValue;
  else {
    for (const { name } of [...before.attributes]) if (!now.hasAttribute(name)) before.removeAttribute(name);
    for (const { name, value } of now.attributes)
      if (before.getAttribute(name) !== value) before.setAttribute(name, value);
    setChildren(before, ...now.childNodes);
  }
  return before;
}

/**
 * Offers these values, by their texts, in a select or a datalist.
 * @param {HTMLElement} list
 * @param {{ value: string, text: string }[]} options
 */
export function setOptions(list, options) {
  const key = JSON.stringify(options);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...options.map(({ value, text }) => new Option(text, value)));
}
