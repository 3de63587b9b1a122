// The first page, live: follows /metalanchor/events and draws at most once a frame, however much happens.
"use strict";
(() => {
  const ROWS = 50;
  const flight = document.getElementById("flight");
  const labels = JSON.parse(flight.dataset.labels);
  const live = document.getElementById("live");
  const flows = new Map(); // id → { item, row, at }: what is under way, and when that was told
  let pending = []; // rows that ended and are not drawn yet, newest last, never more than a page
  let wake = 0;
  let source = null;
  let note = "";

  const unknown = "–";
  const say = (text, values = {}) =>
    (labels.say[text] || text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  const percent = (share) =>
    share === null || share === undefined ? unknown : `${Math.floor(share * 100 + (share < 0.995 ? 0.5 : 0))} %`;
  const count = (n) => (n === null || n === undefined ? unknown : String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f"));
  function ms(value) {
    if (value === null || value === undefined) return unknown;
    if (value < 999.5) return `${value.toFixed(0)} ms`;
    return value < 60000 ? `${(value / 1e3).toFixed(1)} s` : `${(value / 6e4).toFixed(1)} min`;
  }

  function set(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
  const cell = (row, name) => row.querySelector(`[data-fill=${name}]`);

  function chip(element, kind, code) {
    element.dataset[kind] = code || "";
    set(element, kind === "hit" ? code || unknown : labels[kind][code] || code || unknown);
    if (kind === "hit") element.title = labels.hit[code] || "";
  }

  // Under way -------------------------------------------------------------------------------------------

  function showFlows(data) {
    const now = performance.now();
    const seen = new Set();
    for (const item of data.items) {
      seen.add(item.id);
      const known = flows.get(item.id);
      if (known) Object.assign(known, { item, at: now });
      else flows.set(item.id, { item, at: now, row: null });
    }
    for (const id of flows.keys()) if (!seen.has(id)) flows.delete(id);
    schedule();
  }

  function drawFlows() {
    const body = flight.tBodies[0];
    for (const row of [...body.rows]) if (!flows.has(row.dataset.id)) row.remove();
    for (const [id, flow] of flows) {
      if (!flow.row) {
        flow.row = document.getElementById("flow-row").content.firstElementChild.cloneNode(true);
        flow.row.dataset.id = id;
        const old = body.querySelector(`[data-id="${CSS.escape(id)}"]`);
        if (old) old.replaceWith(flow.row);
        else body.append(flow.row);
      }
      drawFlow(flow);
    }
    document.getElementById("flight-empty").hidden = flows.size > 0;
  }

  function drawFlow({ item, row, at }) {
    set(cell(row, "agent"), item.agent || unknown);
    set(cell(row, "model"), item.model || unknown);
    chip(cell(row, "phase"), "phase", item.phase);
    chip(cell(row, "hit"), "hit", item.hit);
    set(cell(row, "predicted"), percent(item.predicted_reuse));
    set(cell(row, "tokens"), count(item.estimated_tokens));
    set(cell(row, "elapsed"), ms(item.elapsed_ms + performance.now() - at));
    const bar = row.querySelector("progress");
    bar.hidden = !item.progress;
    let more = item.ahead ? say("{n} before it", { n: item.ahead }) : "";
    if (item.progress) {
      bar.value = item.progress.total ? item.progress.done / item.progress.total : 1;
      const share = percent(bar.value);
      more = item.progress.source === "engine" ? say("{share} read", { share }) : say("about {share}", { share });
    } else if (item.phase === "streaming" && item.streamed_deltas) {
      more = say("{n} pieces out", { n: item.streamed_deltas });
    }
    set(cell(row, "more"), more);
  }

  // Ended -----------------------------------------------------------------------------------------------

  function showRows(data) {
    const latest = document.getElementById("latest");
    if (latest.dataset.paged === "true") return; // an older page stands still
    const filters = Object.entries(JSON.parse(latest.dataset.filters)).filter(([, value]) => value);
    const fits = (item) =>
      filters.every(([name, value]) => item[name] === value) &&
      (latest.dataset.all === "true" || item.kind === "generation");
    const fitting = data.items.filter(fits).map((item) => ({ ...item, old: data.old }));
    pending = [...pending, ...fitting].slice(-ROWS);
    note = data.missed ? say("{n} more came too fast to be shown", { n: data.missed }) : note;
    schedule();
  }

  function drawRows() {
    const body = document.querySelector("#latest tbody");
    const fresh = pending;
    pending = [];
    for (const item of fresh) {
      if (body.querySelector(`[data-id="${CSS.escape(item.id)}"]`)) continue;
      const row = document.getElementById("request-row").content.firstElementChild.cloneNode(true);
      row.dataset.id = item.id;
      if (!item.old) row.className = "fresh";
      fillRow(row, item);
      body.prepend(row);
    }
    while (body.rows.length > ROWS) body.rows[body.rows.length - 1].remove();
    const empty = document.querySelector("#latest .empty");
    if (empty && body.rows.length) empty.hidden = true;
  }

  function fillRow(row, item) {
    const reuse = item.cached_tokens !== null && item.prompt_tokens ? item.cached_tokens / item.prompt_tokens : null;
    const link = cell(row, "when");
    link.href = `/metalanchor/requests/${encodeURIComponent(item.id)}`;
    const time = link.querySelector("time");
    time.dateTime = time.title = item.received_at;
    set(time, window.metalanchor.ago(item.received_at));
    for (const name of ["agent", "model"]) set(cell(row, name), item[name] || unknown);
    chip(cell(row, "hit"), "hit", item.hit);
    set(cell(row, "measured"), percent(reuse));
    set(cell(row, "predicted"), percent(item.predicted_reuse));
    row.querySelector(".fill").setAttribute("width", reuse === null ? 0 : 100 * reuse);
    const tick = row.querySelector(".tick");
    if (item.predicted_reuse === null) tick.remove();
    else tick.setAttribute("x", Math.min(98, 100 * item.predicted_reuse));
    set(cell(row, "ttft"), ms(item.ttft_ms));
    set(cell(row, "lost"), item.lost_ms ? ms(item.lost_ms) : unknown);
    cell(row, "lost").classList.toggle("lost", Boolean(item.lost_ms));
    set(cell(row, "cause"), item.cause ? labels.cause[item.cause] || item.cause : unknown);
    cell(row, "cause").title = item.cause || "";
    cell(row, "cause").classList.toggle("none", !item.cause);
    set(cell(row, "status"), labels.status[item.status] || item.status);
    cell(row, "status").className = item.status === "completed" ? "soft" : "bad";
  }

  // Drawing and following -------------------------------------------------------------------------------

  function schedule() {
    if (!wake) wake = requestAnimationFrame(draw);
  }

  function draw() {
    wake = 0;
    drawFlows();
    if (pending.length) drawRows();
    set(live, note || say("live"));
  }

  function follow() {
    source?.close();
    source = new EventSource(`/metalanchor/events${flight.dataset.all === "true" ? "?all=true" : ""}`);
    source.addEventListener("hello", (event) => {
      const { workers, shared } = JSON.parse(event.data);
      note = workers > 1 && !shared
        ? say("This is one of {n} proxy processes; the others' requests appear when the page is loaded.", { n: workers })
        : "";
      live.classList.add("on");
      schedule();
    });
    source.addEventListener("history", (event) => showRows({ ...JSON.parse(event.data), old: true }));
    source.addEventListener("underway", (event) => showFlows(JSON.parse(event.data)));
    source.addEventListener("ended", (event) => showRows(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      live.classList.remove("on");
      set(live, say("not connected"));
    });
  }

  // The sentence and the figures of the hour, anew each minute; not while somebody looks elsewhere or is in them.
  async function renew() {
    const summary = document.getElementById("summary");
    if (document.hidden || summary.matches(":focus-within")) return;
    const answer = await fetch("/metalanchor/").catch(() => null);
    if (!answer || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("summary");
    if (fresh) summary.replaceWith(fresh);
  }

  setInterval(renew, 60000);
  setInterval(() => { if (flows.size) schedule(); }, 250);
  // Another list was fetched: whether probes are shown too may have changed with it.
  document.addEventListener("htmx:after:swap", () => {
    const all = document.getElementById("latest").dataset.all;
    if (all === flight.dataset.all) return;
    flight.dataset.all = all;
    follow();
  });
  window.addEventListener("pagehide", () => source?.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
  follow();
})();
