"""`bertline checkpoint`: what a folder holds, and the same weights in another format."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import click

from bertline.pipeline.core import checkpoint_formats as formats
from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.hubs import local_checkpoint

TARGETS = ("huggingface", "tf1", "keras")

_HEADS = {
    "cls.predictions.": "masked words",
    "lm_head.": "masked words",
    "predictions.": "masked words",
    "cls.seq_relationship.": "next sentence",
    "sop_classifier.": "order of sentences",
    "classifier.": "classifier",
    "qa_outputs.": "answers",
}
_TOKENIZER_FILES = (
    formats.VOCAB, formats.TOKENIZER, "tokenizer.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "spiece.model", "sentencepiece.bpe.model",
)  # fmt: skip
# Of a Hugging Face config, what is not the encoder's size and holds for the same weights in another file.
_KEPT_SETTINGS = (
    "architectures", "id2label", "label2id", "problem_type", "finetuning_task", "initializer_range", "classifier_dropout",
    "classifier_dropout_prob", "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip
_LISTED = 6


@click.group()
def checkpoint() -> None:
    """Inspect a checkpoint, or convert it to another format.

    \b
    A checkpoint is a folder of
      Hugging Face      config.json with model.safetensors or pytorch_model.bin, in one file or in shards
      the original      bert_config.json with bert_model.ckpt.*
      KerasHub          config.json with model.weights.h5
      Bertline          model.keras (or that file itself)
    A pytorch_model.bin is read without PyTorch, and no code in it is executed. Instead of a folder, a name on a
    hub works too, hf://ORGANISATION/NAME or a KerasHub preset as bert_tiny_en_uncased: it is downloaded once.
    """


@checkpoint.command()
@click.argument("folder", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(folder: str, as_json: bool) -> None:
    """Show the format, size, heads and activation of the checkpoint in FOLDER.

    \b
    bertline checkpoint show path/to/bert-base-uncased
    bertline checkpoint show path/to/uncased_L-12_H-768_A-12 --json
    """
    found = describe(local_checkpoint(folder))
    click.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(_lines(found)))


@checkpoint.command()
@click.argument("source", metavar="FROM", type=click.Path())
@click.argument("target", metavar="TO", type=click.Path())
@click.option("--to", "kind", type=click.Choice(TARGETS), default=TARGETS[0], show_default=True, help="The format of TO.")
def convert(source: str, target: str, kind: str) -> None:
    """Write the checkpoint in FROM as a new folder TO.

    All numbers become float32; those that are float32 keep every bit. Heads, the vocabulary and the tokenizer's settings
    are written too where the format supports them. TO appears when all of it is written, or not at all; a folder that is
    not empty is never overwritten.

    \b
    bertline checkpoint convert uncased_L-12_H-768_A-12 bert-base          for transformers and for model.checkpoint
    bertline checkpoint convert bert-base old --to tf1                     for the original's scripts
    bertline checkpoint convert bert-base model --to keras                 for keras.saving.load_model
    """
    for line in write(local_checkpoint(source), target, kind):
        click.echo(line)


def describe(folder: str | Path) -> dict[str, Any]:
    """What can be said of a checkpoint without loading it."""
    environment.prepare()
    from bertline.models.checkpoints.opening import open_source
    from bertline.models.checkpoints.settings import read_size

    found = formats.find(folder)
    path, size = read_size(folder)
    with open_source(found) as source:
        if source.clashes:
            raise BertlineError(f"{source.path}: {'; '.join(source.clashes)}.")
        encoder, heads = (sum(prod(tensor.shape) for tensor in part.values()) for part in (source.tensors, source.heads))
        kinds = sorted({tensor.kind for tensor in (*source.tensors.values(), *source.heads.values())})
        left_out = list(source.left_out)
        purposes = _purposes(source.heads)
    model = "albert" if size.get("shared_layers") else "roberta" if size.get("position_offset") else "bert"
    return {
        "folder": str(found.folder),
        "format": found.format,
        "settings": path.name,
        "weights": found.weights.name,
        "model": model,
        "size": {key: value for key, value in size.items() if key != "activation"},
        "activation": size.get("activation", "gelu"),
        "numbers": kinds,
        "parameters": {"encoder": encoder, "heads": heads, "total": encoder + heads},
        "vocabulary": {"rows": size["vocab_size"], "pieces": _tokens(found)},
        "heads": purposes,
        "left_out": left_out,
    }


def write(source: str | Path, target: str | Path, kind: str) -> list[str]:
    """Converts a checkpoint.

    Returns:
      What is to be said of it, a sentence each.
    """
    target = Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BertlineError(f"{target} already exists and is not an empty folder; name another, or remove it first.")
    found = formats.find(source)
    environment.prepare()
    from bertline.models import checkpoints

    encoder, report = checkpoints.load_encoder(source)
    heads = {} if kind == "keras" else checkpoints.load_heads(source)
    partial = target.absolute().parent / f".{target.name}.{os.getpid()}.partial"
    partial.mkdir(parents=True)
    try:
        if kind == "keras":
            checkpoints.save_keras(encoder, partial)
        elif kind == "tf1":
            checkpoints.save_tf1(encoder, partial, heads=heads, without=report.fresh)
        else:
            checkpoints.save_encoder(encoder, partial, heads=heads, settings=_settings(found), without=report.fresh)
        copied = _copy_text(found, partial)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    files = ", ".join(copied) or "no vocabulary"
    said = [f"{target}: {len(report.loaded)} tensors of the encoder, {len(heads)} of heads; {files}."]
    if kind == "keras" and report.left_out:
        said.append(f"A Keras model of an encoder cannot store {_some(report.left_out)}.")
    if kind == "keras" and report.fresh:
        said.append("The checkpoint has no pooler: that of the Keras model starts from random values.")
    return said


def _settings(found: formats.Found) -> dict[str, Any]:
    if found.format not in (formats.SAFETENSORS, formats.TORCH):
        return {}
    raw = json.loads((found.folder / formats.CONFIG).read_text(encoding="utf-8"))
    return {key: raw[key] for key in _KEPT_SETTINGS if key in raw}


def _copy_text(found: formats.Found, folder: Path) -> list[str]:
    """Copies what belongs to the tokenizer, and says which files there are."""
    if found.format == formats.PRESET:
        from bertline.models.checkpoints.saving import save_text
        from bertline.models.checkpoints.settings import preset_tokenizer

        if (vocab := formats.vocabulary_in(found.folder)) is not None:
            save_text(folder, vocab=vocab, tokenizer=preset_tokenizer(found.folder))
    else:
        for name in _TOKENIZER_FILES:
            if (found.folder / name).is_file():
                shutil.copyfile(found.folder / name, folder / name)
    return [name for name in _TOKENIZER_FILES if (folder / name).is_file()]


def _tokens(found: formats.Found) -> int | None:
    path = formats.vocabulary_in(found.folder)
    return None if path is None else len(path.read_bytes().removesuffix(b"\n").split(b"\n"))


def _purposes(heads: Mapping[str, Any]) -> list[str]:
    """What the heads are for, in the order of their names."""
    found = (purpose for name in sorted(heads) for prefix, purpose in _HEADS.items() if name.startswith(prefix))
    return list(dict.fromkeys(found))


def _lines(found: Mapping[str, Any]) -> list[str]:
    size, vocabulary, parameters = (found[key] for key in ("size", "vocabulary", "parameters"))
    tokens = "no vocab.txt" if vocabulary["pieces"] is None else f"{vocabulary['pieces']:,} tokens in its vocab.txt"
    shape = ", ".join(f"{name} {value}" for name, value in size.items() if name != "vocab_size" and value)
    in_heads = f", of which {parameters['heads']:,} in heads" if parameters["heads"] else ""
    files = ", ".join(dict.fromkeys((found["settings"], found["weights"])))
    told = {
        "format": f"{formats.TITLES[found['format']]} ({files})",
        "model": found["model"],
        "size": shape,
        "activation": found["activation"],
        "parameters": f"{parameters['total']:,}{in_heads}, as {', '.join(found['numbers'])}",
        "vocabulary": f"{vocabulary['rows']:,} embeddings, {tokens}",
        "heads": ", ".join(found["heads"]) or "none",
        "left out": _some(found["left_out"]) or "nothing",
    }
    return [f"{name:<11} {value}" for name, value in told.items()]


def _some(names: Any) -> str:
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {len(names) - _LISTED} more" if len(names) > _LISTED else shown
