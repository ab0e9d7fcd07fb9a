// The page as a whole: which model is asked what, and where the answer is shown.

import { KINDS, showAnswer, showNearest } from "./answers.js";
import { askModels, predict, Problem } from "./asking.js";
import { characters, counted, made } from "./dom.js";
import { manyRows, nearest, oneRow } from "./forms.js";
import { showMany } from "./many.js";

const NEAREST = 20;
const AGAIN = 3000; // milliseconds, while a model is not there yet
const SHOWN_OF_EXAMPLE = 70;
const TASKS = {
  classify: "One class for each text", classes: "Any number of classes for each text", regress: "A number for each text",
  similarity: "How alike two texts are", choose: "The right one of several choices", tag: "Entities in a text",
  answer: "The answer to a question, as a part of a text", fill_mask: "Tokens in the place of [MASK]",
  translate: "A translation of each text",
};
const at = (id) => document.getElementById(id);
const [form, fields, modes, examples, result, status] = ["form", "fields", "modes", "examples", "result", "status"].map(at);
const picker = at("model"), button = at("submit");

let models = [];
let chosen = null; // a version of a model: what the server says of it, with the model's name
let reader = null; // of the fields that are shown
let mode = "one";
let running = null;
let later;
let known = ""; // what the server said of its models last

/** Versions in the order of the picker: of each model the newest, then the others. */
async function load() {
  models = await askModels();
  const failed = models.filter((model) => !model.versions.length);
  clearTimeout(later);
  if (failed.length || !models.length) later = setTimeout(() => load().catch(() => {}), AGAIN);
  const said = JSON.stringify(models);
  if (said === known) return;
  known = said;
  const options = models.flatMap((model) => model.versions.map((version, place) => ({ ...version, name: model.name, place })));
  const before = chosen && { name: chosen.name, place: chosen.place, version: chosen.version };
  picker.replaceChildren();
  for (const option of options)
    made(picker, "option", { textContent: `${option.name}, version ${option.version}`, value: `${option.name}/${option.version}` });
  const reason = (model) => `${model.name} does not answer yet: ${model.problem || "it has no version"}.`;
  at("failed").replaceChildren(...failed.map((model) => made(null, "li", { textContent: reason(model) })));
  at("failed").hidden = !failed.length;
  // Who tried the newest version goes on with what is the newest now.
  const next = before && (options.find((one) => one.name === before.name && one.version === before.version && before.place)
    ?? options.find((one) => one.name === before.name && one.place === 0));
  const found = next ?? options[0] ?? null;
  picker.disabled = options.length < 2;
  picker.hidden = !options.length;
  if (found) picker.value = `${found.name}/${found.version}`;
  const isSame = chosen && found && found.name === chosen.name && found.version === chosen.version;
  if (isSame) chosen = found;
  else choose(found);
}

function choose(found) {
  const keeps = chosen && found && chosen.name === found.name && chosen.kind === found.kind && reader;
  chosen = found;
  document.title = found ? `Try ${found.name} · Bertline` : "Try a model · Bertline";
  at("about").textContent = !found ? "No model is served yet." : TASKS[found.kind] ?? "A model of a kind that this page does not know";
  if (keeps) return; // what was typed stays
  clear();
  modes.replaceChildren();
  const isKnown = Boolean(found && KINDS[found.kind]);
  form.hidden = !isKnown;
  if (!isKnown) {
    reader = null;
    if (found) tell(`${found.name} cannot be tried here: ${found.problem}`);
    return;
  }
  const [single, several] = found.texts.length === 1 ? ["text", "texts"]
    : found.texts.length === 2 && !found.texts.includes("choices") ? ["pair", "pairs"] : ["example", "examples"];
  const offered = [["one", `One ${single}`], ["many", `Many ${several}`], ...(found.embeds ? [["nearest", "Nearest"]] : [])];
  for (const [value, name] of offered) {
    const label = made(modes, "label");
    const radio = made(label, "input", { type: "radio", name: "mode", value, checked: value === "one" });
    made(label, "span", { textContent: name });
    radio.addEventListener("change", () => show(value));
  }
  show("one");
}

function show(value) {
  mode = value;
  clear();
  fields.replaceChildren();
  examples.replaceChildren();
  if (mode === "one") reader = oneRow(fields, chosen);
  else if (mode === "many") reader = manyRows(fields, chosen.texts, chosen, fail);
  else reader = nearest(fields, chosen, fail);
  button.textContent = { one: "Predict", many: "Predict all", nearest: "Find the nearest" }[mode];
  if (mode !== "one" || !chosen.examples.length) return;
  made(examples, "span", { class: "note", textContent: "Try:" });
  for (const row of chosen.examples) {
    const given = Object.values(chosen.kind === "answer" ? { question: row.question } : row);
    const text = given.flat().join(" · "), letters = characters(text);
    const short = letters.length > SHOWN_OF_EXAMPLE ? `${letters.slice(0, SHOWN_OF_EXAMPLE).join("")} …` : text;
    const example = made(examples, "button", { type: "button", class: "example", textContent: short });
    example.addEventListener("click", () => { reader.fill(row); form.requestSubmit(); });
  }
}

function clear() {
  running?.abort();
  result.replaceChildren();
  made(result, "p", { class: "empty", textContent: "The prediction will appear here." });
  status.textContent = "";
  at("problem").textContent = "";
}

function tell(message) {
  result.replaceChildren();
  made(result, "p", { class: "problem", textContent: message });
}

function fail(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Problem)) console.error(error);
  at("problem").textContent = error instanceof Problem ? error.message : "This page has a fault; reload it.";
}

async function ask() {
  at("problem").textContent = "";
  const given = reader.read();
  running?.abort();
  const stop = (running = new AbortController());
  const began = performance.now();
  button.disabled = true;
  status.textContent = "Predicting …";
  try {
    const found = await answered(given, stop.signal);
    const seconds = (performance.now() - began) / 1000;
    result.replaceChildren();
    found();
    const card = result.parentElement;
    if (card.getBoundingClientRect().top > innerHeight / 2) card.scrollIntoView({ block: "start" });
    const took = seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(1)} s`;
    status.textContent = `Answered by ${chosen.name}, version ${chosen.version}, in ${took}.${remark(given)}`;
  } catch (error) {
    status.textContent = "";
    throw error;
  } finally {
    if (running === stop) {
      running = null;
      button.disabled = false;
    }
  }
}

function remark(given) {
  const parts = [given.isCut && `Only the first ${counted(given.rows.length, "row")} were sent: for more, use bertline predict --file.`,
    given.leftOut > 0 && `${counted(given.leftOut, "row")} without text left out.`];
  return parts.filter(Boolean).map((part) => ` ${part}`).join("");
}

/** What shows the answer. A version that is gone by now gives way to the newest. */
async function answered(given, signal) {
  const version = chosen.version;
  try {
    return await answeredBy(given, signal);
  } catch (error) {
    if (error.status !== 404) throw error;
    await load();
    if (!chosen || chosen.version === version) throw error;
    return answeredBy(given, signal);
  }
}

async function answeredBy(given, signal) {
  const model = chosen;
  const told = (total) => (count) => { if (total > 1) status.textContent = `${count} of ${total} answered …`; };
  if (mode === "nearest") {
    const texts = given.rows.map(({ text }) => text);
    const rows = [given.query, ...texts].map((text) => ({ text }));
    const found = await predict(model, rows, { signature: "embed", outputs: ["vector"], signal, told: told(rows.length) });
    return () => showNearest(result, given.query, texts, found.map(({ vector }) => vector), NEAREST);
  }
  const rows = mode === "one" ? [given] : given.rows;
  const found = await predict(model, rows, { signal, told: told(rows.length) });
  return () => (mode === "one" ? showAnswer(result, model, given, found[0]) : showMany(result, model, rows, found));
}

const submit = () => ask().catch(fail);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || button.disabled) return;
  event.preventDefault();
  submit();
});
picker.addEventListener("change", () => {
  const [name, version] = picker.value.split("/");
  const model = models.find((one) => one.name === name);
  const place = model.versions.findIndex((one) => String(one.version) === version);
  choose({ ...model.versions[place], name, place });
});
// New versions are served while the page is open.
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && !running) load().catch(fail);
});
// A file that misses its field must not take the place of the page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());

load().catch((error) => {
  tell(error.message);
  fail(error);
}).finally(() => { document.documentElement.dataset.ready = "yes"; });
