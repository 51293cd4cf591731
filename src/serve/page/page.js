// Keeps the page fresh and draws its four panels. The words come from the server's own rendering
// of the page, the curves from /api/v1/history; nothing else is ever asked.
"use strict";

const REFRESH_MS = 2000;
// The least that a panel shows, so that the first minutes are not a line at its edge.
const LEAST_SPAN = 180;
const MARGIN = { left: 38, right: 30, top: 6, bottom: 16 };

// ---- words -----------------------------------------------------------------------------------

async function refreshWords() {
  const answer = await fetch("./", { cache: "no-store" });
  if (!answer.ok) throw new Error(`the exporter answered ${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const names = (page) => [...page.querySelectorAll(".charts")].map((c) => c.dataset.cache).join("\n");
  if (names(fresh) !== names(document)) {
    location.reload();
    return;
  }
  document.title = fresh.title;
  for (const article of fresh.querySelectorAll("article.cache")) {
    document.getElementById(article.id).dataset.state = article.dataset.state;
  }
  for (const part of fresh.querySelectorAll("[data-live]")) {
    replaceLive(part);
  }
}

function replaceLive(fresh) {
  const old = document.querySelector(`[data-live="${fresh.dataset.live}"]`);
  if (!old || old.innerHTML === fresh.innerHTML) return;
  // What a person opened or closed stays so.
  const opened = new Map([...old.querySelectorAll("details[data-key]")].map((d) => [d.dataset.key, d.open]));
  for (const details of fresh.querySelectorAll("details[data-key]")) {
    if (opened.has(details.dataset.key)) details.open = opened.get(details.dataset.key);
  }
  old.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
}

// ---- curves ----------------------------------------------------------------------------------

function svg(name, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

function figures(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

const percent = (value) => (value === null || value === undefined ? "–" : `${(value * 100).toFixed(1)} %`);
const clock = (unix) => new Date(unix * 1000).toISOString().slice(11, 19);

function span(seconds) {
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${seconds / 60}m`;
  return seconds < 86400 ? `${seconds / 3600}h` : `${seconds / 86400}d`;
}

// The upper end of an axis: 1, 2 or 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((end) => end >= value);
}

// What each panel shows: curves against the left or the right axis, or the heat map.
const PANELS = {
  ratio: {
    curves: [
      { field: "hit_ratio_app", name: "applications", style: "one", form: percent },
      { field: "hit_ratio_redis", name: "Redis", style: "two", form: percent },
    ],
    limits: [0.95, 0.8],
    left: (h) => {
      const seen = [...h.hit_ratio_app, ...h.hit_ratio_redis].filter((v) => v !== null);
      return [Math.max(0, Math.floor(Math.min(0.75, ...seen) * 4) / 4), 1];
    },
    tick: (v) => `${Math.round(v * 100)}%`,
  },
  loads: {
    curves: [
      { field: "loads_per_second", name: "queries", style: "one", form: figures },
      { field: "misses_per_second", name: "misses", style: "two", form: figures },
      { field: "miss_baseline_per_second", name: "normal misses", style: "three", form: figures },
    ],
    left: (h) => [0, roundUp(Math.max(0, ...h.loads_per_second, ...h.misses_per_second, ...h.miss_baseline_per_second))],
    tick: figures,
  },
  // A stronger colour is more keys.
  ttl: { heat: true },
  locks: {
    curves: [
      { field: "lock_attempts_per_second", name: "attempts/s", style: "one", form: figures },
      { field: "lock_contention_ratio", name: "contention", style: "two", form: percent, right: true },
    ],
    left: (h) => [0, roundUp(Math.max(0, ...h.lock_attempts_per_second))],
    tick: figures,
    right: [0, 1],
  },
};

// Places and sizes of one drawing.
function frame(plot, history) {
  const width = plot.clientWidth || 480;
  const height = plot.clientHeight || 150;
  const end = history.time.length ? history.time[history.time.length - 1] : Date.now() / 1000;
  const seen = history.time.length ? end - history.time[0] : 0;
  const shown = Math.min(history.span_seconds, Math.max(LEAST_SPAN, seen));
  const begin = end - shown;
  const inner = { w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
  const x = (time) => MARGIN.left + ((time - begin) / shown) * inner.w;
  const y = (value, [low, high]) => MARGIN.top + (1 - (value - low) / (high - low)) * inner.h;
  return { width, height, begin, end, span: shown, inner, x, y };
}

function drawFrame(root, f, history) {
  for (const [from, to] of activeSpans(history)) {
    root.append(svg("rect", { class: "shade", x: f.x(from), y: MARGIN.top, width: Math.max(2, f.x(to) - f.x(from)), height: f.inner.h }));
  }
  const most = f.inner.w < 300 ? 3 : 6;
  const step = [60, 120, 180, 300].find((seconds) => f.span / seconds <= most) ?? 300;
  for (let time = Math.ceil(f.begin / step) * step; time <= f.end; time += step) {
    const x = f.x(time);
    root.append(svg("line", { class: "grid", x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + f.inner.h }));
    root.append(svg("text", { x, y: f.height - 4, "text-anchor": "middle" }, clock(time).slice(0, 5)));
  }
}

// From the first to the last second of each stampede.
function activeSpans(history) {
  const spans = [];
  history.active.forEach((active, i) => {
    if (!active) return;
    const last = spans[spans.length - 1];
    if (last && last.index === i - 1) {
      last[1] = history.time[i];
      last.index = i;
    } else {
      spans.push(Object.assign([history.time[i], history.time[i]], { index: i }));
    }
  });
  return spans;
}

function drawCurves(root, f, history, panel) {
  const left = panel.left(history);
  for (const part of [0, 0.5, 1]) {
    const value = left[0] + part * (left[1] - left[0]);
    const y = f.y(value, left);
    root.append(svg("line", { class: "grid", x1: MARGIN.left, x2: f.width - MARGIN.right, y1: y, y2: y }));
    root.append(svg("text", { x: MARGIN.left - 4, y: y + 3, "text-anchor": "end" }, panel.tick(value)));
    if (panel.right) root.append(svg("text", { x: f.width - MARGIN.right + 3, y: y + 3 }, `${part * 100}%`));
  }
  for (const limit of panel.limits ?? []) {
    const y = f.y(limit, left);
    root.append(svg("line", { class: "limit", x1: MARGIN.left, x2: f.width - MARGIN.right, y1: y, y2: y }));
    root.append(svg("text", { x: f.width - MARGIN.right + 3, y: y + 3 }, limit.toFixed(2)));
  }
  let drawn = false;
  for (const curve of panel.curves) {
    const axis = curve.right ? panel.right : left;
    const path = pathOf(history, curve.field, (t, v) => `${f.x(t).toFixed(1)} ${f.y(v, axis).toFixed(1)}`);
    if (!path) continue;
    drawn = true;
    root.append(svg("path", { class: `curve ${curve.style}`, d: path }));
  }
  if (!drawn) drawEmpty(root, f);
}

// A line through the known values; it breaks where a value is unknown or polls are missing.
function pathOf(history, field, place) {
  let path = "";
  let before = null;
  history[field].forEach((value, i) => {
    const time = history.time[i];
    if (value === null) {
      before = null;
      return;
    }
    const joined = before !== null && time - before < 65;
    path += `${joined ? "L" : "M"}${place(time, value)}${joined ? "" : "h.1"}`;
    before = time;
  });
  return path;
}

function drawHeat(root, f, history) {
  const rows = history.ttl_bounds.length + 1;
  const high = Math.max(1, ...history.ttl.flatMap((column) => column.keys));
  const rowHeight = f.inner.h / rows;
  history.ttl.forEach((column, i) => {
    const until = history.ttl[i + 1]?.time ?? f.end;
    const from = Math.max(f.x(column.time), MARGIN.left);
    const width = Math.max(2, f.x(Math.min(until, column.time + 30)) - from);
    column.keys.forEach((keys, row) => {
      if (keys < 0.5) return;
      const y = MARGIN.top + f.inner.h - (row + 1) * rowHeight;
      const strength = 0.12 + 0.88 * (Math.log1p(keys) / Math.log1p(high));
      root.append(svg("rect", { class: "heat", x: from, y, width, height: rowHeight, "fill-opacity": strength.toFixed(2) }));
    });
  });
  history.ttl_bounds.forEach((bound, row) => {
    if (![1, 10, 60, 600, 3600, 86400].includes(bound)) return;
    const y = MARGIN.top + f.inner.h - (row + 1) * rowHeight;
    root.append(svg("line", { class: "grid", x1: MARGIN.left, x2: f.width - MARGIN.right, y1: y, y2: y }));
    root.append(svg("text", { x: MARGIN.left - 4, y: y + 3, "text-anchor": "end" }, span(bound)));
  });
  if (!history.ttl.length) drawEmpty(root, f);
}

function drawEmpty(root, f) {
  root.append(svg("text", { class: "empty", x: MARGIN.left + f.inner.w / 2, y: MARGIN.top + f.inner.h / 2, "text-anchor": "middle" }, "no data in this span"));
}

function drawPanel(figure, history, cursorTime) {
  const panel = PANELS[figure.dataset.panel];
  const plot = figure.querySelector(".plot");
  const f = frame(plot, history);
  const root = svg("svg", { viewBox: `0 0 ${f.width} ${f.height}`, role: "img", "aria-label": figure.querySelector("figcaption").firstChild.textContent.trim() });
  if (panel.heat) drawHeat(root, f, history);
  drawFrame(root, f, history);
  if (panel.curves) drawCurves(root, f, history, panel);
  if (cursorTime !== null) {
    const x = f.x(cursorTime);
    root.append(svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + f.inner.h }));
  }
  plot.replaceChildren(root);
  readOut(figure, panel, history, cursorTime);
}

// The values under the cursor, or the newest ones.
function readOut(figure, panel, history, cursorTime) {
  const output = figure.querySelector("output");
  const parts = [];
  const add = (text, style) => {
    const part = document.createElement("span");
    if (style) {
      const key = document.createElement("i");
      key.className = `key ${style}`;
      part.append(key);
    }
    part.append(`${text} `);
    parts.push(part);
  };
  if (cursorTime !== null) add(clock(cursorTime));
  const at = nearest(history.time, cursorTime);
  if (panel.heat) {
    const column = history.ttl[nearest(history.ttl.map((c) => c.time), cursorTime)];
    if (column) {
      const upTo = (bound) => column.keys.reduce((sum, keys, i) => (history.ttl_bounds[i] <= bound ? sum + keys : sum), 0);
      add(`due in 10s ${figures(upTo(10))}`);
      add(`in 60s ${figures(upTo(60))}`);
    }
  } else if (at >= 0) {
    for (const curve of panel.curves) add(`${curve.name} ${curve.form(history[curve.field][at])}`, curve.style);
  }
  output.replaceChildren(...parts);
}

function nearest(times, wanted) {
  if (wanted === null) return times.length - 1;
  let best = -1;
  times.forEach((time, i) => {
    if (best < 0 || Math.abs(time - wanted) < Math.abs(times[best] - wanted)) best = i;
  });
  return best;
}

// ---- one cache's four panels, on one time axis -------------------------------------------------

const histories = new Map();

async function refreshCurves() {
  const open = [...document.querySelectorAll("details.charts[open]")];
  if (!open.length) return;
  const query = open.map((charts) => `cache=${encodeURIComponent(charts.dataset.cache)}`).join("&");
  const since = Math.min(...open.map((charts) => histories.get(charts.dataset.cache)?.time.at(-1) ?? 0));
  const answer = await fetch(`api/v1/history?${query}&since=${since}`, { cache: "no-store" });
  if (!answer.ok) throw new Error(`the exporter answered ${answer.status}`);
  for (const news of await answer.json()) {
    histories.set(news.cache, joined(histories.get(news.cache), news));
  }
  open.forEach((charts) => drawCache(charts, charts.cursorTime ?? null));
}

// What was there and what is new, no longer than the span.
function joined(old, news) {
  if (!old || !news.time.length) return old ?? news;
  const second = Math.floor(news.time[0]);
  const oldest = news.time.at(-1) - news.span_seconds;
  const kept = (time) => time >= oldest && Math.floor(time) < second;
  const all = { ...news };
  for (const [field, values] of Object.entries(news)) {
    if (!Array.isArray(values) || values.length !== news.time.length || field.startsWith("ttl")) continue;
    all[field] = [...old[field].filter((_, i) => kept(old.time[i])), ...values];
  }
  const columnsFrom = news.ttl.length ? news.ttl[0].time : Infinity;
  all.ttl = [...old.ttl.filter((c) => c.time >= oldest && c.time < columnsFrom), ...news.ttl];
  return all;
}

function drawCache(charts, cursorTime) {
  const history = histories.get(charts.dataset.cache);
  if (!history) return;
  charts.cursorTime = cursorTime;
  for (const figure of charts.querySelectorAll("figure")) drawPanel(figure, history, cursorTime);
}

function watchPointer(charts) {
  charts.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".plot");
    const history = histories.get(charts.dataset.cache);
    if (!plot || !history) return;
    const f = frame(plot, history);
    const part = (event.clientX - plot.getBoundingClientRect().left - MARGIN.left) / f.inner.w;
    drawCache(charts, f.begin + Math.min(1, Math.max(0, part)) * f.span);
  });
  charts.addEventListener("pointerleave", () => drawCache(charts, null));
  charts.addEventListener("toggle", () => refreshCurves().catch(sayStale));
}

// ---- the beat --------------------------------------------------------------------------------

function sayStale(error) {
  const stale = document.getElementById("stale");
  stale.textContent = `This page is not up to date: ${error.message}.`;
  stale.hidden = false;
}

async function beat() {
  try {
    if (!document.hidden) {
      await Promise.all([refreshWords(), refreshCurves()]);
      document.getElementById("stale").hidden = true;
    }
  } catch (error) {
    sayStale(error);
  }
  setTimeout(beat, REFRESH_MS);
}

document.querySelectorAll("details.charts").forEach(watchPointer);
window.addEventListener("resize", () => document.querySelectorAll("details.charts[open]").forEach((c) => drawCache(c, null)));
document.addEventListener("visibilitychange", () => document.hidden || refreshCurves().catch(sayStale));
beat();
