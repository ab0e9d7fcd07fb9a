"""A model as others get it: the SavedModel, and all that it brings along."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from keras.backend import is_float_dtype

from bertline.models import checkpoints
from bertline.models.adapters.lora import find_encoder
from bertline.models.seq2seq.model import Seq2Seq
from bertline.models.tasks.base.task import Context, Task
from bertline.models.tfidf.model import TfIdfModel
from bertline.pipeline.config.renamed import current_section
from bertline.serving.contract import ENCODER
from bertline.serving.export.samples import Row, make_samples, write_samples
from bertline.serving.export.saved_model import ServedModel, export


def export_whole(
    task: Task,
    context: Context,
    model: Any,
    folder: str,
    metadata: Mapping[str, Any],
    *,
    rows: Sequence[Row],
    name: str,
    vocab_path: str,
) -> None:
    """Writes the SavedModel with its metadata, its sample requests, and its encoder where others may start from that.

    Args:
      metadata: what it says of itself, with the settings of its texts under `text`; how the model is shaped is added.
      rows: what is asked of the model for the samples.
      name: of the model, for the samples.
      vocab_path: goes with the encoder.
    """
    served = ServedModel(task, context, model)
    samples = make_samples(served.predict, rows, name)
    export(served, folder, {**metadata, "model": description(context, model)})
    write_samples(samples, folder)
    if task.model.heads:
        text = current_section("text", metadata["text"])
        tokenizer = {
            "do_lower_case": text["lowercase"],
            "strip_accents": text["strip_accents"],
            "tokenizer_class": "BertTokenizer",
        }
        checkpoints.save_encoder(
            model.encoder, f"{folder}/{ENCODER}", heads=task.model.heads(model), vocab=vocab_path, tokenizer=tokenizer
        )


def description(context: Context, model: Any) -> dict[str, Any]:
    """How a model is shaped, in plain values: `models/checkpoints/from_saved_model.py` makes it again from them and its
    weights."""
    if isinstance(model, TfIdfModel):
        return {"size": {"features": model.kernel.shape[0]}, "parameters": _parameters(model)}
    sized = model if isinstance(model, Seq2Seq) else find_encoder(model)
    sections = {"pretraining": context.pretraining, "translation": context.translation}
    return {
        "size": asdict(sized.size),
        "parameters": _parameters(model),
        "pooling": context.pooling,
        "crf": context.crf,
        **{name: section.model_dump(mode="json", exclude_defaults=True) for name, section in sections.items()},
    }


def _parameters(model: Any) -> int:
    # Whole numbers are the states of its dropout, or name what it counts.
    return sum(math.prod(weight.shape) for weight in model.weights if is_float_dtype(weight.dtype))
