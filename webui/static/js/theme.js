// SPDX-License-Identifier: Apache-2.0
// The colour theme: the system's by default, or a choice that is remembered. Canvases read colours through `colour`.

const CHOICES = ["auto", "light", "dark"];
const LABELS = { auto: "Auto", light: "Light", dark: "Dark" };
const listeners = [];
const known = new Map();
let probe = null;

/** The colour of that name in the present theme, resolved: a canvas does not know light-dark() or var(). */
export function colour(name) {
  if (!known.has(name)) {
    if (!probe) {
      probe = document.createElement("span");
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    known.set(name, getComputedStyle(probe).color);
  }
  return known.get(name);
}

export function onThemeChange(listener) {
  listeners.push(listener);
}

export function startTheme(button) {
  const root = document.documentElement;
  const show = () => {
    button.textContent = LABELS[root.dataset.theme];
    button.setAttribute("aria-label", `Colour theme: ${LABELS[root.dataset.theme]}`);
  };
  const changed = () => {
    known.clear();
    for (const listener of listeners) listener();
  };
  button.addEventListener("click", () => {
    root.dataset.theme = CHOICES[(CHOICES.indexOf(root.dataset.theme) + 1) % CHOICES.length];
    localStorage.setItem("sluice-theme", root.dataset.theme);
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
}
