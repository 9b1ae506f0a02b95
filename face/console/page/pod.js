// The page of one pod: where it lies and why, where else it fits, what would have to go, and what was decided.
import { bytes, choices, devicesText, el, field, memoryText, nodeLink, note, podLink, quiet, requests, table, when } from "./dom.js";
import { get } from "./api.js";
import { machineView } from "./machine.js";
import { beforeAfter } from "./compare.js";
import { say, texts as t, word } from "./texts.js";

// most is how many nodes are listed, of those where a pod fits and of the others.
const most = 100;

export function podPage(root, namespace, name) {
  const drawn = el("section", { id: "machine" });
  let shown = ""; // the node that is drawn, as the person chose it

  const path = `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;

  function lies(p) {
    if (!p.holds) return [];
    const rows = (p.holds.containers || []).map((c) => [c.name || "–", c.numas || "–", c.cpus || "–", memoryText(c.memory),
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

  function goes(way) {
    if (!way) return null;
    const missing = (way.missing || []).map((m) => `${m.resource}: ${m.resource.includes("memory") || m.resource.includes("hugepages") ?
      bytes(m.more) : m.more}` + (m.numas ? ` (${t.numa} ${m.numas})` : ""));
    return [(way.pods || []).length ? el("div", {}, t.wayPods + ": ", way.pods.map((p, i) => [i ? ", " : "", podLink(p)])) : null,
      missing.length ? el("div", {}, say("wayMissing", missing.join(", "))) : null];
  }

  function verdict(v, ways) {
    const state = el("span", { class: v.fits ? "good" : "bad" }, v.fits ? t.fits : t.not);
    const why = v.fits ? [`${t.numa} ${v.numas || "–"}`, v.cost !== undefined ? el("div", { class: "quiet" }, say("cost", v.cost)) : null] :
      (v.reasons || []).map((r) => el("div", {}, r.text)).concat(v.why && !v.reasons?.length ? v.why : []);
    return [nodeLink(v.node), state, why, (v.reasons || []).map((r) => el("div", {}, r.remedy || "")), ...(ways ? [goes(v.way)] : [])];
  }

  function where(p) {
    const fit = p.verdicts.filter((v) => v.fits), others = p.verdicts.filter((v) => !v.fits);
    const left = Math.max(0, fit.length - most) + Math.max(0, others.length - most);
    const ways = p.verdicts.some((v) => v.way), heads = [t.node, t.result, t.why, t.remedy, ...(ways ? [t.way] : [])];
    return [el("h2", {}, t.where), quiet(p.verdicts.length ? say("whereCount", fit.length, p.verdicts.length) : t.noVerdicts),
      p.verdicts.length ? table(heads, [...fit.slice(0, most), ...others.slice(0, most)].map((v) => verdict(v, ways)), t.where, true) : null,
      left ? quiet(say("moreNodes", left)) : null, (p.notJudged || []).map((x) => note(`${t.notJudged}: ${x.node}: ${x.reason}`))];
  }

  function decided(h) {
    const rows = h.decisions.map((d) => [when(d.time), el("span", { class: d.warning ? "bad" : "" }, word(d.outcome)),
      d.by, [d.message, d.count > 1 ? el("div", { class: "quiet" }, say("times", d.count)) : null]]);
    return [el("h2", {}, t.decisions), h.problem ? note(h.problem) : null,
      rows.length ? table([t.time, t.decision, t.by, t.message], rows, t.decisions, true) : quiet(t.noDecisions)];
  }

  // how says how far the scheduling of a pod without a node has come, before where it fits: a pod whose scheduler nobody
  // runs is placed nowhere.
  function how(p) {
    const s = p.scheduling;
    if (!s || p.node) return [];
    const text = { unseen: say("schedulerUnseen", s.scheduler, (s.seen || []).join(", ") || "–"), untried: say("schedulerUntried", s.scheduler),
      gated: say("schedulerGated", (s.gates || []).join(", ")), chosen: say("schedulerChosen", s.scheduler, s.node || "–") }[s.state];
    const all = [text, s.message].filter(Boolean);
    return all.length ? [el("h2", {}, t.why), ...all.map((x) => note(x))] : [];
  }

  async function read() {
    const [p, h] = await Promise.all([get(path), get(path + "/decisions").catch((e) => ({ problem: e.message, decisions: [] }))]);
    await machines(p);
    const asks = requests(p.containers).filter(([, what]) => what);
    root.replaceChildren(...[el("h1", {}, `${t.pod} ${namespace}/${name}`),
      el("p", {}, [`${t.phase}: ${p.phase}`, p.qos, p.reason, p.message].filter(Boolean).join(" · ")),
      asks.length ? quiet(t.asks + ": " + asks.map(([c, what]) => `${c}: ${what}`).join("; ")) : null,
      how(p), lies(p), drawn, p.partial ? note(`${t.limits}: ${p.partial}`) : null, (p.unjudged || []).map((u) => note(`${t.unjudged}: ${u}`)), where(p), decided(h)]
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
