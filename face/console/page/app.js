// The frame of the page: who is signed in, which page is shown, and what changes.
import { choices, el, focused, link, note, problem } from "./dom.js";
import { follow, get, send, signIn } from "./api.js";
import { clusterPage } from "./cluster.js";
import { nodePage } from "./node.js";
import { podPage } from "./pod.js";
import { whatIfPage } from "./whatif.js";
import { policyPage } from "./policy.js";
import { findingsPage } from "./findings.js";
import { kubeletsPage } from "./kubelets.js";
import { store } from "./choice.js";
import { catalogue, language, texts as t } from "./texts.js";

const root = document.getElementById("view"), nav = document.getElementById("nav");
const trouble = el("div");
let page = null, place = root, heading = t.cluster, drawn = false, lost = false, arrived = false, busy = false, next = null;

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

// opened returns the page of the address, drawn in an element of its own.
function opened(own) {
  const [kind, ...rest] = location.hash.slice(2).split("/").map(decoded);
  const whole = { nodes: 1, pods: 2 }[kind] || 0;
  switch (rest.filter(Boolean).length < whole ? "" : kind) {
    case "nodes": return [nodePage(own, rest[0]), "", rest[0]];
    case "pods": return [podPage(own, rest[0], rest[1]), "", rest.join("/")];
    case "whatif": return [whatIfPage(own), "whatif", t.whatIf];
    case "policy": return [policyPage(own), "policy", t.policy];
    case "kubelets": return [kubeletsPage(own), "kubelets", t.kubelets];
    case "findings": return [findingsPage(own), "findings", t.findings];
    default: return [clusterPage(own), "", t.cluster];
  }
}

function show() {
  page?.close();
  // What an earlier page is still reading must not be drawn over this one: each has an element of its own.
  const own = el("div");
  trouble.replaceChildren();
  root.replaceChildren(trouble, own);
  const [one, at, title] = opened(own);
  page = one;
  place = own;
  heading = title;
  drawn = lost = false;
  document.title = title + " – Tenon";
  if (!own.firstChild) own.append(el("h1", {}, title), note(t.loading));
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
  // A page that could not be drawn is tried again once the connection is back.
  if (lost) return change.all ? show() : undefined;
  busy = true;
  const on = page, back = focused(place);
  try {
    await (change.all ? on.read() : on.change(change));
    if (on === page) succeeded();
  } catch (e) {
    if (on === page) failed(e);
  }
  if (on === page) back();
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

function succeeded() {
  drawn = true;
  trouble.replaceChildren();
  if (arrived && document.activeElement === document.body) toHeading();
  arrived = false;
}

// failed shows the error above what the page has, or in its place where it has nothing yet.
function failed(e) {
  if (e.status === 401) askToSignIn(e);
  else if (drawn) trouble.replaceChildren(problem(e, () => update({ all: true })));
  else {
    lost = e.status !== 404; // what is not there yet may be created
    place.replaceChildren(el("h1", {}, heading), problem(e, page ? show : begin), el("p", {}, el("a", { href: "#/" }, t.toCluster)));
    if (arrived) toHeading();
  }
}

function toHeading() {
  const h = root.querySelector("h1") || root;
  h.setAttribute("tabindex", "-1");
  h.focus({ preventScroll: true });
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
  page?.close();
  root.replaceChildren(el("h1", {}, t.signedOut), el("p", {}, t.signInHow), answer,
    el("form", { class: "form", onsubmit: enter }, el("label", { class: "field" }, t.token, token),
      el("label", { class: "field" }, t.namespaces, namespaces), el("button", { type: "submit" }, t.signIn)));
}

function frame() {
  document.documentElement.lang = language === "zh" ? "zh-Hans" : language;
  nav.setAttribute("aria-label", "Tenon");
  const skip = document.getElementById("skip");
  skip.textContent = t.skip;
  skip.addEventListener("click", toHeading);
  nav.replaceChildren(el("a", { href: "#/" }, t.cluster), link(t.findings, "findings"), link(t.whatIf, "whatif"), link(t.policy, "policy"),
    link(t.kubelets, "kubelets"));
  const select = document.getElementById("language"), names = { en: "English", zh: "简体中文" };
  select.setAttribute("aria-label", t.language);
  select.replaceChildren(...choices(Object.keys(catalogue).map((l) => [l, names[l] || l]), language));
  select.addEventListener("change", () => { store("language", select.value); location.reload(); });
}

async function begin() {
  try {
    await signIn();
    document.getElementById("who").textContent = (await get("/session")).name;
  } catch (e) {
    return failed(e);
  }
  addEventListener("hashchange", () => { arrived = true; show(); toHeading(); });
  show();
  follow(update, (state) => {
    document.getElementById("live").textContent = t[state];
    document.getElementById("live").className = state;
    if (state === "signedOut") askToSignIn({});
  });
}

frame();
await begin();
