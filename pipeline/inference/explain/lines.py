"""`python -m bertline.pipeline.inference.explain.lines`: explains answers, one for each line of JSON, until its input ends.

It is what the embedded server's page asks. A question has the `folder` of a version, the `texts` of a row by the names of
its signature, and perhaps a `label` or the `start` of a word; the answer has the words with what each adds, or an `error`,
a sentence.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError

_SHOWN_OF_ATTRIBUTION = ("of", "unit", "score", "baseline", "error", "complete", "gradients", "words")


def explained(question: Mapping[str, Any]) -> str:
    """What is told of one question, on one line."""
    try:
        return json.dumps(_explained(question), allow_nan=False)
    except BertlineError as error:
        # Who asks a server has no use for where its models are.
        return json.dumps({"error": str(error).removeprefix(f"{question['folder']}: ")})
    except Exception:
        logging.getLogger(__name__).exception("an answer could not be explained")
        return json.dumps({"error": "this prediction could not be explained; see the server's log."})


def _explained(question: Mapping[str, Any]) -> dict[str, Any]:
    from bertline.models.explain.explainer import OF_ATTENTION
    from bertline.pipeline.inference.explain.loading import find, load

    pushed = find(question["folder"])
    texts = question["texts"]
    wanted, kinds = pushed.text_keys, {name: list if name == "choices" else str for name in pushed.text_keys}
    if set(texts) != set(wanted) or any(not isinstance(texts[name], kind) for name, kind in kinds.items()):
        raise BertlineError(f"the model reads {', '.join(wanted)}; give exactly these texts, and the choices as a list.")
    if not all(texts.values()):
        raise BertlineError("a text is missing; give every text that the model reads.")
    row = {name: _encoded(texts[name]) for name in wanted}
    found = load(pushed).explain(row, label=question.get("label"), start=question.get("start")).to_json()
    return {
        "task": found["task"],
        "answer": found["answer"],
        "texts": found["texts"],
        "attributions": [{name: given[name] for name in _SHOWN_OF_ATTRIBUTION} for given in found["attributions"]],
        "notes": [note for note in found["notes"] if not note.startswith(f"{OF_ATTENTION} ")],
    }


def _encoded(text: str | list[str]) -> Any:
    return text.encode(errors="replace") if isinstance(text, str) else [one.encode(errors="replace") for one in text]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not stand between the answers
    environment.prepare(quiet=True)
    with contextlib.suppress(OSError):
        os.nice(10)  # predictions go first
    for line in sys.stdin:
        answers.write(f"{explained(json.loads(line))}\n")
        answers.flush()


if __name__ == "__main__":
    main()
