// The first page: every node as its NUMA nodes, drawn on one canvas, of which only what is visible is painted.
import { el, link, note, table } from "./dom.js";
import { get } from "./api.js";
import { texts as t } from "./texts.js";

const least = 132, box = { width: least, height: 52, gap: 8 };

export function clusterPage(root) {
  const all = new Map();
  let shown = [], chosen = -1, columns = 1, overview = null, due = 0;
  const numbers = el("ul", { class: "numbers" });
  const search = el("input", { type: "search", placeholder: t.search, "aria-label": t.search, oninput: filter });
  const colour = el("select", { "aria-label": t.colour, onchange: paint },
    el("option", { value: "cpus" }, t.useCPUs), el("option", { value: "memory" }, t.useMemory));
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": t.nodes + ". " + t.keys });
  const map = el("div", { class: "map" }, canvas);
  const message = el("div", {}, note(t.loading)), waiting = el("details");
  root.replaceChildren(el("h1", {}, t.cluster), numbers, waiting, el("div", { class: "tools" }, search, colour,
    el("p", { class: "legend" }, el("span", {}, t.free), el("span", { class: "some" }, t.some),
      el("span", { class: "full" }, t.full))), message, map);

  const resize = new ResizeObserver(() => { layout(); });
  resize.observe(root);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", paint);
  addEventListener("scroll", later, { passive: true });
  canvas.addEventListener("click", (e) => open(at(e.offsetX, e.offsetY)));
  canvas.addEventListener("keydown", key);
  canvas.addEventListener("mousemove", (e) => {
    const i = at(e.offsetX, e.offsetY);
    canvas.title = i >= 0 ? describe(shown[i]) : "";
  });

  function describe(n) {
    const numas = n.numas.map((x) => `${t.numa} ${x.id}: ${x.freeCPUs} ${t.of} ${x.cpus} ${t.cpus} ${t.free}`);
    return [n.name, n.problem, (n.flags || []).join(", "), ...numas].filter(Boolean).join("\n");
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = [...all.values()].filter((n) => words.every((w) => n.name.toLowerCase().includes(w)))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    chosen = Math.min(chosen, shown.length - 1);
    if (overview) message.replaceChildren(...state());
    layout();
  }

  function state() {
    const out = (overview.limits || []).map((l) => note(l.resource + ": " + l.reason));
    if (!overview.ready) out.push(note(t.loading));
    else if (all.size === 0) out.push(note(t.noNodes));
    else if (shown.length === 0) out.push(note(t.noMatch));
    return out;
  }

  function layout() {
    const width = map.clientWidth + box.gap;
    columns = Math.max(1, Math.floor(width / (least + box.gap)));
    box.width = width / columns - box.gap;
    map.style.setProperty("height", Math.ceil(shown.length / columns) * (box.height + box.gap) + "px");
    paint();
  }

  function later() {
    if (!due) due = requestAnimationFrame(() => { due = 0; paint(); });
  }

  // top is the first line of the map that is visible.
  const top = () => Math.max(0, Math.min(-map.getBoundingClientRect().top, map.clientHeight - canvas.clientHeight));

  function paint() {
    const width = map.clientWidth, height = Math.min(innerHeight, map.clientHeight), scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.setProperty("width", width + "px");
    canvas.style.setProperty("height", height + "px");
    const c = canvas.getContext("2d"), css = getComputedStyle(document.documentElement);
    const of = (name) => css.getPropertyValue(name).trim();
    const ink = { free: of("--free"), some: of("--some"), full: of("--full"), none: of("--none"), text: of("--ink"),
      line: of("--line"), warn: of("--warn"), accent: of("--accent") };
    c.scale(scale, scale);
    c.translate(0, -top());
    const row = box.height + box.gap, first = Math.floor(top() / row) * columns;
    const last = Math.min(shown.length, Math.ceil((top() + height) / row) * columns);
    for (let i = first; i < last; i++) node(c, ink, i);
  }

  function node(c, ink, i) {
    const n = shown[i], x = (i % columns) * (box.width + box.gap), y = Math.floor(i / columns) * (box.height + box.gap);
    c.fillStyle = ink.text;
    c.font = "11px system-ui, sans-serif";
    c.fillText(clip(c, n.name), x + 1, y + 12);
    const parts = n.numas.length ? n.numas : [null], w = (box.width - 2) / parts.length;
    parts.forEach((p, k) => {
      const used = p ? share(p) : 0, left = x + 1 + k * w;
      c.fillStyle = p ? ink.free : ink.none;
      c.fillRect(left, y + 18, w - 1, box.height - 20);
      c.fillStyle = used > 0.5 ? ink.full : ink.some;
      c.fillRect(left, y + 18 + (box.height - 20) * (1 - used), w - 1, (box.height - 20) * used);
    });
    c.strokeStyle = i === chosen ? ink.accent : n.problem || (n.flags || []).length ? ink.warn : ink.line;
    c.lineWidth = i === chosen ? 3 : 1;
    c.strokeRect(x + 0.5, y + 17.5, box.width - 1, box.height - 19);
  }

  function share(p) {
    const [whole, free] = colour.value === "cpus" ? [p.cpus, p.freeCPUs] : [p.memory, p.freeMemory];
    return whole > 0 ? 1 - Math.min(1, free / whole) : 0;
  }

  function clip(c, text) {
    if (c.measureText(text).width <= box.width) return text;
    let n = Math.ceil(text.length * box.width / c.measureText(text).width);
    while (n > 1 && c.measureText(text.slice(0, n) + "…").width > box.width) n--;
    return text.slice(0, n) + "…";
  }

  function at(x, y) {
    const column = Math.floor(x / (box.width + box.gap)), row = Math.floor((y + top()) / (box.height + box.gap));
    const i = row * columns + column;
    return column < columns && i < shown.length ? i : -1;
  }

  function open(i) {
    if (i >= 0) location.hash = "#/nodes/" + encodeURIComponent(shown[i].name);
  }

  function key(e) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[e.key];
    if (e.key === "Enter") open(chosen);
    if (!step || shown.length === 0) return;
    e.preventDefault();
    chosen = Math.max(0, Math.min(shown.length - 1, chosen < 0 ? 0 : chosen + step));
    canvas.setAttribute("aria-label", describe(shown[chosen]));
    const y = Math.floor(chosen / columns) * (box.height + box.gap) + map.getBoundingClientRect().top;
    if (y < 0 || y > innerHeight - box.height) scrollBy(0, y - innerHeight / 2);
    paint();
  }

  function count() {
    let free = 0, whole = 0;
    for (const n of all.values()) for (const x of n.numas) { free += x.freeCPUs; whole += x.cpus; }
    const item = (value, name) => el("li", {}, el("b", {}, value), " " + name);
    numbers.replaceChildren(item(all.size, t.nodes), item(overview.pods, t.pods), item(overview.waiting, t.waiting),
      item(`${free} ${t.of} ${whole}`, t.freeCPUs));
  }

  async function waitingPods() {
    const list = await get("/pods?waiting=true&limit=50");
    waiting.replaceChildren(...(list.total === 0 ? [] : [el("summary", {}, `${t.waitingPods} (${list.total})`),
      table([t.pod, t.since], list.pods.map((p) => [link(p.namespace + "/" + p.name, "pods", p.namespace, p.name),
        el("time", { datetime: p.created }, new Date(p.created).toLocaleString())]))]));
    waiting.hidden = list.total === 0;
  }

  return {
    async read() {
      overview = await get("/cluster");
      all.clear();
      for (const n of overview.nodes) all.set(n.name, n);
      count();
      filter();
      await waitingPods();
    },
    async change(c) {
      if (c.all || !overview) return this.read();
      for (const n of c.nodes || []) all.set(n.name, n);
      for (const name of c.gone || []) all.delete(name);
      overview.waiting = c.waiting;
      count();
      if ((c.gone || []).length || (c.nodes || []).some((n) => !shown.includes(n))) filter();
      if ((c.pods || []).length) await waitingPods();
    },
    close() {
      resize.disconnect();
      scheme.removeEventListener("change", paint);
      removeEventListener("scroll", later);
    },
  };
}
