"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const hidden = new Set();
  let page, plots, stamp;

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const steps = (v) =>
    v >= 1e6 ? +(v / 1e6).toPrecision(4) + "M" : v >= 1e4 ? +(v / 1e3).toPrecision(4) + "k" : String(v);
  const value = (v) => (v == null ? "" : v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(2) : String(+v.toPrecision(4)));

  function tooltip(chart, shown) {
    const tip = document.createElement("div");
    tip.className = "tip";
    let over = false;
    const move = (u) => {
      const at = u.cursor.idx;
      const rows = [];
      if (over && at != null) {
        chart.lines.forEach((line, k) => {
          if (!u.series[shown[k]].show || line.mean[at] == null) return;
          const row = document.createElement("div"), dot = document.createElement("i");
          dot.style.background = page.groups[line.group].color;
          const range = line.low ? ` (${value(line.low[at])} to ${value(line.high[at])})` : "";
          row.append(dot, `${value(line.mean[at])}${range}`);
          rows.push(row);
        });
      }
      tip.style.display = rows.length ? "block" : "none";
      if (!rows.length) return;
      const head = document.createElement("b");
      head.textContent = "step " + chart.x[at].toLocaleString("en");
      tip.replaceChildren(head, ...rows.slice(0, 12));
      const right = u.cursor.left > u.over.clientWidth / 2;
      tip.style.left = right ? "" : u.cursor.left + 12 + "px";
      tip.style.right = right ? u.over.clientWidth - u.cursor.left + 12 + "px" : "";
    };
    const ready = (u) => {
      u.over.append(tip);
      u.over.addEventListener("mouseenter", () => (over = true));
      u.over.addEventListener("mouseleave", () => { over = false; tip.style.display = "none"; });
    };
    return { ready, setCursor: move };
  }

  function draw(box) {
    const chart = page.charts[box.dataset.chart];
    const series = [{}], data = [chart.x], bands = [], shown = [];
    for (const line of chart.lines) {
      const color = page.groups[line.group].color, show = !hidden.has(line.group);
      shown.push(series.length);
      const few = line.mean.filter((v) => v != null).length < 3;
      series.push({ stroke: color, width: 1.7, show, points: { show: few, fill: color }, group: line.group });
      data.push(line.mean);
      if (!line.low) continue;
      const edge = { width: 0, show, points: { show: false }, group: line.group };
      bands.push({ series: [series.length, series.length + 1], fill: color + "2e" });
      series.push({ ...edge }, { ...edge });
      data.push(line.high, line.low);
    }
    const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const size = (u, labels) => 14 + 6.3 * Math.max(4, ...(labels || []).map((text) => text.length));
    return new uPlot({
      width: box.clientWidth, height: 210, series, bands,
      legend: { show: false }, hooks: Object.fromEntries(Object.entries(tooltip(chart, shown)).map(([k, f]) => [k, [f]])),
      cursor: { y: false, sync: { key: "steps" }, points: { size: 6 } },
      scales: { x: { time: false }, y: { range: (u, low, high) => {
        if (low == null) return [0, 1];
        const room = 0.06 * (high - low) || Math.abs(high) * 0.1 || 1;
        return [low - room, high + room];
      } } },
      axes: [
        { ...axis, space: 60, size: 26, values: (u, all) => all.map(steps) },
        { ...axis, space: 34, size, values: (u, all) => all.map(value) },
      ],
    }, data, box);
  }

  const resized = new ResizeObserver((entries) => {
    for (const { target: box } of entries) {
      if (!box.clientWidth) continue;
      const plot = plots.get(box);
      if (!plot) plots.set(box, draw(box));
      else if (plot.width !== box.clientWidth) plot.setSize({ width: box.clientWidth, height: 210 });
    }
  });

  function toggle(group) {
    hidden.has(group) ? hidden.delete(group) : hidden.add(group);
    for (const button of document.querySelectorAll("button[data-group]"))
      button.setAttribute("aria-pressed", !hidden.has(+button.dataset.group));
    for (const plot of plots.values())
      plot.batch(() => plot.series.forEach((one, k) => {
        if (one.group === group) plot.setSeries(k, { show: !hidden.has(group) });
      }));
  }

  function build() {
    for (const plot of plots ? plots.values() : []) plot.destroy();
    resized.disconnect();
    plots = new Map();
    for (const button of document.querySelectorAll("button[data-group]")) {
      button.setAttribute("aria-pressed", !hidden.has(+button.dataset.group));
      button.onclick = () => toggle(+button.dataset.group);
    }
    for (const box of document.querySelectorAll("[data-chart]")) resized.observe(box);
  }

  function read() {
    page = JSON.parse(document.getElementById("curves").textContent);
    build();
  }

  async function refresh() {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (text !== stamp) {
        const next = new DOMParser().parseFromString(text, "text/html");
        const open = [...document.querySelectorAll("details")].map((one) => one.open);
        document.querySelector("main").replaceWith(next.querySelector("main"));
        document.querySelectorAll("details").forEach((one, k) => (one.open = open[k] ?? one.open));
        stamp = text;
        read();
      }
      document.body.classList.remove("lost");
    } catch { document.body.classList.add("lost"); }
  }

  read();
  dark.addEventListener("change", build);
  if (page.refresh) setInterval(refresh, 1000 * page.refresh);
})();
