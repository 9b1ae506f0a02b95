// The pages of one node and of one pod.
import { bytes, el, ids, link, note, table } from "./dom.js";
import { get } from "./api.js";
import { texts as t } from "./texts.js";

const memoryText = (all) => (all || []).map((m) => `${m.kind} ${bytes(m.bytes)} (${t.numa} ${m.numas})`).join(", ");
const devicesText = (all) => (all || []).map((d) => `${d.resource}: ${(d.ids || []).join(", ")}`).join("; ");
const holdingRows = (containers) => (containers || []).map((c) => [c.name || "–", c.numas || "–", c.cpus || "–",
  memoryText(c.memory), devicesText(c.devices)]);

// devices returns what is drawn of the devices near a NUMA node.
function devices(n) {
  const free = new Map((n.freeDevices || []).map((d) => [d.resource, new Set(d.ids)]));
  return (numa) => ((n.machine && n.machine.devices) || []).map((d) => {
    const here = d.groups.filter((g) => ids(g.numas).includes(numa)).flatMap((g) => g.ids);
    const unused = here.filter((id) => free.get(d.resource)?.has(id)).length;
    return here.length ? el("div", { class: "quiet" }, `${d.resource}: ${unused} ${t.of} ${here.length} ${t.free}`) : null;
  });
}

// most is how many nodes are listed, of those where a pod fits and of the others.
const most = 100;

export function nodePage(root, name) {
  return {
    async read() {
      const n = await get("/nodes/" + encodeURIComponent(name));
      const out = [el("h1", {}, n.name)];
      if (n.problem) out.push(note(t.noReport + ": " + n.problem));
      for (const w of [...(n.warnings || []), ...(n.unaligned || []).map((u) => u.what)]) out.push(note(w));
      if (n.rules) out.push(el("p", { class: "quiet" }, `${t.policy}: ${n.rules.topologyManagerPolicy}`));
      const free = new Set(ids(n.freeCPUs)), near = devices(n);
      out.push(el("div", { class: "numas" }, (n.numas || []).map((x) => el("section", { class: "numa" },
        el("h3", {}, `${t.numa} ${x.id}: ${x.freeCPUCount} ${t.of} ${x.cpuCount} ${t.cpus} ${t.free}`),
        el("div", { class: "cpus" }, ids(x.cpus).map((c) => el("span", { class: free.has(c) ? "cpu" : "cpu held" }, c))),
        x.memory.map((m) => el("div", { class: "quiet" }, `${m.kind}: ${bytes(m.free)} ${t.of} ${bytes(m.allocatable)} ${t.free}`)),
        near(x.id)))));
      out.push(el("h2", {}, t.holds));
      const rows = (n.holdings || []).flatMap((h) => holdingRows(h.containers).map((row) =>
        [h.uid ? link(h.namespace + "/" + h.name, "pods", h.namespace, h.name) : t.unknown, ...row.slice(1), h.source]));
      out.push(rows.length ? table([t.pod, t.numa, t.cpus, t.memory, t.devices, t.source], rows) :
        el("p", { class: "quiet" }, t.noPods));
      root.replaceChildren(...out);
    },
    async change(c) {
      if (c.all || [...(c.nodes || []).map((n) => n.name), ...(c.gone || [])].includes(name)) await this.read();
    },
    close() {},
  };
}

export function podPage(root, namespace, name) {
  return {
    async read() {
      const p = await get(`/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
      const out = [el("h1", {}, namespace + "/" + name), el("p", {}, [t.phase + ": " + p.phase, p.reason, p.message]
        .filter(Boolean).join(" – "))];
      if (p.node) out.push(el("p", {}, t.node + ": ", link(p.node, "nodes", p.node)));
      if (p.scheduling && p.scheduling.message) out.push(note(p.scheduling.message));
      if (p.holds) {
        out.push(el("h2", {}, `${t.held} (${p.holds.source})`),
          table([t.pod, t.numa, t.cpus, t.memory, t.devices], holdingRows(p.holds.containers)));
      }
      const fit = p.verdicts.filter((v) => v.fits), others = p.verdicts.filter((v) => !v.fits);
      out.push(el("h2", {}, `${t.where}: ${fit.length} ${t.of} ${p.verdicts.length} ${t.nodes}`),
        table([t.node, "", t.why, t.remedy], [...fit.slice(0, most), ...others.slice(0, most)].map((v) => [
        link(v.node, "nodes", v.node), el("span", { class: v.fits ? "good" : "" }, v.fits ? t.fits : t.not),
        v.fits ? `${t.numa} ${v.numas || "–"}` : v.reasons.map((r) => el("div", {}, r.text)),
        v.reasons.map((r) => el("div", {}, r.remedy || ""))])));
      const left = Math.max(0, fit.length - most) + Math.max(0, others.length - most);
      if (left) out.push(el("p", { class: "quiet" }, `${left} ${t.more}`));
      for (const x of p.notJudged || []) out.push(note(`${t.missing}: ${x.node}: ${x.reason}`));
      root.replaceChildren(...out);
    },
    async change() { await this.read(); },
    close() {},
  };
}
