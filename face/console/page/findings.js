// The page of findings: what is wrong with the installation, the nodes and the pods, and what mends it.
import { choices, el, field, limits, nodeLink, note, podLink, problem, quiet, table } from "./dom.js";
import { get } from "./api.js";
import { say, texts as t, word } from "./texts.js";

const few = 20;

export function findingsPage(root) {
  let diagnosis = null, shown = "";

  const pod = (name) => { const [namespace, rest] = name.split("/"); return podLink({ namespace, name: rest }); };
  // listed separates the first of some links by commas.
  const listed = (all, one) => [all.slice(0, few).map((x, i) => [i ? ", " : "", one(x)]),
    all.length > few ? " " + say("moreObjects", all.length - few) : ""];

  function object(o) {
    const own = [o.namespace, o.name].filter(Boolean).join("/"), nodes = o.nodes || [], pods = o.pods || [];
    const head = o.kind === "Cluster" ? t.cluster : `${o.kind} ${own}`;
    const same = (names) => names.length === 1 && names[0] === own;
    return [el("div", {}, same(nodes) ? nodeLink(own) : same(pods) ? pod(own) : head),
      nodes.length && !same(nodes) ? el("div", {}, listed(nodes, nodeLink)) : null,
      pods.length && !same(pods) ? el("div", {}, listed(pods, pod)) : null];
  }

  function finding(f) {
    const rows = f.objects.slice(0, few).map((o) => [object(o), (o.evidence || []).map((e) => el("div", {}, e))]);
    return el("section", { class: "panel finding" }, el("h2", {}, el("span", { class: "severity " + f.severity }, word(f.severity)), " ", f.text),
      table([t.object, t.evidence], rows, f.text, true),
      f.objects.length > few ? quiet(say("moreObjects", f.objects.length - few)) : null,
      el("p", {}, el("strong", {}, t.remedy + ": "), f.remedy),
      f.commands?.length ? el("pre", { tabindex: "0" }, f.commands.join("\n")) : null, quiet(el("a", { href: f.page, rel: "noreferrer" }, say("explained", f.page.split("/").at(-1)))));
  }

  function draw() {
    const all = diagnosis.findings, some = all.filter((f) => !shown || f.severity === shown);
    const count = (s) => all.filter((f) => f.severity === s).length;
    const select = el("select", { id: "severity", onchange: () => { shown = select.value; draw(); root.querySelector("#severity").focus(); } },
      choices([["", `${t.allFindings} (${all.length})`], ...["error", "warning", "info"].map((s) => [s, `${word(s)} (${count(s)})`])], shown));
    root.replaceChildren(el("h1", {}, t.findings), quiet(say("examined", diagnosis.nodes, diagnosis.pods)),
      limits(diagnosis.limits) || "",
      el("div", { class: "tools" }, field(t.severity, select), el("button", { type: "button", onclick: again }, t.examineAgain)),
      ...(all.length === 0 ? [note(diagnosis.limits?.length ? t.nothingFoundHere : t.nothingFound)] : some.map(finding)));
  }

  // again keeps what is shown until there is a new answer: the cluster is examined anew, which takes a moment.
  async function again(event) {
    event.target.disabled = true;
    event.target.textContent = t.counting;
    try {
      await page.read();
      root.querySelector(".tools button").focus();
    } catch (e) {
      draw();
      root.querySelector(".tools").after(problem(e));
      root.querySelector(".tools button").focus();
    }
  }

  const page = {
    async read() {
      diagnosis = await get("/doctor");
      draw();
    },
    async change(c) {
      if (c.all || !diagnosis) await this.read();
    },
    close() {},
  };
  return page;
}
