// What each word adds to an answer: the words of a text shaded, and a table of the strongest.

import { explain } from "./asking.js";
import { characters, counted, decimal, made } from "./dom.js";

const STRONGEST = 12;
let under = null; // what is being explained; one at a time

/** Shows in `into` why a model answered so; `of` is what is explained in place of the answer as a whole. */
export async function showWhy(into, model, texts, of = {}) {
  under?.abort();
  const stop = (under = new AbortController());
  into.replaceChildren();
  into.hidden = false;
  const status = made(into, "p", { class: "waiting", role: "status" });
  const cancel = made(null, "button", { type: "button", class: "quiet", textContent: "Cancel" });
  cancel.addEventListener("click", () => stop.abort());
  const began = performance.now();
  const tell = () => {
    const seconds = Math.floor((performance.now() - began) / 1000);
    const first = seconds >= 3 ? " The first time takes longer: the model is loaded once more, to be looked into." : "";
    status.replaceChildren(`Taking gradients … ${seconds} s.${first} `, cancel);
  };
  tell();
  const clock = setInterval(tell, 1000);
  try {
    shown(into, await explain(model, texts, of, stop.signal));
  } catch (error) {
    into.replaceChildren();
    if (error.name === "AbortError") into.hidden = true;
    else made(into, "p", { class: "problem", role: "alert", textContent: error.message });
  } finally {
    clearInterval(clock);
    if (under === stop) under = null;
  }
}

function shown(into, found) {
  into.replaceChildren();
  const legend = made(into, "p", { class: "note" }, "A word speaks ");
  mark(legend, "for", 0.8, "for");
  legend.append(" this answer, underlined, or ");
  mark(legend, "against", -0.8, "against");
  legend.append(" it, with a wavy line; the stronger the shade, the more.");
  const names = Object.keys(found.texts), texts = Object.values(found.texts).map(characters);
  for (const attribution of found.attributions) {
    made(into, "h4", { textContent: `Why: ${attribution.of}` });
    const most = Math.max(1e-9, ...attribution.words.map((word) => Math.abs(word.added)));
    const used = new Set(attribution.words.map((word) => word.text));
    texts.forEach((text, number) => {
      if (!used.has(number) && text.length) return; // not read in this window
      if (names.length > 1) made(into, "p", { class: "which", textContent: names[number].replaceAll("_", " ") });
      shaded(made(into, "p", { class: "shaded" }), text, attribution.words.filter((word) => word.text === number), most);
    });
    const sum = attribution.words.reduce((total, word) => total + word.added, 0);
    const miss = attribution.complete ? "" : ` They miss it by ${Math.abs(attribution.error).toPrecision(2)}.`;
    made(into, "p", { class: "note", textContent: `${attribution.unit[0].toUpperCase()}${attribution.unit.slice(1)} `
      + `${signed(attribution.score)}, of a text that says nothing ${signed(attribution.baseline)}; `
      + `the words add the difference, ${signed(sum)}.${miss}` });
    ranking(into, attribution, most);
  }
  for (const note of found.notes) made(into, "p", { class: "note", textContent: `Note: ${note}` });
}

function shaded(into, text, words, most) {
  let end = 0;
  for (const word of [...words].sort((one, other) => one.start - other.start)) {
    if (word.start > end) into.append(text.slice(end, word.start).join(""));
    const begin = Math.max(word.start, end);
    if (word.end <= begin) continue;
    mark(into, text.slice(begin, word.end).join(""), word.added / most, signed(word.added));
    end = word.end;
  }
  const rest = text.slice(end).join("");
  if (rest.trim()) made(into, "span", { class: "unread", title: "not read by the model", textContent: rest });
}

function mark(into, text, share, title) {
  const word = made(into, "span", { class: `word ${share > 0 ? "pro" : "contra"}`, title, textContent: text });
  word.style.setProperty("--share", Math.abs(share).toFixed(3));
}

function ranking(into, attribution, most) {
  const ranked = [...attribution.words].sort((one, other) => Math.abs(other.added) - Math.abs(one.added)).slice(0, STRONGEST);
  const details = made(into, "details");
  made(details, "summary", { textContent: `The ${counted(ranked.length, "strongest word", "strongest words")}` });
  const table = made(details, "table");
  made(table, "caption", { class: "unseen", textContent: `What words add to ${attribution.of}` });
  const head = made(made(table, "thead"), "tr");
  for (const name of ["Word", "Adds"]) made(head, "th", { scope: "col", textContent: name });
  const body = made(table, "tbody");
  for (const word of ranked) {
    const line = made(body, "tr");
    mark(made(line, "th", { scope: "row" }), word.shown, word.added / most, signed(word.added));
    made(line, "td", { class: "number", textContent: signed(word.added) });
  }
}

const signed = (value) => `${value < 0 ? "−" : "+"}${decimal(Math.abs(value))}`;
