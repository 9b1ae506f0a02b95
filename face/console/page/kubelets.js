// The page of kubelets: what a change of their configuration would do, and the change itself while it goes on.
import { choices, diff, el, field, limits, nodeLink, note, podLink, problem, quiet, saved, table, when } from "./dom.js";
import { get, send } from "./api.js";
import { say, texts as t, word } from "./texts.js";

const few = 20, poll = 1000, at = "/api/v1/kubelets/";
const policies = ["none", "best-effort", "restricted", "single-numa-node"];
// draft and plan survive a visit to another page.
let draft = {}, plan = null;

// propose fills in the form for a change that another page suggests.
export function propose(change) {
  draft = change;
  plan = null;
}

// slim is what of a plan is needed to carry it out.
const slim = (p) => ({ ...p, moves: [], shapes: [], limits: [], nodes: p.nodes.map((n) => ({ ...n, pods: [] })) });

export function kubeletsPage(root) {
  const rollout = el("section", { id: "rollout", "aria-live": "polite" }), result = el("section", { id: "result", "aria-live": "polite" });
  const inputs = {}, carry = el("div", { class: "change" });
  let timer = 0, closed = false;

  function input(name, label, help, more = {}) {
    const list = more.choices;
    inputs[name] = list ? el("select", { id: name }, choices([["", t.asIs], ...list.map((p) => [p, p])], draft[name])) :
      el("input", { type: "text", id: name, autocomplete: "off", spellcheck: "false", value: draft[name] || "", placeholder: more.example });
    inputs[name].addEventListener("input", () => { draft[name] = inputs[name].value; });
    return field(label, inputs[name], help);
  }

  function asked() {
    const out = {};
    for (const [name, i] of Object.entries(inputs)) if (i.value.trim()) out[name] = i.value.trim();
    if (out.options) out.options = out.options.split(/[\s,]+/);
    return out;
  }

  async function ask(event) {
    event.preventDefault();
    result.replaceChildren(el("h2", {}, t.result), quiet(t.counting));
    try {
      plan = await send("POST", at + "plan", JSON.stringify(asked()), "application/json");
      planned();
    } catch (e) {
      plan = null;
      result.replaceChildren(el("h2", {}, t.result), problem(e));
    }
    result.scrollIntoView({ block: "start" });
  }

  // diffs are the changes of files, once for all nodes on which they are the same.
  function diffs() {
    const on = Map.groupBy(plan.nodes, (n) => JSON.stringify([n.diff, n.errors, n.warnings]));
    return [...on.values()].map((all) => [el("h3", {}, all.slice(0, few).map((n, i) => [i ? ", " : "", nodeLink(n.name)]),
      all.length > few ? " " + say("moreNodes", all.length - few) : ""), diff(all[0].diff),
    (all[0].errors || []).map((e) => note(`${t.notAccepted}: ${e}`, true)),
    (all[0].warnings || []).map((e) => note(e))]);
  }

  function order() {
    const starts = (n) => n.pods.filter((p) => p.starts).length;
    const rows = plan.nodes.slice(0, 200).map((n, i) => [i + 1, nodeLink(n.name), starts(n), n.pods.length - starts(n),
      say("of", n.waiting, n.evicted), n.stateFiles.join(", ") || "–", n.blocked.length ? say("blockedBy", n.blocked.join(", ")) : ""]);
    return [table([t.order, t.node, t.startAgain, t.refusedPods, t.waitMeanwhile, t.stateFiles, t.eviction], rows, t.order, true),
      plan.nodes.length > 200 ? quiet(say("moreNodes", plan.nodes.length - 200)) : null];
  }

  function moves() {
    if (!plan.moves.length) return el("p", { class: "good" }, t.allStartAgain);
    return [el("h3", {}, t.refusedPods), table([t.pod, t.node, t.goesTo, t.why], plan.moves.slice(0, few).map((m) => [podLink(m), nodeLink(m.from),
      m.to ? nodeLink(m.to) : el("span", { class: "bad" }, t.nowhere), m.why]), t.refusedPods, true),
    plan.moves.length > few ? quiet(say("moreObjects", plan.moves.length - few)) : null];
  }


  function planned() {
    const refusedFiles = plan.nodes.some((n) => n.errors.length);
    result.replaceChildren(...[el("h2", {}, t.result), diffs(), order(), moves(),
      plan.shapes.length ? [el("h3", {}, t.roomIfEmpty), table([t.shape, t.was, t.is], plan.shapes.map((s) => [s.shape, s.before, s.after]), t.roomIfEmpty)] : null,
      plan.unchanged.length ? quiet(`${t.unchangedNodes}: ${plan.unchanged.join(", ")}`) : null,
      limits(plan.limits),
      refusedFiles ? null : [el("h2", {}, t.carryOut), carry]].flat(Infinity).filter(Boolean));
    choose();
  }

  // choose asks how the plan is carried out.
  function choose() {
    const namespace = el("input", { type: "text", id: "namespace", placeholder: "kube-system", autocomplete: "off" });
    const most = el("input", { type: "number", id: "most", min: "1", max: "1000", value: "1" });
    const force = el("input", { type: "checkbox", id: "force" }), lose = el("input", { type: "checkbox", id: "lose" });
    const body = () => JSON.stringify({ plan: slim(plan), maxUnavailable: Number(most.value) || 1, force: force.checked,
      deleteEmptyDirData: lose.checked, ...(namespace.value ? { namespace: namespace.value } : {}) });
    const submit = async (event) => {
      event.preventDefault();
      const asked = body();
      try {
        confirm(await send("POST", at + "rollout?dryRun=true", asked, "application/json"), asked);
      } catch (e) {
        answer.replaceChildren(problem(e));
      }
    };
    const answer = el("div");
    carry.replaceChildren(el("form", { class: "form", onsubmit: submit }, quiet(t.rolloutHow),
      el("div", { class: "pair" }, field(t.atATime, most), field(t.changersIn, namespace)),
      el("label", { class: "check" }, force, t.forcePods), el("label", { class: "check" }, lose, t.losePods), el("div", { class: "tools" },
        el("button", { type: "submit", class: "main", id: "check" }, t.checkRollout), el("button", { type: "button", onclick: () => saved(plan, "plan.json") }, t.savePlan)), answer));
  }

  function confirm(d, body) {
    if (!d.nodes.length) {
      carry.replaceChildren(note(t.changedAlready));
      return;
    }
    const names = d.nodes.slice(0, few).map((n) => n.name).join(", ") + (d.nodes.length > few ? " " + say("moreNodes", d.nodes.length - few) : "");
    const begin = el("button", { type: "button", class: "main", id: "begin", onclick: () => act("POST", body) }, t.begin);
    carry.replaceChildren(el("p", {}, say("willChange", names, d.maxUnavailable)),
      el("p", {}, say("willRun", d.image, d.namespace)), el("pre", { tabindex: "0" }, d.stopCommand + "\n" + d.startCommand),
      el("div", { class: "tools" }, begin, el("button", { type: "button", onclick: choose }, t.cancel)));
    begin.focus();
  }

  // act begins a rollout, goes on with the last one, or stops it.
  async function act(method, body) {
    try {
      progress(await send(method, at + "rollout", body, "application/json"));
      if (plan) choose();
      rollout.scrollIntoView({ block: "start" });
    } catch (e) {
      rollout.prepend(problem(e));
    }
  }

  function progress(r) {
    clearTimeout(timer);
    if (!r.began) return;
    const state = (n) => (n.step ? el("span", { class: { done: "good", restored: "bad", undo: "bad" }[n.step] }, t["step" + n.step] || n.step) : t.notYet);
    const done = r.nodes.filter((n) => n.step === "done").length;
    const head = r.running ? t.rolloutRuns : r.error ? t.rolloutStopped : t.rolloutDone;
    const button = r.running ? r.mayStop && el("button", { type: "button", id: "stop", onclick: () => act("DELETE") }, t.stop) :
      r.error && el("button", { type: "button", id: "again", onclick: () => act("POST", "{}") }, t.goOn);
    rollout.replaceChildren(...[el("h2", {}, head), quiet(say("begunBy", r.by), " ", when(r.began), ". ", say("nodesDone", done, r.nodes.length)),
      r.error ? note(r.error, true) : null, table([t.node, t.step, t.stepSince, t.why], r.nodes.slice(0, 200).map((n) => [nodeLink(n.name), state(n),
        n.since ? when(n.since) : "–", n.why || ""]), t.rolloutRuns, true), button && el("div", { class: "tools" }, button)].filter(Boolean));
    if (r.running && !closed) timer = setTimeout(watch, poll);
  }

  async function watch() {
    try {
      progress(await get("/kubelets/rollout"));
    } catch (e) {
      rollout.prepend(problem(e, watch));
    }
  }

  root.replaceChildren(el("h1", {}, t.kubelets), quiet(t.kubeletsHow), rollout, el("form", { class: "form", onsubmit: ask },
    input("selector", t.onNodes, t.selectorHelp, { example: "pool=gpu" }),
    el("div", { class: "pair" }, input("topologyManagerPolicy", t.kubeletPolicy, "", { choices: policies }),
      input("options", t.options, t.optionsHelp, { example: "scope=pod full-pcpus-only" })),
    el("div", { class: "pair" }, input("cpuManagerPolicy", t.cpuManager, "", { choices: ["none", "static"] }),
      input("reservedCPUs", t.reservedCPUs, "", { example: "0-1,64-65" })),
    el("div", { class: "pair" }, input("memoryManagerPolicy", t.memoryManager, "", { choices: ["None", "Static"] }),
      input("reservedMemory", t.reservedMemory, "", { example: "0:memory=2Gi;1:memory=2Gi" })),
    el("div", { class: "tools" }, el("button", { type: "submit", class: "main", id: "plan" }, t.showPlan))), result);
  if (plan) planned();
  return {
    async read() { progress(await get("/kubelets/rollout")); },
    async change() {},
    close() { closed = true; clearTimeout(timer); },
  };
}
