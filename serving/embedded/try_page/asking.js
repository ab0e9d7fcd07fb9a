// Requests to this server, and what goes wrong with them, in sentences.

const ROWS_OF_REQUEST = 16;

/** What went wrong, as a sentence for the user; `status` is HTTP's, 0 where the server did not answer. */
export class Problem extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** TensorFlow Serving writes NaN and Infinity, which JSON does not know: they become null. */
export const parsed = (text) =>
  JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g, (found) => (found[0] === '"' ? found : "null")));

async function asked(path, body, signal) {
  const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let status, text;
  try {
    const reply = await fetch(path, { ...(body === undefined ? {} : post), signal, cache: "no-store" });
    [status, text] = [reply.status, await reply.text()];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not respond. Is `bertline serve` still running?");
  }
  let value;
  try {
    value = parsed(text);
  } catch {
    throw new Problem(`The server's response is not JSON (HTTP ${status}).`, status);
  }
  if (status === 200) return value;
  const said = typeof value?.error === "string" && value.error ? value.error : "it did not say why";
  if (status === 429) throw new Problem(`The server is busy: ${said}`, status);
  throw new Problem(`The server refused this (HTTP ${status}): ${said}`, status);
}

export const askModels = async () => (await asked("/page/models")).models;

/**
 * The answers to rows, by TensorFlow Serving's REST API, a few rows at a time.
 *
 * Each is an object by the names of the signature's outputs: a single output goes over REST without its name.
 */
export async function predict(model, rows, { signature, outputs, signal, told = () => {} } = {}) {
  const path = `/v1/models/${encodeURIComponent(model.name)}/versions/${model.version}:predict`;
  const names = outputs ?? model.outputs;
  const answers = [];
  for (let at = 0; at < rows.length; at += ROWS_OF_REQUEST) {
    const instances = padded(rows.slice(at, at + ROWS_OF_REQUEST));
    const body = { ...(signature ? { signature_name: signature } : {}), instances };
    const { predictions } = await asked(path, body, signal);
    if (!Array.isArray(predictions) || predictions.length !== instances.length)
      throw new Problem("The server returned a different number of predictions than requested.");
    const named = (one) => (one !== null && typeof one === "object" && !Array.isArray(one) ? one : { [names[0]]: one });
    answers.push(...predictions.map(named));
    told(answers.length);
  }
  return answers;
}

/** Rows of one request have equally many choices: empty ones at the end are none. */
function padded(rows) {
  const most = Math.max(...rows.map((row) => row.choices?.length ?? 0));
  const filled = (choices) => [...choices, ...Array(most - choices.length).fill("")];
  return rows.map((row) => (row.choices ? { ...row, choices: filled(row.choices) } : row));
}

/** What each word adds to an answer; `of` names what is explained, as `label` or as `start` of a word. */
export const explain = (model, texts, of, signal) =>
  asked("/page/explain", { model: model.name, version: model.version, texts, ...of }, signal);
