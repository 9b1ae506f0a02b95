// What would have to move so that a pod that waits gets room. It is asked for by a button, since it may take a while.
import { el, nodeLink, note, podLink, problem, quiet, saved, table } from "./dom.js";
import { send } from "./api.js";
import { phrase, say, texts as t } from "./texts.js";

export function movesFor(namespace, name) {
  const result = el("div", { id: "moves", "aria-live": "polite" });
  const place = (p) => [nodeLink(p.node), p.numas ? ` · ${t.numa} ${p.numas}` : ""];

  function plan(d) {
    const rows = d.moves.map((m) => [podLink(m), m.priority, m.cost, nodeLink(m.from), place(m.to)]);
    return [rows.length ? table([t.pod, t.priority, t.moveCost, t.from, t.to], rows, t.wouldMove, true) : quiet(t.nothingMoves),
      d.placed.map((p) => el("p", {}, say("getsRoom", p.pod), " ", place(p))),
      rows.length ? quiet(d.cheapest ? t.cheapestMoves : t.perhapsCheaper) : null,
      rows.length ? [quiet(t.carryOutMoves), el("div", { class: "tools" }, el("button", { type: "button", id: "save-moves",
        onclick: () => saved(d, "plan.json") }, t.savePlan))] : null,
      d.inSteps ? note(t.movesInSteps) : null,
      rows.length && d.budgetsUnread ? note(t.budgetsUnread) : null, d.forced ? note(t.forcedMoves) : null];
  }

  function none(d) {
    return [note(d.gaveUp || !d.cheapest ? t.noMovesFound : t.noMoves),
      d.fixed.length ? table([t.pods, t.whyFixed], d.fixed.map((f) => [f.pods, phrase(f.reason)]), t.whyFixed, true) : null];
  }

  async function ask() {
    result.replaceChildren(quiet(t.counting));
    const q = new URLSearchParams({ for: `${namespace}/${name}` });
    try {
      const d = await send("POST", `/api/v1/defrag?${q}`, "", "application/yaml");
      result.replaceChildren(...[d.found ? plan(d) : none(d), (d.notJudged || []).map((x) => note(`${t.unjudged}: ${x}`))]
        .flat(Infinity).filter(Boolean));
    } catch (e) {
      result.replaceChildren(problem(e));
    }
  }
  return el("section", {}, el("h2", {}, t.wouldMove), quiet(t.movesHelp),
    el("div", { class: "tools" }, el("button", { type: "button", id: "move", onclick: ask }, t.askMoves)), result);
}
