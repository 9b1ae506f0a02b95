// Pods that wait, in rows, each with why: the pods of one group are one row, which opens to its pods.
import { ago, el, focused, podLink, problem, quiet, table } from "./dom.js";
import { get } from "./api.js";
import { phrase, say, texts as t } from "./texts.js";

const someWaiting = 10;

// waitingPods fills a section with the pods that wait. The list is drawn once it is read; why a pod waits follows, since the
// server may compute for seconds; known is a promise of that. counted learns how many pods wait; readable and noPods say whose
// pods a person may read.
export function waitingPods(root, { counted, readable, noPods }) {
  const opened = new Set(), causes = new Map(), keyOf = (r) => (r.group ? r.group.namespace + "/" + r.group.name : r.pods[0].uid);
  let list = null, rows = [], open = true, due = 0, asking = null, asked = null;

  async function read() {
    list = await get("/pods?waiting=true&limit=200");
    counted(list.total); // the number above must not differ from that of the list
    rows = rowsOf(list).slice(0, someWaiting);
    for (const key of [...causes.keys()]) if (!rows.some((r) => keyOf(r) === key)) causes.delete(key);
    draw();
    asking ||= ask().finally(() => { asking = null; });
  }

  // ask asks why each row waits, for one list at a time: the rows that are there once all have answers are the next.
  async function ask() {
    while (open && asked !== rows) {
      asked = rows;
      await Promise.all(asked.map(async (r) => {
        const cause = await (r.group ? why(r, sentence) : sentence(r.pods[0]));
        if (!rows.some((x) => keyOf(x) === keyOf(r))) return;
        causes.set(keyOf(r), { text: cause || r.pods[0].reason || "", needs: r.needs });
        if (open) draw();
      }));
    }
  }

  function draw() {
    const shown = rows.reduce((n, r) => n + (r.group ? r.group.pods - r.group.placed : 1), 0), back = focused(root);
    const cell = (r) => (r.group ? groupCell({ ...r, needs: causes.get(keyOf(r))?.needs }, opened) : podLink(r.pods[0]));
    root.replaceChildren(el("h2", {}, [t.waitingPods, readable(), `(${noPods() ? "–" : list.total})`].filter(Boolean).join(" ")),
      list.total === 0 ? quiet(noPods() ? t.podsNotShown : readable() ? say("noWaitingIn", readable()) : t.noWaiting) :
      table([t.pod, t.why, t.since], rows.map((r) => [cell(r), causes.get(keyOf(r))?.text ?? quiet(t.counting), ago(r.created)]), t.waitingPods, true),
      list.total > shown ? quiet(say("moreObjects", list.total - shown)) : "");
    back();
  }

  // again reads once for changes that come together.
  function again() {
    due = 0;
    if (open) read().catch((e) => { rows = []; root.replaceChildren(problem(e, again)); });
  }

  return { read, known: () => asking, later() { due ||= setTimeout(again, 50); }, close() { open = false; clearTimeout(due); } };
}

// sentence says why a pod waits: in the words of the scheduler's last decision, or of the judgement now where there is none.
async function sentence(p) {
  const path = `/pods/${encodeURIComponent(p.namespace)}/${encodeURIComponent(p.name)}`;
  try {
    const [h, last = {}] = await get(path + "/decisions").then((x) => [x, x.decisions[0]]);
    if (last.summary || last.message) return phrase(last.summary || "") || last.message;
    return phrase((await get(path)).summary?.text || "") || h.problem || t.noEvent;
  } catch (e) {
    return e.message;
  }
}

// rowsOf returns a row for each group, at its first pod, and one for each other pod: { pods, group, created }.
function rowsOf(list) {
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
async function why(row, sentence) {
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
function groupCell(row, opened) {
  const g = row.group, key = g.namespace + "/" + g.name, more = g.pods - g.placed - row.pods.length;
  const box = el("details", { class: "gang", open: opened.has(key), ontoggle: () => (box.open ? opened.add(key) : opened.delete(key)) },
    el("summary", { "data-key": key }, el("b", {}, key), " ", el("small", {}, row.needs ? say("groupNeeds", g.placed, g.pods, row.needs) : say("groupHas", g.placed, g.pods))),
    el("ul", {}, row.pods.map((p) => el("li", {}, podLink(p)))), more > 0 ? quiet(say("moreObjects", more)) : null);
  return box;
}
