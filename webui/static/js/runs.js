// SPDX-License-Identifier: Apache-2.0
// The page of runs: asks for the list while it is visible, and shows what is under way and what is done.

/** @import { RunModel, RunsAnswer } from "./documents.gen.js" */

import { ApiError, get } from "./api.js";
import { byId, element, inside } from "./dom.js";
import {
  cells,
  hasResult,
  isUnderWay,
  matches,
  partialRows,
  progressText,
  reportPath,
  stateText,
} from "./pure/runs.js";
import { StartRun } from "./start-run.js";
import { startTheme } from "./theme.js";

const BUSY_MS = 1000;
const IDLE_MS = 5000;
const COLUMNS = 12;

/** @type {RunModel[]} */
let runs = [];
/** @type {Set<string>} The names of the chosen runs. */
const chosen = new Set();
const body = byId("past", HTMLElement);
const filter = byId("filter", HTMLInputElement);
const compare = byId("compare", HTMLAnchorElement);
const start = new StartRun(refresh);
let timer = 0;

async function refresh() {
  clearTimeout(timer);
  let busy = false;
  try {
    const answer = /** @type {RunsAnswer} */ (await get("runs"));
    show(answer);
    busy = answer.runs.some(isUnderWay);
  } catch (error) {
    const why = error instanceof ApiError ? error.message : "the server does not answer";
    say(`The list of runs is old: ${why}.`);
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, busy && !document.hidden ? BUSY_MS : IDLE_MS);
}

/** @param {RunsAnswer} answer */
function show(answer) {
  runs = answer.runs;
  say(answer.available ? "" : "This web process has no folder of runs. Start it with --runs DIR.");
  document.body.dataset.runs = answer.available ? "ready" : "none";
  start.show(answer);
  showRunning(runs.filter(isUnderWay));
  showPast();
}

/** @param {string} text */
function say(text) {
  const away = byId("away", HTMLElement);
  away.hidden = !text;
  if (away.textContent !== text) away.textContent = text;
}

/** @param {RunModel[]} running */
function showRunning(running) {
  const container = byId("running", HTMLElement);
  byId("running-state", HTMLElement).textContent = running.length ? `${running.length}` : "";
  const names = new Set(running.map(({ name }) => name));
  for (const old of [...container.children]) {
    if (!(old instanceof HTMLElement && names.has(old.dataset.run ?? ""))) old.remove();
  }
  for (const run of running) {
    const known = [...container.children].find(
      (one) => one instanceof HTMLElement && one.dataset.run === run.name,
    );
    update(known instanceof HTMLElement ? known : container.appendChild(underWay(run)), run);
  }
  if (!running.length) {
    container.append(element("p", { className: "empty", textContent: "Nothing runs now." }));
  }
}

/** @param {RunModel} run */
function underWay({ name, own, schemes, on, kind }) {
  const title = element("h3", {
    textContent: `${name} (${schemes.filter(Boolean).join(", ") || "?"} on the ${on})`,
  });
  const bar = element("progress", { max: 1 });
  bar.setAttribute("aria-label", `Progress of ${name}`);
  const made = element("article", { className: "under-way" }, title);
  if (own) {
    const button = element("button", { type: "button", className: "quiet", textContent: "Cancel" });
    button.setAttribute("aria-label", `Cancel ${name}`);
    button.addEventListener("click", () => start.cancel(name));
    made.append(button);
  } else {
    made.append(element("small", { textContent: "Started elsewhere" }));
  }
  made.append(bar, element("p"), element("table"));
  if (kind === "sweep") made.append(soFar(name));
  made.dataset.run = name;
  return made;
}

/** @param {string} name The link to the report of a sweep's finished points. */
function soFar(name) {
  const link = element("a", {
    className: "link so-far",
    href: reportPath([name]),
    textContent: "Report so far",
  });
  link.setAttribute("aria-label", `Report so far of ${name}`);
  link.target = "_blank";
  link.rel = "noopener";
  return link;
}

/**
 * Shows the progress in the elements that exist, so that the focus stays where it is.
 * @param {HTMLElement} made
 * @param {RunModel} run
 */
function update(made, run) {
  made.dataset.state = run.state;
  const bar = inside(made, "progress");
  if (bar instanceof HTMLProgressElement) {
    if (run.progress?.scheduled) bar.value = run.progress.share;
    else bar.removeAttribute("value");
  }
  const link = made.querySelector("a");
  if (link) link.hidden = !hasResult(run);
  const button = made.querySelector("button");
  if (button) button.disabled = run.state === "ending";
  inside(made, "p").textContent = progressText(run);
  const rows = partialRows(run);
  const head = ["Flows so far", "n", "Mean FCT", "p99"].map((text) =>
    element("th", { textContent: text, scope: "col" }),
  );
  const table = rows.map((row) =>
    element("tr", {}, ...row.map((text) => element("td", { textContent: text }))),
  );
  inside(made, "table").replaceChildren(...(rows.length ? [element("tr", {}, ...head), ...table] : []));
}

function showPast() {
  const past = runs.filter((run) => !isUnderWay(run) && matches(run, filter.value));
  for (const name of [...chosen]) {
    if (!runs.some((run) => run.name === name && hasResult(run))) chosen.delete(name);
  }
  const key = JSON.stringify(past);
  if (body.dataset.key !== key) {
    body.dataset.key = key;
    const focused = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : "";
    const empty = element("td", {
      colSpan: COLUMNS,
      className: "empty",
      textContent: "No run has ended yet.",
    });
    body.replaceChildren(...(past.length ? past.map(pastRow) : [element("tr", {}, empty)]));
    const box = [...body.querySelectorAll("input")].find(({ value }) => value === focused);
    if (focused) box?.focus();
  }
  showCompare();
}

/** @param {RunModel} run */
function pastRow(run) {
  const state = stateText(run);
  const stated = element("td", { title: state.title }, state.text);
  stated.dataset.tone = state.tone;
  if (state.title) stated.append(element("small", { textContent: state.title }));
  const made = element(
    "tr",
    {},
    element("td", {}, ...(hasResult(run) ? [box(run.name)] : [])),
    element("td", {}, name(run)),
    stated,
    ...cells(run).map((textContent) => element("td", { textContent })),
  );
  made.dataset.run = run.name;
  made.dataset.state = run.state;
  return made;
}

/** @param {RunModel} run */
function name(run) {
  if (!hasResult(run)) return run.name;
  const link = element("a", { className: "link", href: reportPath([run.name]), textContent: run.name });
  link.target = "_blank";
  link.rel = "noopener";
  return link;
}

/** @param {string} value */
function box(value) {
  const made = element("input", { type: "checkbox", value, checked: chosen.has(value) });
  made.setAttribute("aria-label", `Choose ${value}`);
  made.addEventListener("change", () => {
    if (made.checked) chosen.add(value);
    else chosen.delete(value);
    showCompare();
  });
  return made;
}

function showCompare() {
  compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
  compare.setAttribute("aria-disabled", String(!chosen.size));
  if (chosen.size) compare.href = reportPath([...chosen]);
  else compare.removeAttribute("href");
}

filter.addEventListener("input", showPast);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refresh();
});
startTheme(byId("theme", HTMLButtonElement));
refresh();
