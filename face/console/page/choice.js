// What the person chose before in this browser. Where nothing may be kept, the choice lasts until a reload.
export function stored(name) {
  try { return localStorage.getItem("tenon." + name) || ""; } catch { return ""; }
}

export function store(name, value) {
  try { localStorage.setItem("tenon." + name, value); } catch { /* nothing may be kept */ }
}

export function browserLanguage(catalogue) {
  return (navigator.languages || []).map((l) => l.split("-")[0]).find((l) => catalogue[l]) || "en";
}
