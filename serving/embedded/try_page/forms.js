// What is asked: the fields for one row of texts, for many rows, or for the texts nearest to one.

import { Problem } from "./asking.js";
import { counted, made, newId } from "./dom.js";
import { columnsOf, guessColumns, MOST_ROWS, readFile, tableOf } from "./tables.js";

const MOST_CHARACTERS = 100_000;
const NAMES = {
  text: "Text", text_2: "Second text", question: "Question", context: "Text that answers it", choices: "Choices",
};
const LINES = { text: 4, text_2: 3, question: 2, context: 9, choices: 4 };
const linesOf = (text) => text.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);

function area(into, label, settings = {}) {
  const id = newId("field");
  const field = made(into, "div", { class: "field" });
  made(field, "label", { for: id, textContent: label });
  const text = made(field, "textarea", { id, rows: 4, maxLength: MOST_CHARACTERS, spellcheck: false, ...settings });
  text.style.setProperty("--rows", text.rows);
  return text;
}

/** The name of a text for a person; one text is a text, and of two the first is so called. */
export const nameOf = (key, model) => (key === "text" && model.texts.includes("text_2") ? "First text" : NAMES[key] ?? key);

/** Fields for one row. Returns what reads them, and what fills them. */
export function oneRow(into, model) {
  const fields = {};
  for (const key of model.texts) fields[key] = area(into, key === "choices" ? "Choices, one on each line" : nameOf(key, model), { rows: LINES[key] ?? 4, name: key });
  if (model.kind === "fill_mask") {
    const button = made(into, "button", { type: "button", class: "quiet", textContent: "Insert [MASK]" });
    button.addEventListener("click", () => {
      fields.text.setRangeText("[MASK]", fields.text.selectionStart, fields.text.selectionEnd, "end");
      fields.text.focus();
    });
  }
  return {
    read() {
      const row = {};
      for (const key of model.texts) {
        const text = fields[key].value;
        row[key] = key === "choices" ? linesOf(text) : text;
        if (!text.trim()) throw missing(fields[key], `${nameOf(key, model)} is empty: write or paste something.`);
      }
      if (row.choices && row.choices.length < 2) throw missing(fields.choices, "Give two choices or more, one on each line.");
      if (model.kind === "fill_mask" && !row.text.includes("[MASK]"))
        throw missing(fields.text, "There is no [MASK] in the text: put one where the model is to predict a token.");
      return row;
    },
    fill(row) {
      for (const key of model.texts) fields[key].value = Array.isArray(row[key]) ? row[key].join("\n") : row[key];
    },
  };
}

function missing(field, message) {
  field.focus();
  return new Problem(message);
}

/** Where a file is chosen or dropped; `taken` is given its table. */
function fileField(into, taken, failed) {
  const zone = made(into, "div", { class: "drop" });
  const id = newId("file");
  made(zone, "label", { for: id, class: "file-label", textContent: "Choose a file" });
  const input = made(zone, "input", { id, type: "file", accept: ".csv,.tsv,.txt,text/csv,text/plain" });
  const told = made(zone, "span", { class: "note", textContent: "or drop it here: CSV, TSV, or a text on each line" });
  const take = async (file) => {
    try {
      taken(tableOf(await readFile(file), file.name));
      told.textContent = file.name;
    } catch (error) {
      failed(error);
    }
  };
  input.addEventListener("change", () => input.files[0] && take(input.files[0]));
  const drags = (event) => event.dataTransfer?.types.includes("Files");
  for (const name of ["dragover", "dragleave", "drop"])
    zone.addEventListener(name, (event) => {
      if (!drags(event)) return;
      event.preventDefault();
      zone.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
    });
}

/** Fields for many rows of the given texts: a file with columns to choose, or pasted lines. */
export function manyRows(into, keys, model, failed) {
  const pasted = keys.length === 1 ? "Texts, one on each line" : `Lines with ${counted(keys.length, "column")}, tabs or commas between`;
  let table = null;
  const lines = area(into, pasted, { rows: 7, maxLength: 20 * MOST_CHARACTERS });
  const columns = made(null, "div", { class: "columns" });
  fileField(into, (found) => { table = found; lines.value = ""; choose(); }, failed);
  into.append(columns);
  const selects = {};
  lines.addEventListener("input", () => { table = null; columns.replaceChildren(); });

  function choose() {
    columns.replaceChildren();
    const seen = columnsOf(table);
    const told = `${counted(seen.rows.length, "row")}${seen.isCut ? `, the first of more: ${MOST_ROWS} are read here` : ""}.`;
    made(columns, "p", { class: "note", role: "status", textContent: told });
    const label = made(columns, "label", { class: "check" });
    const box = made(label, "input", { type: "checkbox", checked: table.hasNames });
    label.append("The first line has the names of the columns");
    box.addEventListener("change", () => { table.hasNames = box.checked; choose(); columns.querySelector("input").focus(); });
    const guessed = guessColumns(seen, keys);
    keys.forEach((key, at) => {
      const id = newId("column"), field = made(columns, "div", { class: "field" });
      made(field, "label", { for: id, textContent: `${nameOf(key, model)} from` });
      const several = key === "choices";
      selects[key] = made(field, "select", { id, multiple: several });
      seen.names.forEach((name, column) => made(selects[key], "option", {
        value: String(column), textContent: name,
        selected: several ? column > Math.max(...guessed.slice(0, at)) : column === guessed[at],
      }));
    });
  }

  return {
    read() {
      if (!table && keys.length === 1) {
        const texts = linesOf(lines.value);
        if (!texts.length) throw missing(lines, "There is no text yet: paste some, one on each line, or choose a file.");
        return { rows: texts.slice(0, MOST_ROWS).map((text) => ({ [keys[0]]: text })), isCut: texts.length > MOST_ROWS };
      }
      const given = table ?? tableOf(lines.value.trim() || missingLines());
      // Nobody is asked about the first of pasted lines: it is names only if these are the model's own.
      if (!table) given.hasNames = keys.every((key) => given.lines[0].some((cell) => cell.trim().toLowerCase() === key));
      const seen = columnsOf(given);
      if (given.width < keys.length)
        throw new Problem(`The lines have ${counted(given.width, "column")}, and the model reads ${keys.length} texts.`);
      const placed = keys.map((key, at) => {
        if (table) return Array.from(selects[key].selectedOptions, (option) => Number(option.value));
        return key === "choices" ? seen.names.map((_, column) => column).slice(at) : [at];
      });
      const rows = seen.rows.map((cells) => Object.fromEntries(keys.map((key, at) => {
        const texts = placed[at].map((column) => cells[column] ?? "");
        return [key, key === "choices" ? texts.filter((text) => text.trim()) : texts[0] ?? ""];
      })));
      const whole = rows.filter((row) => Object.values(row).every((value) => (Array.isArray(value) ? value.length : value.trim())));
      if (!whole.length) throw new Problem("These columns hold no text; choose others.");
      return { rows: whole, isCut: seen.isCut, leftOut: rows.length - whole.length };
    },
  };

  function missingLines() {
    throw missing(lines, "There is no text yet: paste some lines, or choose a file.");
  }
}

/** One text, and those among which the nearest are looked for. */
export function nearest(into, model, failed) {
  const query = area(into, "Text", { rows: 2 });
  const among = made(into, "fieldset", { class: "among" });
  made(among, "legend", { textContent: "Looked for among" });
  const many = manyRows(among, ["text"], { ...model, texts: ["text"] }, failed);
  return {
    read() {
      if (!query.value.trim()) throw missing(query, "The text is empty: write the one whose nearest are looked for.");
      return { query: query.value, ...many.read() };
    },
  };
}
