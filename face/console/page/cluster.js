// The first page: the map of nodes, how many more pods fit, and what waits.
import { bytes, choices, el, field, focused, limits, nodeLink, note, problem, quiet, refused, table } from "./dom.js";
import { get } from "./api.js";
import { movesForUsual } from "./move.js";
import { describe, drawing, flagsOf, forPods, fragmentation, notable, share } from "./map.js";
import { say, texts as t } from "./texts.js";
import { waitingPods } from "./waiting.js";

const inList = 100;
const usualLabels = ["topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "node.kubernetes.io/instance-type",
  "kubernetes.io/arch", "kubernetes.io/hostname"];

export function clusterPage(root) {
  const all = new Map();
  let shown = [], overview = null, room = null, start = 0, open = true;
  const numbers = el("ul", { class: "numbers" });
  const search = el("input", { type: "search", id: "find", oninput: filter });
  const colour = el("select", { id: "colour", onchange: () => { legend(); map.later(); } });
  let explained = ""; // what the legend says now
  let by = "cpus"; // what the colour shows: asked for every NUMA node that is painted
  const which = el("select", { id: "which", onchange: filter }, choices([["all", t.allNodes], ["room", t.withRoom],
    ["bad", t.withProblems], ["misaligned", t.withMisaligned], ["fragmented", t.fragmented]]));
  const group = el("input", { type: "text", id: "group", list: "labels", onchange: regroup });
  const view = el("select", { id: "view-as", onchange: filter }, choices([["map", t.asMap], ["list", t.asList]]));
  const legendLine = el("p", { class: "legend" }), message = el("div", {}, note(t.loading));
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-label": t.nodes + ". " + t.keys });
  const frame = el("div", { class: "map" }, canvas), list = el("div", { hidden: true });
  const said = el("p", { class: "quiet said" }, t.keys);
  const shapes = el("section", {}, el("h2", {}, t.slots), quiet(t.counting)), moving = movesForUsual();
  const waiting = el("section", { id: "waiting" });
  const waits = waitingPods(waiting, { readable, noPods, counted(n) { overview.waiting = n; count(); } });
  root.replaceChildren(el("h1", {}, t.cluster), numbers, el("div", { class: "tools" }, field(t.find, search),
    field(t.colour, colour), field(t.show, which), field(t.group, group), field(t.view, view),
    el("datalist", { id: "labels" }, usualLabels.map((l) => el("option", { value: l })))),
  el("div", { class: "overview" }, el("div", {}, legendLine, message, el("div", {}, frame), said, list), el("div", {}, waiting, shapes, moving)));
  const map = drawing(canvas, frame, { ink, describe, open: go,
    chose: (n) => { said.textContent = n ? describe(n).replaceAll("\n", " · ") : t.keys; } });

  function go(n) { location.hash = "#/nodes/" + encodeURIComponent(n.name); }

  function ink(n, p) {
    const kept = p.cpus > 0 ? (p.reservedCPUs || 0) / p.cpus : 0;
    if (by === "fragmentation") {
      const f = fragmentation(n);
      return { part: f > 0 ? 1 : 0, level: f > 0.25 ? "full" : "some", text: String(p.freeCPUs) };
    }
    if (by.startsWith("room:")) {
      const slots = room?.byNode.get(n.name)?.[Number(by.slice(5))] || 0;
      return { part: slots > 0 ? 1 : 0, level: "full", text: String(p.freeCPUs) };
    }
    const used = share(p, by), devices = (p.devices || []).reduce((sum, d) => sum + d.free, 0);
    const text = { memory: bytes(p.freeMemory), devices: String(devices) }[by] || (p.cpus ? String(p.freeCPUs) : "–");
    return { part: used, level: used > 0.5 ? "full" : "some", kept: by === "cpus" ? kept : 0, text };
  }

  // only shows the nodes that a mark of the legend stands for.
  const only = (value) => () => { which.value = value; filter(); which.focus(); };

  function legend() {
    by = colour.value || "cpus";
    const words = by === "fragmentation" ? [t.whole, t.scattered, t.very] :
      by.startsWith("room:") ? [t.noRoom, null, t.room] : [t.free, t.some, t.full];
    const nodes = [...all.values()], has = (accept) => nodes.filter(accept).length;
    const kept = by === "cpus" && nodes.some((n) => n.numas.some((p) => p.reservedCPUs)), bad = has(notable), wide = has((n) => n.misaligned);
    // A legend that says the same stays, with the focus on its marks.
    const now = JSON.stringify([by, kept, bad, wide, nodes.some((n) => !n.numas.length)]);
    if (now === explained) return;
    explained = now;
    const mark = (kind, text, value) => el("button", { type: "button", class: "mark " + kind, onclick: only(value) }, text);
    legendLine.replaceChildren(...words.map((w, i) => w && el("span", { class: ["", "some", "full"][i] }, w)).filter(Boolean),
      ...(kept ? [el("span", { class: "kept" }, t.isReserved)] : []), ...(nodes.some((n) => !n.numas.length) ? [el("span", { class: "none" }, t.unknownUse)] : []),
      ...(bad ? [mark("bordered", say("lookAt", bad), "bad")] : []), ...(wide ? [mark("cornered", say("misalignedNodes", wide), "misaligned")] : []));
    if (by === "fragmentation") legendLine.append(el("small", {}, t.fragmentationHelp));
  }

  function colours() {
    const before = colour.value || "cpus";
    const devices = [...all.values()].some((n) => n.numas.some((p) => (p.devices || []).length));
    const of = [["cpus", t.useCPUs], ["memory", t.useMemory], ...(devices ? [["devices", t.useDevices]] : []),
      ["fragmentation", t.fragmentation], ...(room ? room.shapes.map((s, i) => ["room:" + i, say("roomFor", s.shape)]) : [])];
    colour.replaceChildren(...choices(of, of.some(([v]) => v === before) ? before : "cpus"));
    legend();
  }

  const passes = {
    all: () => true, room: (n) => n.numas.some((p) => p.freeCPUs > 0),
    bad: notable, misaligned: (n) => n.misaligned > 0, fragmented: (n) => fragmentation(n) > 0,
  };

  // chosen returns what decides whether a node is shown.
  function chosen() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), pass = passes[which.value];
    const text = (n) => (n.name + " " + Object.values(n.labels || {}).join(" ")).toLowerCase();
    return (n) => pass(n) && words.every((w) => text(n).includes(w));
  }

  // renew shows changed nodes in their places, unless nodes come or go: then everything is arranged anew.
  function renew(nodes, gone) {
    const shows = chosen(), before = nodes.map((n) => all.get(n.name));
    for (const name of gone) all.delete(name);
    nodes.forEach((n, i) => all.set(n.name, before[i] ? { ...n, labels: n.labels || before[i].labels } : n));
    const now = nodes.map((n) => all.get(n.name));
    if (gone.length || now.some((n, i) => !before[i] || shows(n) !== shows(before[i]))) filter();
    else map.renew(now.filter(shows));
  }

  function filter() {
    shown = [...all.values()].filter(chosen())
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    if (overview) message.replaceChildren(...state());
    start = 0;
    const asList = view.value === "list";
    frame.parentElement.hidden = said.hidden = legendLine.hidden = asList || !shown.length;
    list.hidden = !asList || !shown.length;
    if (asList) showList();
    else map.show(groups());
  }

  function groups() {
    if (!group.value) return [{ title: "", nodes: shown }];
    const by = Map.groupBy(shown, (n) => n.labels?.[group.value] ?? "");
    return [...by].sort(([a], [b]) => (a < b ? -1 : 1)).map(([value, nodes]) => ({ title: value || t.noLabel, nodes }));
  }

  function showList() {
    const part = shown.slice(start, start + inList), back = focused(list), move = (by) => () => { start += by; showList(); };
    list.replaceChildren(table([t.node, t.pods, t.numas, t.problem], part.map((n) => [nodeLink(n.name), n.pods, el("div", { class: "meters" }, n.numas.map(meter)),
      [...flagsOf(n).map((f) => el("div", {}, f)), n.misaligned ? el("div", { class: "bad" }, "! " + say("misalignedHere", n.misaligned)) : null]]), t.nodes, true),
    el("p", { class: "pager" }, el("button", { type: "button", disabled: start === 0, onclick: move(-inList) }, t.before),
      say("page", Math.min(start + 1, shown.length), start + part.length, shown.length),
      el("button", { type: "button", disabled: start + inList >= shown.length, onclick: move(inList) }, t.next)));
    back();
  }

  // meter is a NUMA node in the list: how much of its CPUs is in use, and how many are free.
  function meter(p) {
    const used = share(p, "cpus"), fill = el("span", { class: used > 0.5 ? "full" : "some" });
    fill.style.setProperty("width", used * 100 + "%");
    return el("div", { class: "meter" }, el("span", { class: "track", "aria-hidden": "true" }, fill), say("numaFreeShort", p.id, p.freeCPUs, forPods(p)));
  }

  const lacks = (resource) => (overview.limits || []).some((l) => l.resource.split(" ")[0] === resource && refused([l]));

  // readable names the namespaces whose pods are shown, where those of others are not.
  function readable() { return lacks("pods") ? (overview.namespaces || []).join(", ") : ""; }
  function noPods() { return lacks("pods") && !readable(); }

  function state() {
    const out = [limits(overview.limits)].filter(Boolean);
    if (!overview.ready) out.push(note(t.loading));
    else if (all.size === 0) out.push(...(lacks("nodes") ? [] : [note(t.noNodes)]));
    else if (!lacks("nodelayouts") && [...all.values()].every((n) => !n.numas.length)) out.push(note(t.noLayouts));
    else if (shown.length === 0) out.push(note(t.noMatch));
    return out;
  }

  function count() {
    let free = 0, whole = 0;
    for (const n of all.values()) for (const x of n.numas) { free += x.freeCPUs; whole += forPods(x); }
    const item = (value, name) => el("li", {}, el("b", {}, value), " " + name);
    const pods = noPods() ? () => "–" : (n) => n, of = (name) => (readable() ? `${name} (${readable()})` : name);
    numbers.hidden = !overview.ready;
    numbers.replaceChildren(item(lacks("nodes") && !all.size ? "–" : all.size, t.nodes), item(pods(overview.pods), of(t.pods)),
      item(pods(overview.waiting), of(t.waiting)), item(lacks("nodelayouts") && !whole ? "–" : `${free} / ${whole}`, t.freeCPUs));
  }

  // fitting counts slots. It is computed on demand, and so is not read with every change.
  async function fitting() {
    const asked = root.querySelector("#shape")?.value.trim();
    try {
      const answer = await get("/fitting" + (asked ? "?shape=" + encodeURIComponent(asked) : ""));
      room = { shapes: answer.shapes || [], byNode: new Map((answer.nodes || []).map((n) => [n.name, n.slots || []])) };
      showShapes(asked || "");
    } catch (e) {
      showShapes(asked || "", e);
    }
    colours();
  }

  function showShapes(asked, error) {
    const back = focused(shapes);
    const choose = (i) => () => { colour.value = "room:" + i; legend(); map.later(); frame.scrollIntoView({ block: "center" }); };
    const submit = (e) => { e.preventDefault(); fitting(); };
    if (overview?.ready && ![...all.values()].some((n) => n.numas.length)) {
      shapes.replaceChildren(el("h2", {}, t.slots), quiet(t.nothingToCount));
      return;
    }
    const rows = (room?.shapes || []).map((s, i) => [s.shape, el("b", {}, s.slots), s.percent ? s.percent + " %" : "–",
      el("button", { type: "button", onclick: choose(i) }, t.onMap)]);
    shapes.replaceChildren(el("h2", {}, t.slots), error ? problem(error, fitting) : rows.length ?
      table([t.shape, t.fitting, t.share, ""], rows, t.slots, true) : quiet(lacks("pods") ? t.noShapesRead : t.noShapes),
    el("form", { class: "tools", onsubmit: submit }, field(`${t.ownShape}, ${t.ownShapeHelp}`,
      el("input", { type: "text", id: "shape", value: shapes.querySelector("#shape")?.value ?? asked })), el("button", { type: "submit" }, t.count)));
    back();
  }

  async function regroup() {
    await read();
  }

  async function read() {
    overview = await get("/cluster" + (group.value ? "?label=" + encodeURIComponent(group.value) : ""));
    if (!open) return;
    all.clear();
    for (const n of overview.nodes) all.set(n.name, n);
    colours();
    count();
    filter();
    legend();
  }

  return {
    async read() {
      await read();
      await waits.read();
      // The server computes little at a time for one person, and why pods wait comes first.
      if (!room) Promise.resolve(waits.known()).then(() => open && fitting());
    },
    async change(c) {
      if (c.all || !overview) return this.read();
      overview.waiting = c.waiting;
      overview.pods = c.podCount;
      if (view.value === "map") renew(c.nodes || [], c.gone || []);
      else {
        for (const n of c.nodes || []) all.set(n.name, { ...n, labels: n.labels || all.get(n.name)?.labels });
        for (const name of c.gone || []) all.delete(name);
      }
      count();
      legend();
      if (c.pods?.length) waits.later();
    },
    close() { open = false; waits.close(); map.close(); },
  };
}
