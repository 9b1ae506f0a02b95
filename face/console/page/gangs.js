// Pods that wait, in rows: the pods of one group are one row, which opens to its pods.
import { el, podLink, quiet } from "./dom.js";
import { get } from "./api.js";
import { phrase, say, texts as t } from "./texts.js";

// rowsOf returns a row for each group, at its first pod, and one for each other pod: { pods, group, created }.
export function rowsOf(list) {
  const groups = new Map((list.groups || []).map((g) => [g.namespace + "/" + g.name, g])), known = new Map(), out = [];
  for (const p of list.pods) {
    const key = p.namespace + "/" + p.group, row = p.group && known.get(key);
    if (row) {
      row.pods.push(p);
      if (p.created < row.created) row.created = p.created;
      continue;
    }
    out.push({ pods: [p], group: p.group && groups.get(key), created: p.created });
    if (p.group) known.set(key, out.at(-1));
  }
  return out;
}

// why returns what the pods of a group wait for: in the words of explain, and where none of them fits, their devices are
// not counted, or nothing concerns the group as a whole, what its first pod waits for. It sets how many pods the group needs.
export async function why(row, sentence) {
  const { namespace, name } = row.group;
  try {
    const g = await get(`/podgroups/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`);
    row.needs = g.gang?.needs;
    const text = g.text.split(/(?<=\.) (?=[A-Z0-9])/).map(phrase).join(" ");
    if (text && g.together?.fit !== 0 && !g.together?.devicesNotCounted) return text;
    return [text, await sentence(row.pods[0])].filter(Boolean).join(" ");
  } catch {
    return sentence(row.pods[0]); // the group is new, or may not be read
  }
}

// groupCell names a group, says how many of its pods have nodes, and opens to the pods that wait. opened has the names of
// the groups that are open.
export function groupCell(row, opened) {
  const g = row.group, key = g.namespace + "/" + g.name, more = g.pods - g.placed - row.pods.length;
  const box = el("details", { class: "gang", open: opened.has(key), ontoggle: () => (box.open ? opened.add(key) : opened.delete(key)) },
    el("summary", { "data-key": key }, el("b", {}, key), " ", el("small", {}, row.needs ? say("groupNeeds", g.placed, g.pods, row.needs) : say("groupHas", g.placed, g.pods))),
    el("ul", {}, row.pods.map((p) => el("li", {}, podLink(p)))), more > 0 ? quiet(say("moreObjects", more)) : null);
  return box;
}
