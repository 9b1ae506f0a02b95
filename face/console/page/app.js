// The frame of the page: who is signed in, which view is shown, and what changes.
import { note } from "./dom.js";
import { follow, get, signIn } from "./api.js";
import { clusterPage } from "./cluster.js";
import { nodePage, podPage } from "./detail.js";
import { texts as t } from "./texts.js";

const root = document.getElementById("view");
let page = null, busy = false, next = null;

function show() {
  page?.close();
  root.replaceChildren(note(t.loading));
  const [kind, ...rest] = location.hash.slice(2).split("/").map(decodeURIComponent);
  if (kind === "nodes") page = nodePage(root, rest[0]);
  else if (kind === "pods") page = podPage(root, rest[0], rest[1]);
  else page = clusterPage(root);
  scrollTo(0, 0);
  update({ all: true });
}

// update passes on changes one after the other. Those that come while one is worked on are joined.
async function update(change) {
  if (busy) {
    next = next ? join(next, change) : change;
    return;
  }
  busy = true;
  const on = page;
  try {
    await (change.all ? on.read() : on.change(change));
  } catch (e) {
    if (on === page) root.replaceChildren(note(e.status === 401 ? t.signedOut : e.message, true));
  }
  busy = false;
  if (next) {
    const c = next;
    next = null;
    update(c);
  }
}

function join(a, b) {
  if (a.all || b.all) return { all: true };
  const nodes = new Map([...(a.nodes || []), ...(b.nodes || [])].map((n) => [n.name, n]));
  for (const name of b.gone || []) nodes.delete(name);
  const gone = [...(a.gone || []), ...(b.gone || [])].filter((name) => !nodes.has(name));
  return { ...b, nodes: [...nodes.values()], gone, pods: [...(a.pods || []), ...(b.pods || [])] };
}

try {
  await signIn();
  document.getElementById("who").textContent = (await get("/session")).name;
  addEventListener("hashchange", show);
  show();
  follow(update, (state) => {
    document.getElementById("live").textContent = t[state];
    if (state === "signedOut") root.replaceChildren(note(t.signedOut, true));
  });
} catch (e) {
  root.replaceChildren(note(e.status === 401 ? t.signedOut + " (" + e.message + ")" : e.message, true));
}
