// The page of one pod: where it lies and why, where else it fits, what would have to go, and what was decided.
import { bytes, choices, devicesText, el, field, idList, memoryText, nodeLink, note, podLink, quiet, requests, table, when } from "./dom.js";
import { get } from "./api.js";
import { machineView } from "./machine.js";
import { podClaims } from "./claims.js";
import { beforeAfter } from "./compare.js";
import { movesFor, movesToAlign } from "./move.js";
import { phrase, say, texts as t, word } from "./texts.js";

// most is how many nodes are listed where a pod fits, and how many groups of other nodes; some is how many nodes of a
// group are named.
const most = 50, some = 5;

export function podPage(root, namespace, name) {
  const drawn = el("section", { id: "machine" }), moving = movesFor(namespace, name), aligning = movesToAlign(namespace, name);
  let shown = ""; // the node that is drawn, as the person chose it

  const path = `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

  function lies(p) {
    if (!p.holds) return [];
    const rows = (p.holds.containers || []).map((c) => [c.name || "–", c.numas || "–", c.cpus ? idList(c.cpus) : "–", memoryText(c.memory),
      devicesText(c.devices)]);
    return [el("h2", {}, t.whatHolds), el("p", {}, nodeLink(p.node), " · ", say("hereIs", p.node, p.holds.numas || "–", word(p.holds.source))),
      p.holds.misaligned ? note(t.misaligned) : null, table([t.container, t.numa, t.cpus, t.memory, t.devices], rows, t.whatHolds, true)];
  }

  // machines draws the node of the pod with its parts marked. For a pod that waits, it draws a node where the pod fits, now and
  // with the pod.
  async function machines(p) {
    const fits = p.verdicts.filter((v) => v.fits && v.containers?.length), v = fits.find((x) => x.node === shown) || fits[0];
    const on = p.holds ? p.node : p.node ? "" : v?.node;
    if (!on) return drawn.replaceChildren();
    const node = await get("/nodes/" + encodeURIComponent(on)).catch(() => null);
    if (!node?.machine) return drawn.replaceChildren();
    if (p.holds) {
      const view = machineView({ name: say("machineOf", on) }), own = view.draw(node).find((o) => o.holder.uid === p.pod.uid);
      if (own) view.toggle(own.key);
      drawn.replaceChildren(el("h2", {}, say("onNode", on)), own ? quiet(el("span", { class: "letter" }, view.swatch(own)), " ", own.name) : "", view.element);
      return;
    }
    const choose = el("select", { id: "drawn", onchange: () => { shown = choose.value; machines(p).then(() => drawn.querySelector("select")?.focus()); } },
      choices(fits.slice(0, most).map((x) => [x.node, x.node]), on));
    drawn.replaceChildren(el("h2", {}, t.wouldBe), el("div", { class: "tools" }, field(t.node, choose)), beforeAfter(node, [{ namespace, name, uid: p.pod.uid, numas: v.numas, containers: v.containers }]));
  }

  // goes is what has to go from a node. on is the node's name, for a row with several nodes.
  function goes(way, on) {
    if (!way) return null;
    const missing = (way.missing || []).map((m) => `${m.resource}: ${m.resource.includes("memory") || m.resource.includes("hugepages") ?
      bytes(m.more) : m.more}` + (m.numas ? ` (${t.numa} ${m.numas})` : ""));
    return [(way.pods || []).length ? el("div", {}, on + t.wayPods + ": ", way.pods.map((p, i) => [i ? ", " : "", podLink(p)])) : null,
      missing.length ? el("div", {}, say("wayMissing", missing.join(", "))) : null];
  }

  function fitting(v) {
    return [nodeLink(v.node), [`${t.numa} ${v.numas || "–"}`, v.cost !== undefined ? el("div", { class: "quiet" }, say("cost", v.cost)) : null]];
  }

  // refusing is a row for nodes that refuse the pod for the same reasons; nodes that can be freed come first in it.
  function refusing(g, ways, some) {
    const more = g.nodes.length - some;
    const names = g.nodes.slice(0, some).map((n, i) => [i ? ", " : "", nodeLink(n)]);
    return [[names, more > 0 ? " " + say("moreNodes", more) : ""],
      [(g.reasons || []).map((r) => el("div", {}, phrase(r.text))), g.amountsDiffer ? el("div", { class: "quiet" }, t.nodesDiffer) : null], [...new Set((g.reasons || []).map((r) => phrase(r.remedy || "")))]
        .map((r) => el("div", {}, r)), ...(ways.size ? [goes(ways.get(g.nodes[0]), g.nodes.length > 1 ? g.nodes[0] + ": " : "")] : [])];
  }

  function where(p) {
    const fit = p.verdicts.filter((v) => v.fits), groups = p.groups || [];
    const ways = new Map(p.verdicts.filter((v) => v.way).map((v) => [v.node, v.way]));
    const heads = [t.node, t.why, t.remedy, ...(ways.size ? [t.way] : [])];
    const left = Math.max(0, fit.length - most), rest = groups.length - most;
    return [el("h2", {}, t.where), quiet(p.verdicts.length ? say("whereCount", fit.length, p.verdicts.length) : t.noVerdicts),
      fit.length ? table([t.node, t.result], fit.slice(0, most).map(fitting), t.where, true) : null,
      left ? quiet(say("moreNodes", left)) : null,
      groups.length ? [el("h2", {}, t.whereNot), table(heads, groups.slice(0, most).map((g) => refusing(g, ways, some)), t.whereNot, true)] : null,
      rest > 0 ? quiet(say("moreGroups", rest)) : null,
      (p.notJudged || []).slice(0, most).map((x) => note(`${t.notJudged}: ${x.node}: ${x.reason}`))];
  }

  function decided(h) {
    const said = new Set(), first = (m) => (said.has(m) ? "″" : (said.add(m), m)); // a text that repeats is shown once
    const rows = h.decisions.map((d) => [when(d.time), el("span", { class: d.warning ? "bad" : "" }, word(d.outcome)),
      d.by, [first(d.message), d.count > 1 ? el("div", { class: "quiet" }, say("times", d.count)) : null]]);
    return [el("h2", {}, t.decisions), h.problem ? note(h.problem) : null,
      rows.length ? table([t.time, t.decision, t.by, t.message], rows, t.decisions, true) : quiet(t.noDecisions)];
  }

  // sentence is the one sentence about a pod that waits, as the scheduler's event and the commands have it.
  function sentence(p) {
    const s = p.summary;
    if (!s) return [];
    const bad = ["never", "wrong-name", "changed"].includes(s.kind);
    return [el("div", { class: "note" + (bad ? " fault" : ""), role: "note", id: "sentence" }, el("strong", {}, phrase(s.text)),
      s.remedy ? el("div", {}, t.remedy + ": " + phrase(s.remedy)) : null)];
  }

  async function read() {
    const [p, h] = await Promise.all([get(path), get(path + "/decisions").catch((e) => ({ problem: e.message, decisions: [] }))]);
    await machines(p);
    const asks = requests(p.containers).filter(([, what]) => what);
    root.replaceChildren(...[el("h1", {}, `${t.pod} ${namespace}/${name}`),
      el("p", {}, [`${t.phase}: ${p.phase}`, p.qos, p.reason, p.message].filter(Boolean).join(" · ")),
      sentence(p), asks.length ? quiet(t.asks + ": " + asks.map(([c, what]) => `${c}: ${what}`).join("; ")) : null,
      lies(p), podClaims(p.claims), drawn, p.partial ? note(`${t.limits}: ${p.partial}`) : null, (p.unjudged || []).map((u) => note(`${t.unjudged}: ${u}`)), where(p), p.node || p.verdicts.some((v) => v.fits) ? null : moving, p.holds?.misaligned ? aligning : null, decided(h)]
      .flat(Infinity).filter((x) => x !== null && x !== undefined));
  }

  return {
    read,
    async change(c) {
      if (c.all || (c.nodes || []).length || (c.pods || []).includes(namespace + "/" + name)) await read();
    },
    close() {},
  };
}
