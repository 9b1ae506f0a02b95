// Texts of the page in the chosen language. What the server writes (reasons, remedies) is in English.
import { browserLanguage, stored } from "./choice.js";

export const catalogue = await (await fetch("/texts.json")).json();
export const language = catalogue[stored("language")] ? stored("language") : browserLanguage(catalogue);
export const texts = catalogue[language];

// say puts arguments in place of {0}, {1} and so on.
export const say = (key, ...all) => texts[key].replace(/\{(\d)\}/g, (_, i) => all[i]);

// word translates one of a few words of the API, and leaves the others.
export const word = (w) => texts[w] || w;
