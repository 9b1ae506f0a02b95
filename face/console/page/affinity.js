// What a node's agent measured between pods that share CPUs: a graph by NUMA node, and the same as tables.
import { bytes, el, podLink, quiet, svg, table } from "./dom.js";
import { get } from "./api.js";
import { say, texts as t } from "./texts.js";

const column = 240, row = 26, head = 30, drawn = 60, letters = 26;

const rate = (b) => bytes(b).replace(/i$/, "iB") + "/s";

export function affinityView(node) {
  const element = el("section", { id: "affinity", hidden: true });

  async function read() {
    let found;
    try {
      found = (await get(`/nodes/${encodeURIComponent(node)}/affinity`)).nodes[0];
    } catch {
      found = null; // the node's machine is shown without it
    }
    element.hidden = !found;
    element.replaceChildren(...(found ? show(found) : []));
  }

  function show(a) {
    const name = (p) => p.namespace + "/" + p.name;
    const rows = a.pods.map((p) => [podLink(p), p.numa ?? t.all, rate(p.bytesPerSecond || 0), rate(p.remoteBytesPerSecond || 0), p.why]);
    const pairs = a.traffic.map((x) => [x.a, x.b, rate(x.bytesPerSecond), x.remote ? t.between : t.within]);
    const move = a.lastMove && say("lastMove", new Date(a.lastMove.time).toLocaleString(document.documentElement.lang), a.lastMove.pods,
      rate(a.lastMove.remoteBefore), rate(a.lastMove.remoteAfter));
    const totals = say("affinityTotals", rate(a.summary.localBytesPerSecond), rate(a.summary.remoteBytesPerSecond), a.periodSeconds);
    return [el("h2", {}, t.affinity), quiet(totals, move ? " " + move : ""), graph(a, name, totals),
      rows.length ? table([t.pod, t.numa, t.traffic, t.between, t.why], rows, t.affinity) : quiet(t.noneReadable),
      pairs.length ? table([t.pod, t.pod, t.traffic, ""], pairs, t.traffic) : ""];
  }

  // graph draws a column for each NUMA node with the pods that run there, and lines between pods that exchange data.
  function graph(a, name, totals) {
    const places = [...new Set(a.pods.map((p) => p.numa ?? t.all))].sort((x, y) => (x === t.all) - (y === t.all) || x - y);
    const at = new Map(), lines = [], dots = [], heads = [];
    for (const [i, place] of places.entries()) {
      const pods = a.pods.filter((p) => (p.numa ?? t.all) === place).slice(0, drawn);
      heads.push(svg("text", { x: i * column + 12, y: 18, class: "place" }, place === t.all ? t.allNUMAs : `${t.numa} ${place}`));
      for (const [j, p] of pods.entries()) {
        const x = i * column + 18, y = head + j * row + row / 2;
        at.set(name(p), { x, y });
        const text = p.name.length > letters ? p.name.slice(0, letters - 1) + "…" : p.name;
        dots.push(svg("circle", { cx: x, cy: y, r: 5 }, svg("title", {}, `${name(p)}: ${p.why}`)),
          svg("text", { x: x + 12, y: y + 4 }, text));
      }
    }
    const most = Math.max(1, ...a.traffic.map((x) => x.bytesPerSecond));
    for (const x of a.traffic.slice(0, drawn)) {
      const from = at.get(x.a), to = at.get(x.b);
      if (!from || !to) continue;
      const bend = from.x === to.x ? from.x - 14 : (from.x + to.x) / 2;
      const line = svg("path", { class: x.remote ? "far" : "near",
        d: `M${from.x},${from.y} C${bend},${from.y} ${bend},${to.y} ${to.x},${to.y}` },
        svg("title", {}, `${x.a} – ${x.b}: ${rate(x.bytesPerSecond)}`));
      line.style.setProperty("stroke-width", String(1 + 4 * x.bytesPerSecond / most));
      lines.push(line);
    }
    if (!at.size) return "";
    const width = places.length * column, height = head + row * Math.max(...places.map((place) =>
      Math.min(drawn, a.pods.filter((p) => (p.numa ?? t.all) === place).length)));
    return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t.affinity }, svg("svg", { class: "affinity", width, height,
      viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": t.affinity + ": " + totals }, heads, lines, dots));
  }

  return { element, read };
}
