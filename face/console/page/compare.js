// Nodes as they are and as they would be, drawn side by side.
import { get } from "./api.js";
import { el, problem, quiet } from "./dom.js";
import { machineView } from "./machine.js";
import { joined } from "./owners.js";
import { say, texts as t } from "./texts.js";

// beforeAfter draws a node now, and with further pods: [{ namespace, name, numas, containers }]. Pods that leaves accepts are
// gone from the second drawing.
export function beforeAfter(node, added, leaves) {
  const before = machineView({ name: say("machineOf", node.name) + ", " + t.was, small: true });
  const after = machineView({ name: say("machineOf", node.name) + ", " + t.is, small: true });
  before.draw(node);
  after.draw(joined(node, added, leaves));
  return el("div", { class: "compare" }, el("figure", {}, el("figcaption", {}, t.was), before.element), el("figure", {}, el("figcaption", {}, t.is), after.element));
}

// few is how many nodes are drawn at once.
const few = 3;

// nodesBeforeAfter draws nodes that change: the first few at once, the others when somebody opens them. placed are the pods that
// come, as the API's documents have them, and leaving the names of pods that go, by node: { NODE: Set of "NAMESPACE/NAME" }. Nodes
// that there are not, by known, are left out.
export function nodesBeforeAfter(placed, leaving, known = () => true) {
  const coming = Map.groupBy(placed.filter((p) => p.known && p.containers.length).map((p) => ({ ...p, ...named(p.pod) })), (p) => p.node);
  const names = [...new Set([...coming.keys(), ...Object.keys(leaving)])].filter(known);
  return names.length ? [el("h3", {}, t.drawn), names.map((name, i) => one(name, coming.get(name) || [], leaving[name] || new Set(), i < few))] : null;
}

const named = (pod) => { const [namespace, ...rest] = pod.split("/"); return { namespace, name: rest.join("/") }; };

function one(name, pods, gone, open) {
  const texts = [pods.length ? say("getsPods", pods.length) : "", gone.size ? say("losesPods", gone.size) : ""].filter(Boolean).join(", ");
  const place = el("div", {}, quiet(t.counting)), box = el("details", { class: "panel", open, ontoggle: () => { if (box.open) draw(); } },
    el("summary", {}, `${name}: ${texts}`), place);
  let done = false;
  async function draw() {
    if (done) return;
    done = true;
    try {
      const node = await get("/nodes/" + encodeURIComponent(name));
      place.replaceChildren(node.machine ? beforeAfter(node, pods, (h) => gone.has(`${h.namespace}/${h.name}`)) : quiet(t.noReport));
    } catch (e) {
      place.replaceChildren(problem(e));
    }
  }
  return box;
}
