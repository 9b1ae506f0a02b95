// Requests to the API. Answers that have not changed are not sent again.
import { texts as t } from "./texts.js";

const known = new Map();

export class Fault extends Error {
  constructor(status, detail, field) {
    super(detail);
    this.status = status;
    this.field = field;
  }
}

async function fault(response) {
  const problem = await response.json().catch(() => ({}));
  return new Fault(response.status, problem.detail || problem.Msg || response.statusText, problem.field);
}

// ask is fetch with an error that says what it means that nobody answers: it has status 0.
async function ask(path, options) {
  try {
    return await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Fault(0, t.noAnswerHelp);
  }
}

// send posts a manifest or changes something. What it answers is not kept.
export async function send(method, path, body, media) {
  const response = await ask(path, { method, body, headers: { "Content-Type": media } });
  if (!response.ok) throw await fault(response);
  return response.status === 204 ? null : response.json();
}

export async function get(path) {
  const before = known.get(path);
  const headers = before ? { "If-None-Match": before.tag } : {};
  const response = await ask("/api/v1" + path, { headers });
  if (response.status === 304 && before) return before.answer;
  if (!response.ok) throw await fault(response);
  const answer = await response.json();
  const tag = response.headers.get("ETag");
  if (tag) {
    known.delete(path);
    known.set(path, { tag, answer });
    if (known.size > 50) known.delete(known.keys().next().value);
  }
  return answer;
}

// signIn exchanges the secret behind "#" of the address, if there is one, and removes it from there.
export async function signIn() {
  const secret = location.hash.slice(1);
  if (!secret || secret.startsWith("/")) return;
  history.replaceState(null, "", "/#/");
  const response = await ask("/api/v1/session", { method: "POST", body: secret, headers: { "Content-Type": "text/plain" } });
  // A reload after signing in has a session already.
  if (!response.ok && !(await ask("/api/v1/session")).ok) throw await fault(response);
}

// follow calls back with each change. The browser connects again by itself, and then everything is read again.
export function follow(onChange, onState) {
  const events = new EventSource("/api/v1/changes");
  events.addEventListener("open", () => onState("live"));
  events.addEventListener("error", () => {
    onState("stale");
    // After an answer that is an error, the browser does not connect again.
    if (events.readyState === EventSource.CLOSED) setTimeout(again, 3000);
  });
  async function again() {
    const session = await ask("/api/v1/session").catch(() => null);
    if (session?.status === 401) onState("signedOut");
    else follow(onChange, onState);
  }
  events.addEventListener("signedOut", () => { events.close(); onState("signedOut"); });
  events.addEventListener("change", (e) => onChange(JSON.parse(e.data)));
}
