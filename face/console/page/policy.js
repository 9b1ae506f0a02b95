// The page of policies: how schedulers and kubelets are configured, and the switch of the plugin.
import { el, nodeLink, note, problem, quiet, table } from "./dom.js";
import { get, send } from "./api.js";
import { say, texts as t } from "./texts.js";

const few = 20;

export function policyPage(root) {
  async function ask(s, dryRun, version) {
    const q = new URLSearchParams({ scheduler: s.id, ...(dryRun ? { dryRun: "true" } : { version }) });
    return send("PUT", "/rest/scheduling/v1/numaaware?" + q, JSON.stringify({ status: s.enabled ? "close" : "open" }), "application/json");
  }

  // control shows what would change before anything is written.
  function control(s) {
    const place = el("div", { class: "change" });
    if (!s.mayWrite) return quiet(t.mayNotWrite);
    const idle = () => place.replaceChildren(el("button", { type: "button", onclick: preview }, s.enabled ? t.turnOff : t.turnOn));
    async function preview() {
      try {
        const answer = await ask(s, true);
        place.replaceChildren(el("p", {}, t.preview), el("pre", { tabindex: "0" }, answer.diff || "–"), quiet(answer.reload || ""),
          el("div", { class: "tools" }, el("button", { type: "button", class: "main", onclick: () => write(answer.version || s.version) }, t.write),
            el("button", { type: "button", onclick: idle }, t.cancel)));
        place.querySelector("button").focus();
      } catch (e) {
        place.replaceChildren(problem(e, idle));
      }
    }
    async function write() {
      try {
        const answer = await ask(s, false, s.version);
        await page.read();
        root.prepend(note([t.written, answer.reload, ...(answer.warnings || [])].filter(Boolean).join(" ")));
      } catch (e) {
        place.replaceChildren(problem(e, idle));
      }
    }
    idle();
    return place;
  }

  function scheduler(s) {
    const rows = (s.profiles || []).map((p) => [p.schedulerName, p.enabled ? t.on : t.off, p.weight ?? "–", p.strategy || "–",
      Object.keys(p.arguments || {}).length ? el("pre", {}, JSON.stringify(p.arguments, null, 2)) : "–"]);
    return el("section", { class: "panel" }, el("h3", {}, s.id + " ", el("span", { class: s.enabled ? "good" : "quiet" },
      `${s.plugin || t.plugin}: ${s.enabled ? t.on : t.off}`)), quiet([s.type, s.deployment].filter(Boolean).join(" · ")),
    s.problem ? note(s.problem, true) : null,
    rows.length ? table([t.profile, t.plugin, t.weight, t.strategy, t.arguments], rows, s.id, true) : null, control(s),
    el("details", {}, el("summary", {}, say("configuration", s.key)), el("pre", { tabindex: "0" }, s.text)));
  }

  const options = (o) => Object.entries(o || {}).map(([k, v]) => (v === true ? k : `${k}=${v}`));

  function kubelets(k) {
    const r = k.rules, some = k.nodes.slice(0, few);
    return [[`${k.nodes.length}: `, some.map((n, i) => [i ? ", " : "", nodeLink(n)]), k.nodes.length > few ?
      " " + say("moreNodes", k.nodes.length - few) : ""], `${r.topologyManagerPolicy} (${r.topologyManagerScope})`, r.cpuManagerPolicy,
    r.memoryManagerPolicy, [...options(r.topologyManagerPolicyOptions), ...options(r.cpuManagerPolicyOptions)].join(", ") || "–", r.reservedCPUs || "–"];
  }

  const page = {
    async read() {
      const p = await get("/scheduling");
      root.replaceChildren(el("h1", {}, t.policy), ...(p.limits || []).map((l) => note(`${t.limits}: ${l.resource}: ${l.reason}`)),
        el("h2", {}, t.schedulers), ...(p.schedulers.length ? p.schedulers.map(scheduler) : [quiet(t.noSchedulers)]),
        el("h2", {}, t.kubelets), p.kubelets.length ? table([t.node, t.topologyManager, t.cpuManager, t.memoryManager, t.options,
          t.reservedCPUs], p.kubelets.map(kubelets), t.kubelets, true) : quiet(t.noKubelets));
    },
    async change() {},
    close() {},
  };
  return page;
}
