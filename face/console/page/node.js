// The page of one node: its machine with who holds what, and what is used now.
import { bytes, deviceList, el, idList, ids, memoryText, note, podLink, quiet, table } from "./dom.js";
import { get } from "./api.js";
import { affinityView } from "./affinity.js";
import { nodeClaims } from "./claims.js";
import { machineView } from "./machine.js";
import { useView } from "./use.js";
import { say, texts as t, word } from "./texts.js";

const maxKept = 20; // requests that are named

export function nodePage(root, name) {
  let node = null, last = null, layer = "pods";
  const view = machineView({ name: say("machineOf", name), onMark: () => { drawHolders(); use.mark(podOf(view.marked)); } });
  const above = el("div"), below = el("section", { id: "holds" }), claimed = el("section", { id: "claims" });
  const use = useView(name, (sample) => { last = sample; layers(); if (layer === "use") show(); }, (id) => {
    const x = (node.numas || []).find((y) => y.id === id);
    return { cpus: x?.cpuCount, memory: x?.memory.find((m) => m.kind === "memory")?.capacity };
  });
  const affinity = affinityView(name), choice = el("div", { class: "layers" });

  const podOf = (key) => { const h = (node.holdings || []).find((x) => x.uid === key && x.uid); return h ? h.namespace + "/" + h.name : ""; };

  // layers offers to show how busy pods are, where something measures it.
  function layers() {
    const one = (value, text) => el("button", { type: "button", "aria-pressed": String(layer === value), onclick: () => { layer = value; layers(); show(); } }, text);
    const at = [...choice.children].indexOf(document.activeElement);
    choice.replaceChildren(...(last ? [one("pods", t.layerPods), one("use", t.layerUse)] : []));
    if (at >= 0) choice.children[at]?.focus();
  }

  // busy is how much of its CPUs each pod keeps busy, and a text about each NUMA node.
  function busy() {
    if (!last || layer !== "use") return null;
    const used = Map.groupBy(last.containers || [], (c) => `${c.namespace}/${c.pod}`), out = new Map();
    for (const h of node.holdings || []) {
      const own = (h.containers || []).reduce((n, c) => n + ids(c.cpus).length, 0), all = used.get(h.namespace + "/" + h.name) || [];
      if (own && all.length) out.set(h.namespace + "/" + h.name, all.reduce((n, c) => n + (c.cpus || 0), 0) / own);
    }
    out.numas = new Map(last.numas.map((x) => [x.id, [x.cpus !== undefined && say("busyOf", x.cpus.toFixed(1), (node.numas || []).find((y) => y.id === x.id)?.cpuCount ?? "–"),
      x.memory !== undefined && say("usedOf", bytes(x.memory))].filter(Boolean).join(" · ")]));
    return out;
  }

  // The ids of a node of which only amounts are known are not its own, so they are not shown.
  const coarse = () => node.quality === "coarse";
  const cpuList = (list) => (list ? [el("b", {}, ids(list).length), coarse() ? "" : [": ", idList(list)]] : "–");
  const held = (all) => deviceList(coarse() ? (all || []).map((d) => ({ resource: d.resource, count: d.ids?.length ?? d.count })) : all);

  // heldMemory names NUMA nodes where they are not those of the whole container.
  const heldMemory = (c) => (c.memory || []).map((b) => memoryText([b.numas === c.numas ? { ...b, numas: "" } : b]).replace(/^memory /, "")).join(", ");

  // holderRows are a row for each container, the first of a pod with the letter that marks the pod.
  function holderRows(owner) {
    const h = owner.holder, lead = el("button", { type: "button", class: "letter", "aria-pressed": String(view.marked === owner.key),
      "aria-label": say("markPod", owner.name), onclick: () => view.toggle(owner.key) }, view.swatch(owner));
    const state = [word(h.source), owner.misaligned && el("div", { class: "bad" }, "! " + t.misaligned), owner.gone && el("div", { class: "bad" }, "? " + t.isGone)];
    return (h.containers?.length ? h.containers : [{}]).map((c, i) => [i ? "" : lead, i ? "" : h.uid ? podLink(h) : t.unknown, c.name || "–", c.numas || "–", cpuList(c.cpus), heldMemory(c),
      held(c.devices), i ? "" : state]);
  }

  function reserved() {
    const r = node.rules || {}, by = Map.groupBy(r.reservedMemory || [], (m) => `${m.kind} ${bytes(m.bytes)}`);
    const memory = [...by].map(([what, all]) => say(all.length > 1 ? "onEachNUMA" : "onNUMAs", what, all.map((m) => m.numa).join(", "))).join("; ");
    if (!r.reservedCPUs && !memory) return [];
    return [[el("span", { class: "cell reserved", "aria-hidden": "true" }), t.isReserved, "–", "–", cpuList(r.reservedCPUs), memory, "", t.configured]];
  }

  function drawHolders(all = drawn) {
    drawn = all;
    const at = [...below.querySelectorAll("button")].indexOf(document.activeElement);
    const rows = all.flatMap(holderRows);
    const list = table(["", t.pod, t.container, t.numa, t.cpus, t.memory, t.devices, t.source], [...rows, ...reserved()], t.holds, true);
    [...list.querySelectorAll("tbody tr")].forEach((tr, i) => {
      const owner = all.flatMap((o) => (o.holder.containers?.length ? o.holder.containers : [0]).map(() => o))[i];
      if (!owner) return;
      if (view.marked === owner.key) tr.classList.add("marked");
      tr.addEventListener("pointerenter", () => view.point(owner.key));
      tr.addEventListener("pointerleave", () => view.point(""));
      tr.addEventListener("focusin", () => view.point(owner.key));
      tr.addEventListener("focusout", () => view.point(""));
    });
    below.replaceChildren(el("h2", {}, t.holds), ...(all.length ? [] : [quiet(t.noPods)]), ...(all.length || reserved().length ? [list] : []));
    if (at >= 0) below.querySelectorAll("button")[at]?.focus({ preventScroll: true });
  }
  let drawn = [];

  function facts() {
    const r = node.rules, m = node.machine;
    if (!r || !m) return null;
    const sockets = new Set((m.cpus || []).map((g) => g.socket)).size, cpus = (node.numas || []).reduce((n, x) => n + x.cpuCount, 0);
    const item = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
    return el("dl", { class: "facts" }, item(t.machine, coarse() ? say("machineHas", node.numas.length, cpus) : say("machineIs", sockets, (node.numas || []).length, cpus)),
      item(t.topologyManager, `${r.topologyManagerPolicy} (${r.topologyManagerScope})`), item(t.cpuManager, r.cpuManagerPolicy), item(t.memoryManager, r.memoryManagerPolicy),
      item(t.quality, node.quality + (node.ageSeconds !== undefined ? ", " + say("age", Math.round(node.ageSeconds)) : "")));
  }

  function show() {
    const wide = (node.holdings || []).filter((h) => h.misaligned).length, kept = (node.kept || []).map((k) => say("keptFor", k.pods, k.request));
    const notes = [node.problem && note(t.noReport + ": " + node.problem, true), node.quality === "coarse" && note(t.coarse), wide && note(say("misalignedPods", wide)),
      kept.length > 0 && note(say("kept", kept.slice(0, maxKept).join(", ") + (kept.length > maxKept ? ", …" : ""))),
      ...(node.warnings || []).map((w) => note(w)), ...(node.unaligned || []).map((u) => note(`${t.unaligned}: ${u.what}. ${u.remedy}.`)),
      ...(node.restartHazards || []).map((h) => note(`${t.hazards}: ${h.text}`))].filter(Boolean);
    above.replaceChildren(...[facts(), ...notes].filter(Boolean));
    view.element.hidden = !node.machine;
    drawHolders(view.draw(node, busy()));
    claimed.replaceChildren(...nodeClaims(node.claims));
  }

  async function read() {
    node = await get("/nodes/" + encodeURIComponent(name));
    if (!above.isConnected) root.replaceChildren(el("h1", {}, t.node + " " + name), above, choice, view.element, below, claimed, affinity.element, use.element);
    show();
    use.start();
    await affinity.read();
  }

  return {
    read,
    async change(c) {
      if (c.all || [...(c.nodes || []).map((n) => n.name), ...(c.gone || [])].includes(name)) await read();
    },
    close() { use.close(); },
  };
}
