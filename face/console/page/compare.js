// A node as it is and as it would be, drawn side by side.
import { el } from "./dom.js";
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
