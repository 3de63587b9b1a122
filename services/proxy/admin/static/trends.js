// The charts of Trends: fetches /metalanchor/api/series for the span, agent and model shown, and draws them; and
// /metalanchor/api/samples, what model servers count of themselves, where any was sampled in that span.
"use strict";
(() => {
  const HEIGHT = 240;
  let charts = [];
  let shown = null; // the data and where it is drawn, to draw it anew at another width or in other colours

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const unknown = "–";

  async function load() {
    const box = document.getElementById("trends");
    const texts = JSON.parse(box.dataset.texts);
    const query = new URLSearchParams({ span: box.dataset.span });
    for (const name of ["agent", "model"]) if (box.dataset[name]) query.set(name, box.dataset[name]);
    const problem = document.getElementById("chart-problem");
    try {
      const [data, samples] = await Promise.all([
        fetched(`series?${query}`), fetched(`samples?span=${box.dataset.span}`),
      ]);
      shown = { data, samples, say: (text) => texts[text] || text };
      problem.hidden = true;
      draw();
      box.dataset.drawn = "true";
    } catch (error) {
      problem.textContent = `${texts["The figures could not be fetched."]} ${error.message}`;
      problem.hidden = false;
    }
  }

  async function fetched(path) {
    const answer = await fetch(`/metalanchor/api/${path}`);
    const data = await answer.json();
    if (!answer.ok) throw new Error(data.error.message);
    return data;
  }

  function draw() {
    if (!shown) return;
    for (const chart of charts) chart.destroy();
    const { data, say } = shown;
    const seconds = (values) => values.map((value) => (value === null ? null : value / 1000));
    const shares = (values) => values.map((value) => (value === null ? null : 100 * value));
    charts = [
      lines("chart-ttft", data, say, [
        [say("p50"), seconds(data.ttft_ms.p50), "--c1"],
        [say("p95"), seconds(data.ttft_ms.p95), "--c2"],
        [say("p99"), seconds(data.ttft_ms.p99), "--c5"],
      ], " s"),
      lines("chart-reuse", data, say, [
        [say("measured"), shares(data.measured_reuse), "--c3"],
        [say("predicted"), shares(data.predicted_reuse), "--c7", [5, 4]],
      ], " %", [0, 100]),
      stacked("chart-lost", data, say, Object.entries(data.lost_s)),
      stacked("chart-requests", data, say, [["requests", data.requests]], ""),
      ...counted(shown.samples, say, shares),
    ].filter(Boolean);
  }

  function counted(samples, say, shares) {
    const section = document.getElementById("counted");
    const { backends } = samples;
    section.hidden = !backends.length;
    if (!backends.length) return [];
    const each = (name) => backends.map((one, place) => [one.backend, shares(one[name]), `--c${place + 1}`]);
    const load = backends.flatMap((one, place) => [
      [`${one.backend}: ${section.dataset.running}`, one.running, `--c${place + 1}`],
      [`${one.backend}: ${section.dataset.waiting}`, one.waiting, `--c${place + 1 + backends.length}`, [5, 4]],
    ]);
    return [
      lines("chart-hits", samples, say, each("hit_rate"), " %", [0, 100]),
      lines("chart-kv", samples, say, each("kv_usage"), " %", [0, 100]),
      lines("chart-load", samples, say, load, ""),
    ];
  }

  function lines(id, data, say, series, unit, range) {
    const options = series.map(([label, , stroke, dash]) => ({
      label, dash, stroke: colour(stroke), width: 1.75, spanGaps: true,
      points: { show: sparse(data.t, series), size: 5 },
      value: (_, value) => (value === null || value === undefined ? unknown : value.toFixed(unit === " s" ? 2 : 0) + unit),
    }));
    return plot(id, data.t, say, series.map(([, values]) => values), options, range ? { range } : {}, isKnown);
  }

  function stacked(id, data, say, series, unit = " s") {
    const sums = [];
    const total = data.t.map(() => 0);
    for (const [, values] of series) {
      values.forEach((value, place) => { total[place] += value || 0; });
      sums.push([...total]);
    }
    const drawn = series.map(([name, values], place) => ({
      label: say(name), stroke: colour(`--c${place + 1}`), fill: colour(`--c${place + 1}`), width: 0,
      paths: uPlot.paths.bars({ size: [0.8, 60] }), points: { show: false },
      value: (_, __, ___, at) => (at === null ? unknown : values[at].toFixed(unit ? 1 : 0) + unit),
    }));
    // The tallest sums are drawn first, so that the shorter ones stand in front of them.
    const bars = { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] };
    return plot(id, data.t, say, sums.reverse(), drawn.reverse(), bars, Boolean);
  }

  const isKnown = (value) => value !== null;

  function sparse(times, series) {
    const most = Math.max(0, ...series.map(([, values]) => values.filter((value) => value !== null).length));
    return most < times.length / 2;
  }

  function plot(id, times, say, columns, series, scale, isWorthALook) {
    const box = document.getElementById(id);
    box.replaceChildren();
    if (!columns.some((values) => values.some(isWorthALook))) {
      box.append(Object.assign(document.createElement("p"), { className: "empty", textContent: say("Nothing in this span.") }));
      return null;
    }
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const day = times[times.length - 1] - times[0] > 2 * 86400;
    const moment = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "short", timeStyle: "short", hourCycle: "h23" });
    const label = new Intl.DateTimeFormat(document.documentElement.lang, day ? { month: "2-digit", day: "2-digit" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    return new uPlot({
      width: Math.max(200, box.clientWidth), height: HEIGHT, series: [
        { label: say("time"), value: (_, value) => (value === null || value === undefined ? unknown : moment.format(value * 1000)) }, ...series,
      ],
      scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1], ...scale } },
      axes: [{ ...axis, values: (_, marks) => marks.map((mark) => label.format(mark * 1000)) }, { ...axis, size: 52 }],
      cursor: { y: false }, legend: { live: true },
    }, [times, ...columns], box);
  }

  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(draw, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("htmx:after:swap", load);
  load();
})();
