// The map: every node as its NUMA nodes, on one canvas of which only what is visible is painted.
import { say, texts as t } from "./texts.js";

// sizes of a node's box, the largest first. The first one that shows all nodes in the window is taken.
const sizes = [{ w: 132, h: 50, gap: 8, name: 16 }, { w: 96, h: 44, gap: 6, name: 14 }, { w: 40, h: 22, gap: 4, name: 0 },
  { w: 20, h: 13, gap: 3, name: 0 }, { w: 11, h: 8, gap: 2, name: 0 }];
const heading = 26;

// map paints groups of nodes: [{ title, nodes }]. ink returns what is painted for a NUMA node: { part, level }.
export function drawing(canvas, frame, { ink, describe, open, chose }) {
  let groups = [], all = [], chosen = -1, size = sizes[0], columns = 1, width = 0, due = 0;
  let painted = null; // what single nodes are painted with, beside the others
  const places = new Map(); // by name of the node
  const rows = (g) => Math.ceil(g.nodes.length / columns);

  function layout() {
    if (!frame.clientWidth) return;
    const fits = Math.max(300, innerHeight - 330);
    for (size of sizes) {
      columns = Math.max(1, Math.floor((frame.clientWidth + size.gap) / (size.w + size.gap)));
      if (height() <= fits) break;
    }
    width = size.name ? Math.min(size.w * 1.6, (frame.clientWidth + size.gap) / columns - size.gap) : size.w;
    let y = 0, from = 0;
    for (const g of groups) {
      g.top = y + (g.title ? heading : 0);
      g.from = from;
      y = g.top + rows(g) * (size.h + size.gap);
      from += g.nodes.length;
    }
    frame.style.setProperty("height", Math.max(1, y) + "px");
    paint();
  }

  function height() {
    return groups.reduce((sum, g) => sum + (g.title ? heading : 0) + rows(g) * (size.h + size.gap), 0);
  }

  // top is the first line of the map that is visible.
  const top = () => Math.max(0, Math.min(-frame.getBoundingClientRect().top, frame.clientHeight - canvas.clientHeight));

  function place(i) {
    const g = groups.findLast((x) => x.from <= i && x.nodes.length), k = i - g.from;
    return [(k % columns) * (width + size.gap), g.top + Math.floor(k / columns) * (size.h + size.gap)];
  }

  function paint() {
    due = 0;
    const w = frame.clientWidth, h = Math.min(innerHeight, frame.clientHeight), scale = devicePixelRatio || 1;
    canvas.width = w * scale;
    canvas.height = h * scale;
    canvas.style.setProperty("width", w + "px");
    canvas.style.setProperty("height", h + "px");
    const c = canvas.getContext("2d"), css = getComputedStyle(document.documentElement), from = top();
    const of = (name) => css.getPropertyValue("--" + name).trim();
    const colours = Object.fromEntries(["free", "some", "full", "none", "ink", "line", "warn", "accent", "quiet"].map((n) => [n, of(n)]));
    c.scale(scale, scale);
    c.translate(0, -from);
    painted = { c, colours, from, to: from + h };
    for (const g of groups) {
      if (g.title && g.top >= from && g.top - heading <= from + h) {
        c.fillStyle = colours.ink;
        c.font = "600 13px system-ui, sans-serif";
        c.fillText(clip(c, `${g.title} (${g.nodes.length})`, w), 0, g.top - 9);
      }
      const row = size.h + size.gap, first = Math.max(0, Math.floor((from - g.top) / row)) * columns;
      const last = Math.min(g.nodes.length, Math.max(0, Math.ceil((from + h - g.top) / row)) * columns);
      for (let k = first; k < last; k++) node(c, colours, g, k);
    }
  }

  function node(c, colours, g, k) {
    const n = g.nodes[k], x = (k % columns) * (width + size.gap), y = g.top + Math.floor(k / columns) * (size.h + size.gap);
    const from = y + size.name, h = size.h - size.name, bad = n.problem || (n.flags || []).length;
    if (size.name) {
      c.fillStyle = colours.ink;
      c.font = "11px system-ui, sans-serif";
      c.fillText(clip(c, n.name, width), x, y + 11);
    }
    const parts = n.numas.length ? n.numas : [null], w = width / parts.length, edge = size.w > 30 ? 1 : 0.5;
    parts.forEach((p, i) => {
      const { part, level } = p ? ink(n, p) : { part: 0, level: "none" };
      const left = x + i * w + edge;
      c.fillStyle = p ? colours.free : colours.none;
      c.fillRect(left, from + 1, w - 2 * edge, h - 2);
      c.fillStyle = colours[level];
      c.fillRect(left, from + 1 + (h - 2) * (1 - part), w - 2 * edge, (h - 2) * part);
    });
    const mine = g.from + k === chosen;
    c.strokeStyle = mine ? colours.accent : bad ? colours.warn : colours.line;
    c.lineWidth = mine ? 3 : bad ? 1.5 : 1;
    if (mine || bad || size.w > 15) c.strokeRect(x + 0.5, from + 0.5, width - 1, h - 1);
  }

  // renew paints nodes that have changed in their places, and leaves the others.
  function renew(nodes) {
    for (const n of nodes) {
      const [g, k] = places.get(n.name) || [];
      if (!g) continue;
      g.nodes[k] = all[g.from + k] = n;
      const x = (k % columns) * (width + size.gap), y = g.top + Math.floor(k / columns) * (size.h + size.gap);
      if (due || !painted || y + size.h < painted.from || y > painted.to) continue;
      painted.c.clearRect(x - 1, y - 1, width + 2, size.h + 2);
      node(painted.c, painted.colours, g, k);
    }
  }

  function clip(c, text, most) {
    if (c.measureText(text).width <= most) return text;
    let n = Math.ceil(text.length * most / c.measureText(text).width);
    while (n > 1 && c.measureText(text.slice(0, n) + "…").width > most) n--;
    return text.slice(0, n) + "…";
  }

  function at(x, y) {
    y += top();
    const g = groups.findLast((one) => one.top <= y), column = Math.floor(x / (width + size.gap));
    if (!g || column >= columns) return -1;
    const k = Math.floor((y - g.top) / (size.h + size.gap)) * columns + column;
    return k < g.nodes.length ? g.from + k : -1;
  }

  function choose(i) {
    chosen = i;
    canvas.setAttribute("aria-label", i < 0 ? t.nodes + ". " + t.keys : describe(all[i]));
    chose(all[i]);
    paint();
  }

  function key(e) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -1e9, End: 1e9 }[e.key];
    if ((e.key === "Enter" || e.key === " ") && chosen >= 0) {
      e.preventDefault();
      open(all[chosen]);
    }
    if (e.key === "Escape") choose(-1);
    if (!step || all.length === 0) return;
    e.preventDefault();
    choose(Math.max(0, Math.min(all.length - 1, chosen < 0 ? 0 : chosen + step)));
    const y = place(chosen)[1] + frame.getBoundingClientRect().top;
    if (y < 0 || y > innerHeight - size.h) scrollBy(0, y - innerHeight / 2);
  }

  const later = () => { due ||= requestAnimationFrame(paint); };
  const resize = new ResizeObserver(layout), scheme = matchMedia("(prefers-color-scheme: dark)");
  resize.observe(frame.parentElement);
  scheme.addEventListener("change", later);
  addEventListener("scroll", later, { passive: true });
  canvas.addEventListener("click", (e) => { const i = at(e.offsetX, e.offsetY); if (i >= 0) open(all[i]); });
  canvas.addEventListener("mousemove", (e) => {
    const i = at(e.offsetX, e.offsetY);
    canvas.title = i >= 0 ? describe(all[i]) : "";
  });
  canvas.addEventListener("keydown", key);
  canvas.addEventListener("blur", () => choose(-1));

  return {
    later, renew,
    show(some) {
      const before = all[chosen]?.name;
      groups = some;
      all = groups.flatMap((g) => g.nodes);
      places.clear();
      for (const g of groups) g.nodes.forEach((n, k) => places.set(n.name, [g, k]));
      chosen = before ? all.findIndex((n) => n.name === before) : -1;
      layout();
    },
    close() {
      resize.disconnect();
      scheme.removeEventListener("change", later);
      removeEventListener("scroll", later);
    },
  };
}

// share is how much of a NUMA node is in use.
export function share(p, of) {
  let [whole, free] = of === "cpus" ? [p.cpus, p.freeCPUs] : [p.memory, p.freeMemory];
  if (of === "devices") [whole, free] = (p.devices || []).reduce(([w, f], d) => [w + d.count, f + d.free], [0, 0]);
  return whole > 0 ? 1 - Math.min(1, free / whole) : 0;
}

// fragmentation is by how much the largest pod on one NUMA node is smaller than it could be with the same free CPUs.
export function fragmentation(n) {
  const free = n.numas.reduce((sum, p) => sum + p.freeCPUs, 0);
  const best = Math.min(free, Math.max(0, ...n.numas.map((p) => p.cpus)));
  return best > 0 ? 1 - Math.max(...n.numas.map((p) => p.freeCPUs)) / best : 0;
}

// describe says in words what is drawn of a node.
export function describe(n) {
  const numas = n.numas.map((x) => say("numaFree", x.id, x.freeCPUs, x.cpus));
  return [n.name, n.problem, (n.flags || []).join(", "), ...numas].filter(Boolean).join("\n");
}
