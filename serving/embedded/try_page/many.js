// The answers to many rows: how often each class came, a table, and the same as CSV.

import { KINDS, showAnswer } from "./answers.js";
import { bar, made, percent } from "./dom.js";
import { nameOf } from "./forms.js";
import { csvOf } from "./tables.js";

const CLIPPED = 300;
const clipped = (text) => (text.length > CLIPPED ? `${text.slice(0, CLIPPED)} …` : text);
const textOf = (value) => (Array.isArray(value) ? value.join(" | ") : value);

export function showMany(into, model, rows, answers) {
  const kind = KINDS[model.kind];
  if (kind.group) counts(into, answers.map(kind.group));
  const frame = made(into, "div", { class: "scroll", tabIndex: 0, role: "group", "aria-label": "Answers to all rows" });
  const table = made(frame, "table", { class: "rows" });
  made(table, "caption", { class: "unseen", textContent: "Answers to all rows" });
  const head = made(made(table, "thead"), "tr");
  for (const name of [...model.texts.map((key) => nameOf(key, model)), "Answer", ""])
    made(head, "th", { scope: "col", textContent: name });
  const body = made(table, "tbody");
  rows.forEach((row, at) => {
    const line = made(body, "tr");
    for (const key of model.texts) made(line, "td", { class: "text", textContent: clipped(textOf(row[key])) });
    const { text, share, number } = kind.short(answers[at], row);
    const cell = made(line, "td", { class: "short" });
    made(cell, "span", { textContent: text });
    if (share !== undefined) {
      const measure = made(cell, "span", { class: "measure" });
      bar(measure, share);
      if (number === undefined) made(measure, "span", { class: "number", textContent: percent(share) });
    }
    const more = made(made(line, "td"), "button", { type: "button", class: "quiet", textContent: "Open" });
    more.setAttribute("aria-label", `Open the answer to row ${at + 1}`);
    more.setAttribute("aria-expanded", "false");
    more.addEventListener("click", () => toggle(line, more, model, row, answers[at]));
  });
  const save = made(into, "button", { type: "button", class: "quiet", textContent: "Save as CSV" });
  save.addEventListener("click", () => saved(model, rows, answers));
}

function toggle(line, button, model, row, answer) {
  const isOpen = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!isOpen));
  button.textContent = isOpen ? "Open" : "Close";
  if (isOpen) return line.nextSibling.remove();
  const opened = made(null, "tr", { class: "opened" });
  line.after(opened);
  showAnswer(made(opened, "td", { colSpan: model.texts.length + 2 }), model, row, answer);
}

function counts(into, names) {
  const found = new Map();
  for (const name of names) found.set(name, (found.get(name) ?? 0) + 1);
  const list = made(into, "ul", { class: "counts" });
  for (const [name, count] of [...found].sort((one, other) => other[1] - one[1])) {
    const item = made(list, "li", {}, `${name} `);
    made(item, "strong", { textContent: String(count) });
  }
}

function saved(model, rows, answers) {
  const kind = KINDS[model.kind];
  const head = [...model.texts, ...kind.columns(answers[0])];
  const lines = rows.map((row, at) => [...model.texts.map((key) => textOf(row[key])), ...kind.cells(answers[at])]);
  const address = URL.createObjectURL(new Blob([`\ufeff${csvOf([head, ...lines])}`], { type: "text/csv" }));
  const link = made(null, "a", { href: address, download: `${model.name}-${model.version}.csv` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
