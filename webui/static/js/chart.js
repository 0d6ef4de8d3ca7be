// SPDX-License-Identifier: Apache-2.0
// One live chart: uPlot in the page's look, with a legend, policy changes, and a text while there is no data.
// `draw(view)` passes in all that the chart shows.

/** @import { PolicyMark, Series, View } from "./pure/series.js" */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { element } from "./dom.js";
import { Legend } from "./legend.js";
import { linearRange, logRange, logSplits } from "./pure/scales.js";
import { latest, stacked } from "./pure/series.js";
import { splitsBefore, tick } from "./pure/times.js";
import { colour } from "./theme.js";

/**
 * @typedef {object} Options
 * @property {string} name  What the chart shows, for screen readers.
 * @property {(value: number) => string} format
 * @property {string} empty  The text while there is no data.
 * @property {boolean} [log]
 * @property {boolean} [stacked]
 * @property {boolean} [steps]  Values hold until the next one.
 * @property {number} [reach]  A linear axis goes at least up to here.
 */

/** @typedef {Series & { show: boolean }} Shown */

const FONT_FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const FONT = `11px ${FONT_FAMILY}`;
const LOGARITHMIC = 3;
const cursors = uPlot.sync("time");
/** A drag selects a range at its own chart alone, so it is reported once. @param {string} type */
const isShared = (type) => type !== "mousedown" && type !== "mouseup";

export class Chart {
  /**
   * @param {HTMLElement} container
   * @param {HTMLElement} legend
   * @param {Options} options
   */
  constructor(container, legend, options) {
    this.container = container;
    this.options = options;
    const look = { format: options.format, compact: Boolean(options.stacked) };
    this.legend = new Legend(legend, look, () => this.view && this.draw(this.view));
    /** @type {uPlot | null} */
    this.plot = null;
    this.signature = "";
    /** @type {View | null} */
    this.view = null;
    /** Called with both ends of a range that was dragged over. @type {(from: number, to: number) => void} */
    this.onSelect = () => {};
    this.note = element("p", { className: "empty" });
    container.append(this.note);
    container.setAttribute("role", "img");
    container.tabIndex = 0;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(container);
  }

  /** @param {View} view */
  draw(view) {
    this.view = view;
    const shown = view.series.map((series) => ({ ...series, show: this.legend.shows(series) }));
    const filled = shown.some((series) => series.values.some((value) => value !== null));
    this.say(filled ? "" : view.empty || this.options.empty);
    const plot = this.plotOf(shown);
    plot.setData([view.x, ...this.columns(shown)], false);
    plot.setScale("x", { min: view.from, max: view.to });
    this.legend.showValues(view.series, plot.cursor.idx);
    this.describe(view, filled);
  }

  /** @param {Shown[]} series */
  columns(series) {
    return this.options.stacked ? stacked(series) : series.map((s) => s.values);
  }

  /** @param {string} text */
  say(text) {
    if (this.note.textContent === text) return;
    this.note.replaceChildren(...(text ? [element("span", { textContent: text })] : []));
  }

  /**
   * The plot of these series. It is built again only when their look has changed, because that is slow.
   * @param {Shown[]} series
   */
  plotOf(series) {
    const looks = series.map((s) => [s.label, s.colour, s.dash, s.fill, s.width, s.show]);
    const signature = colour("muted") + this.view?.times.kind + JSON.stringify(looks);
    if (this.plot && signature === this.signature) return this.plot;
    this.signature = signature;
    this.plot?.destroy();
    this.plot = new uPlot(this.plotOptions(series), [[], ...series.map(() => [])], this.container);
    this.legend.build(series);
    return this.plot;
  }

  /**
   * @param {Shown[]} series
   * @returns {uPlot.Options}
   */
  plotOptions(series) {
    return {
      ...this.size(),
      padding: [14, 26, 0, 0],
      legend: { show: false },
      cursor: {
        sync: { key: cursors.key, setSeries: false, filters: { pub: isShared } },
        points: { size: 5 },
        drag: { setScale: false, x: true, y: false },
      },
      scales: { x: { time: true }, y: this.yScale() },
      axes: [this.xAxis(), this.yAxis()],
      series: [{}, ...series.map((s) => this.plotSeries(s))],
      hooks: {
        draw: [(plot) => drawMarks(plot, this.view?.marks ?? [])],
        setSelect: [(plot) => this.select(plot)],
        setCursor: [(plot) => this.legend.showValues(this.view?.series ?? [], plot.cursor.idx)],
      },
    };
  }

  /**
   * @param {Shown} series
   * @returns {uPlot.Series}
   */
  plotSeries(series) {
    return {
      show: series.show,
      label: series.label,
      stroke: series.colour,
      width: series.width ?? 1.6,
      dash: series.dash,
      fill: series.fill,
      paths: this.options.steps ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
      spanGaps: !this.options.stacked,
      points: { show: false },
    };
  }

  /** @returns {uPlot.Scale} */
  yScale() {
    if (this.options.log) return { distr: LOGARITHMIC, range: (_plot, low, high) => logRange(low, high) };
    return { range: (_plot, _low, high) => linearRange(high, this.options.reach ?? 0) };
  }

  /** @returns {uPlot.Axis} */
  xAxis() {
    return {
      stroke: colour("muted"),
      font: FONT,
      size: 26,
      gap: 5,
      space: 62,
      grid: { show: false },
      ticks: { stroke: colour("line"), width: 1, size: 4 },
      splits:
        this.view?.times.kind === "relative"
          ? (_plot, _axis, low, high, step) => splitsBefore(low, high, this.now(), step)
          : undefined,
      values: (_plot, ticks) => ticks.map((at) => tick(at, this.now(), this.view?.times.kind ?? "absolute")),
    };
  }

  now() {
    return this.view?.times.now ?? Date.now() / 1000;
  }

  /** @param {uPlot} plot */
  select(plot) {
    const { left, width } = plot.select;
    if (!width) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.onSelect(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  /** @returns {uPlot.Axis} */
  yAxis() {
    return {
      stroke: colour("muted"),
      font: FONT,
      size: 66,
      gap: 6,
      space: 26,
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { show: false },
      splits: this.options.log ? (_plot, _axis, low, high) => logSplits(low, high) : undefined,
      filter: (_plot, splits) => splits,
      values: (_plot, ticks) => ticks.map((value) => (value === null ? "" : this.options.format(value))),
    };
  }

  /**
   * What the chart shows now, for screen readers and tests.
   * @param {View} view
   * @param {boolean} filled
   */
  describe(view, filled) {
    const now = view.series
      .filter((series) => series.legend !== false)
      .map((series) => ({ label: series.label, value: latest(series.values) }))
      .flatMap(({ label, value }) => (value === null ? [] : [`${label} ${this.options.format(value)}`]));
    const text = filled ? (now.length ? `now ${now.join(", ")}` : "") : this.note.textContent;
    this.container.setAttribute("aria-label", `${this.options.name}: ${text}`);
    const { dataset } = this.container;
    dataset.points = String(view.x.length);
    dataset.series = String(view.series.length);
    dataset.marks = view.marks.map((mark) => mark.scheme).join(" ");
  }

  size() {
    const { clientWidth, clientHeight } = this.container;
    return { width: Math.max(160, clientWidth), height: Math.max(110, clientHeight) };
  }
}

/**
 * A policy change is a vertical line in the new scheme's colour, with its name where there is room. The newest
 * is drawn first, so that its name has the room.
 * @param {uPlot} plot
 * @param {PolicyMark[]} marks
 */
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  let free = Infinity;
  ctx.save();
  ctx.font = `600 ${10.5 * ratio}px ${FONT_FAMILY}`;
  ctx.fillStyle = colour("text");
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  for (const mark of [...marks].reverse()) {
    const x = Math.round(plot.valToPos(mark.at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    drawLine(plot, x, mark.colour, ratio);
    const width = ctx.measureText(mark.label).width;
    const start = Math.min(x - 2 * ratio, bbox.left + bbox.width - width);
    if (start + width + 6 * ratio >= free) continue;
    ctx.fillText(mark.label, start, bbox.top - 4 * ratio);
    free = start;
  }
  ctx.restore();
}

/**
 * @param {uPlot} plot
 * @param {number} x
 * @param {string} stroke
 * @param {number} ratio Canvas pixels in a CSS pixel.
 */
function drawLine({ ctx, bbox }, x, stroke, ratio) {
  ctx.strokeStyle = stroke;
  ctx.lineWidth = 1.25 * ratio;
  ctx.setLineDash([3 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
}
