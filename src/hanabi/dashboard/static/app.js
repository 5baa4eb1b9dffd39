// Keyboard and live parts. Pages read without this file.
"use strict";
(() => {
  const typing = (target) => /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
  const places = { o: "/", t: "/topics", g: "/groups", m: "/messages", d: "/dead-letters", b: "/brokers", r: "/replication" };
  let goes = false;
  const rows = () => Array.from(document.querySelectorAll("table.rows tbody tr")).filter((row) => row.querySelector("a"));
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((row) => row.classList.contains("at"));
    const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
    all.forEach((row) => row.classList.remove("at"));
    next.classList.add("at");
    next.querySelector("a").focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (goes) {
      goes = false;
      if (places[event.key]) { event.preventDefault(); location.assign(places[event.key]); }
      return;
    }
    if (event.key === "g") goes = true;
    else if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (field) { event.preventDefault(); field.focus(); }
    } else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "?") location.assign("/help");
  });
  const cell = (row, text) => { row.insertCell().textContent = text; };
  const live = document.querySelector("table[data-stream]");
  if (live) {
    const state = document.getElementById("live-state");
    const source = new EventSource(live.dataset.stream);
    source.onopen = () => { state.textContent = state.dataset.on; };
    source.onerror = () => { state.textContent = state.dataset.off; };
    source.onmessage = (event) => {
      const message = JSON.parse(event.data);
      const body = live.tBodies[0];
      const row = body.insertRow(0);
      const first = row.insertCell();
      const anchor = document.createElement("a");
      anchor.href = "/messages/view?" + new URLSearchParams({ id: message.id, topic: live.dataset.topic });
      anchor.textContent = new Date(message.time).toISOString().replace("T", " ").slice(0, 23);
      first.append(anchor);
      for (const key of ["queue", "offset", "tags", "keys", "body"]) cell(row, message[key]);
      while (body.rows.length > 200) body.deleteRow(-1);
    };
    addEventListener("pagehide", () => source.close());
  }
  document.addEventListener("change", (event) => {
    if (!event.target.matches("input[data-all]")) return;
    event.target.form.querySelectorAll(`input[name=${event.target.dataset.all}]`).forEach((box) => { box.checked = event.target.checked; });
  });
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-CSRF-Token"] = document.body.dataset.csrf || "";
  });
})();
