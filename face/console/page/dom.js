// Elements are made of text alone: what comes from the cluster is never HTML.
export function el(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
    else out.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) out.append(child instanceof Node ? child : String(child));
  }
  return out;
}

export const link = (text, ...path) => el("a", { href: "#/" + path.map(encodeURIComponent).join("/") }, text);

export function table(heads, rows) {
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))));
}

export const note = (text, bad) => el("p", { class: bad ? "note fault" : "note", role: bad ? "alert" : "note" }, text);

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
