// What stands below the charts: decisions of a second, modules with their switches, links, flows.
"use strict";

import { bytes, clock, fixed, made, percent, short, span, without } from "/words.js";

function head(...names) {
  return made("thead", "", made("tr", "", ...names.map(name => name.startsWith(">") ? made("th", "number", name.slice(1)) : made("th", "", name))));
}

const number = text => made("td", "number", text);

// All that was decided in that second, module by module.
export function showDecisions(place, point, charts, living) {
  if (!point) return place.replaceChildren(made("p", "faint", "nothing was looked at yet"));
  const lines = Object.entries(point.decisions).map(([name, reasons]) => {
    const key = made("i", "key");
    key.style.background = charts.moduleColour(name);
    return made("p", "", key, made("b", "", name + " "), reasons.map(([why, count]) => without(why, name) + " (" + count + ")").join("; "));
  });
  place.replaceChildren(made("p", "faint", (living ? "in the last second" : "in the second before " + clock(point.t)) + (living ? "; the marks at the foot of the charts are decisions, point at one to see its second" : "")),
    ...lines.length ? lines : [made("p", "", "no module has decided anything")]);
}

function standing(evidence) {
  if (evidence?.standing === "resting") return "rests here for " + span(evidence.rests_s);
  return evidence?.standing === "trial" ? "on trial here" : "";
}

function gainWords(evidence) {
  if (!evidence) return "not measured: comparisons are off";
  if (evidence.not_compared) return "gain not compared: " + evidence.not_compared;
  if (!evidence.comparisons) return "gain here not known yet";
  const known = evidence.low !== null && evidence.high !== null;
  return `${percent(evidence.gain)} % (${known ? `${percent(evidence.low)} to ${percent(evidence.high)} %` : "interval not known yet"}), compared ${evidence.comparisons}x`;
}

// The interval on a scale from -50 % to +50 %.
function interval(evidence) {
  const bar = made("div", "interval", made("i", "zero"));
  const at = share => 50 + 100 * Math.max(-0.5, Math.min(0.5, share));
  if (evidence?.comparisons && evidence.low !== null && evidence.high !== null) {
    const range = made("i", "span"), mean = made("i", "mean");
    range.style.left = at(evidence.low) + "%";
    range.style.width = at(evidence.high) - at(evidence.low) + "%";
    mean.style.left = at(evidence.gain) + "%";
    bar.append(range, mean);
  }
  bar.title = "95 % interval, from -50 to +50 %";
  return bar;
}

// Rows stay the same elements, so that a press on a switch is not lost to the next second.
export class Modules {
  constructor(place, charts, put) {
    this.place = place;
    this.charts = charts;
    this.put = put;
    this.rows = new Map();
  }

  show(modules) {
    for (const [name, row] of this.rows) if (!modules.some(module => module.name === name)) { row.all.remove(); this.rows.delete(name); }
    for (const module of modules) {
      if (!this.rows.has(module.name)) this.rows.set(module.name, this.row(module.name));
      const row = this.rows.get(module.name);
      row.enabled = module.enabled;
      row.toggle.setAttribute("aria-checked", module.enabled);
      row.toggle.textContent = module.enabled ? "on" : "off";
      row.key.style.background = this.charts.moduleColour(module.name);
      row.gain.textContent = gainWords(module.evidence) + (module.cell_bytes ? ", cellular " + bytes(module.cell_bytes) : "");
      row.bar.replaceChildren(interval(module.evidence));
      const missing = module.enabled && !module.in_force ? "not yet in force" + (module.in_force_why ? ": " + module.in_force_why : "") : "";
      row.about.replaceChildren(made("span", row.refused ? "bad" : "", [row.refused, missing, standing(module.evidence), module.faults ? module.faults + " faults" : "", module.summary].filter(text => text).join("; ")));
    }
  }

  row(name) {
    const toggle = made("button", "switch");
    toggle.type = "button";
    toggle.setAttribute("role", "switch");
    toggle.setAttribute("aria-label", "module " + name);
    toggle.dataset.module = name;
    const key = made("i", "key"), gain = made("span", "gain"), bar = made("div", "gain"), about = made("div", "about");
    const all = made("div", "module", toggle, made("b", "", key, name), gain, bar, about);
    const row = { all, toggle, key, gain, bar, about, enabled: false, refused: "" };
    toggle.addEventListener("click", async () => {
      toggle.disabled = true;
      row.refused = "";
      try {
        await this.put("/modules/" + name, { enabled: !row.enabled });
      } catch (error) {
        row.refused = error.message;
      }
      toggle.disabled = false;
    });
    this.place.append(all);
    return row;
  }
}

export function showLinks(place, links, radio) {
  const rows = links.map(link => {
    const [words, kind] = !link.present ? ["absent", "faint"] : link.up ? ["up", "good"] : [link.carrier ? "blackout" : "down", "bad"];
    const known = radio[link.name] ?? {};
    return made("tr", "", made("td", "", link.name), made("td", "", link.interface || "none"), made("td", kind, words), number(known.signal_dbm == null ? "-" : fixed(known.signal_dbm, 0) + " dBm"),
      number(known.packet_time_ms == null ? "-" : short(known.packet_time_ms) + " ms"), number(bytes(link.bytes_out)), number(link.bytes_out_per_s == null ? "-" : bytes(link.bytes_out_per_s)));
  });
  place.replaceChildren(head("link", "interface", "state", ">signal", ">packet time", ">sent by Tandem", ">per second"), made("tbody", "", ...rows));
}

// Why no module has anything to do with the flow; empty: some may.
const leftAlone = flow => flow.bypass && flow.bypass !== "none" ? flow.bypass : flow.excluded || "";

function doing(flow) {
  if (leftAlone(flow)) return "left alone: " + leftAlone(flow);
  const all = Object.entries(flow.modules ?? {}).map(([name, facts]) => [name, String(facts.why || facts.state || "")]).filter(([, why]) => why);
  return all.map(([name, why]) => name + ": " + without(why, name)).join("; ") || "-";
}

// Shares are small: a mark on one packet of 200 is not none.
const ROUND = value => typeof value === "number" && !Number.isInteger(value) ? (Math.abs(value) < 0.1 ? String(Number(value.toFixed(4))) : short(value)) : String(value);

// As `tandem why` tells it.
function detail(flow, modules) {
  const lines = [`from ${flow.local}, open for ${span(flow.age_s)}`];
  if (flow.sender?.kind) lines.push("sender: " + flow.sender.kind + (flow.sender.confidence ? ", " + fixed(flow.sender.confidence, 0) + " % sure" : "") + (flow.sender.why ? ": " + flow.sender.why : ""));
  if (leftAlone(flow)) lines.push("left alone by every module: " + leftAlone(flow));
  for (const module of leftAlone(flow) ? [] : modules) {
    const facts = flow.modules?.[module.name];
    const why = !module.enabled ? "off" : flow.rests?.includes(module.name) ? "left out of this flow now: " + (standing(module.evidence) || "it is compared with and without")
      : !facts ? "has had nothing to do here yet" : without(String(facts.why || facts.state || facts.phase || "looks on"), module.name);
    const more = Object.entries(facts ?? {}).filter(([key]) => !["why", "state", "phase"].includes(key)).map(([key, value]) => key + " " + ROUND(value));
    lines.push(module.name + " " + why + (more.length ? " (" + more.join(", ") + ")" : ""));
  }
  const cell = made("td", "", ...lines.map(line => made("p", "", line)));
  cell.colSpan = 8;
  return made("tr", "detail", cell);
}

export class Flows {
  constructor(place, note) {
    this.place = place;
    this.note = note;
    this.open = new Set();
    this.place.addEventListener("click", event => {
      const row = event.target.closest(".flow");
      if (!row) return;
      const id = Number(row.dataset.flow);
      if (!this.open.delete(id)) this.open.add(id);
      this.show(...this.last);
    });
  }

  show(flows, count, modules) {
    this.last = [flows, count, modules];
    const focused = document.activeElement?.closest?.(".flow")?.dataset.flow;
    const rows = flows.flatMap(flow => {
      const button = made("button", "", flow.remote);
      button.type = "button";
      button.setAttribute("aria-expanded", this.open.has(flow.id));
      const queued = flow.rtt_ms > 0 ? Math.max(0, flow.rtt_ms - flow.rtt_min_ms) : null;
      const row = made("tr", "flow", made("td", "", button), made("td", "", flow.link), number(short(flow.now_mbps) + " Mb/s"), number(flow.rtt_ms > 0 ? fixed(flow.rtt_ms, 0) + " ms" : "-"),
        number(queued === null ? "-" : fixed(queued, 0) + " ms"), number(bytes(flow.delivered_bytes)), made("td", "", flow.sender?.kind ?? "-"), made("td", leftAlone(flow) ? "faint" : "", doing(flow)));
      row.dataset.flow = flow.id;
      return this.open.has(flow.id) ? [row, detail(flow, modules)] : [row];
    });
    this.place.replaceChildren(head("server", "link", ">rate", ">RTT", ">queued", ">delivered", "sender", "what is done"), made("tbody", "", ...rows));
    if (focused) this.place.querySelector(`.flow[data-flow="${Number(focused)}"] button`)?.focus();
    this.note.textContent = !count ? "no connection has begun since Tandem runs" : count > flows.length ? `the ${flows.length} fastest of ${count}; \`tandem flows\` shows all` : "press one to see what each module does to it, and why";
  }
}
