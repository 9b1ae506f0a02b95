// Devices that drivers publish for claims (dynamic resource allocation): those of a node, and those that a pod holds.
import { el, note, podLink, table } from "./dom.js";
import { say, texts as t } from "./texts.js";

// most is how many holders are named in one row.
const most = 16;

const place = (numa) => (numa === undefined ? t.unknownPlace : String(numa));

// holders names the pods that hold a device, or the claim where its pods are not known.
function holders(d) {
  const all = (d.holders || []).flatMap((h) => (h.pods?.length ? h.pods.map((p) => podLink(p)) : [say("byClaim", `${h.namespace}/${h.claim}`)]));
  return [d.device, ": ", all.slice(0, most).flatMap((x, i) => [i ? ", " : "", x]), all.length + (d.moreHolders || 0) > most ? " …" : ""];
}

// until is when a booking ends, by the clock of the browser.
const until = (k) => new Date(k.until).toLocaleTimeString();

// freeOf is how many devices are free, without those that are kept for requests. Of a device without a holder that others may use a part of, that is not known.
function freeOf(all, unread) {
  const idle = all.filter((d) => !d.holders?.length && !d.kept), unclear = idle.filter((d) => d.shared).length;
  if (unread) return "–";
  return unclear ? say("freeUnclear", idle.length - unclear, unclear) : String(idle.length);
}

// nodeClaims returns what is shown of a node's devices: a row for each NUMA node and driver, unknown places last.
export function nodeClaims(claims) {
  if (!claims) return [];
  const groups = Map.groupBy(claims.devices, (d) => JSON.stringify([d.numa ?? Infinity, d.driver]));
  const rows = [...groups.values()].sort((a, b) => (a[0].numa ?? Infinity) - (b[0].numa ?? Infinity) || 0).map((all) => {
    const held = all.filter((d) => d.holders?.length || d.kept), more = held.length - most;
    return [place(all[0].numa), all[0].driver, String(all.length), freeOf(all, claims.unread),
      held.length ? [held.slice(0, most).map((d) => el("div", {}, d.holders?.length ? holders(d) : `${d.device}: ${say("keptUntil", d.kept.request, until(d.kept))}`)), more > 0 ? el("div", {}, say("moreDevices", more)) : null] : "–"];
  });
  return [el("h2", {}, t.claimDevices), rows.length ? table([t.numa, t.driver, t.devices, t.free, t.heldBy], rows, t.claimDevices, true) : null,
    claims.omitted ? note(say("moreDevices", claims.omitted)) : null, (claims.problems || []).map((p) => note(p)),
    claims.unread ? note(`${t.limits}: ${claims.unread}`) : null].flat(Infinity).filter((x) => x !== null);
}

// podClaims returns what is shown of the devices that a pod holds by its claims.
export function podClaims(claims) {
  if (!claims) return [];
  const rows = claims.devices.map((d) => [d.claim, place(d.numa), d.driver, d.device, d.apart ? el("span", { class: "bad" }, t.isApart) : ""]);
  return [el("h2", {}, t.claimed), rows.length ? table([t.claim, t.numa, t.driver, t.devices, ""], rows, t.claimed, true) : null,
    (claims.without || []).map((w) => note(w)), (claims.kept || []).map((k) => note(say("keptDevices", k.devices, k.driver, k.node, k.request, until(k)))),
    claims.moreKept ? note(say("moreDevices", claims.moreKept)) : null, claims.unread ? note(`${t.limits}: ${claims.unread}`) : null];
}
