// The frame of the page: who is signed in, which page is shown, and what changes.
import { choices, el, link, note, problem } from "./dom.js";
import { follow, get, send, signIn } from "./api.js";
import { clusterPage } from "./cluster.js";
import { nodePage } from "./node.js";
import { podPage } from "./pod.js";
import { whatIfPage } from "./whatif.js";
import { policyPage } from "./policy.js";
import { findingsPage } from "./findings.js";
import { store } from "./choice.js";
import { catalogue, language, texts as t } from "./texts.js";

const root = document.getElementById("view"), nav = document.getElementById("nav");
let page = null, place = root, heading = "", busy = false, next = null;

// opened returns the page of the address, drawn in an element of its own.
function opened(own) {
  const [kind, ...rest] = location.hash.slice(2).split("/").map(decodeURIComponent);
  switch (kind) {
    case "nodes": return [nodePage(own, rest[0]), "", rest[0]];
    case "pods": return [podPage(own, rest[0], rest[1]), "", rest.join("/")];
    case "whatif": return [whatIfPage(own), "whatif", t.whatIf];
    case "policy": return [policyPage(own), "policy", t.policy];
    case "findings": return [findingsPage(own), "findings", t.findings];
    default: return [clusterPage(own), "", t.cluster];
  }
}

function show() {
  page?.close();
  // What an earlier page is still reading must not be drawn over this one: each has an element of its own.
  const own = el("div", {}, note(t.loading));
  root.replaceChildren(own);
  const [one, at, title] = opened(own);
  page = one;
  place = own;
  heading = title;
  document.title = title + " – Tenon";
  for (const a of nav.children) {
    const here = a.getAttribute("href") === "#/" + at && !location.hash.match(/^#\/(nodes|pods)\//);
    if (here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
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
    if (on === page) failed(e);
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

function failed(e) {
  if (e.status === 401) askToSignIn(e);
  else place.replaceChildren(el("h1", {}, heading), problem(e, show));
}

// askToSignIn shows a form for a token, which a console in the cluster takes.
function askToSignIn(e) {
  const token = el("input", { type: "password", autocomplete: "off", required: true, id: "token" });
  const namespaces = el("input", { type: "text", id: "namespaces" });
  const answer = el("div", {}, e.message ? note(e.message) : null);
  const enter = async (event) => {
    event.preventDefault();
    const query = namespaces.value.split(/[\s,]+/).filter(Boolean).map((n) => "namespace=" + encodeURIComponent(n)).join("&");
    try {
      await send("POST", "/api/v1/session" + (query ? "?" + query : ""), token.value.trim(), "text/plain");
      location.reload();
    } catch (bad) {
      answer.replaceChildren(problem(bad));
    }
  };
  root.replaceChildren(el("h1", {}, t.signedOut), el("p", {}, t.signInHow), answer,
    el("form", { class: "form", onsubmit: enter }, el("label", { class: "field" }, t.token, token),
      el("label", { class: "field" }, t.namespaces, namespaces), el("button", { type: "submit" }, t.signIn)));
}

function frame() {
  document.documentElement.lang = language === "zh" ? "zh-Hans" : language;
  nav.setAttribute("aria-label", "Tenon");
  nav.replaceChildren(el("a", { href: "#/" }, t.cluster), link(t.findings, "findings"), link(t.whatIf, "whatif"), link(t.policy, "policy"));
  const select = document.getElementById("language"), names = { en: "English", zh: "简体中文" };
  select.setAttribute("aria-label", t.language);
  select.replaceChildren(...choices(Object.keys(catalogue).map((l) => [l, names[l] || l]), language));
  select.addEventListener("change", () => { store("language", select.value); location.reload(); });
}

try {
  frame();
  await signIn();
  document.getElementById("who").textContent = (await get("/session")).name;
  addEventListener("hashchange", () => { show(); root.focus({ preventScroll: true }); });
  show();
  follow(update, (state) => {
    document.getElementById("live").textContent = t[state];
    document.getElementById("live").className = state;
    if (state === "signedOut") askToSignIn({});
  });
} catch (e) {
  failed(e);
}
