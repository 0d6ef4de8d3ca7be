// SPDX-License-Identifier: Apache-2.0
// Values under the pointer or the arrow keys, pictures as PNG, and the page on paper. The page works without it.

const UNITS = {
  time: [
    [1e6, "s"],
    [1e3, "ms"],
    [1, "µs"],
  ],
  size: [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "KB"],
    [1, "B"],
  ],
};
const STEPS = 60;
const PNG_SCALE = 3;
const PAINT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "opacity"];

/** A value with three digits and its unit. */
function shown(value, format) {
  const units = UNITS[format] ?? [[1, ""]];
  const [size, unit] = units.find(([least]) => value >= least) ?? units[units.length - 1];
  return `${Number((value / size).toPrecision(3))} ${unit}`.trim();
}

/** The rows of a CSV. A field in quotes may hold commas; doubled quotes are one. */
function rowsOf(text) {
  const field = /("(?:[^"]|"")*"|[^,]*)(,|$)/g;
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const found = [...line.matchAll(field)].map(([, cell]) =>
        cell.replace(/^"|"$/g, "").replaceAll('""', '"'),
      );
      return found.slice(0, 3);
    });
}

/** The points of each series: Map of label to a list of [x, y], x rising. */
function seriesOf(figure) {
  const address = figure.querySelector("a[download]").href;
  const [, ...rows] = rowsOf(decodeURIComponent(address.slice(address.indexOf(",") + 1)));
  const series = new Map();
  for (const [label, x, y] of rows) {
    if (!series.has(label)) series.set(label, []);
    series.get(label).push([Number(x), Number(y)]);
  }
  return series;
}

/** The point of a series at a place: the last one at or before it, or the nearest one. */
function pointAt(points, x, { steps, log }) {
  if (steps) return points.findLast(([at]) => at <= x);
  const distance = ([at]) => Math.abs(log ? Math.log(at / x) : at - x);
  return points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
}

class Hover {
  constructor(figure) {
    this.figure = figure;
    this.axes = JSON.parse(figure.dataset.hover);
    this.svg = figure.querySelector("svg");
    this.share = 0.5;
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.setAttribute("role", "status");
    this.rule = document.createElement("i");
    this.rule.className = "rule";
    for (const part of [this.tip, this.rule]) {
      part.hidden = true;
      figure.append(part);
    }
    this.svg.setAttribute("tabindex", "0");
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerdown", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.hide());
    this.svg.addEventListener("focus", () => this.svg.matches(":focus-visible") && this.show());
    this.svg.addEventListener("blur", () => this.hide());
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    const { left, right } = this.axes;
    this.share = ((event.clientX - box.left) / box.width - left) / (right - left);
    if (this.share < 0 || this.share > 1) this.hide();
    else this.show();
  }

  key(event) {
    const step = { ArrowLeft: -1 / STEPS, ArrowRight: 1 / STEPS }[event.key];
    if (event.key === "Escape") this.hide();
    if (step === undefined) return;
    event.preventDefault();
    this.share = Math.min(1, Math.max(0, this.share + step));
    this.show();
  }

  /** The value of the axis at the pointer. */
  get x() {
    const { low, high, log } = this.axes;
    return log ? low * (high / low) ** this.share : low + (high - low) * this.share;
  }

  show() {
    this.series ??= seriesOf(this.figure);
    const { left, right, top, bottom, x, y, colours } = this.axes;
    const lines = [[shown(this.x, x), ""]];
    for (const [label, points] of this.series) {
      const found = pointAt(points, this.x, this.axes);
      if (found) lines.push([`${label}: ${shown(found[1], y)}`, colours[label]]);
    }
    this.tip.replaceChildren(...lines.map(([text, colour]) => line(text, colour)));
    const box = this.svg.getBoundingClientRect();
    const at = (left + (right - left) * this.share) * box.width;
    Object.assign(this.rule.style, {
      left: `${at}px`,
      top: `${top * box.height}px`,
      height: `${(bottom - top) * box.height}px`,
    });
    this.tip.hidden = this.rule.hidden = false;
    const beside = at > box.width / 2 ? at - this.tip.offsetWidth - 8 : at + 8;
    const most = Math.max(0, box.width - this.tip.offsetWidth);
    Object.assign(this.tip.style, {
      left: `${Math.min(most, Math.max(0, beside))}px`,
      top: `${top * box.height}px`,
    });
  }

  hide() {
    this.tip.hidden = this.rule.hidden = true;
  }
}

function line(text, colour) {
  const made = document.createElement("div");
  if (colour) {
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = `var(${colour})`;
    made.append(swatch);
  }
  made.append(text);
  return made;
}

/** The picture as an SVG of its own, with the colours that the page gives it now. */
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [number, element] of [svg, ...svg.querySelectorAll("*")].entries()) {
    if (element.closest("defs")) continue; // a marker has the colours of its uses
    const style = getComputedStyle(element);
    for (const name of PAINT) copies[number].style.setProperty(name, style.getPropertyValue(name));
  }
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.setAttribute("xmlns", svg.namespaceURI);
  return new XMLSerializer().serializeToString(copy);
}

async function savePng(figure, name) {
  const svg = figure.querySelector("svg");
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
  await picture.decode();
  const canvas = document.createElement("canvas");
  canvas.width = svg.viewBox.baseVal.width * PNG_SCALE;
  canvas.height = svg.viewBox.baseVal.height * PNG_SCALE;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const link = document.createElement("a");
  link.download = name;
  link.href = canvas.toDataURL("image/png");
  link.click();
}

function button(text, label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

for (const figure of document.querySelectorAll("figure")) {
  if (figure.dataset.hover) new Hover(figure);
  const link = figure.querySelector("a[download]");
  const name = link.download.replace(/csv$/, "png");
  link.after(button("PNG", `${name}, the picture`, () => savePng(figure, name)));
}
for (const tools of document.querySelectorAll("[data-print]")) {
  tools.append(button("Print or save as PDF", "", () => print()));
}
for (const command of document.querySelectorAll("pre.command")) {
  const copy = button("Copy", "Copy the command", async () => {
    await navigator.clipboard.writeText(command.querySelector("code").textContent);
    copy.textContent = "Copied";
  });
  command.append(copy);
}
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const part of folded) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of folded) part.open = false;
});
