// The page: exchanges the token, listens to the events, hands them to charts and tables.
"use strict";

import { Charts } from "/charts.js";
import { Flows, Modules, showDecisions, showLinks } from "/tables.js";
import { bytes, clock, short, span } from "/words.js";

const $ = id => document.getElementById(id);
const REMEMBERED = "tandem dashboard"; // of this origin and tab: a reload goes on
let base = "";
let latest = null;

function say(words, trouble = false) {
  $("state").textContent = words;
  $("state").classList.toggle("trouble", trouble);
}

// What was told before is not said to be so now, whenever the page is shown again.
function trouble(words) {
  latest = null;
  say(words, true);
}

async function ask(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? "answer " + answer.status);
  return answer;
}

const send = (method, path, content) => ask(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });

async function begin() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname); // it works once, and nobody needs to see it
  if (token) {
    try {
      base = (await (await send("POST", "/session", { token })).json()).base;
      sessionStorage.setItem(REMEMBERED, base);
    } catch (error) {
      base = sessionStorage.getItem(REMEMBERED) ?? ""; // the same tab, the same address again
      if (!base) throw error;
    }
  } else base = sessionStorage.getItem(REMEMBERED) ?? "";
  if (!base) throw new Error("no token in the address: open the one that `tandem dashboard` printed");
}

const charts = new Charts($("charts"), point => showDecisions($("decided"), point ?? charts.points.at(-1), charts, !point));
const modules = new Modules($("modules"), charts, (path, content) => send("PUT", base + path, content));
const flows = new Flows($("flows"), $("flows-note"));

function show() {
  if (document.hidden || !latest) return;
  const goodput = Object.values(latest.point.links).reduce((sum, link) => sum + (link.goodput_mbps ?? 0), 0);
  say(`tandemd ${latest.version}, up ${span(latest.uptime_s)}, ${latest.flow_count} flows, ${short(goodput)} Mb/s` + (latest.problems.length ? "; " + latest.problems.join("; ") : ""), latest.problems.length > 0);
  modules.show(latest.modules);
  showLinks($("links"), latest.links, latest.point.links);
  flows.show(latest.flows, latest.flow_count, latest.modules);
  $("cellular").textContent = `Cellular data that all modules together have cost since the daemon began: ${bytes(latest.cell_bytes)}.`;
  if (!charts.cursor) showDecisions($("decided"), latest.point, charts, true);
}

function listen() {
  const events = new EventSource(base + "/events");
  events.addEventListener("past", event => charts.add(JSON.parse(event.data).points));
  events.addEventListener("now", event => {
    latest = JSON.parse(event.data);
    charts.nameModules(latest.modules.map(module => module.name));
    charts.add([latest.point]);
    show();
  });
  events.addEventListener("trouble", event => trouble(JSON.parse(event.data).error));
  events.addEventListener("error", async () => {
    if (events.readyState !== EventSource.CLOSED) return trouble("the dashboard does not answer: has `tandem dashboard` ended?");
    try {
      const answer = await ask(base + "/events"); // the reason, which EventSource does not tell
      await answer.body.cancel();
      setTimeout(listen, 1000); // there is none any more
    } catch (error) {
      trouble(error.message);
    }
  });
}

document.addEventListener("visibilitychange", () => { charts.draw(); show(); });

$("record").addEventListener("click", async () => {
  $("record").disabled = true;
  try {
    const content = await (await ask(base + "/recording")).blob(), link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = "tandem-" + new Date().toISOString().slice(0, 19).replaceAll(":", "") + ".pcapng";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    $("recorded").textContent = `${link.download}: ${bytes(content.size)}, at ${clock(Date.now() / 1000)}`;
  } catch (error) {
    $("recorded").textContent = error.message;
  }
  $("record").disabled = false;
});

begin().then(() => {
  $("record").disabled = false;
  listen();
}, error => say(error.message, true));
