// What a mark of a drawing means, said beside it: to a pointer that rests on it, to a finger, and to arrow keys.
import { el } from "./dom.js";

// explained lets the marks of a drawing explain themselves: its elements with a text in data-say. choose is called with the mark
// that is clicked, or chosen by Enter.
export function explained(drawing, name, keys, choose) {
  const tip = el("p", { class: "tip", hidden: true }), said = el("p", { class: "heard", role: "status" });
  const hint = el("p", { class: "heard", id: "keys-" + ++made }, keys);
  const frame = el("div", { class: "explained", tabindex: "0", role: "group", "aria-label": name, "aria-describedby": hint.id }, drawing, tip, said, hint);
  let at = null, place = -1;
  const marks = () => [...drawing.querySelectorAll("[data-say]")].filter((m) => m.getClientRects().length);

  function show(mark, spoken) {
    at?.classList.remove("at");
    at = mark;
    tip.hidden = !mark;
    if (!mark) return;
    mark.classList.add("at");
    tip.textContent = mark.dataset.say;
    if (spoken) said.textContent = mark.dataset.say;
    const box = frame.getBoundingClientRect(), m = mark.getBoundingClientRect(), w = tip.offsetWidth, h = tip.offsetHeight;
    const above = m.top - h - 6 > 0;
    tip.style.setProperty("left", Math.max(0, Math.min(box.width - w, m.left - box.left + m.width / 2 - w / 2)) + "px");
    tip.style.setProperty("top", (above ? m.top - box.top - h - 6 : m.bottom - box.top + 6) + "px");
  }

  // beside is the mark above or below another one, the nearest one on its left edge.
  function beside(all, mark, down) {
    const from = mark.getBoundingClientRect();
    let best = null, least = Infinity;
    for (const m of all) {
      const r = m.getBoundingClientRect(), y = down ? r.top - from.bottom : from.top - r.bottom;
      const d = Math.max(0, y) + 3 * Math.abs(r.left - from.left);
      if (y > -2 && m !== mark && d < least) { best = m; least = d; }
    }
    return best;
  }

  function key(e) {
    if (e.target !== frame) return;
    const all = marks(), here = at && all.includes(at) ? all.indexOf(at) : Math.min(place, all.length - 1);
    const to = { ArrowRight: all[here + 1], ArrowLeft: all[Math.max(0, here - 1)], Home: all[0], End: all.at(-1),
      ArrowDown: here < 0 ? all[0] : beside(all, all[here], true), ArrowUp: here < 0 ? all[0] : beside(all, all[here], false) };
    if ((e.key === "Enter" || e.key === " ") && at) choose(at);
    else if (e.key === "Escape") show(null);
    else if (!(e.key in to)) return;
    e.preventDefault();
    if (to[e.key]) {
      show(to[e.key], true);
      place = all.indexOf(at);
      at.scrollIntoView({ block: "nearest" });
    }
  }

  const markOf = (e) => e.target.closest?.("[data-say]");
  drawing.addEventListener("pointerover", (e) => { if (e.pointerType !== "touch") show(markOf(e)); });
  frame.addEventListener("pointerleave", () => { if (document.activeElement !== frame) show(null); });
  frame.addEventListener("blur", () => show(null));
  frame.addEventListener("keydown", key);
  drawing.addEventListener("click", (e) => {
    const mark = markOf(e);
    show(mark, true);
    if (mark) choose(mark);
  });
  new ResizeObserver(() => show(at)).observe(frame); // a tip that was placed in a wide window would widen a narrow one
  return frame;
}

let made = 0;
