// SPDX-License-Identifier: Apache-2.0
// The colour theme: the system's, or a choice that the browser remembers.

const STORAGE_KEY = "sluice-theme"; // theme-boot.js reads it too
const CHOICES = ["auto", "light", "dark"];
/** @type {Record<string, string>} */
const LABELS = { auto: "Auto", light: "Light", dark: "Dark" };
/** @type {(() => void)[]} */
const listeners = [];
/** @type {Map<string, string>} */
const resolved = new Map();
/** @type {HTMLElement | null} */
let probe = null;

/**
 * The theme's colour of that name, resolved, because a canvas knows neither light-dark() nor var().
 * @param {string} name
 */
export function colour(name) {
  const known = resolved.get(name);
  if (known) return known;
  if (!probe) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  resolved.set(name, value);
  return value;
}

/** @param {() => void} listener */
export function onThemeChange(listener) {
  listeners.push(listener);
}

/** @param {HTMLButtonElement} button Each click selects the next choice. */
export function startTheme(button) {
  const { dataset } = document.documentElement;
  const current = () => dataset.theme ?? CHOICES[0];
  const show = () => {
    button.textContent = LABELS[current()];
    button.setAttribute("aria-label", `Colour theme: ${LABELS[current()]}`);
  };
  const changed = () => {
    resolved.clear();
    for (const listener of listeners) listener();
  };
  button.addEventListener("click", () => {
    dataset.theme = CHOICES[(CHOICES.indexOf(current()) + 1) % CHOICES.length];
    localStorage.setItem(STORAGE_KEY, dataset.theme);
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
}
