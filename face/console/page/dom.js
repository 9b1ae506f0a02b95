// Elements are made of text alone: what comes from the cluster is never HTML.
import { texts as t } from "./texts.js";

export function el(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
    else if (value === true) out.setAttribute(key, "");
    else if (value !== false && value !== undefined) out.setAttribute(key, value);
  }
  return fill(out, children);
}

function fill(out, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) out.append(child instanceof Node ? child : String(child));
  }
  return out;
}

export function svg(name, attributes, ...children) {
  const out = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  return fill(out, children);
}

// link leads to a page. A short text is not broken at its hyphens.
export const link = (text, ...path) => el("a", { href: "#/" + path.map(encodeURIComponent).join("/"), class: text.length <= unbroken && "short" }, text);
const unbroken = 28;
export const nodeLink = (name) => link(name, "nodes", name);
export const podLink = (p) => link(p.namespace + "/" + p.name, "pods", p.namespace, p.name);

// table has one of its rows below the other in a narrow window where it has long texts.
export function table(heads, rows, caption, long) {
  const keyboard = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || heads.filter(Boolean).join(", ") };
  return el("div", keyboard, el("table", { class: long ? "stack" : heads.length > 4 ? "many" : "few" },
    el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", { "data-head": long ? heads[i] : undefined }, cell)))))));
}

export const note = (text, bad) => el("p", { class: bad ? "note fault" : "note", role: bad ? "alert" : "note" }, text);
export const quiet = (...children) => el("p", { class: "quiet" }, ...children);
export const when = (time) => el("time", { datetime: time }, new Date(time).toLocaleString(document.documentElement.lang));

// ago is how long ago a time was, in words.
export function ago(time) {
  const seconds = Math.max(0, (Date.now() - new Date(time)) / 1000), words = new Intl.RelativeTimeFormat(document.documentElement.lang, { style: "short", numeric: "auto" });
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, s]) => seconds >= s) || ["second", 1];
  return el("time", { datetime: time }, words.format(-Math.floor(seconds / size), unit));
}

// field is an input with its label above.
export function field(text, input, help) {
  return el("label", { class: "field" }, el("span", {}, text), input, help && el("small", {}, help));
}

export const choices = (all, chosen) => all.map(([value, text]) => el("option", { value, selected: value === chosen }, text));

// diff shows the lines of a diff: what comes and what goes has a colour, and its sign as before.
export const diff = (lines) => el("pre", { class: "diff", tabindex: "0" }, lines.map((l) =>
  el("span", { class: /^(\+\+\+|---|@@)/.test(l) ? "where" : l.startsWith("+") ? "comes" : l.startsWith("-") ? "goes" : "" }, l + "\n")));

// problem shows why something cannot be shown, and what to do about it.
export function problem(e, again) {
  const head = { 0: t.noAnswer, 403: t.forbidden, 404: t.notFound }[e.status] || t.failed;
  const text = [e.field, e.message].filter(Boolean).join(": ");
  return el("div", { class: "note fault", role: "alert" }, el("strong", {}, head), el("div", {}, text),
    e.status === 403 ? el("div", {}, t.askForRights) : null,
    again && e.status !== 403 && el("button", { type: "button", onclick: again }, t.again));
}

export const refused = (all) => (all || []).some((l) => l.reason.includes("may not"));

// limits say what a page lacks and what to do where rights are missing.
export function limits(all) {
  if (!all?.length) return null;
  return el("div", { class: "note limits", role: "note" }, el("strong", {}, t.limits + ": "),
    all.map((l, i) => [i ? "; " : "", `${l.resource} (${l.reason})`]), ". ", refused(all) ? t.askForRights : null);
}

const stops = "a[href], button, input, select, textarea, summary, canvas, [tabindex]";

// focused remembers where the focus is in an element, and returns what brings it back once the element is drawn anew.
export function focused(root) {
  const at = document.activeElement, i = root.contains(at) ? [...root.querySelectorAll(stops)].indexOf(at) : -1;
  const text = (x) => x.dataset.key || x.textContent; // a key stays where the text changes
  const alike = (x) => x && x.tagName === at.tagName && x.id === at.id && text(x) === text(at);
  return () => {
    if (i < 0 || document.activeElement !== document.body) return;
    const all = [...root.querySelectorAll(stops)];
    (alike(all[i]) ? all[i] : all.find(alike) || root.querySelector("h1"))?.focus({ preventScroll: true });
  };
}

export function bytes(n) {
  const units = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (n >= 100 || Number.isInteger(n) ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

// ids expands the Linux list format: 0-3,8.
export function ids(list) {
  const out = [];
  for (const part of (list || "").split(",").filter(Boolean)) {
    const [from, to] = part.split("-").map(Number);
    for (let i = from; i <= (to ?? from); i++) out.push(i);
  }
  return out;
}

// idList shows a list of ids, which is broken only after commas.
export const idList = (list) => list.split(",").map((part, i, all) => [el("span", { class: "short" }, part + (i < all.length - 1 ? "," : "")), el("wbr")]);

export const memoryText = (all) => (all || []).map((m) => `${m.kind} ${bytes(m.bytes)}` + (m.numas ? ` (${t.numa} ${m.numas})` : "")).join(", ");
export const devicesText = (all) => (all || []).map((d) => `${d.resource}: ${d.ids ? d.ids.join(", ") : d.count}`).join("; ");

// deviceList is devicesText that is broken only between devices.
export const deviceList = (all) => (all || []).map((d, i) => [i ? "; " : "", `${d.resource}: `, d.ids ?
  d.ids.map((id, k) => [el("span", { class: id.length <= unbroken && "short" }, id + (k < d.ids.length - 1 ? "," : "")), " "]) : d.count]);

// requests are what containers ask for.
export const requests = (containers) => (containers || []).map((c) => [c.name, [
  c.milliCPU ? c.milliCPU / 1000 + " " + t.cpus : "", memoryText(c.memory), devicesText(c.devices)].filter(Boolean).join(", ")]);

// saved offers a document as a file.
export function saved(doc, name) {
  const url = URL.createObjectURL(new Blob([JSON.stringify(doc, null, 2)], { type: "application/json" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
