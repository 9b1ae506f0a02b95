// The page of policies: how schedulers and kubelets are configured, and the switch of the plugin.
import { choices, diff, el, field, limits, nodeLink, note, problem, quiet, table } from "./dom.js";
import { get, send } from "./api.js";
import { propose } from "./kubelets.js";
import { say, texts as t } from "./texts.js";

const few = 20;

// editable are the arguments that have a form, and their values; of a number there are none.
const editable = [["scoringStrategy", ["Tenon", "LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes",
  "UnionSpan"]],
  ["unknownNodes", ["Allow", "AllowWithoutDemand", "Refuse"]], ["coarseNodes", ["Allow", "Refuse"]],
  ["silentNodes", ["Allow", "Refuse"]], ["inexactNodes", ["Allow", "Refuse"]], ["turnTimeoutSeconds", null]];

export function policyPage(root) {
  // proposed shows what a change would do, and writes it when somebody says so. ask sends it, as a dry run or for good;
  // leave shows again what was in the place before.
  async function proposed(place, s, ask, leave) {
    async function write() {
      try {
        const answer = await ask({ version: s.version });
        await draw();
        root.prepend(note([t.written, answer.reload, ...(answer.warnings || [])].filter(Boolean).join(" ")));
      } catch (e) {
        place.replaceChildren(problem(e, leave));
      }
    }
    try {
      const answer = await ask({ dryRun: "true" });
      const button = answer.diff ? el("button", { type: "button", class: "main", onclick: write }, t.write) : null;
      place.replaceChildren(el("p", {}, t.preview), answer.diff ? diff(answer.diff.split("\n")) : quiet(t.nothingChanges), quiet(answer.reload || ""),
        ...(answer.warnings || []).map((w) => note(w)),
        el("div", { class: "tools" }, button, el("button", { type: "button", onclick: leave }, t.cancel)));
      place.querySelector("button").focus();
    } catch (e) {
      place.replaceChildren(problem(e, leave));
    }
  }

  // leaving shows the idle state of a place, and lets Escape bring it back, with the focus on its button.
  function leaving(place, idle) {
    idle();
    place.addEventListener("keydown", (e) => {
      if (e.key !== "Escape") return;
      idle();
      place.querySelector("button").focus();
    });
    place.addEventListener("click", () => { if (document.activeElement === document.body) place.querySelector("button")?.focus(); });
  }

  // control turns the plugin on or off.
  function control(s) {
    const place = el("div", { class: "change" });
    if (!s.mayWrite) return quiet(t.mayNotWrite);
    const ask = (more) => send("PUT", "/rest/scheduling/v1/numaaware?" + new URLSearchParams({ scheduler: s.id, ...more }),
      JSON.stringify({ status: s.enabled ? "close" : "open" }), "application/json");
    const idle = () => place.replaceChildren(el("button", { type: "button", onclick: () => proposed(place, s, ask, idle) },
      s.enabled ? t.turnOff : t.turnOn));
    leaving(place, idle);
    return place;
  }

  // editing has a form for the arguments of the plugin in one profile. An empty choice removes the argument: its
  // default holds then.
  function editing(s, p) {
    const place = el("div", { class: "change" }), now = p.arguments || {};
    const value = (name) => (name === "scoringStrategy" ? now.scoringStrategy?.type : now[name]) ?? "";
    const input = ([name, values]) => (values ?
      el("select", { name }, choices([["", t.byDefault], ...values.map((v) => [v, v])], value(name))) :
      el("input", { name, type: "number", min: "1", max: "3600", value: value(name), placeholder: "30" }));
    const idle = () => place.replaceChildren(el("button", { type: "button", onclick: form }, t.changeArguments));
    function form() {
      const inputs = editable.map(input);
      const change = (e) => {
        e.preventDefault();
        const changed = {};
        for (const i of inputs) {
          if (i.value === String(value(i.name))) continue;
          if (!i.value) changed[i.name] = null;
          else if (i.name === "scoringStrategy") changed[i.name] = { ...now.scoringStrategy, type: i.value };
          else changed[i.name] = i.type === "number" ? Number(i.value) : i.value;
        }
        if (!Object.keys(changed).length) return idle();
        const ask = (more) => send("PATCH", "/api/v1/scheduling/arguments?" +
          new URLSearchParams({ scheduler: s.id, profile: p.schedulerName, ...more }),
        JSON.stringify({ arguments: changed }), "application/json");
        return proposed(place, s, ask, idle);
      };
      place.replaceChildren(el("form", { onsubmit: change }, inputs.map((i) => field(i.name, i)), el("div", { class: "tools" },
        el("button", { type: "submit", class: "main" }, t.showChange), el("button", { type: "button", onclick: idle }, t.cancel))));
      inputs[0].focus();
    }
    leaving(place, idle);
    return place;
  }

  function scheduler(s) {
    const rows = (s.profiles || []).map((p) => [p.schedulerName, p.enabled ? t.on : t.off, p.weight ?? "–", p.strategy || "–",
      [Object.keys(p.arguments || {}).length ? el("pre", {}, JSON.stringify(p.arguments, null, 2)) : "–",
        s.mayWrite && s.type === "kube-scheduler" && (p.plugin || s.plugin) === "Tenon" ? editing(s, p) : null]]);
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
    r.memoryManagerPolicy, [...options(r.topologyManagerPolicyOptions), ...options(r.cpuManagerPolicyOptions)].join(", ") || "–", r.reservedCPUs || "–", plans(k)];
  }

  // plans leads to the page of kubelets with these nodes.
  function plans(k) {
    const only = k.nodes.length === 1 ? "kubernetes.io/hostname=" + k.nodes[0] : `kubernetes.io/hostname in (${k.nodes.join(",")})`;
    return el("button", { type: "button", onclick: () => { propose({ selector: only, topologyManagerPolicy: "" }); location.hash = "#/kubelets"; } }, t.planChange);
  }

  async function draw() {
    const p = await get("/scheduling");
    root.replaceChildren(el("h1", {}, t.policy), limits(p.limits) || "",
      el("h2", {}, t.schedulers), ...(p.schedulers.length ? p.schedulers.map(scheduler) : [note(t.noSchedulers), quiet(t.tryInstead, " ", el("a", { href: "#/whatif" }, t.whatIf))]),
      el("h2", {}, t.kubelets), p.kubelets.length ? table([t.node, t.topologyManager, t.cpuManager, t.memoryManager, t.options,
        t.reservedCPUs, ""], p.kubelets.map(kubelets), t.kubelets, true) : quiet(t.noKubelets));
  }

  return {
    // A change that somebody prepares is not taken away when the connection comes back.
    async read() {
      if (!root.querySelector(".change form, .change pre")) await draw();
    },
    async change() {},
    close() {},
  };
}
