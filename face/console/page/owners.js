// Who holds what on a node, with the letters and colours of kubectl tenon map, and a node as it would be with other pods.
import { ids } from "./dom.js";
import { texts as t } from "./texts.js";

const signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", crowd = "+";

// colours is the number of colours of pods, which style.css has as --pod-0 to --pod-11. They come again after the last.
export const colours = 12;

export const podName = (h) => (h.uid || h.name ? h.namespace + "/" + h.name : t.unknown);

// owners are the pods that hold something, in the order of the node's report. The letter of a prediction is a small one.
export function owners(node) {
  return (node.holdings || []).map((h, i) => {
    const sign = signs[i] || crowd, predicted = h.source === "predicted";
    return { holder: h, name: podName(h), key: h.uid || podName(h), sign: predicted ? sign.toLowerCase() : sign, colour: i % colours, predicted,
      misaligned: !!h.misaligned, gone: !!h.gone, fresh: !!h.fresh };
  });
}

// holders returns the owners of each CPU, by its id, of each device, by "resource id", and of memory on a NUMA node.
export function holders(node, all = owners(node)) {
  const cpus = new Map(), devices = new Map();
  for (const o of all) {
    for (const c of o.holder.containers || []) {
      for (const id of ids(c.cpus)) cpus.set(id, [...(cpus.get(id) || []), o]);
      for (const d of c.devices || []) for (const id of d.ids || []) devices.set(d.resource + " " + id, o);
    }
  }
  return { all, cpus, devices, memory: (numa, m) => shares(all, numa, m) };
}

// shares divides the memory of one kind that is in use on a NUMA node among its owners. What a pod holds on several NUMA
// nodes is reported as one amount, so such pods get what the others leave, in proportion to their amounts.
function shares(all, numa, m) {
  const own = new Map(), wide = new Map();
  for (const o of all) {
    for (const c of o.holder.containers || []) {
      for (const b of c.memory || []) {
        if (b.kind !== m.kind || !ids(b.numas).includes(numa)) continue;
        const into = ids(b.numas).length > 1 ? wide : own;
        into.set(o, (into.get(o) || 0) + b.bytes);
      }
    }
  }
  const sum = (x) => [...x.values()].reduce((a, b) => a + b, 0);
  const left = Math.max(0, m.allocatable - m.free - sum(own)), whole = sum(wide);
  for (const [o, b] of wide) if (whole > 0) own.set(o, (own.get(o) || 0) + left * Math.min(1, b / whole));
  return all.filter((o) => own.get(o) > 0).map((o) => ({ owner: o, bytes: own.get(o) }));
}

// joined is a node as it would be without the pods that leave accepts, and with others: [{ namespace, name, containers }].
export function joined(node, added, leaves = () => false) {
  const gone = (node.holdings || []).filter(leaves), stay = (node.holdings || []).filter((h) => !leaves(h));
  const out = { ...node, holdings: [...stay, ...added.map((p) => ({ ...p, source: "predicted", fresh: true }))] };
  const cpus = (pods) => new Set(pods.flatMap((h) => (h.containers || []).flatMap((c) => ids(c.cpus))));
  const taken = cpus(added), given = cpus(gone), free = new Set(ids(node.freeCPUs));
  for (const c of given) free.add(c);
  for (const c of taken) free.delete(c);
  out.freeCPUs = [...free].join(",");
  out.numas = (node.numas || []).map((x) => ({ ...x, freeCPUCount: ids(x.cpus).filter((c) => free.has(c)).length,
    memory: x.memory.map((m) => ({ ...m, free: Math.max(0, Math.min(m.allocatable, m.free + held(gone, x.id, m) - held(added, x.id, m))) })) }));
  return out;
}

// held is how much memory of a kind pods hold on a NUMA node, if they hold equal parts on each of several.
const held = (pods, numa, m) => pods.flatMap((h) => (h.containers || []).flatMap((c) => c.memory || []))
  .filter((b) => b.kind === m.kind && ids(b.numas).includes(numa)).reduce((sum, b) => sum + b.bytes / ids(b.numas).length, 0);
