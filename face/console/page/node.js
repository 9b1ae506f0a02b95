// The page of one node: its machine by socket and NUMA node, who holds what, and what is used now.
import { bytes, devicesText, el, ids, memoryText, note, podLink, quiet, table } from "./dom.js";
import { get } from "./api.js";
import { affinityView } from "./affinity.js";
import { useView } from "./use.js";
import { say, texts as t, word } from "./texts.js";

export function nodePage(root, name) {
  let marked = "", node = null;
  const body = el("div"), use = useView(name), affinity = affinityView(name);

  // holders tells of each CPU and device which pod has it.
  function holders() {
    const cpus = new Map(), devices = new Map();
    for (const h of node.holdings || []) {
      const pod = h.uid ? h.namespace + "/" + h.name : t.unknown;
      for (const c of h.containers || []) {
        for (const id of ids(c.cpus)) cpus.set(id, [...(cpus.get(id) || []), pod]);
        for (const d of c.devices || []) for (const id of d.ids || []) devices.set(d.resource + " " + id, pod);
      }
    }
    return { cpus, devices };
  }

  function cell(cpu, free, held, reserved) {
    const pods = held.get(cpu) || [], own = !free.has(cpu);
    const state = pods.length ? pods.join(", ") : reserved.has(cpu) ? t.reserved : own ? t.held : t.free;
    const kind = reserved.has(cpu) && !pods.length ? "cpu reserved" : own ? "cpu held" : "cpu";
    return el("span", { class: kind + (marked && pods.includes(marked) ? " marked" : ""), title: say("cpuState", cpu, state) }, cpu);
  }

  // cores turns lists of first, second and further threads into cores.
  function cores(threads) {
    const lists = threads.map(ids);
    return lists[0].map((_, k) => lists.map((l) => l[k]).filter((c) => c !== undefined));
  }

  function numaBox(x, held) {
    const free = new Set(ids(node.freeCPUs)), reserved = new Set(ids(node.rules?.reservedCPUs));
    const groups = (node.machine?.cpus || []).filter((g) => g.numa === x.id);
    const drawn = groups.length ? groups : [{ cpus: [x.cpus] }];
    return el("section", { class: "numa" }, el("h3", {}, say("numaFree", x.id, x.freeCPUCount, x.cpuCount)),
      drawn.map((g) => el("div", { class: "l3" }, groups.length > 1 ? el("span", { class: "tag" }, say("l3", g.l3)) : null,
        el("div", { class: "cores" }, cores(g.cpus).map((core) => el("span", { class: "core" },
          core.map((c) => cell(c, free, held.cpus, reserved))))))),
      x.memory.map((m) => bar(m.kind, m.allocatable - m.free, m.allocatable, `${bytes(m.free)} / ${bytes(m.allocatable)} ${t.free}`)),
      devicesNear(x.id, held));
  }

  function bar(name, used, whole, text) {
    const part = whole > 0 ? Math.max(0, Math.min(1, used / whole)) : 0, fill = el("span", { class: "fill" });
    fill.style.setProperty("width", part * 100 + "%");
    return el("div", { class: "bar" }, el("span", { class: "track", "aria-hidden": "true" }, fill), el("span", {}, name + ": " + text));
  }

  // devicesNear are devices on a NUMA node, or on none, by their PCI root.
  function devicesNear(numa, held) {
    return (node.machine?.devices || []).flatMap((d) => d.groups
      .filter((g) => (numa === null ? !g.numas : ids(g.numas).includes(numa)))
      .map((g) => el("div", { class: "devices" }, el("span", { class: "tag" }, [d.resource, g.root && say("root", g.root),
        g.unhealthy && t.unhealthy].filter(Boolean).join(" · ")), el("span", {}, g.ids.map((id) => {
        const pod = held.devices.get(d.resource + " " + id);
        return el("span", { class: "device" + (pod ? " held" : "") + (pod && pod === marked ? " marked" : ""),
          title: `${id}: ${pod || t.free}` }, id);
      })))));
  }

  function sockets(held) {
    const of = (x) => (node.machine?.cpus || []).find((g) => g.numa === x.id)?.socket ?? -1;
    return [...Map.groupBy(node.numas || [], of)].map(([socket, numas]) => el("section", { class: "socket" },
      socket >= 0 ? el("h2", {}, say("socket", socket)) : null, el("div", { class: "numas" }, numas.map((x) => numaBox(x, held)))));
  }

  function distances() {
    const numas = (node.machine?.numas || []).filter((x) => (x.distances || []).length);
    if (numas.length < 2) return null;
    const columns = numas.map((x) => x.id);
    return [el("h2", {}, t.distances), table([t.from, ...columns.map((c) => say("to", c))], numas.map((x) => [`${t.numa} ${x.id}`,
      ...columns.map((_, i) => x.distances[i] ?? "–")]), t.distances)];
  }

  function holds() {
    const rows = (node.holdings || []).flatMap((h) => (h.containers || []).map((c) => {
      const pod = h.uid ? h.namespace + "/" + h.name : t.unknown;
      const mark = el("button", { type: "button", "aria-pressed": String(marked === pod),
        onclick: () => { marked = marked === pod ? "" : pod; show(); use.mark(h.uid ? marked : ""); } }, t.mark);
      return [h.uid ? podLink(h) : t.unknown, c.name || "–", c.numas || "–", c.cpus || "–", memoryText(c.memory),
        devicesText(c.devices), el("span", {}, word(h.source), h.misaligned ? el("div", { class: "bad" }, t.misaligned) : null), mark];
    }));
    return [el("h2", {}, t.holds), rows.length ? table([t.pod, t.container, t.numa, t.cpus, t.memory, t.devices, t.source, ""], rows, t.holds, true) :
      quiet(t.noPods)];
  }

  function rules() {
    const r = node.rules;
    if (!r) return null;
    return el("p", { class: "quiet" }, [`${t.topologyManager}: ${r.topologyManagerPolicy} (${r.topologyManagerScope})`,
      `${t.cpuManager}: ${r.cpuManagerPolicy}`, `${t.memoryManager}: ${r.memoryManagerPolicy}`,
      r.reservedCPUs && `${t.reservedCPUs}: ${r.reservedCPUs}`, `${t.quality}: ${node.quality}` +
      (node.ageSeconds !== undefined ? ", " + say("age", Math.round(node.ageSeconds)) : "")].filter(Boolean).join(" · "));
  }

  function show() {
    const focus = [...body.querySelectorAll("button")].indexOf(document.activeElement), held = holders();
    const notes = [node.problem && note(t.noReport + ": " + node.problem, true), ...(node.warnings || []).map((w) => note(w)),
      ...(node.unaligned || []).map((u) => note(`${t.unaligned}: ${u.what}. ${u.remedy}.`)),
      ...(node.restartHazards || []).map((h) => note(`${t.hazards}: ${h.text}`))].filter(Boolean);
    const elsewhere = devicesNear(null, held);
    const digits = Math.max(...(node.machine?.cpus || []).flatMap((g) => g.cpus.flatMap(ids)), 10).toString().length;
    body.style.setProperty("--digits", digits);
    body.replaceChildren(...[rules(), notes, sockets(held), elsewhere.length ? [el("h2", {}, t.unplaced), elsewhere] : null,
      distances(), holds()].flat(Infinity).filter(Boolean));
    if (focus >= 0) body.querySelectorAll("button")[focus]?.focus();
  }

  async function read() {
    node = await get("/nodes/" + encodeURIComponent(name));
    if (!body.isConnected) root.replaceChildren(el("h1", {}, t.node + " " + name), body, affinity.element, use.element);
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
