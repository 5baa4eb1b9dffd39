// Curves with zoom. Without this file a page shows them as still lines and as tables.
"use strict";
(() => {
  const EVERY_MS = 10000;
  const two = (number) => String(number).padStart(2, "0");
  const span = (s) => s >= 86400 ? Math.floor(s / 86400) + " d " + Math.round(s % 86400 / 3600) + " h"
    : s >= 3600 ? Math.floor(s / 3600) + " h " + Math.round(s % 3600 / 60) + " min"
    : s >= 60 ? Math.floor(s / 60) + " min " + Math.round(s % 60) + " s" : Math.round(s) + " s";
  const brief = (s) => s >= 86400 ? +(s / 86400).toFixed(1) + " d" : s >= 3600 ? +(s / 3600).toFixed(1) + " h" : s >= 60 ? +(s / 60).toFixed(1) + " min" : Math.round(s) + " s";
  const short = (v) => v >= 1e9 ? +(v / 1e9).toFixed(1) + " G" : v >= 1e6 ? +(v / 1e6).toFixed(1) + " M" : v >= 1e4 ? +(v / 1e3).toFixed(1) + " k" : String(+v.toFixed(2));
  const units = {
    count: [short, (v) => Math.round(v).toLocaleString("en")],
    rate: [short, (v) => v.toLocaleString("en", { maximumFractionDigits: 1 }) + "/s"],
    seconds: [brief, span],
    ratio: [(v) => Math.round(v * 100) + "%", (v) => (v * 100).toFixed(1) + "%"],
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const moment = (s) => {
    const at = new Date(s * 1000);
    return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  };
  const draw = (figure) => {
    const [axis, exact] = units[figure.dataset.unit];
    const names = figure.dataset.lines.split("|");
    const holder = document.createElement("div");
    let plot = null, zoomed = false;
    const options = () => ({
      width: figure.clientWidth || 400, height: 180,
      tzDate: (s) => uPlot.tzDate(new Date(s * 1000), "Etc/UTC"),
      cursor: { points: { size: 6 } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") },
          values: [[86400, "{MM}-{DD}", null, null, null, null, null, null, 1], [3600, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
            [60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
        { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, size: 64,
          ...(figure.dataset.unit === "seconds" ? { incrs: [1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800] } : {}),
          values: (_, ticks) => ticks.map(axis) },
      ],
      series: [{ label: "UTC", value: (_, s) => s == null ? "—" : moment(s) },
        ...names.map((name, number) => ({
          label: name, stroke: colour("--line-" + number), width: 2, spanGaps: false,
          fill: names.length === 1 ? colour("--line-fill") : undefined,
          value: (_, v) => v == null ? "—" : exact(v),
        }))],
      hooks: { setSelect: [(u) => { zoomed = u.select.width > 0; }] },
    });
    const show = (data) => {
      if (plot) { plot.setData(data, !zoomed); return; }
      figure.querySelector("svg").replaceWith(holder);
      plot = new uPlot(options(), data, holder);
      plot.over.addEventListener("dblclick", () => { zoomed = false; });
      new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height: 180 })).observe(figure);
    };
    let data = null;
    const load = async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch(figure.dataset.curve, { headers: { "X-Hanabi-Refresh": "1" } });
        if (!answer.ok || answer.redirected) return;
        data = await answer.json();
        show(data);
      } catch { /* the next round tries again; the page says when figures are old */ }
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      if (plot) { plot.destroy(); plot = new uPlot(options(), data, holder); }
    });
    load();
    setInterval(load, EVERY_MS);
  };
  document.querySelectorAll("figure[data-curve]").forEach(draw);
})();
