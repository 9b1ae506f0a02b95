// The map: every node as its NUMA nodes, on one canvas of which only what is visible is painted.
import { el } from "./dom.js";
import { say, texts as t } from "./texts.js";

// sizes of a node's box, the largest first. The first one that shows all nodes in the window is taken. name is the height of the
// line with the node's name, and each the height of a line with what is free on each NUMA node.
const sizes = [{ w: 290, h: 134, gap: 14, name: 20, each: 17 }, { w: 200, h: 96, gap: 10, name: 18, each: 15 }, { w: 132, h: 54, gap: 8, name: 16, each: 0 },
  { w: 96, h: 44, gap: 6, name: 14, each: 0 }, { w: 40, h: 22, gap: 4, name: 0, each: 0 }, { w: 20, h: 13, gap: 3, name: 0, each: 0 },
  { w: 11, h: 8, gap: 2, name: 0, each: 0 }];
const heading = 26, narrow = 34;

// map paints groups of nodes: [{ title, nodes }]. ink returns what is painted for a NUMA node: { part, level, kept, text }, of
// which kept is the part that is reserved for the system.
export function drawing(canvas, frame, { ink, describe, open, chose }) {
  let groups = [], all = [], chosen = -1, size = sizes[0], columns = 1, width = 0, due = 0;
  let painted = null; // what single nodes are painted with, beside the others
  let touched = false, pointed = -1;
  const tip = el("p", { class: "tip", hidden: true });
  frame.append(tip);
  const places = new Map(); // by name of the node
  const rows = (g) => Math.ceil(g.nodes.length / columns);

  function layout() {
    if (!frame.clientWidth) return;
    const fits = Math.max(300, innerHeight - 330);
    for (size of sizes) {
      columns = Math.max(1, Math.floor((frame.clientWidth + size.gap) / (size.w + size.gap)));
      if (height() <= fits) break;
    }
    stretch(fits);
    columns = Math.min(columns, Math.max(1, ...groups.map((g) => g.nodes.length)));
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

  // stretch enlarges the boxes while all nodes still show in the window.
  function stretch(fits) {
    const least = size;
    for (const f of [2, 1.7, 1.4, 1.2, 1]) {
      size = { ...least, w: Math.floor(least.w * f), h: Math.floor(least.h * f) };
      columns = Math.max(1, Math.floor((frame.clientWidth + size.gap) / (size.w + size.gap)));
      if (height() <= fits && size.w <= frame.clientWidth) return;
    }
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
    const colours = Object.fromEntries(["free", "some", "full", "none", "ink", "line", "edge", "warn", "accent", "quiet", "corner"].map((n) => [n, of(n)]));
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
    const from = y + size.name + size.each, h = size.h - size.name - size.each, bad = notable(n);
    if (size.name) {
      c.fillStyle = colours.ink;
      c.font = (size.each ? "600 13px" : "11px") + " system-ui, sans-serif";
      c.fillText(clip(c, n.name, width), x, y + (size.each ? 13 : 11));
    }
    const parts = n.numas.length ? n.numas : [null], w = width / parts.length, edge = size.w > 30 ? 1 : 0.5;
    parts.forEach((p, i) => {
      const { part, level, kept, text } = p ? ink(n, p) : { part: 0, level: "none" };
      const left = x + i * w + edge, wide = w - 2 * edge, tall = h - 2, low = Math.round(tall * (kept || 0));
      c.fillStyle = p ? colours.free : colours.none;
      c.fillRect(left, from + 1, wide, tall);
      c.fillStyle = colours[level];
      c.fillRect(left, from + 1 + (tall - low) * (1 - part), wide, (tall - low) * part);
      if (low) hatch(c, colours, left, from + 1 + tall - low, wide, low);
      if (size.each && p) {
        c.fillStyle = colours.quiet;
        c.font = "11px system-ui, sans-serif";
        c.fillText(clip(c, w > narrow * 2 ? `${p.id}: ${text === "–" ? text : say("freeShort", text)}` : text, wide), left + 1, y + size.name + size.each - 5);
      }
    });
    if (n.misaligned) corner(c, colours, x + width, from + h);
    const mine = g.from + k === chosen;
    c.strokeStyle = mine ? colours.accent : bad ? colours.warn : colours.line;
    c.lineWidth = mine ? 3 : bad ? 2 : 1;
    if (mine || bad || size.w > 15) c.strokeRect(x + 0.5, from + 0.5, width - 1, h - 1);
  }

  // hatch fills what is reserved for the system with lines, as the page of a node does.
  function hatch(c, colours, x, y, w, h) {
    c.save();
    c.beginPath();
    c.rect(x, y, w, h);
    c.clip();
    c.fillStyle = colours.none;
    c.fillRect(x, y, w, h);
    c.strokeStyle = colours.edge;
    c.lineWidth = 1;
    c.beginPath();
    for (let i = x - h; i < x + w; i += 4) { c.moveTo(i, y + h); c.lineTo(i + h, y); }
    c.stroke();
    c.restore();
  }

  // corner marks a node with misaligned pods.
  function corner(c, colours, x, y) {
    const d = Math.max(4, Math.min(16, size.h / 4));
    c.fillStyle = colours.corner;
    c.beginPath();
    c.moveTo(x, y - d);
    c.lineTo(x, y);
    c.lineTo(x - d, y);
    c.fill();
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
    explain(i);
    paint();
  }

  // explain says beside a node what is drawn of it.
  function explain(i) {
    pointed = i;
    tip.hidden = !all[i];
    if (tip.hidden) return;
    const [x, y] = place(i), h = (tip.textContent = describe(all[i]), tip.offsetHeight);
    tip.style.setProperty("left", Math.max(0, Math.min(frame.clientWidth - tip.offsetWidth, x)) + "px");
    const below = y + size.h + 6, above = y - h - 6;
    tip.style.setProperty("top", (below + h + frame.getBoundingClientRect().top > innerHeight && above > top() ? above : below) + "px");
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
  canvas.addEventListener("pointerdown", (e) => { touched = e.pointerType === "touch"; });
  // A finger cannot rest on a node: its first tap says what is drawn, and the second one opens the node.
  canvas.addEventListener("click", (e) => {
    const i = at(e.offsetX, e.offsetY);
    if (i < 0) choose(-1);
    else if (touched && chosen !== i) choose(i);
    else open(all[i]);
  });
  canvas.addEventListener("mousemove", (e) => {
    const i = touched ? pointed : at(e.offsetX, e.offsetY);
    if (i !== pointed) explain(i);
  });
  canvas.addEventListener("mouseleave", () => explain(chosen));
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

// forPods is how many CPUs of a NUMA node are not reserved for the system.
export const forPods = (p) => Math.max(0, p.cpus - (p.reservedCPUs || 0));

// notable reports whether there is something about a node that a person should look at.
export const notable = (n) => !!(n.problem || (n.flags || []).length);

// share is how much of a NUMA node is in use, of what pods may have.
export function share(p, of) {
  let [whole, free] = of === "cpus" ? [forPods(p), p.freeCPUs] : [p.memory, p.freeMemory];
  if (of === "devices") [whole, free] = (p.devices || []).reduce(([w, f], d) => [w + d.count, f + d.free], [0, 0]);
  return whole > 0 ? 1 - Math.min(1, free / whole) : 0;
}

// fragmentation is by how much the largest pod on one NUMA node is smaller than it could be with the same free CPUs.
export function fragmentation(n) {
  const free = n.numas.reduce((sum, p) => sum + p.freeCPUs, 0);
  const best = Math.min(free, Math.max(0, ...n.numas.map(forPods)));
  return best > 0 ? 1 - Math.max(...n.numas.map((p) => p.freeCPUs)) / best : 0;
}

// flagsOf says in words what a person should look at.
export function flagsOf(n) {
  const words = { notReady: t.notReady, cordoned: t.cordoned, unsettled: t.unsettled, crowded: t.crowded, silent: t.silent, inexact: t.inexact, unaligned: t.someUnaligned };
  return [n.problem, ...(n.flags || []).map((f) => words[f] || f)].filter(Boolean);
}

// describe says in words what is drawn of a node.
export function describe(n) {
  const numas = n.numas.map((x) => say("numaFree", x.id, x.freeCPUs, forPods(x)));
  return [n.name, ...flagsOf(n), n.misaligned && say("misalignedHere", n.misaligned), ...numas].filter(Boolean).join("\n");
}
