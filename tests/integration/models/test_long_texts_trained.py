"""The Trainer on long texts: it sees their lengths in what Transform kept, chooses how they are read, and trains so."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from learned import write_examples
from wordpiece import write_vocab

from bertline.components.trainer import executor as trainer
from bertline.models.checkpoints.from_saved_model import rebuild
from bertline.models.data.example_parsing import features_of
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS
from bertline.pipeline.config import ModelConfig, PretrainingConfig, TextConfig, TrainingConfig
from bertline.pipeline.core import events
from bertline.serving.export.saved_model import ServedModel

TASK, LABELS = get_task("classification"), ("no", "yes")
TEXT = TextConfig(seq_len=8, max_windows=4)
SPEC = {
    "token_ids": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    "label_id": tf.io.FixedLenFeature([], tf.int64),
}


def example(label, words):
    """Only the last word tells the class."""
    return {"text": [" ".join([*words, "ab"[label]])], "label": [LABELS[label]]}


def rows(count, seed, longest):
    random = np.random.default_rng(seed)
    return [
        example(label, random.choice(list("cdef"), random.integers(longest - 5, longest)))
        for label in random.integers(0, 2, count)
    ]


def as_transform_writes(path, raw, vocab, text):
    encoder = TextEncoder.from_config(vocab, text, undecided=True)
    records = [record.numpy() for record in tf.data.TFRecordDataset(raw, "GZIP")]
    found = features_of(tf.constant(records), TASK, Context(encoder, LABELS))
    columns = zip(found["token_ids"].to_list(), found["label_id"].numpy().tolist(), strict=True)
    write_examples(path, [{"token_ids": ids, "label_id": [label]} for ids, label in columns])


def trained(folder, longest, text=TEXT, **training):
    """What the Trainer writes and says."""
    vocab, heard = write_vocab(folder, [*SPECIAL_TOKENS, *"abcdef"]), []
    for split, count, seed in (("train", 240, 1), ("eval", 64, 2)):
        write_examples(folder / f"raw-{split}.gz", rows(count, seed, longest))
        as_transform_writes(folder / f"{split}.gz", str(folder / f"raw-{split}.gz"), vocab, text)
    with events.listening(lambda event: heard.append(event.text) if isinstance(event, events.Note) else None):
        result = trainer.train_and_export(
            TASK,
            trainer.Given(
                name="long", text=text, pretraining=PretrainingConfig(), columns={"text": "text"}, samples=1,
                model=ModelConfig(
                    num_layers=1, hidden_dim=16, num_heads=2, intermediate_dim=32, dropout=0.0, pooling="mean"
                ),
                training=TrainingConfig(epochs=4, batch_size=16, learning_rate=5e-3, buckets=(8, 16), **training),
            ),
            trainer.Examples(
                labels=LABELS, vocab_path=vocab, feature_spec=SPEC, train=[str(folder / "train.gz")],
                evaluation=[str(folder / "eval.gz")], raw_evaluation=[str(folder / "raw-eval.gz")],
            ),
            trainer.Out(str(folder / "model"), str(folder / "run"), folder / "checkpoints"),
        )  # fmt: skip
    return result, heard


@pytest.mark.full
def test_windows_are_trained_exported_and_made_again(tmp_path):
    result, _ = trained(tmp_path, 22)
    assert result.history[-1]["eval_accuracy"] > 0.95, "the last word is read"
    asked = [row["text"][0].encode() for row in rows(6, 3, 22)]
    task, context, model = rebuild(tmp_path / "model")  # as bertline prune and explain see it
    assert context.text.long == "windows" and model.sliding == (6, 3, 4)
    served = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](text=tf.constant(asked))
    given = ServedModel(task, context, model).predict(tf.constant(asked))
    np.testing.assert_allclose(served["probabilities"], given["probabilities"], atol=1e-5)
    assert (served["label"].numpy() == [row["label"][0].encode() for row in rows(6, 3, 22)]).all()


@pytest.mark.parametrize(
    ("longest", "xla", "way", "said"),
    [
        (22, False, "windows", "have more than 16 tokens; each is read in windows of 8"),
        (22, True, "head_tail", "have more than 8 tokens; a quarter"),
        (6, False, "cut", ""),
    ],
)
def test_how_long_texts_are_read_is_chosen_told_and_kept(tmp_path, monkeypatch, longest, xla, way, said):
    described = []
    monkeypatch.setattr(
        trainer, "export_whole", lambda task, context, model, folder, metadata, **rest: described.append(metadata)
    )
    monkeypatch.setattr(trainer.training, "train", lambda *given, **settings: _untrained(*given, **settings))
    _, heard = trained(tmp_path, longest, xla=xla)
    assert described[0]["text"]["long"] == way
    told = json.loads((tmp_path / "run" / "recipe.json").read_text())
    if said:
        (line,) = (line for line in heard if line.startswith("long "))
        assert line.startswith(f"long {way}  (240 of 240 training examples {said}")
        assert told["long"] == way and f"long {told['reasons']['long']}" == line
    assert ("long" in told) == bool(said)
    parts = "gradient_accumulation_steps 4  (parts of a batch, to save memory: each has up to 16 windows)"
    assert (parts in heard) == (way == "windows")


def _untrained(build, task, settings, phases, eval_examples, *, checkpoint_folder, **rest):
    checkpoint_folder.mkdir()
    in_windows = settings.gradient_accumulation_steps > 1
    assert max(phases[0].rows.lengths.max(), eval_examples.lengths.max()) <= (17 if in_windows else TEXT.seq_len)
    return trainer.training.TrainingResult(model=build(), steps=0, resumed_at=0, kept_step=0, history=[])
