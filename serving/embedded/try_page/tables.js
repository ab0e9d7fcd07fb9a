// Files and pasted lines as tables of texts.

import { Problem } from "./asking.js";

export const MOST_ROWS = 500;
export const MOST_BYTES = 5_000_000;
const MOST_COLUMNS = 50;
const NAMES_OF_TEXTS = ["text", "sentence", "body", "content", "message", "review", "question", "premise"];

/** The text of a file; what is not UTF-8 is read as Excel writes it on Windows. */
export async function readFile(file) {
  if (file.size > MOST_BYTES)
    throw new Problem(`${file.name} has ${(file.size / 1e6).toFixed(1)} MB, and ${MOST_BYTES / 1e6} MB are read here; use bertline predict --file.`);
  const bytes = await file.arrayBuffer();
  if (new Uint8Array(bytes).subarray(0, 4096).includes(0))
    throw new Problem(`${file.name} is no text. Drop a CSV or TSV file, or one with a text on each line.`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** The rows of delimited values, quotes as in RFC 4180; the rest after so many rows is only counted, as lines. */
export function rowsOf(text, delimiter, most = MOST_ROWS + 2) {
  const rows = [];
  let row = [], cell = "", quoted = false, at = 0;
  const endCell = () => { row.push(cell); cell = ""; };
  const endRow = () => {
    endCell();
    if (row.length > 1 || row[0].trim()) rows.push(row.slice(0, MOST_COLUMNS));
    row = [];
  };
  for (; at < text.length && rows.length < most; at++) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') { cell += '"'; at++; }
      else quoted = false;
    } else if (letter === '"' && !cell) quoted = true;
    else if (letter === delimiter) endCell();
    else if (letter === "\n") endRow();
    else if (letter !== "\r" || text[at + 1] !== "\n") cell += letter;
  }
  if (rows.length < most && (cell || row.length)) endRow();
  return { rows, isCut: at < text.length && Boolean(text.slice(at).trim()) };
}

/** The delimiter that gives most rows of one width, of more than one cell; null where there is none. */
function delimiterOf(text) {
  let best = null, reached = 0.6;
  for (const delimiter of [",", "\t", ";", "|"]) {
    const { rows } = rowsOf(text.slice(0, 100_000), delimiter, 50);
    const widths = rows.map((row) => row.length);
    const alike = widths.filter((width) => width === widths[0] && width > 1).length / Math.max(1, widths.length);
    if (alike > reached) [best, reached] = [delimiter, alike];
  }
  return best;
}

const isNumber = (cell) => cell.trim() !== "" && Number.isFinite(Number(cell.replace(",", ".")));

/** A table: the names of its columns, its rows, whether the first line was taken for names, and whether more followed. */
export function tableOf(text, name = "") {
  const isLines = /\.txt$/i.test(name);
  const delimiter = isLines ? null : delimiterOf(text);
  const isNamed = /\.(csv|tsv)$/i.test(name);
  const { rows, isCut } = rowsOf(text, delimiter ?? (isNamed && !isLines ? "," : "\0"));
  if (!rows.length) throw new Problem(`${name || "The text"} holds no line with a text.`);
  const [first] = rows;
  const looksLikeNames = rows.length > 1 && (delimiter !== null || isNamed) &&
    first.every((cell) => cell.trim() && cell.length <= 40 && !isNumber(cell) && !/[.!?]$/.test(cell.trim())) &&
    new Set(first).size === first.length;
  return { lines: rows, hasNames: looksLikeNames, isCut, width: Math.max(...rows.map((row) => row.length)) };
}

/** What is seen of a table once it is known whether its first line is names. */
export function columnsOf(table) {
  const rows = table.hasNames ? table.lines.slice(1) : table.lines;
  const names = Array.from({ length: table.width }, (_, at) =>
    (table.hasNames && table.lines[0][at]?.trim()) || `column ${at + 1}`);
  return { names, rows: rows.slice(0, MOST_ROWS), isCut: table.isCut || rows.length > MOST_ROWS };
}

/** The columns that most likely hold the texts: by the model's own names, by usual ones, and else the first of prose. */
export function guessColumns({ names, rows }, wanted) {
  const taken = new Set();
  const plain = names.map((name) => name.toLowerCase());
  const prose = (at) => {
    const cells = rows.slice(0, 50).map((row) => row[at] ?? "").filter((cell) => cell.trim());
    const words = cells.filter((cell) => /\p{L}/u.test(cell) && /\s/.test(cell.trim()));
    return cells.length > 0 && words.length >= cells.length / 2;
  };
  const all = names.map((_, at) => at);
  return wanted.map((key) => {
    const free = all.filter((at) => !taken.has(at));
    const found = free.find((at) => plain[at] === key) ?? free.find((at) => NAMES_OF_TEXTS.includes(plain[at])) ??
      free.find(prose) ?? free.find((at) => rows.some((row) => /\p{L}/u.test(row[at] ?? ""))) ?? free[0] ?? 0;
    taken.add(found);
    return found;
  });
}

/** A table as CSV. A cell that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvOf(rows) {
  const cell = (value) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
