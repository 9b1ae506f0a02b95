// The distances between the NUMA nodes of a machine as drawn links: near ones above the NUMA nodes, the farthest ones below.
import { el, svg } from "./dom.js";
import { say, texts as t } from "./texts.js";

const step = 74, box = 46, tall = 26, few = 4, many = 12;

// links draws the machine's distances; null where none are known. socketOf returns the socket of a NUMA node, -1 for none.
export function links(machine, socketOf) {
  const all = (machine?.numas || []).filter((x) => (x.distances || []).length);
  if (all.length < 2) return null;
  const order = all.map((x, i) => ({ id: x.id, i, socket: socketOf(x.id) })).sort((a, b) => order3(a.socket) - order3(b.socket) || a.i - b.i);
  const to = (a, b) => all[a.i].distances[(machine.numas || []).findIndex((x) => x.id === b.id)];
  const pairs = order.flatMap((a, x) => order.slice(x + 1).map((b, k) => ({ a, b, from: x, to: x + k + 1, near: to(a, b), back: to(b, a) })))
    .filter((p) => p.near !== undefined);
  const kinds = [...new Set(pairs.map((p) => Math.max(p.near, p.back ?? 0)))].sort((a, b) => a - b);
  const kind = (p) => kinds.indexOf(Math.max(p.near, p.back ?? 0)), far = (p) => kinds.length > 1 && kind(p) === kinds.length - 1;
  const drawn = order.length > many ? pairs.filter((p) => !far(p)) : pairs;
  return el("figure", { class: "links" }, el("figcaption", {}, t.distances), picture(order, drawn, far, kind, to), legend(kinds, drawn.length < pairs.length));
}

const order3 = (socket) => (socket < 0 ? Infinity : socket);

function picture(order, pairs, far, kind, to) {
  const rise = (p) => 14 + Math.min(96, (p.to - p.from) * (order.length > few ? 11 : 18));
  const top = Math.max(0, ...pairs.filter((p) => !far(p)).map(rise)) + 18, below = Math.max(0, ...pairs.filter(far).map(rise)) + 18;
  const x = (k) => k * step + box / 2 + 2, width = (order.length - 1) * step + box + 4, height = top + tall + below;
  const arcs = pairs.map((p) => {
    const down = far(p), edge = down ? top + tall : top, peak = edge + (down ? 1 : -1) * rise(p) * 1.33, mid = (x(p.from) + x(p.to)) / 2;
    const text = p.back === undefined || p.back === p.near ? String(p.near) : `${p.near}/${p.back}`;
    const said = say("distanceIs", p.a.id, p.b.id, text), line = `M${x(p.from)},${edge} C${x(p.from)},${peak} ${x(p.to)},${peak} ${x(p.to)},${edge}`;
    return svg("g", { class: `link near-${Math.min(kind(p), 2)}` + (down ? " far" : ""), "data-say": said, "data-numas": `${p.a.id} ${p.b.id}` },
      svg("path", { class: "reach", d: line }), svg("path", { d: line }),
      order.length > few ? "" : svg("text", { x: mid, y: edge + (down ? 1 : -1) * rise(p) + 4 }, text));
  });
  const boxes = order.map((n, k) => svg("g", { class: "end", "data-say": own(n, order, to), "data-numa": n.id },
    svg("rect", { x: x(k) - box / 2, y: top, width: box, height: tall, rx: 5 }), svg("text", { x: x(k), y: top + tall / 2 + 4 }, n.id)));
  const words = order.map((n) => own(n, order, to)).join(". ");
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t.distances },
    svg("svg", { class: order.length > many ? "crowded" : "", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${t.distances}: ${words}` }, arcs, boxes));
}

// own says the distances of one NUMA node, with the nearest first.
function own(n, order, to) {
  const by = Map.groupBy(order.filter((o) => o.id !== n.id && to(n, o) !== undefined), (o) => to(n, o));
  const parts = [...by].sort((a, b) => a[0] - b[0]).map(([d, all]) => say("distanceTo", d, all.map((o) => o.id).join(", ")));
  return `${t.numa} ${n.id}: ${parts.join(", ")}`;
}

function legend(kinds, fewer) {
  return el("p", { class: "legend" }, kinds.map((d, i) => (fewer && i === kinds.length - 1 ? el("span", { class: "plain" }, say("distanceElse", d)) :
    el("span", { class: `stroke near-${Math.min(i, 2)}` + (kinds.length > 1 && i === kinds.length - 1 ? " far" : "") }, say("distance", d)))));
}
