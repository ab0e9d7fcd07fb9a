// What all parts of the page share. Texts of models and users become text nodes only: nothing here writes HTML.

/** A new element at the end of `parent`; `settings` are its properties, and `children` its texts and elements. */
export function made(parent, name, settings = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(settings)) {
    if (key === "class") element.className = value;
    else if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  parent?.append(element);
  return element;
}

let numbers = 0;

/** An id that no other element has. */
export const newId = (name) => `${name}-${++numbers}`;

/** A probability as a person reads it; one that is not quite 0 or 1 is not shown as such. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  if (share > 0.999 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

export const decimal = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : "–");

/** A part of a text, by places in characters as Python counts them. */
export const characters = (text) => Array.from(text);

/** A bar of a share between 0 and 1. */
export function bar(parent, share, settings = {}) {
  const frame = made(parent, "span", { class: "bar", "aria-hidden": "true", ...settings });
  made(frame, "span").style.setProperty("inline-size", `${100 * Math.min(1, Math.max(0, share || 0))}%`);
  return frame;
}

export const counted = (count, one, several = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;
