// Texts of the page in the chosen language. The server writes sentences, reasons and remedies in English; phrase
// translates them.
import { browserLanguage, stored } from "./choice.js";

export const catalogue = await (await fetch("/texts.json")).json();
export const language = catalogue[stored("language")] ? stored("language") : browserLanguage(catalogue);
export const texts = catalogue[language];

// say puts arguments in place of {0}, {1} and so on.
export const say = (key, ...all) => texts[key].replace(/\{(\d)\}/g, (_, i) => all[i]);

// word translates one of a few words of the API, and leaves the others.
export const word = (w) => texts[w] || w;

// phrases has, for each language but English, pairs of an English text of the server and its translation, in the order in
// which they are tried. {0} stands for any text and {#0} for a number, in the order of the English text; [a|b] is a choice.
const phrases = (language === "en" ? [] : (await (await fetch("/phrases.json")).json())[language] || []).map(([english, own]) =>
  [new RegExp("^" + english.replace(/[.*+?^$()\\]/g, "\\$&").replace(/\[(.*?)\]/g, "(?:$1)").replace(/\{#\d\}/g, "(\\d+)")
    .replace(/\{\d\}/g, "(.+?)") + "$", "i"), own]);

const maxPhrase = 1000;
const part = (text) => text.includes(" ") ? phrase(text) : text;

// phrase translates a text of the server and the texts in it. It returns a text without a translation unchanged, and
// also a text that is too long to be one of them: trying all phrases would take long. A part without a space is a name.
export function phrase(text) {
  if (text.length > maxPhrase) return text;
  for (const [english, own] of phrases) {
    const found = english.exec(text);
    if (found) return own.replace(/\{(\d)\}/g, (_, i) => part(found[Number(i) + 1]));
  }
  return text;
}
