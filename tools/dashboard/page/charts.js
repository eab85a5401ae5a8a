// Four charts over one time axis, ten minutes long: goodput, round trip, signal, packet time of each link. Decisions are marks at their foot.
"use strict";

import { colour, fixed, made, short } from "/words.js";

const KEPT_S = 600;
const LANE = 5; // pixels of height that a module's marks have
const CHARTS = [
  { key: "goodput_mbps", title: "Goodput", unit: "Mb/s", words: short, low: 0, least: 1 },
  { key: "rtt_ms", title: "Round trip", unit: "ms", words: short, low: 0, least: 10 },
  { key: "signal_dbm", title: "Signal", unit: "dBm", words: value => fixed(value, 0), low: null, least: 10 },
  { key: "packet_time_ms", title: "Packet time", unit: "ms", words: short, low: 0, least: 0.5 },
];

export class Charts {
  // chosen(point): the second under the cursor, or null when it is on no chart.
  constructor(place, chosen) {
    this.place = place;
    this.chosen = chosen;
    this.points = [];
    this.links = [];
    this.modules = [];
    this.plots = [];
    this.cursor = null;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    this.sizes = new ResizeObserver(() => this.resize());
  }

  // Points in order of time; those that are known are left out.
  add(points, show = true) {
    for (const point of points)
      if (!this.points.length || point.t > this.points.at(-1).t) this.points.push(point);
    const oldest = this.points.length ? this.points.at(-1).t - KEPT_S : 0;
    while (this.points.length && this.points[0].t < oldest) this.points.shift();
    const links = new Set(this.links), modules = new Set(this.modules);
    for (const point of points) {
      Object.keys(point.links).forEach(name => links.add(name));
      Object.keys(point.decisions).forEach(name => modules.add(name));
    }
    this.modules = [...modules];
    if (links.size !== this.links.length || !this.plots.length) {
      this.links = [...links];
      this.build();
    } else if (show) this.draw();
  }

  nameModules(names) {
    this.modules = names;
  }

  moduleColour(name) {
    return colour("--module-" + Math.max(0, this.modules.indexOf(name)) % 5);
  }

  data(key) {
    return [this.points.map(point => point.t), ...this.links.map(link => this.points.map(point => point.links[link]?.[key] ?? null))];
  }

  range() {
    const last = this.points.at(-1)?.t ?? Date.now() / 1000;
    return [Math.min(this.points[0]?.t ?? last, last - 60), last];
  }

  build() {
    this.sizes.disconnect();
    this.plots.forEach(plot => plot.chart.destroy());
    this.colours = { text: colour("--faint"), grid: colour("--grid"), series: this.links.map((_, i) => colour("--series-" + i % 4)) };
    this.plots = CHARTS.map(kind => this.one(kind));
    this.place.replaceChildren(...this.plots.map(plot => plot.frame));
    this.plots.forEach(plot => this.sizes.observe(plot.frame));
    this.resize();
    this.draw();
  }

  one(kind) {
    const title = made("h2", "", kind.title + ", " + kind.unit);
    const values = this.links.map((link, i) => {
      const key = made("i", "key");
      key.style.background = this.colours.series[i];
      const value = made("b", "", "-");
      title.append(made("span", "", key, link + " ", value));
      return value;
    });
    const frame = made("div", "chart", title);
    frame.dataset.chart = kind.key;
    const axis = { stroke: this.colours.text, grid: { stroke: this.colours.grid, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const chart = new uPlot({
      width: 300, height: 190, legend: { show: false },
      cursor: { sync: { key: "tandem" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { time: true, range: () => this.range() }, y: { range: (_, low, high) => room(kind, low, high) } },
      axes: [{ ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map(at => new Date(at * 1000).toLocaleTimeString([], { hourCycle: "h23" })) },
        { ...axis, size: 46, space: 30 }],
      series: [{}, ...this.links.map((label, i) => ({ label, stroke: this.colours.series[i], width: 1.6, points: { show: false } }))],
      hooks: { draw: [plot => this.marks(plot), plot => this.empty(plot, kind)], setCursor: [plot => this.pointed(plot)] },
    }, this.data(kind.key), frame);
    return { kind, chart, frame, values };
  }

  // One row for each module: a mark a second in which it decided something, stronger where its main reason is another than before.
  marks(plot) {
    const ratio = devicePixelRatio || 1, context = plot.ctx, { left, top, width, height } = plot.bbox;
    context.save();
    this.modules.forEach((name, row) => {
      context.fillStyle = this.moduleColour(name);
      const y = top + height - (row + 1) * (LANE + 1) * ratio;
      let before = null;
      for (const point of this.points) {
        const main = point.decisions[name]?.[0][0] ?? null;
        if (main !== null) {
          const x = plot.valToPos(point.t, "x", true), next = Math.max(ratio, width / (plot.scales.x.max - plot.scales.x.min) - ratio);
          context.globalAlpha = main === before ? 0.35 : 1;
          if (x >= left) context.fillRect(x - next, y, next, LANE * ratio);
        }
        before = main;
      }
    });
    context.restore();
  }

  // A chart without a value says so; a line at zero would be a claim.
  empty(plot, kind) {
    if (this.points.some(point => Object.values(point.links).some(link => link[kind.key] !== null))) return;
    const { ctx, bbox } = plot, ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.fillStyle = this.colours.text;
    ctx.font = `${13 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.fillText("not known", bbox.left + bbox.width / 2, bbox.top + bbox.height / 2);
    ctx.restore();
  }

  pointed(plot) {
    const { idx, left } = plot.cursor;
    const now = left === undefined || left < 0 || idx === null || idx === undefined ? null : this.points[idx] ?? null;
    if (now === this.cursor) return;
    this.cursor = now;
    this.legends();
    this.chosen(now);
  }

  legends() {
    const point = this.cursor ?? this.points.at(-1);
    for (const { kind, values } of this.plots)
      this.links.forEach((link, i) => { values[i].textContent = kind.words(point?.links[link]?.[kind.key]); });
  }

  resize() {
    for (const { chart, frame } of this.plots) {
      const style = getComputedStyle(frame), width = frame.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      if (width > 0 && Math.abs(width - chart.width) >= 1) chart.setSize({ width, height: 190 });
    }
  }

  draw() {
    if (document.hidden) return;
    for (const { kind, chart } of this.plots) chart.setData(this.data(kind.key));
    this.legends();
  }
}

// What the vertical axis spans: from its natural zero, with room for the marks below and some above.
function room(kind, low, high) {
  const bottom = kind.low ?? Math.floor((low ?? -70) - 3), top = Math.max(high ?? bottom, bottom + kind.least), space = top - bottom;
  return [kind.low === null ? bottom - 0.22 * space : bottom - 0.22 * space, top + 0.08 * space];
}
