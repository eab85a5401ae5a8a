// Numbers in words, and elements. Whatever came from packets or modules becomes text, never markup.
"use strict";

export const fixed = (value, digits) => value === null || value === undefined ? "-" : value.toFixed(digits);

// To three digits: 0.42, 4.21, 42.1, 421.
export function short(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

export function bytes(count) {
  if (count === null || count === undefined) return "-";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; count >= 999.5 && unit + 1 < units.length; ++unit) count /= 1000;
  return (unit ? short(count) : count.toFixed(0)) + " " + units[unit];
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  const all = Math.round(seconds);
  const parts = [[Math.floor(all / 86400), "d"], [Math.floor(all / 3600) % 24, "h"], [Math.floor(all / 60) % 60, "min"], [all % 60, "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  return first < 0 ? "0 s" : parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => count + " " + unit).join(" ");
}

export const clock = seconds => new Date(seconds * 1000).toLocaleTimeString([], { hourCycle: "h23" });

export const percent = share => share === null || share === undefined ? "?"
  : (share >= 0 ? "+" : "") + (share * 100).toFixed(Math.abs(share) < 0.0995 ? 1 : 0);

// A reason begins with the name of who gave it.
export const without = (why, name) => why.startsWith(name + ": ") ? why.slice(name.length + 2) : why;

// An element with class and content: texts and elements.
export function made(tag, kind, ...content) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...content);
  return element;
}

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
