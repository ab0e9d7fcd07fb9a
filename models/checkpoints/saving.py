"""Encoders as Hugging Face folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from bertline.models.checkpoints.names import weights_of
from bertline.models.checkpoints.settings import to_hugging_face
from bertline.models.checkpoints.source import HEADS
from bertline.models.encoders.bert.backbone import Encoder
from bertline.pipeline.core.checkpoint_formats import CONFIG, TOKENIZER, VOCAB, WEIGHTS
from bertline.pipeline.core.errors import BertlineError

_CLASSES = {"bert": "Bert", "roberta": "Roberta", "albert": "Albert"}
# Heads -> the class of transformers that has them, the most demanding first.
_ARCHITECTURES = (
    (("cls.predictions.", "cls.seq_relationship."), "ForPreTraining"),
    (("predictions.", "sop_classifier."), "ForPreTraining"),
    (("cls.predictions.",), "ForMaskedLM"),
    (("lm_head.",), "ForMaskedLM"),
    (("predictions.",), "ForMaskedLM"),
    (("cls.seq_relationship.",), "ForNextSentencePrediction"),
    (("classifier.",), "ForSequenceClassification"),
    (("qa_outputs.",), "ForQuestionAnswering"),
)


def save_encoder(
    encoder: Encoder,
    folder: str | Path,
    *,
    heads: Mapping[str, np.ndarray] | None = None,
    vocab: str | Path | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    without: Collection[str] = (),
) -> None:
    """Writes an encoder as a Hugging Face folder that transformers' `from_pretrained` and `load_encoder` read.

    Args:
      encoder: BERT, RoBERTa or ALBERT by its size.
      folder: made if it is not there.
      heads: Hugging Face's name -> weights, as `load_heads` gives them.
      vocab: the vocabulary's file, copied to `vocab.txt`.
      tokenizer: what `tokenizer_config.json` says.
      settings: further keys of `config.json`, such as the labels of a classifier; those of the size come from the encoder.
      without: weights that are not written, such as a pooler that a checkpoint did not have (`LoadReport.fresh`).
    """
    folder = Path(folder)
    heads = dict(heads or {})
    strange = sorted(name for name in heads if not name.startswith(HEADS))
    if strange:
        raise BertlineError(f"{', '.join(strange)}: not the name of a head's weight; known prefixes: {', '.join(HEADS)}.")
    size = to_hugging_face(encoder.size)
    family = size["model_type"]
    config = {"architectures": [_architecture(family, heads)]} | _labels(heads) | dict(settings or {}) | size
    if any(name.endswith(".decoder.weight") for name in heads):
        config["tie_word_embeddings"] = False  # it differs from the embeddings, or load_heads had left it out
    prefix = f"{family}." if heads else ""  # transformers' bare model has none
    arrays = {prefix + name: weight.value() for name, weight in weights_of(encoder).items() if name not in without}
    arrays |= {name: np.ascontiguousarray(array) for name, array in heads.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(arrays, folder / WEIGHTS, metadata={"format": "pt"})  # transformers refuses a file that names no format
    save_text(folder, vocab=vocab, tokenizer=tokenizer)
    _write_json(folder / CONFIG, config)
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors lets nobody but the owner read


def save_text(folder: Path, *, vocab: str | Path | None = None, tokenizer: Mapping[str, Any] | None = None) -> None:
    """Puts the vocabulary and the tokenizer's settings beside the weights."""
    if vocab is not None:
        shutil.copyfile(vocab, folder / VOCAB)
    if tokenizer is not None:
        _write_json(folder / TOKENIZER, tokenizer)


def _architecture(family: str, heads: Mapping[str, np.ndarray]) -> str:
    for needed, architecture in _ARCHITECTURES:
        if all(any(name.startswith(prefix) for name in heads) for prefix in needed):
            return _CLASSES[family] + architecture
    return _CLASSES[family] + "Model"


def _labels(heads: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The number of a classifier's classes, as transformers has it: by their names."""
    for name in ("classifier.weight", "classifier.out_proj.weight"):
        if name in heads:
            names = {str(number): f"LABEL_{number}" for number in range(len(heads[name]))}
            return {"id2label": names, "label2id": {label: int(number) for number, label in names.items()}}
    return {}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
