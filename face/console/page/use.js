// What a node uses now, by NUMA node and container, with a time line. Where nobody measures it, it says why.
import { bytes, el, link, note, quiet, svg, table } from "./dom.js";
import { get } from "./api.js";
import { say, texts as t } from "./texts.js";

const width = 240, height = 48, often = 5;

// useView shows the use of a node. onSample is called with each new sample, or with null where there is none. whole returns
// what a NUMA node has, to which its time lines are drawn.
export function useView(node, onSample = () => {}, whole = () => ({})) {
  const element = el("section", { id: "use", class: "use", hidden: true });
  let timer = 0, running = false, pod = "";

  async function read() {
    const asked = pod;
    clearTimeout(timer);
    try {
      const use = await get(`/nodes/${encodeURIComponent(node)}/use` + (pod ? "?pod=" + encodeURIComponent(pod) : ""));
      if (asked !== pod) return;
      element.hidden = false;
      show(use);
      if (running) timer = setTimeout(read, Math.max(often, use.seconds || 0) * 1000);
    } catch (e) {
      element.hidden = e.status === 404;
      element.replaceChildren(el("h2", {}, t.use), quiet(t.noUse + ": " + e.message));
      if (running && e.status !== 404) timer = setTimeout(read, 6 * often * 1000);
    }
  }

  function show(use) {
    const last = use.samples.at(-1);
    onSample(last || null);
    if (!last) {
      element.replaceChildren(el("h2", {}, t.use), quiet(t.noUse + ": " + (use.problem || "")));
      return;
    }
    const boxes = last.numas.map((x) => {
      const of = (get) => use.samples.map((s) => get(s.numas.find((y) => y.id === x.id) || {})).filter((v) => v !== undefined);
      return el("section", { class: "numa" }, el("h3", {}, `${t.numa} ${x.id}`),
        line(x.id, t.busyCPUs, of((y) => y.cpus), (v) => String(Math.round(v * 10) / 10), whole(x.id).cpus),
        line(x.id, t.usedMemory, of((y) => y.memory), bytes, whole(x.id).memory));
    });
    const rows = (last.containers || []).map((c) => [link(`${c.namespace}/${c.pod}`, "pods", c.namespace, c.pod), c.container,
      c.cpus === undefined ? "–" : c.cpus.toFixed(2), (c.memory || []).map((m) => `${m.numa}: ${bytes(m.bytes)}`).join(", "),
      c.remote === undefined ? "–" : Math.round(c.remote * 100) + " %"]);
    element.replaceChildren(el("h2", {}, t.use), quiet(say("useFrom", use.source, use.seconds)),
      use.problem ? note(use.problem) : "", el("div", { class: "numas" }, boxes), containers(use, last),
      rows.length ? table([t.pod, t.container, t.busyCPUs, t.memory, t.remote], rows, t.use) : "");
  }

  // containers are time lines of those of the marked pod, of which each sample tells.
  function containers(use, last) {
    const own = last.containers?.filter((c) => `${c.namespace}/${c.pod}` === pod) || [];
    const of = (name, get) => use.samples.map((s) => s.containers?.find((c) => `${c.namespace}/${c.pod}` === pod && c.container === name))
      .filter(Boolean).map(get).filter((v) => v !== undefined);
    const all = (c) => (c.memory || []).reduce((sum, m) => sum + m.bytes, 0);
    return own.length ? el("div", { class: "numas" }, own.map((c) => el("section", { class: "numa" }, el("h3", {}, `${pod} ${c.container}`),
      line(c.numas || "–", t.busyCPUs, of(c.container, (x) => x.cpus), (v) => v.toFixed(2)),
      line(c.numas || "–", t.usedMemory, of(c.container, all), bytes)))) : "";
  }

  // line draws values from 0 to whole, or to the highest value where whole is not known.
  function line(numa, name, values, text, whole) {
    if (!values.length) return quiet(name + ": –");
    const highest = Math.max(...values), most = Math.max(highest, whole || 0), x = (i) => (values.length > 1 ? i / (values.length - 1) * width : width);
    const points = values.map((v, i) => `${x(i).toFixed(1)},${(height - 2 - (most > 0 ? v / most : 0) * (height - 6)).toFixed(1)}`);
    const said = say("timeLine", numa, name, text(values.at(-1)), text(highest));
    return el("div", { class: "line" }, el("div", {}, name + ": ", el("b", {}, text(values.at(-1))), whole ? " " + say("ofWhole", text(whole)) : ""),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said, preserveAspectRatio: "none" },
        svg("polyline", { points: points.join(" ") })));
  }

  return {
    element,
    start() {
      if (running) return;
      running = true;
      read();
    },
    // mark asks for the time lines of a pod, "NAMESPACE/NAME" or "".
    mark(name) {
      pod = name;
      if (running) read();
    },
    close() {
      running = false;
      clearTimeout(timer);
    },
  };
}
