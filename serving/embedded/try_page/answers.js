// Each kind of answer, shown to a person: the whole of it (`show`), on one line (`short`), and as cells of CSV (`cells`).
//
// The kinds are those of models/responses/types.py, under the names of the client's calls for them.

import { bar, characters, counted, decimal, made, newId, percent } from "./dom.js";
import { showWhy } from "./why.js";

const SHOWN_CLASSES = 8;
const SHOWN_SPANS = 4;
const HUES = 8;

/** A button beside an answer that asks why; `of` is the part that is explained, under a name for a person. */
function whyButton(parent, context, of, name) {
  const button = made(parent, "button", { type: "button", class: "why-button", textContent: "Why?" });
  button.setAttribute("aria-label", name ? `Why ${name}?` : "Why this answer?");
  button.addEventListener("click", () => showWhy(context.area, context.model, context.row, of));
  return button;
}

function ranked(answer) {
  const pairs = answer.classes.map((name, at) => ({ name, share: answer.probabilities[at] }));
  return pairs.sort((one, other) => other.share - one.share);
}

/** A list of names with their probabilities as bars. */
function shares(into, pairs, context, { chosen = () => false, explains = true, label = (pair) => pair.name } = {}) {
  const list = made(into, "ol", { class: "shares" });
  for (const pair of pairs) {
    const item = made(list, "li", { class: chosen(pair) ? "chosen" : "" });
    made(item, "span", { class: "name", textContent: pair.name });
    bar(item, pair.share);
    made(item, "span", { class: "number", textContent: percent(pair.share) });
    if (explains) whyButton(item, context, { label: label(pair) }, pair.name);
  }
  shorten(into, list, SHOWN_CLASSES);
}

/** Hides what is beyond the first of a list behind a button. */
function shorten(into, list, most) {
  const rest = [...list.children].slice(most);
  if (!rest.length) return;
  for (const item of rest) item.hidden = true;
  const all = made(into, "button", { type: "button", class: "quiet", textContent: `Show all ${list.children.length}` });
  all.addEventListener("click", () => {
    for (const item of rest) item.hidden = false;
    all.remove();
    rest[0].querySelector("button")?.focus();
  });
}

const headline = (into, text, settings = {}) => made(into, "p", { class: "headline", textContent: text, ...settings });
const note = (into, text) => made(into, "p", { class: "note", textContent: text });

const classify = {
  show(into, answer, context) {
    const pairs = ranked(answer);
    headline(into, answer.label);
    if (!answer.classes.includes(answer.label)) note(into, "The model abstains: it is not confident enough of any class.");
    else if (pairs[0].name !== answer.label) note(into, "It is chosen by its threshold; another class is likelier.");
    shares(into, pairs, context, { chosen: ({ name }) => name === answer.label });
  },
  short: (answer) => ({ text: answer.label, share: answer.probabilities[answer.classes.indexOf(answer.label)] }),
  group: (answer) => answer.label,
  columns: (answer) => ["label", ...answer.classes],
  cells: (answer) => [answer.label, ...answer.probabilities],
};

const named = (answer) => ranked(answer).filter(({ name }) => answer.labels.includes(name));
const classes = {
  show(into, answer, context) {
    const found = named(answer);
    headline(into, found.map(({ name }) => name).join(", ") || "None of the classes");
    shares(into, ranked(answer), context, { chosen: ({ name }) => answer.labels.includes(name) });
  },
  short: (answer) => ({ text: named(answer).map(({ name }) => name).join(", ") || "none" }),
  columns: (answer) => ["labels", ...answer.classes],
  cells: (answer) => [named(answer).map(({ name }) => name).join(", "), ...answer.probabilities],
};

const regress = {
  show(into, answer, context) {
    headline(into, decimal(answer.value), { class: "headline figure" });
    whyButton(into, context);
  },
  short: (answer) => ({ text: decimal(answer.value) }),
  columns: () => ["value"],
  cells: (answer) => [answer.value],
};

const similarity = {
  show(into, answer, context) {
    headline(into, decimal(answer.similarity), { class: "headline figure" });
    bar(into, answer.similarity, { class: "bar wide" });
    note(into, "The cosine of the two texts' vectors: 1 for texts that are alike, and 0 for texts with nothing in common.");
    whyButton(into, context);
  },
  short: (answer) => ({ text: decimal(answer.similarity), share: answer.similarity, number: decimal(answer.similarity) }),
  columns: () => ["similarity"],
  cells: (answer) => [answer.similarity],
};

const choose = {
  show(into, answer, context) {
    const { choices } = context.row;
    if (answer.index < 0) return note(into, "There is nothing to choose from.");
    headline(into, answer.choice);
    const pairs = choices.map((name, at) => ({ name, at, share: answer.probabilities[at] }));
    shares(into, pairs, context, { chosen: ({ at }) => at === answer.index, label: ({ at }) => String(at + 1) });
  },
  short: (answer) => ({ text: answer.choice, share: answer.probabilities[answer.index] }),
  columns: () => ["index", "choice"],
  cells: (answer) => [answer.index, answer.choice],
};

const entitiesOf = (answer) => Array.from({ length: answer.count }, (_, at) => ({
  text: answer.entities[at], type: answer.types[at], start: answer.starts[at], end: answer.ends[at],
  share: answer.probabilities[at],
}));

/** The colour of a type: by its place among the model's own, so that it is the same in every answer. */
function hueOf(type, model) {
  const types = [...new Set(model.labels.filter((label) => label !== "O").map((label) => label.replace(/^[BIESLU][-_]/, "")))];
  const at = types.indexOf(type);
  return `hue-${(at < 0 ? type.length : at) % HUES}`;
}

const tag = {
  show(into, answer, context) {
    const text = characters(context.row.text), entities = entitiesOf(answer);
    const shown = made(into, "p", { class: "tagged" });
    let end = 0;
    for (const entity of entities) {
      const begin = Math.max(entity.start, end);
      shown.append(text.slice(end, begin).join(""));
      const settings = { class: `entity ${hueOf(entity.type, context.model)}`, title: percent(entity.share) };
      const mark = made(shown, "mark", settings, text.slice(begin, entity.end).join(""));
      made(mark, "span", { class: "type", textContent: entity.type });
      end = Math.max(end, entity.end);
    }
    shown.append(text.slice(end).join(""));
    if (!entities.length) note(into, "The model finds no entity in this text.");
    const list = made(into, "ol", { class: "shares" });
    for (const entity of entities) {
      const item = made(list, "li", { class: hueOf(entity.type, context.model) });
      const name = made(item, "span", { class: "name" });
      made(name, "span", { class: `type-chip ${hueOf(entity.type, context.model)}`, textContent: entity.type });
      name.append(entity.text);
      bar(item, entity.share);
      made(item, "span", { class: "number", textContent: percent(entity.share) });
      whyButton(item, context, { start: entity.start }, `${entity.text} as ${entity.type}`);
    }
    if (!entities.length) whyButton(into, context);
  },
  short: (answer) => ({ text: entitiesOf(answer).map(({ text, type }) => `${text} (${type})`).join(", ") || "no entities" }),
  columns: () => ["entities"],
  cells: (answer) => [entitiesOf(answer).map(({ text, type, start, end }) => `${text} ${type} [${start}:${end}]`).join("; ")],
};

const answer = {
  show(into, found, context) {
    const passage = characters(context.row.context);
    headline(into, found.answer || "No answer");
    if (!found.answer) note(into, "The model finds that the text does not answer the question.");
    const shown = made(into, "p", { class: "passage", tabIndex: -1 });
    const highlight = (start, end) => {
      const mark = made(null, "mark", { class: "answered", textContent: passage.slice(start, end).join("") });
      shown.replaceChildren(passage.slice(0, start).join(""), ...(end > start ? [mark] : []), passage.slice(end).join(""));
    };
    highlight(found.start, found.end);
    const spans = found.n_best.map((text, at) => ({
      text, share: found.n_best_scores[at], start: found.n_best_starts[at], end: found.n_best_ends[at],
    })).filter(({ share }) => share > 0);
    made(into, "h3", { textContent: "Best answers" });
    const list = made(into, "ol", { class: "shares" });
    const buttons = [];
    for (const span of spans) {
      const item = made(list, "li");
      const settings = { type: "button", class: "name span-button", textContent: span.text || "no answer" };
      const button = made(item, "button", settings);
      const isChosen = span.text === found.answer && (!span.text || span.start === found.start);
      button.setAttribute("aria-pressed", String(isChosen));
      buttons.push(button);
      if (isChosen) item.className = "chosen";
      bar(item, span.share);
      made(item, "span", { class: "number", textContent: percent(span.share) });
      button.addEventListener("click", () => {
        highlight(span.start, span.end);
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      });
    }
    shorten(into, list, SHOWN_SPANS);
    whyButton(into, context);
  },
  short: (found) => ({ text: found.answer || "no answer", share: found.score }),
  columns: () => ["answer", "start", "end", "score"],
  cells: (found) => [found.answer, found.start, found.end, found.score],
};

const fillingsOf = (found) => found.fillings.map((pieces, mask) =>
  pieces.map((name, at) => ({ name, share: found.probabilities[mask][at] })).filter(({ share }) => share > 0),
).filter((fillings) => fillings.length);

const fill_mask = {
  show(into, found, context) {
    const masks = fillingsOf(found);
    if (!masks.length) return note(into, "There is no [MASK] in the text: put one where the model is to predict a token.");
    const shown = made(into, "p", { class: "tagged" });
    context.row.text.split("[MASK]").forEach((part, at) => {
      if (at && at <= masks.length) made(shown, "mark", { class: "answered", textContent: masks[at - 1][0].name });
      else if (at) shown.append("[MASK]");
      shown.append(part);
    });
    masks.forEach((fillings, at) => {
      made(into, "h3", { textContent: masks.length > 1 ? `[MASK] ${at + 1}` : "Predictions for [MASK]" });
      // Another token is explained at the first [MASK] alone.
      shares(into, fillings, context, { chosen: (pair) => pair === fillings[0], explains: at === 0 });
    });
  },
  short: (found) => ({ text: fillingsOf(found).map(([first]) => first.name).join(", ") || "no [MASK]" }),
  columns: () => ["fillings"],
  cells: (found) => [fillingsOf(found).map(([first]) => first.name).join(", ")],
};

const translate = {
  show(into, found, context) {
    headline(into, found.translation || "(nothing)", { class: "headline translated" });
    const others = (found.n_best ?? []).map((text, at) => ({ text, score: found.n_best_scores[at] }))
      .filter(({ text, score }, at) => at > 0 && score !== null && text);
    if (others.length) {
      made(into, "h3", { textContent: "Further translations" });
      const list = made(into, "ol", { class: "others" });
      for (const { text, score } of others) {
        const item = made(list, "li", { textContent: text });
        made(item, "span", { class: "number", textContent: decimal(score) });
      }
    }
    whyButton(into, context);
  },
  short: (found) => ({ text: found.translation }),
  columns: () => ["translation", "score"],
  cells: (found) => [found.translation, found.score],
};

export const KINDS = { classify, classes, regress, similarity, choose, tag, answer, fill_mask, translate };

/** The whole answer to a row, with room for why. */
export function showAnswer(into, model, row, found) {
  const body = made(into, "div", { class: "answer" });
  const area = made(into, "div", { class: "reasons", id: newId("why"), hidden: true });
  KINDS[model.kind].show(body, found, { model, row, area });
}

/** Texts by how alike their vectors are to the one of the query, the nearest first. */
export function showNearest(into, query, texts, vectors, most) {
  const [first, ...others] = vectors;
  const product = (one, other) => one.reduce((sum, part, at) => sum + part * other[at], 0);
  const length = (vector) => Math.sqrt(product(vector, vector)) || 1;
  const pairs = texts.map((name, at) => ({ name, share: product(first, others[at]) / (length(first) * length(others[at])) }));
  pairs.sort((one, other) => other.share - one.share);
  made(into, "p", { class: "note", textContent: `Nearest of ${counted(texts.length, "text")} to “${query}”, by the cosine of their vectors.` });
  const list = made(into, "ol", { class: "shares" });
  for (const { name, share } of pairs.slice(0, most)) {
    const item = made(list, "li");
    made(item, "span", { class: "name", textContent: name });
    bar(item, share);
    made(item, "span", { class: "number", textContent: decimal(share) });
  }
}
