// The drawing of a machine: its sockets side by side, and of each NUMA node its CPUs, memory and devices, with the letter and the
// colour of the pod that holds them. A page of a node, of a pod and of a question shows the same drawing.
import { bytes, el, ids } from "./dom.js";
import { holders, owners } from "./owners.js";
import { links } from "./links.js";
import { explained } from "./tip.js";
import { say, texts as t } from "./texts.js";

const runOf = 8, fewDevices = 16;

// machineView returns a drawing. small leaves out what does not change with pods. onMark is called with the key of the pod
// that is marked, or with "".
export function machineView({ name, small = false, onMark = () => {} } = {}) {
  const sockets = el("div", { class: "sockets" }), drawing = el("div", { class: "machine" + (small ? " small" : "") }, sockets);
  const key = el("p", { class: "legend signs" });
  let marked = "", pointed = "", node = null, who = null, busy = null, used = new Set();
  const frame = explained(drawing, name, t.markKeys, (mark) => { if (mark.dataset.pod) toggle(mark.dataset.pod); });
  drawing.addEventListener("pointerover", (e) => point(e.target.closest?.("[data-pod]")?.dataset.pod || ""));
  drawing.addEventListener("pointerleave", () => point(""));

  function toggle(pod) {
    marked = marked === pod ? "" : pod;
    light();
    onMark(marked);
  }

  function point(pod) {
    if (pointed === pod) return;
    pointed = pod;
    light();
  }

  // light makes the parts of one pod stand out: of the one that the pointer is on, or else of the marked one.
  function light() {
    const pod = pointed || marked;
    drawing.classList.toggle("marking", !!pod);
    for (const x of drawing.querySelectorAll("[data-pod]")) x.classList.toggle("marked", x.dataset.pod === pod);
  }

  // swatch is the letter of an owner on its colour, or of what no pod holds.
  function swatch(o, attributes = {}) {
    const kind = ["own", `pod-${o.colour}`, o.predicted && "predicted", o.misaligned && "mis", o.gone && "gone", o.fresh && "fresh"];
    if (o.predicted) used.add(o.fresh ? "fresh" : "predicted");
    if (o.misaligned) used.add("misaligned");
    if (o.gone) used.add("gone");
    if (o.sign === "+") used.add("crowd");
    const out = el("span", { ...attributes, class: kind.filter(Boolean).join(" ") + " " + (attributes.class || ""), "data-pod": o.key }, o.sign);
    const part = busy?.get(o.name);
    if (part !== undefined) {
      out.classList.add("gauge");
      out.style.setProperty("--busy", Math.round(Math.min(1, part) * 100) + "%");
    }
    return out;
  }

  const plain = (kind, sign, text) => {
    used.add(kind);
    return el("span", { class: kind, "data-say": text }, sign);
  };

  // about says of an owner's part what it is, whose, and what is unusual about it.
  function about(what, o) {
    const notes = [o.predicted && (o.fresh ? t.fresh : t.isPredicted), o.misaligned && t.misaligned, o.gone && t.isGone].filter(Boolean);
    const part = busy?.get(o.name);
    return [say("isOf", what, o.sign, o.name), part !== undefined && say("busyPart", Math.round(part * 100)), ...notes].filter(Boolean).join(" · ");
  }

  function cpu(id, x, l3) {
    const [o] = who.cpus.get(id) || [], what = who.coarse ? t.oneCPU : say("cpuAt", id) + (l3 === undefined ? "" : `, ${say("l3", l3)}`);
    const shared = who.shared && !o;
    if (o) return swatch(o, { class: "cell", "data-say": about(what, o) });
    if (shared) return plain("cell shared", "", `${what}: ${t.isShared}`);
    if (who.reserved.has(id)) return plain("cell reserved", "", `${what}: ${t.isReserved}`);
    return who.free.has(id) ? plain("cell free", "·", `${what}: ${t.free}`) : plain("cell taken", "", `${what}: ${t.held}`);
  }

  // cores turns the lists of first, second and further threads into cores.
  function cores(threads) {
    const lists = threads.map(ids);
    return lists[0].map((_, k) => lists.map((l) => l[k]).filter((c) => c !== undefined));
  }

  // sized is an element as wide as a number of cores.
  function sized(count, kind, ...parts) {
    const out = el("div", { class: kind }, parts);
    out.style.setProperty("--cores", count);
    return out;
  }

  // range names CPUs by the first and the last one, and by the second one where they do not follow each other.
  function range(cpus) {
    const [first, second] = cpus, last = cpus.at(-1);
    return cpus.length < 2 ? String(first) : last - first === cpus.length - 1 ? `${first}–${last}` : cpus.length < 3 ? `${first}, ${last}` : `${first}, ${second} … ${last}`;
  }

  // runs are cores of one L3 cache, a few in a row, with the range of CPUs of their first threads.
  function runs(g, x, l3) {
    const all = cores(g.cpus), out = [];
    for (let i = 0; i < all.length; i += runOf) {
      const part = all.slice(i, i + runOf);
      out.push(sized(part.length, "run", el("span", { class: "tag" }, who.coarse ? "" : range(part.map((c) => c[0]))),
        el("div", { class: "cores" }, part.map((c) => el("span", { class: "core" }, c.map((id) => cpu(id, x, l3)))))));
    }
    return out;
  }

  function grid(x) {
    const groups = (node.machine?.cpus || []).filter((g) => g.numa === x.id);
    const caches = Map.groupBy(groups, (g) => g.l3), several = caches.size > 1;
    if (several) used.add("l3");
    const drawn = groups.length ? [...caches].map(([l3, all]) => [l3, all]) : x.cpuCount ? [[undefined, [{ cpus: [x.cpus] }]]] : [];
    return el("div", { class: "grid", "aria-hidden": "true" }, drawn.map(([l3, all]) =>
      sized(Math.min(runOf, Math.max(...all.map((g) => ids(g.cpus[0]).length))), several ? "l3" : "l3 only", all.flatMap((g) => runs(g, x, several ? l3 : undefined)))));
  }

  // memory is a bar of who holds it, or only the amount where the kubelet pins no memory.
  function memory(x, m) {
    if (node.rules && node.rules.memoryManagerPolicy !== "Static") {
      return el("div", { class: "bar" }, el("span", {}, say("notPinned", m.kind, bytes(m.capacity))));
    }
    const text = say("memoryFree", m.kind, bytes(m.free), bytes(m.allocatable)), reserved = m.capacity - m.allocatable;
    const track = el("span", { class: "track", "aria-hidden": "true" });
    const part = (mark, b) => { mark.style.setProperty("flex-grow", b / m.capacity); track.append(mark); };
    if (reserved > 0) part(plain("reserved", "", `${m.kind}: ${bytes(reserved)} ${t.isReserved}`), reserved);
    for (const s of who.memory(x.id, m)) part(swatch(s.owner, { "data-say": about(`${m.kind} ${bytes(s.bytes)}`, s.owner) }), s.bytes);
    if (m.free > 0) part(el("span", { class: "rest", "data-say": `${m.kind}: ${bytes(m.free)} ${t.free}` }), m.free);
    return el("div", { class: "bar" }, el("span", {}, text), track);
  }

  function device(d, g, id) {
    const o = who.devices.get(d.resource + " " + id), whole = `${d.resource} ${id}`, what = who.coarse ? d.resource : whole;
    const sign = o ? swatch(o) : g.unhealthy ? el("span", { class: "ill" }, "✗") : who.never.has(whole) ? el("span", { class: "never" }, "∅") : el("span", { class: "free" }, "·");
    if (!o) used.add(g.unhealthy ? "ill" : who.never.has(whole) ? "never" : "cell free");
    const state = o ? about(what, o) : `${what}: ${g.unhealthy ? t.unhealthy : who.never.has(whole) ? t.neverGiven : t.free}`;
    const text = [state, g.root && say("root", g.root), ids(g.numas).length > 1 && `${t.numas} ${g.numas}`].filter(Boolean).join(" · ");
    return el("span", { class: "device", "data-say": text, ...(o ? { "data-pod": o.key } : {}) }, sign, who.manyDevices || who.coarse ? null : el("span", {}, id));
  }

  // devices are those that accept returns true for, below the PCI root or the resource where they hang.
  function devices(accept) {
    const all = (node.machine?.devices || []).flatMap((d) => d.groups.filter(accept).map((g) => ({ d, g })));
    const roots = Map.groupBy(all, ({ d, g }) => (g.root ? say("root", g.root) : d.resource));
    return [...roots].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true })).map(([root, parts]) => {
      who.manyDevices = parts.reduce((n, { g }) => n + g.ids.length, 0) > fewDevices;
      const named = (d) => (parts[0].g.root ? el("span", { class: "tag" }, d.resource) : null);
      const byResource = Map.groupBy(parts, ({ d }) => d);
      return el("li", {}, el("span", { class: "tag" }, root), el("ul", { class: "hang" }, [...byResource].map(([d, own]) =>
        el("li", {}, named(d), el("span", { class: "chips" }, own.flatMap(({ g }) => g.ids.map((id) => device(d, g, id))))))));
    });
  }

  function functions(x) {
    const all = (node.machine?.functions || []).filter((f) => f.numas && ids(f.numas)[0] === x.id);
    return all.length ? el("details", { class: "functions" }, el("summary", {}, say("functions", all.length)), el("ul", {}, all.map((f) => el("li", {},
      [f.class, f.address, f.id, f.driver, f.virtual && say("virtual", f.virtual)].filter(Boolean).join(" · "))))) : null;
  }

  function numa(x) {
    const near = devices((g) => ids(g.numas).length === 1 && ids(g.numas)[0] === x.id), use = busy?.numas?.get(x.id);
    const kind = node.machine?.numas?.find((n) => n.id === x.id)?.memoryKind, res = ids(x.cpus).filter((c) => who.reserved.has(c)).length;
    const count = !x.cpuCount ? { gpu: t.gpuMemory, dax: t.daxMemory, movable: t.movableMemory }[kind] || t.memoryOnly :
      who.shared ? say("cpusShared", x.cpuCount) : say("cpusFree", x.freeCPUCount, x.cpuCount - res);
    return el("section", { class: "numa" + (x.cpuCount ? "" : " bare"), "data-numa": x.id }, el("h3", {}, `${t.numa} ${x.id}`, el("small", {}, count)),
      x.cpuCount ? grid(x) : null, use ? el("p", { class: "use" }, use) : null, x.memory.map((m) => memory(x, m)),
      near.length ? el("ul", { class: "pci" }, near) : null, small ? null : functions(x));
  }

  const socketOf = (id) => (node.machine?.cpus || []).find((g) => g.numa === id)?.socket ?? -1;

  function body() {
    const by = Map.groupBy(node.numas || [], (x) => socketOf(x.id)), coarse = node.quality === "coarse";
    const apart = [[t.severalNUMAs, devices((g) => ids(g.numas).length > 1)], [t.unplaced, devices((g) => !ids(g.numas).length)]];
    return [...[...by].sort((a, b) => (a[0] < 0) - (b[0] < 0) || a[0] - b[0]).map(([socket, all]) =>
      el("section", { class: "socket" + (socket < 0 ? " rest" : "") }, socket >= 0 && !coarse ? el("h2", {}, say("socket", socket)) : null,
        el("div", { class: all.length % 2 ? "numas" : "numas even" }, all.map(numa)))),
    ...apart.map(([name, all]) => (all.length ? el("section", { class: "socket rest" }, el("h2", {}, name), el("ul", { class: "pci" }, all)) : null))];
  }

  // signsUsed explains each mark that the drawing has.
  function signsUsed() {
    const item = (kind, mark, text) => (used.has(kind) ? el("span", { class: "sign" }, el("i", { class: mark[0], "aria-hidden": "true" }, mark[1] || ""), text) : null);
    key.replaceChildren(...[item("cell free", ["free", "·"], t.free), item("cell reserved", ["reserved"], t.isReserved), item("cell shared", ["shared"], t.isShared),
      item("cell taken", ["taken"], t.held), item("predicted", ["predicted", "a"], t.isPredicted), item("fresh", ["fresh", "a"], t.fresh), item("misaligned", ["mis", "A"], t.misaligned),
      item("gone", ["gone", "A"], t.isGone), item("ill", ["ill", "✗"], t.unhealthy), item("never", ["never", "∅"], t.neverGiven), item("l3", ["cache"], t.l3Border),
      item("crowd", ["pod", "+"], t.crowd), busy ? el("span", { class: "sign" }, el("i", { class: "pod gauge", "aria-hidden": "true" }, "A"), t.busyGauge) : null].filter(Boolean));
  }

  return {
    element: el("div", {}, frame, key), swatch, toggle, point,
    get marked() { return marked; },
    // draw shows a node. use has what is used: by pod the busy part of its CPUs, and in numas a text for each NUMA node.
    draw(now, use = null) {
      node = now;
      busy = use;
      used = new Set();
      const rules = now.rules || {};
      who = { ...holders(now, owners(now)), free: new Set(ids(now.freeCPUs)), reserved: new Set(ids(rules.reservedCPUs)), shared: rules.cpuManagerPolicy === "none", coarse: now.quality === "coarse",
        never: new Set((now.neverGiven || []).flatMap((d) => d.ids.map((id) => d.resource + " " + id))) };
      if (!who.all.some((o) => o.key === marked)) marked = "";
      const open = [...drawing.querySelectorAll("details")].map((d) => d.open);
      sockets.replaceChildren(...body().filter(Boolean));
      const drawn = small ? null : links(now.machine, socketOf);
      drawing.replaceChildren(...[sockets, drawn].filter(Boolean));
      [...drawing.querySelectorAll("details")].forEach((d, i) => { d.open = !!open[i]; });
      signsUsed();
      light();
      return who.all;
    },
  };
}
