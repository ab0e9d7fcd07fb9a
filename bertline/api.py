"""The functions of `import bertline`: what the commands of the same names do, with values in place of what they print."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:
    from bertline.models.explain.explainer import Baseline
    from bertline.models.explain.explanation import Explanation
    from bertline.pipeline.console.summary import Summary
    from bertline.pipeline.inference.predictor import Found
    from bertline.pipeline.runs.compare.comparison import Comparison

StrPath = str | os.PathLike[str]
Text = str | bytes
WORKSPACE = "workspace"
_SHOWN = 5  # classes of a response in a file, as by default of `bertline predict`


def run(
    config: StrPath | Mapping[str, Any],
    *overrides: str,
    workspace: StrPath | None = None,
    start_at: str | None = None,
    quiet: bool = False,
) -> Summary:
    """Runs the pipeline: raw text to an evaluated, pushed and tracked model, as `bertline run` does.

    Steps whose code, config and data are unchanged come from the cache; a training that was killed goes on from its last
    checkpoint. A model that is refused is no error: the summary's `blessed` and `reasons` say so.

    Args:
      config: path of a YAML file, name of a preset, or a mapping of what such a file says. Relative paths of a file are
        relative to it, those of a mapping to the working directory.
      overrides: changed settings, as "training.epochs=3"; the value is written as YAML.
      workspace: folder for everything the run writes; by default the config's own, which is ./workspace.
      start_at: the step, as "Trainer", that runs again with all after it, though nothing changed.
      quiet: whether nothing is printed. All output of the steps goes to a log file either way.

    Returns:
      What the run came to, from its metrics to the folder of the pushed model.

    Raises:
      BertlineError: the config, the data or the machine does not allow it; the message says what to do.

    Example:
      >>> summary = bertline.run("tickets.yaml", "training.epochs=3", workspace="w", quiet=True)
      >>> summary.blessed, summary.metrics["accuracy"], summary.pushed_path
    """
    from bertline.components.steps import Step
    from bertline.pipeline.settings.loader import load as resolve

    began = time.perf_counter()
    if start_at is not None and start_at not in [step.value for step in Step]:
        raise BertlineError(
            f"start_at: there is no step {start_at!r}; the steps are {', '.join(step.value for step in Step)}."
        )
    source = config if isinstance(config, Mapping) else os.fspath(config)
    resolved = resolve(source, overrides, workspace=None if workspace is None else os.fspath(workspace))
    from bertline.pipeline.commands.run import Started, run_line

    started = Started(source if isinstance(source, str) else None, overrides, began)
    return run_line(resolved, started, again_from=start_at, quiet=quiet)


def load(model: StrPath | None = None, *, signature: str | None = None, workspace: StrPath = WORKSPACE) -> Predictor:
    """Loads a pushed model, to predict with it in this process; `Client` asks one that a server has.

    Args:
      model: folder of a SavedModel, or of all versions of a model, or the name of a pipeline in the workspace; of several
        versions the newest is taken. By default what the last run pushed.
      signature: another one than the model's default: `embed` of models that match texts, `align` of those that translate.
      workspace: where the model is looked for.

    Raises:
      BertlineError: there is no such model, or it has no such signature.

    Example:
      >>> with bertline.load("tickets") as model:
      ...     model.predict(["My metadata was charged twice."])[0].label
      'billing'
    """
    environment.prepare(quiet=True)
    from bertline.pipeline.core.storage import is_remote
    from bertline.pipeline.inference.predictor import Wanted, find
    from bertline.pipeline.inference.pushed_model import model_folder
    from bertline.serving.contract import DEFAULT_SIGNATURE

    folder = None if model is None else os.fspath(model)
    if folder is not None and not is_remote(folder):
        folder = str(model_folder(folder, os.fspath(workspace)))
    return Predictor(find(folder, os.fspath(workspace), Wanted(signature=signature or DEFAULT_SIGNATURE, top=_SHOWN)))


class Predictor:
    """A model that is loaded here. `load` makes it; a `with` block, or `close`, gives its memory back."""

    def __init__(self, found: Found) -> None:
        self._found, self._loaded = found, found.load()
        with suppress(ValueError):
            self._version = int(Path(found.place).name)

    _version: int | None = None

    @property
    def path(self) -> str:
        """The folder of the version."""
        return self._found.place

    @property
    def version(self) -> int | None:
        """The number of the version; None of a folder that has another name."""
        return self._version

    @property
    def text_keys(self) -> tuple[str, ...]:
        """The names of the texts that an example has, in their order."""
        return tuple(self._found.text_keys)

    @property
    def note(self) -> str:
        """What one should know of the model, such as that it is no encoder; mostly nothing."""
        return self._found.note

    def predict(
        self,
        texts: Text | Sequence[Text],
        second: Text | Sequence[Text] | None = None,
        *,
        choices: Sequence[Text] | Sequence[Sequence[Text]] | None = None,
    ) -> list[Any]:
        """Predicts for each text, or for each pair of texts.

        Args:
          texts: one text or several; the questions, of a model that answers them.
          second: as many second texts, of a model that reads pairs; the texts that the questions are about.
          choices: the endings to choose from: a list for all texts, or a list of them for each text.

        Returns:
          A response to each text, in their order, of the type that `Client` returns for the task: `Classified` with
          `label` and `probabilities`, say, or `Tagged` with `entities`. `str` of one is what `bertline predict` prints.

        Raises:
          BertlineError: the model reads other texts than these.

        Example:
          >>> [response.label for response in model.predict(["The app crashes.", "Where is my parcel?"])]
          ['app', 'delivery']
        """
        rows = self._rows(texts, second, choices)
        from bertline.pipeline.inference.predictor import ask_all
        from bertline.serving.embedded.errors import RequestError

        try:
            given = ask_all(self._loaded, rows)
        except RequestError as error:
            raise BertlineError(f"{self.path}: the model refuses these texts: {error}") from error
        return [replace(self._loaded.read(each), version=self._version) for each in given]

    def predict_file(self, path: StrPath, out: StrPath, *, format: str | None = None) -> int:
        """Predicts every line of a file, in memory that does not grow with it, as `bertline predict --file` does.

        Args:
          path: a JSONL, CSV, TSV or text file, `.gz` too. Texts are found by the names in `text_keys`, or by the columns
            that the model was trained from.
          out: the file to write: a JSON object a line, with the fields of the pipeline and the response. It is there only
            when it is complete.
          format: `jsonl`, `csv`, `tsv` or `lines`, where the ending does not say it.

        Returns:
          How many lines were predicted.

        Raises:
          BertlineError: a line has not the texts that the model reads; every line is checked before the first prediction.

        Example:
          >>> model.predict_file("tickets.csv", "predictions.jsonl")
          240
        """
        from bertline.pipeline.inference.file import answer_file

        kept = replace(self._loaded, close=lambda: None)  # which is closed with this, and not with the file
        return answer_file(os.fspath(path), os.fspath(out), replace(self._found, load=lambda: kept), format)

    def close(self) -> None:
        """Gives the model's memory back; it predicts no more."""
        self._loaded.close()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Predictor({self.path!r}, text_keys={self.text_keys!r})"

    def _rows(self, texts: Any, second: Any, choices: Any) -> list[dict[str, Any]]:
        from bertline.pipeline.config import CHOICES

        columns = [_listed(given) for given in (texts, second) if given is not None]
        keys = [key for key in self.text_keys if key != CHOICES]
        if len(columns) != len(keys) or (choices is not None) != (CHOICES in self.text_keys):
            wanted = f"texts{' and second' if len(keys) > 1 else ''}{' and choices' if CHOICES in self.text_keys else ''}"
            raise BertlineError(f"{self.path}: the model reads {', '.join(self.text_keys)}; give {wanted}, and no more.")
        if len({len(column) for column in columns}) > 1:
            counts = " and ".join(str(len(column)) for column in columns)
            raise BertlineError(f"each text has its second one; these are {counts}.")
        rows: list[dict[str, Any]] = [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
        if choices is None:
            return rows
        each = [choices] * len(rows) if all(isinstance(one, str | bytes) for one in choices) else choices
        if len(each) != len(rows) or not all(each):
            raise BertlineError(f"choices are one list for all {len(rows)} texts, or a list for each, and none is empty.")
        return [{**row, CHOICES: _listed(endings)} for row, endings in zip(rows, each, strict=True)]


def _listed(texts: Any) -> list[bytes]:
    from bertline.serving.client.rows import as_texts

    return as_texts(texts)


def compare(*runs: str, last: int | None = None, name: str | None = None, workspace: StrPath = WORKSPACE) -> Comparison:
    """Compares recorded runs: settings, metrics with intervals, slices, curves, and predictions that flipped.

    Args:
      runs: two or more, each the id of a run or its first digits, or a pushed version as "v7". The first is the reference.
      last: in their place, so many of the last runs of a pipeline; the oldest is the reference.
      name: the pipeline of `last`, and of versions; by default that of the newest run.
      workspace: whose store is asked.

    Returns:
      Everything that the runs differ in; `as_json()` makes plain dictionaries and lists of it.

    Raises:
      BertlineError: there is no such run, or the store does not answer.

    Example:
      >>> accuracy = bertline.compare("v1", "v2").metrics[0]
      >>> accuracy.values, accuracy.changes[1]
    """
    if bool(runs) == bool(last) or len(runs) == 1 or (last is not None and last < 2):
        raise BertlineError("compare two runs or more, or last=2 or more of them; `bertline runs` lists them.")
    from bertline.pipeline.commands.runs import compared

    return compared(runs, last, name, os.fspath(workspace))


def explain(
    text: str,
    second: str | None = None,
    *,
    choices: Sequence[str] = (),
    model: StrPath | None = None,
    label: str | None = None,
    word: str | int | None = None,
    baseline: Baseline = "pad",
    workspace: StrPath = WORKSPACE,
) -> Explanation:
    """Explains a prediction: what each word adds to it, by integrated gradients, and the attention of each head.

    The model is kept until another one is asked about, so that the next explanation is quick.

    Args:
      text: the text, or the question.
      second: the second text of a pair; the text that the question is about.
      choices: the endings to choose from.
      model: as for `load`; by default what the last run pushed.
      label: what is explained in place of what was predicted: another class, tag, token, ending or part of the text.
      word: of a model that predicts word by word, the word that is explained, or its number, from 1.
      baseline: what words are compared with: the vector of [PAD] (`pad`), of [MASK] (`mask`), or zeros (`zero`).
      workspace: where the model is looked for.

    Returns:
      Words, their attributions, and attention, as arrays; `to_json()` makes plain dictionaries and lists of it.

    Raises:
      BertlineError: there is no such model, it reads other texts, or has no encoder.

    Example:
      >>> found = bertline.explain("My metadata was charged twice.", model="tickets")
      >>> dict(zip(found.words, found.attributions[0].words))
    """
    environment.prepare(quiet=True)
    from bertline.pipeline.inference.explain import explain as explained

    folder = None if model is None else os.fspath(model)
    return explained(
        folder, text, second, choices, label=label, word=word, baseline=baseline, workspace=os.fspath(workspace)
    )
