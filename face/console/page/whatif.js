// The page of questions: where the pods of a manifest would go, and what another cluster would change.
import { choices, devicesText, el, field, limits, memoryText, nodeLink, note, problem, quiet, refused, requests, table } from "./dom.js";
import { get, send } from "./api.js";
import { nodesBeforeAfter } from "./compare.js";
import { phrase, say, texts as t } from "./texts.js";

const policies = ["none", "best-effort", "restricted", "single-numa-node"];
const example = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: example
spec:
  replicas: 3
  selector: {matchLabels: {app: example}}
  template:
    metadata: {labels: {app: example}}
    spec:
      containers:
      - name: main
        image: registry.k8s.io/pause:3.10
        resources:
          limits: {cpu: "4", memory: 8Gi}
`;
// draft survives a visit to another page.
let draft = "";

export function whatIfPage(root) {
  const input = (id, more = {}) => el("input", { type: "text", id, autocomplete: "off", spellcheck: "false", ...more });
  const manifest = el("textarea", { id: "manifest", rows: "14", spellcheck: "false", oninput: () => { draft = manifest.value; } });
  const namespace = input("namespace", { value: "default" }), count = input("count"), without = input("without", { list: "names" });
  const add = input("add", { list: "names" }), addCount = input("add-count", { value: "1" }), selector = input("selector");
  const policy = el("select", { id: "policy" }, choices([["", t.asIs], ...policies.map((p) => [p, p])]));
  const pending = el("input", { type: "checkbox", id: "pending" }), names = el("datalist", { id: "names" });
  const lacking = el("div"), result = el("section", { id: "result", "aria-live": "polite" });
  const file = el("input", { type: "file", id: "file", onchange: async () => {
    if (file.files[0]) manifest.value = draft = await file.files[0].text();
  } });
  manifest.value = draft;
  let known = new Set(); // names of nodes that are there: added ones cannot be drawn

  function query() {
    const q = new URLSearchParams(), words = (x) => x.value.split(/[\s,]+/).filter(Boolean);
    if (namespace.value) q.set("namespace", namespace.value);
    if (count.value && manifest.value.trim()) q.set("count", count.value);
    for (const w of words(without)) q.append("without", w);
    if (add.value) q.append("add", add.value + (addCount.value ? "=" + addCount.value : ""));
    if (policy.value) q.set("policy", policy.value);
    if (policy.value && selector.value) q.set("selector", selector.value);
    if (pending.checked) q.set("pending", "true");
    return q;
  }

  async function ask(what) {
    const q = what === "check" ? new URLSearchParams({ namespace: namespace.value || "default" }) : query();
    result.replaceChildren(el("h2", {}, t.result), quiet(t.counting));
    try {
      const answer = await send("POST", `/api/v1/${what}?${q}`, manifest.value, "application/yaml");
      result.replaceChildren(el("h2", {}, t.result), ...(what === "check" ? checked(answer) : simulated(answer)));
    } catch (e) {
      result.replaceChildren(el("h2", {}, t.result), problem(e));
    }
    result.scrollIntoView({ block: "start" });
  }

  const refusals = (all) => (all || []).map((r) => [el("div", {}, r.nodes.slice(0, 5).map((n, i) => [i ? ", " : "", nodeLink(n)]),
    r.nodes.length > 5 ? " " + say("moreNodes", r.nodes.length - 5) : ""), r.reasons.map((x) => el("div", {}, phrase(x.text))),
  r.reasons.map((x) => el("div", {}, phrase(x.remedy || "")))]);

  function workload(w) {
    const asks = requests(w.containers).map(([name, what]) => `${name}: ${what}`).join("; ");
    const place = (p) => p.node + " " + p.numas, order = (a, b) => place(a).localeCompare(place(b), "en", { numeric: true });
    const by = Map.groupBy([...w.placements].sort(order), place);
    const head = w.wanted === undefined ? say(w.bounded ? "atLeast" : "placedMost", w.placed) : say("placed", w.placed, w.wanted);
    return [el("h3", {}, `${w.kind} ${w.namespace}/${w.name}: `, el("span", { class: w.noPlace ? "bad" : "good" }, head)), quiet(asks),
      by.size ? table([t.node, t.numa, t.pods], [...by.values()].map((all) => [nodeLink(all[0].node), all[0].numas || "–", all.length])) : null,
      w.noPlace && w.refusals.length ? table([t.node, t.why, t.remedy], refusals(w.refusals), t.why, true) : null];
  }

  function changes(nodes) {
    const free = (f) => [f.cpus ? `CPUs ${f.cpus}` : "", memoryText(f.memory), devicesText(f.devices)].filter(Boolean).join(", ");
    const rows = nodes.flatMap((n) => n.numas.map((x) => [nodeLink(n.name), x.id, free(x.before), free(x.after)]));
    return rows.length ? el("details", {}, el("summary", {}, t.changed), table([t.node, t.numa, t.was, t.is], rows)) : null;
  }

  // drawings show the nodes that get pods, now and afterwards.
  function drawings(r) {
    const leaving = {}, placed = r.workloads.flatMap((w) => w.placements), on = new Set(placed.map((p) => p.node));
    for (const w of r.workloads.filter((x) => x.from)) (leaving[w.from] ||= new Set()).add(`${w.namespace}/${w.name}`);
    return nodesBeforeAfter(placed, leaving, (name) => known.has(name) && on.has(name));
  }

  function simulated(s) {
    const moved = [...(s.without || []), ...(s.altered || [])].map((l) => quiet(`${l.node}: ` + say("moves", l.moved, l.stay)));
    return [el("p", { class: s.fits ? "good" : "bad" }, s.fits ? t.allPlaced : t.notAllPlaced), moved,
      (s.groups || []).map((g) => note(g.text, g.gang && !g.fits)),
      s.needs ? note((s.needs.enough ? "" : t.notAllPlaced + " ") + say("needs", s.needs.nodes, s.needs.machine)) : null,
      s.rounds.flatMap((r) => [...r.workloads.map(workload), drawings(r), changes(r.nodes)]),
      (s.notJudged || []).map((x) => note(`${t.notJudged}: ${x}`)),
      (s.notKnown || []).map((x) => note(`${t.notKnown} ${x.node}: ${x.reason}`))].flat(Infinity).filter(Boolean);
  }

  function checked(c) {
    const list = (names) => (names.length ? names.map((n, i) => [i ? ", " : "", nodeLink(n)]) : t.none);
    return [...c.workloads.flatMap((w) => [el("h3", {}, `${w.kind} ${w.namespace}/${w.name}: `,
      el("span", { class: w.passes ? "good" : "bad" }, w.passes ? t.passes : t.never)),
    w.summary ? el("p", {}, phrase(w.summary.text)) : null, el("p", {}, t.now + ": ", list(w.now)), el("p", {}, t.ever + ": ", list(w.ever)), (w.warnings || []).map((x) => note(x)),
    (w.unjudged || []).map((x) => note(`${t.unjudged}: ${x}`)), w.refusals.length ? table([t.node, t.why, t.remedy], refusals(w.refusals), t.why, true) : null]),
    (c.groups || []).flatMap((g) => [...g.problems.map((x) => [x, true]), ...g.notes.map((x) => [x, false])]
      .map(([x, bad]) => note(`PodGroup ${g.namespace}/${g.name}: ${x}`, bad))),
    (c.notJudged || []).map((x) => note(`${t.notJudged}: ${x}`)),
    (c.noPods || []).length ? quiet(t.noPodsIn + ": " + c.noPods.join(", ")) : null,
    (c.notKnown || []).map((x) => note(`${t.notKnown} ${x.node}: ${x.reason}`))].flat(Infinity).filter(Boolean);
  }

  function nothing() {
    return !manifest.value.trim() && !without.value && !add.value && !policy.value && !pending.checked;
  }

  const submit = (e) => {
    e.preventDefault();
    if (nothing()) result.replaceChildren(note(t.nothingAsked, true));
    else ask("simulate");
  };
  root.replaceChildren(el("h1", {}, t.whatIf), lacking, el("form", { class: "whatif", onsubmit: submit },
    el("div", {}, field(t.manifest, manifest, t.manifestHelp), el("div", { class: "tools" }, field(t.file, file),
      el("button", { type: "button", id: "example", onclick: () => { manifest.value = draft = example; } }, t.example))),
    el("div", { class: "form" }, field(t.namespace, namespace), field(t.copies, count, t.copiesHelp), field(t.without, without),
      el("div", { class: "pair" }, field(t.add, add), field(t.addCount, addCount)),
      el("div", { class: "pair" }, field(t.kubeletPolicy, policy), field(t.selector, selector)),
      el("label", { class: "check" }, pending, t.pending),
      el("div", { class: "tools" }, el("button", { type: "submit", id: "place", class: "main" }, t.place),
        el("button", { type: "button", id: "ever", onclick: () => (manifest.value.trim() ? ask("check") :
          result.replaceChildren(note(t.nothingAsked, true))) }, t.canEver)))), names, result);
  return {
    async read() {
      const overview = await get("/cluster"), none = overview.ready && !overview.nodes.some((n) => n.numas.length);
      lacking.replaceChildren(...[limits(overview.limits), none && !refused(overview.limits) ? note(t.noLayouts) : null].filter(Boolean));
      known = new Set(overview.nodes.map((n) => n.name));
      names.replaceChildren(...overview.nodes.slice(0, 1000).map((n) => el("option", { value: n.name })));
    },
    async change() {},
    close() {},
  };
}
