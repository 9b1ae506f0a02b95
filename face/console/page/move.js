// What would have to move for a goal: a pod that waits gets room, a pod comes onto fewer NUMA nodes, or more of the usual pods fit.
// It is asked for by a button, since it may take a while.
import { el, nodeLink, note, podLink, problem, quiet, saved, table } from "./dom.js";
import { send } from "./api.js";
import { nodesBeforeAfter } from "./compare.js";
import { phrase, say, texts as t } from "./texts.js";

export const movesFor = (namespace, name) => moves({ for: `${namespace}/${name}` }, t.movesHelp);
export const movesToAlign = (namespace, name) => moves({ align: `${namespace}/${name}` }, t.alignHelp);
export const movesForUsual = () => moves({ usual: "true" }, t.usualHelp);

// moves is a section with the button and the answer. goal is the query.
function moves(goal, help) {
  const result = el("div", { id: "moves", "aria-live": "polite" }), usual = goal.usual;
  const place = (p) => [nodeLink(p.node), p.numas ? ` · ${t.numa} ${p.numas}` : ""];

  // fits is how many more pods of each usual shape fit, before and after.
  const fits = (d) => (d.usual || []).length ? table([t.shape, t.was, t.is], d.usual.map((s) => [s.shape, s.before, s.after]), t.fitting, true) : null;

  const nothing = (d) => !usual ? t.nothingMoves : !(d.usual || []).length ? t.noShapes : d.cheapest ? t.noMoveBringsMore : t.perhapsMore;

  // certain is what is known about other choices.
  const certain = (d) => usual ? d.cheapest ? t.noneBringsMore : t.perhapsMore : d.cheapest ? t.cheapestMoves : t.perhapsCheaper;

  function plan(d) {
    const rows = d.moves.map((m) => [podLink(m), m.priority, m.cost, nodeLink(m.from), place(m.to)]);
    return [rows.length ? table([t.pod, t.priority, t.moveCost, t.from, t.to], rows, t.wouldMove, true) : quiet(nothing(d)),
    fits(d), d.placed.map((p) => el("p", {}, say("getsRoom", p.pod), " ", place(p))),
    rows.length ? quiet(certain(d)) : null,
    rows.length ? [quiet(t.carryOutMoves), el("div", { class: "tools" }, el("button", { type: "button", id: "save-moves",
      onclick: () => saved(d, "plan.json") }, t.savePlan))] : null,
    d.inSteps ? note(t.movesInSteps) : null,
    rows.length && d.budgetsUnread ? note(t.budgetsUnread) : null, d.forced ? note(t.forcedMoves) : null, drawings(d)];
  }

  // drawings show the nodes that pods leave and come to, now and afterwards.
  function drawings(d) {
    const leaving = {};
    for (const m of d.moves) (leaving[m.from] ||= new Set()).add(`${m.namespace}/${m.name}`);
    return d.moves.length ? nodesBeforeAfter([...d.moves.map((m) => m.to), ...d.placed], leaving) : null;
  }

  const fixed = (d) => (d.fixed || []).length ?
    table([t.pods, t.whyFixed], d.fixed.map((f) => [f.pods, phrase(f.reason)]), t.whyFixed, true) : null;

  const none = (d) => [note(d.gaveUp || !d.cheapest ? t.noMovesFound : t.noMoves), fixed(d)];

  async function ask() {
    result.replaceChildren(quiet(t.counting));
    try {
      const d = await send("POST", `/api/v1/defrag?${new URLSearchParams(goal)}`, "", "application/yaml");
      result.replaceChildren(...[d.found ? [plan(d), usual ? fixed(d) : null] : none(d),
        (d.notJudged || []).map((x) => note(`${t.unjudged}: ${x}`))].flat(Infinity).filter(Boolean));
    } catch (e) {
      result.replaceChildren(problem(e));
    }
  }
  return el("section", {}, el("h2", {}, t.wouldMove), quiet(help),
    el("div", { class: "tools" }, el("button", { type: "button", id: "move", onclick: ask }, t.askMoves)), result);
}
