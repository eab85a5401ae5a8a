#include "src/control/dashboard.h"

namespace tandem::control
{

// Everything shown goes through textContent: names and reasons come from packets and third-party modules.
const std::string_view dashboard_page = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Tandem</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 68em; padding: 0 1em; }
h1 { font-size: 1.4em; margin-bottom: 0; }
h2 { font-size: 1.05em; margin: 1.6em 0 .4em; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2em .8em .2em 0; border-bottom: 1px solid #8884; vertical-align: top; }
td.n { text-align: right; }
#state.gone { color: #c22; font-weight: bold; }
small { opacity: .7; }
</style>
</head>
<body>
<h1>Tandem</h1>
<div id="state">connecting ...</div>
<h2>Links</h2><table id="links"></table>
<h2>Modules</h2><table id="modules"></table>
<h2>Datapath</h2><table id="datapath"></table>
<h2>Flows</h2><table id="flows"></table>
<script>
"use strict";
const plain = v => v === null || v === undefined ? "" : typeof v === "boolean" ? (v ? "yes" : "no")
  : typeof v === "object" ? Object.entries(v).map(([k, x]) => k + " " + plain(x)).join(", ")
  : typeof v === "number" && !Number.isInteger(v) ? v.toPrecision(4) : String(v);
function fill(id, head, rows) {
  const table = document.getElementById(id);
  const make = (cells, tag) => {
    const tr = document.createElement("tr");
    for (const cell of cells) {
      const td = document.createElement(tag);
      td.textContent = plain(cell);
      if (typeof cell === "number") td.className = "n";
      tr.append(td);
    }
    return tr;
  };
  table.replaceChildren(make(head, "th"), ...rows.map(r => make(r, "td")));
}
const get = async path => {
  const answer = await fetch(path);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
};
async function refresh() {
  const state = document.getElementById("state");
  try {
    const [s, flows] = await Promise.all([get("/v1/status"), get("/v1/flows")]);
    state.className = "";
    state.textContent = "version " + plain(s.version) + ", process " + plain(s.pid) + ", up "
      + Math.round(s.uptime_s || 0) + " s, rules by " + plain((s.backend || {}).name);
    const links = Object.entries(s.links || {});
    const keys = [...new Set(links.flatMap(([, l]) => Object.keys(l)))];
    fill("links", ["link", ...keys], links.map(([name, l]) => [name, ...keys.map(k => l[k])]));
    fill("modules", ["module", "on", "flows", "faults", "decisions"], (s.modules || []).map(m =>
      [m.name, m.enabled, m.flows, m.faults,
       Object.entries(m.decisions || {}).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([w, n]) => n + " " + w).join(", ")]));
    fill("datapath", ["counter", "value"], Object.entries({...s.datapath, ...s.faults}));
    fill("flows", ["local", "remote", "link", "RTT ms", "Mbit/s", "modules"], flows
      .sort((a, b) => (b.rate_mbps || 0) - (a.rate_mbps || 0)).slice(0, 50)
      .map(f => [f.local, f.remote, f.link, f.rtt_ms, f.rate_mbps, f.modules]));
  } catch (error) {
    state.className = "gone";
    state.textContent = "no answer from the daemon: " + error.message;
  }
  setTimeout(refresh, 1000);
}
refresh();
</script>
</body>
</html>
)html";

} // namespace tandem::control
