// SPDX-License-Identifier: Apache-2.0
// One live chart: uPlot with our look, a legend that shows the latest or the pointed-at value, policy marks, and an
// empty state. A chart is told everything by `draw(view)` and keeps nothing of its own but the pointer.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { clock } from "./pure/format.js";
import { colour } from "./theme.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const sync = uPlot.sync("time");

export class Chart {
  /** `options`: {name, log, format, height?, stacked?, empty, max?, steps?} */
  constructor(element, legend, options) {
    this.element = element;
    this.legend = legend;
    this.options = options;
    this.hidden = new Set();
    this.plot = null;
    this.signature = "";
    this.view = null;
    this.note = document.createElement("p");
    this.note.className = "empty";
    element.append(this.note);
    element.setAttribute("role", "img");
    new ResizeObserver(() => this.resize()).observe(element);
  }

  /** `view`: {from, to, x, series: [{label, group?, values, colour, dash?, fill?, width?, legend?}], marks, empty?} */
  draw(view) {
    this.view = view;
    const shown = view.series.map((series) => ({ ...series, show: !this.hidden.has(keyOf(series)) }));
    const filled = shown.some((series) => series.values.some((value) => value !== null));
    this.say(filled ? "" : view.empty || this.options.empty);
    this.element.dataset.points = String(view.x.length);
    this.element.dataset.series = String(view.series.length);
    this.element.dataset.marks = view.marks.map((mark) => mark.scheme).join(" ");
    const signature =
      colour("muted") +
      JSON.stringify(shown.map((s) => [s.label, s.colour, s.dash, s.fill, s.width, s.show]));
    if (signature !== this.signature) this.rebuild(shown, signature);
    this.plot.setData(
      [view.x, ...(this.options.stacked ? stacked(shown) : shown.map((s) => s.values))],
      false,
    );
    this.plot.setScale("x", { min: view.from, max: view.to });
    this.showLegend();
    this.describe(filled);
  }

  say(text) {
    if (this.note.textContent === text) return;
    const line = document.createElement("span");
    line.textContent = text;
    this.note.replaceChildren(...(text ? [line] : []));
  }

  rebuild(series, signature) {
    this.signature = signature;
    this.plot?.destroy();
    this.plot = new uPlot(this.plotOptions(series), [[], ...series.map(() => [])], this.element);
    this.buildLegend(series);
  }

  plotOptions(series) {
    const { width, height } = this.size();
    return {
      width,
      height,
      padding: [14, 12, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: sync.key, setSeries: false },
        points: { size: 5 },
        drag: { setScale: false, x: false, y: false },
      },
      scales: { x: { time: true }, y: this.yScale() },
      axes: [this.xAxis(), this.yAxis()],
      series: [{}, ...series.map((s) => this.plotSeries(s))],
      hooks: { draw: [(u) => this.drawMarks(u)], setCursor: [() => this.showLegend()] },
    };
  }

  plotSeries(series) {
    const steps = this.options.steps ? uPlot.paths.stepped({ align: 1 }) : undefined;
    return {
      show: series.show,
      label: series.label,
      stroke: series.colour,
      width: series.width ?? 1.6,
      dash: series.dash,
      fill: series.fill,
      paths: steps,
      spanGaps: !this.options.stacked,
      points: { show: false },
    };
  }

  yScale() {
    if (this.options.log) return { distr: 3, range: (_u, low, high) => logRange(low, high) };
    const { max } = this.options;
    return { range: (_u, _low, high) => [0, Math.max(high || 0, max ? max.floor : 0) * 1.08 || 1] };
  }

  xAxis() {
    return {
      stroke: colour("muted"),
      font: FONT,
      size: 26,
      gap: 5,
      space: 62,
      grid: { show: false },
      ticks: { stroke: colour("line"), width: 1, size: 4 },
      values: (_u, ticks) => ticks.map((at) => clock(at).replace(/:00$/, "")),
    };
  }

  yAxis() {
    return {
      stroke: colour("muted"),
      font: FONT,
      size: 62,
      gap: 6,
      space: 26,
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
      splits: this.options.log ? (_u, _axis, low, high) => logSplits(low, high) : undefined,
      filter: (_u, splits) => splits,
      values: (_u, ticks) => ticks.map((value) => (value === null ? "" : this.options.format(value))),
    };
  }

  /** A policy change is a vertical line in the new scheme's colour, with its name where there is room. */
  drawMarks(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio || 1;
    let free = Infinity;
    ctx.save();
    ctx.font = `600 ${10.5 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    for (const mark of [...this.view.marks].reverse()) {
      const x = Math.round(u.valToPos(mark.at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = mark.colour;
      ctx.fillStyle = colour("text");
      ctx.lineWidth = 1.25 * ratio;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const width = ctx.measureText(mark.label).width;
      const start = Math.min(x - 2 * ratio, bbox.left + bbox.width - width);
      if (start + width + 6 * ratio < free) {
        ctx.fillText(mark.label, start, bbox.top - 4 * ratio);
        free = start;
      }
    }
    ctx.restore();
  }

  buildLegend(series) {
    const keys = new Map(series.filter((s) => s.legend !== false).map((s) => [keyOf(s), s]));
    this.legend.replaceChildren(...[...keys.values()].map((s) => this.legendItem(s)));
    // Many keys leave no room for values: then they are in the keys' titles alone.
    this.legend.classList.toggle("many", keys.size > 3 || Boolean(this.options.stacked));
  }

  legendItem(series) {
    const item = document.createElement("button");
    item.type = "button";
    item.className = "key";
    const key = keyOf(series);
    item.dataset.series = key;
    item.setAttribute("aria-pressed", String(series.show));
    item.innerHTML = '<i></i><span class="label"></span><b></b>';
    item.querySelector("i").style.cssText = `--key:${series.colour}`;
    item.querySelector(".label").textContent = key;
    item.addEventListener("click", () => {
      if (!this.hidden.delete(key)) this.hidden.add(key);
      this.draw(this.view);
    });
    return item;
  }

  showLegend() {
    if (!this.view) return;
    const index = this.plot?.cursor.idx;
    for (const item of this.legend.children) {
      const group = this.view.series.filter((s) => keyOf(s) === item.dataset.series);
      const values = group.map((s) =>
        index === null || index === undefined ? latest(s.values) : s.values[index],
      );
      const text = values
        .map((v) => (v === null || v === undefined ? "–" : this.options.format(v)))
        .join(" / ");
      item.querySelector("b").textContent = text;
      item.title = `${group[0]?.label}: ${text}. Click to hide or show`;
    }
  }

  describe(filled) {
    const values = this.view.series
      .filter((series) => series.legend !== false)
      .map((series) => [series.label, latest(series.values)])
      .filter(([, value]) => value !== null)
      .map(([label, value]) => `${label} ${this.options.format(value)}`);
    const now = values.length ? `now ${values.join(", ")}` : "";
    this.element.setAttribute("aria-label", `${this.options.name}: ${filled ? now : this.note.textContent}`);
  }

  size() {
    return {
      width: Math.max(160, this.element.clientWidth),
      height: Math.max(110, this.element.clientHeight),
    };
  }

  resize() {
    if (this.plot) this.plot.setSize(this.size());
  }
}

/** Series of one group share a key of the legend, and are hidden together. */
const keyOf = (series) => series.group ?? series.label;

function latest(values) {
  for (let i = (values?.length ?? 0) - 1; i >= 0; i--)
    if (values[i] !== null && values[i] !== undefined) return values[i];
  return null;
}

/** Each layer's top is the sum of itself and the layers under it; the last layer is drawn first. */
function stacked(series) {
  const sums = [];
  let below = null;
  for (const layer of [...series].reverse()) {
    const base = below;
    below = layer.values.map((value, i) =>
      value === null ? null : (layer.show ? value : 0) + (base ? (base[i] ?? 0) : 0),
    );
    sums.push(below);
  }
  return sums.reverse();
}

function logRange(low, high) {
  if (!(low > 0) || !(high > 0)) return [100, 1e6];
  return [low / 1.4, Math.max(high * 1.4, low * 4)];
}

/** 1-2-5 marks, thinned to powers of ten when there would be many. */
function logSplits(low, high) {
  const decades = Math.log10(high / low);
  const steps = decades > 3.2 ? [1] : decades > 1.6 ? [1, 3] : [1, 2, 5];
  const splits = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low && value <= high) splits.push(value);
    }
  }
  return splits;
}
