"""An encoder from scratch that TF-IDF beats: TF-IDF is exported, served and measured as any model, and told as such."""

from __future__ import annotations

import json
import random

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  the ops inside the exported model
import yaml
from click.testing import CliRunner
from learned import write_examples as write_raw
from test_rows_of_evaluator import write_examples
from wordpiece import write_vocab

from bertline.components.evaluator.executor import evaluate
from bertline.components.trainer.executor import Examples, Given, Out, train_and_export
from bertline.components.trainer.fallback import Candidate, better_one
from bertline.models.data.batching import padded
from bertline.models.data.example_parsing import features_of, read_records
from bertline.models.kinds import has_fallback
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.cli import main
from bertline.pipeline.config import EvaluationConfig, ModelConfig, PretrainingConfig, TextConfig, TrainingConfig
from bertline.pipeline.core import events
from bertline.serving.contract import EXAMPLES_SIGNATURE, TARGETS_SIGNATURE, TOKENIZE_SIGNATURE, read_metadata

LABELS = ("坏", "好")
SIGNS = ("无聊", "难看", "失望"), ("精彩", "好看", "感人")
TEXT = TextConfig(seq_len=24)
CHARACTERS = "这部电影的故事和演员让人觉得非常结局音乐画面导演"
TASK = get_task("classification")


def reviews(count, seed):
    """Two characters tell the class, among others without spaces."""
    chance = random.Random(seed)

    def some():
        return "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(2, 8)))

    kinds = [chance.randrange(2) for _ in range(count)]
    return [(f"{some()}{chance.choice(SIGNS[kind])}{some()}", LABELS[kind]) for kind in kinds]


def write_transformed(path, raw, context):
    """As Transform writes them."""
    found = features_of(tf.constant(read_records([str(raw)])), TASK, context)
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for ids, label in zip(found["token_ids"].to_list(), found["label_id"].numpy().tolist(), strict=True):
            feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in
                       (("token_ids", ids), ("label_id", [label]))}  # fmt: skip
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_examples(folder / "train.gz", reviews(240, 1))
    write_examples(folder / "eval.gz", [*reviews(80, 2), ("没有", None)])
    vocab = write_vocab(
        folder, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({*CHARACTERS, *"无聊难看失望精彩好感"})]
    )
    return folder, vocab


def context_of(vocab):
    return Context(TextEncoder.from_config(vocab, TEXT), LABELS)


@pytest.fixture(scope="module")
def exported(files):
    """The folder of a model whose encoder has learned nothing, and what was said."""
    folder, vocab = files
    context, heard = context_of(vocab), []
    with events.listening(lambda event: heard.append(event.text) if isinstance(event, events.Note) else None):
        train_and_export(
            TASK,
            Given(
                name="films",
                text=TEXT,
                model=ModelConfig(num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=16),
                training=TrainingConfig(epochs=1, learning_rate=1e-6, buckets=(24,)),
                pretraining=PretrainingConfig(),
                columns={"text": "text"},
                fallback_by=("accuracy",),
                samples=2,
            ),
            Examples(
                labels=LABELS,
                vocab_path=vocab,
                feature_spec={
                    "token_ids": tf.io.RaggedFeature(tf.int64),
                    "label_id": tf.io.FixedLenFeature([], tf.int64),
                },
                train=[write_transformed(folder / "train-ids.gz", folder / "train.gz", context)],
                evaluation=[write_transformed(folder / "eval-ids.gz", folder / "eval.gz", context)],
                raw_train=[str(folder / "train.gz")],
                raw_evaluation=[str(folder / "eval.gz")],
            ),
            Out(str(folder / "model"), str(folder / "history"), folder / "checkpoints"),
        )
    return folder / "model", heard


def test_the_model_that_is_better_is_exported_and_told(exported, files):
    model, heard = exported
    metadata = read_metadata(model)
    assert metadata["kind"] == "tf-idf" and metadata["task"] == "classification"
    assert metadata["model"]["size"]["features"] > 50 and metadata["model"]["parameters"] > 100
    history = [json.loads(line) for line in (files[0] / "history" / "history.jsonl").open()]
    of_encoder = next(record["eval_accuracy"] for record in history if "eval_loss" in record)
    assert f"accuracy 1.0000 on the evaluation examples, against {of_encoder:.4f} of the encoder" in metadata["kind_why"]
    assert any("fallback TF-IDF with logistic regression is exported" in line for line in heard), heard


def test_it_is_served_by_the_signatures_of_any_model(exported):
    loaded = tf.saved_model.load(str(exported[0]))
    texts = [text for text, _ in reviews(20, 3)]
    found = loaded.signatures["serving_default"](text=tf.constant(texts))
    assert [label.decode() for label in found["label"].numpy()] == [label for _, label in reviews(20, 3)]
    np.testing.assert_allclose(found["probabilities"].numpy().sum(axis=1), 1, atol=1e-6)
    assert loaded.signatures[TOKENIZE_SIGNATURE](text=tf.constant(["好看"]))["lengths"].numpy().tolist() == [4]
    record = tf.train.Example()
    record.features.feature["text"].bytes_list.value.append(texts[0].encode())
    asked = {"examples": tf.constant([record.SerializeToString()])}
    again = loaded.signatures[EXAMPLES_SIGNATURE](**asked)["probabilities"].numpy()
    np.testing.assert_allclose(again, found["probabilities"][:1].numpy(), atol=1e-6)
    assert loaded.signatures[TARGETS_SIGNATURE](**asked)["label_weight"].numpy() == [0]


def test_a_baseline_does_not_refuse_itself(exported, files, tmp_path):
    folder, _ = files
    verdict = evaluate(
        beam.Pipeline,
        TASK,
        EvaluationConfig(thresholds={"macro_f1": 0.5}, length_slices=()),
        model=str(exported[0]),
        baseline=None,
        examples=[str(folder / "eval.gz")],
        output=str(tmp_path),
        labels=LABELS,
        text_keys=("text",),
        train=[str(folder / "train.gz")],
    )
    assert verdict.blessed and verdict.kind == "tf-idf" and "of the encoder trained from scratch" in verdict.kind_why
    assert verdict.baselines["tf-idf"]["accuracy"] == verdict.metrics["accuracy"] == 1.0


def command(*arguments):
    found = CliRunner().invoke(main, [*arguments])
    return found.exit_code, " ".join(found.output.split())


def test_who_asks_it_is_told_and_what_needs_an_encoder_refuses_in_one_sentence(exported, tmp_path):
    folder = str(exported[0])
    code, output = command("predict", "真好看", "--model", folder)
    assert code == 0 and "note: the model is TF-IDF with logistic regression and has no encoder: accuracy 1" in output
    for name in ("explain", "prune"):
        code, output = command(name, *([folder, "好看"] if name == "explain" else [folder, "--keep", "0.5"]))
        assert code == 1 and "this model is TF-IDF with logistic regression and has no encoder" in output, output
    config = tmp_path / "films.yaml"
    plain = {"name": "films", "data": {"path": "x.csv", "label": "label"}, "model": {"checkpoint": folder}}
    config.write_text(yaml.safe_dump({**plain, "evaluation": {"thresholds": {"accuracy": 0.5}}}))
    code, output = command("run", str(config), "--workspace", str(tmp_path / "w"))
    assert code != 0 and "model.checkpoint: " in output and "so training cannot start from it" in output, output


class Trained:
    """Stands for what a training leaves."""

    def __init__(self, **record):
        self.kept_step, self.history = 3, [{"step": 1, "eval_loss": 0.1, "eval_accuracy": 0.0}, {"step": 3, **record}]


@pytest.mark.parametrize(
    ("by", "of_encoder", "chosen"),
    [
        (("accuracy",), {"eval_loss": 0.0, "eval_accuracy": 0.99}, True),
        (("accuracy",), {"eval_loss": 9.0, "eval_accuracy": 1.0}, False),  # as good is not better
        (("cross_entropy", "loss"), {"eval_loss": 9.0, "eval_accuracy": 1.0}, True),
        (("macro_f1",), {"eval_loss": 0.0, "eval_macro_f1": float("nan")}, True),
    ],
)
def test_the_better_one_is_chosen_by_the_metric_that_decides(files, by, of_encoder, chosen):
    folder, vocab = files
    trained = Candidate(TASK, None, list)
    split = [[str(folder / f"{name}.gz")] for name in ("train", "eval")]
    assert (better_one(trained, context_of(vocab), Trained(**of_encoder), by, *split) is not trained) == chosen


def test_few_evaluation_examples_choose_nothing(files, tmp_path):
    folder, vocab = files
    write_examples(tmp_path / "few.gz", reviews(49, 2))
    trained, result = Candidate(TASK, None, list), Trained(eval_loss=9.0, eval_accuracy=0.0)
    split = [str(folder / "train.gz")], [str(tmp_path / "few.gz")]
    assert better_one(trained, context_of(vocab), result, ("accuracy",), *split) is trained
    assert has_fallback("classification", 1) and not has_fallback("classification", 2) and not has_fallback("tagging", 1)


LIKE_THEM = {
    "multilabel": lambda text, label: {"label": [label, *(["长"] if len(text) > 12 else []), "每"]},
    "regression": lambda text, label: {"label": [2.0 + 3 * LABELS.index(label)]},
}


@pytest.mark.parametrize("task", LIKE_THEM)
def test_several_labels_and_numbers_have_a_fallback_that_answers_as_the_baseline_does(task, files, tmp_path):
    described = get_task(task)
    splits = []
    for seed, count in ((1, 240), (2, 80)):
        rows = [{"text": [text], **LIKE_THEM[task](text, label)} for text, label in reviews(count, seed)]
        splits.append([str(tmp_path / f"{seed}.gz")])
        write_raw(tmp_path / f"{seed}.gz", rows)
    context = Context(context_of(files[1]).text, (*LABELS, "每", "长", "无") if task == "multilabel" else ())
    trained, result = Candidate(described, None, list), Trained(eval_loss=9.0)
    chosen = better_one(trained, context, result, ("loss",), *splits)
    assert chosen is not trained and chosen.metadata["kind"] == "tf-idf" and "loss 0." in chosen.why
    features = next(iter(chosen.rows()))
    output = next(iter(described.evaluation.outputs.values()))
    answered = described.serving.predict(chosen.model, padded(features), context)
    found = described.evaluation.measure(answered, padded(features), context)
    right = described.evaluation.targets(features)[output.label].numpy()
    if task == "multilabel":
        given = found[output.prediction].numpy()
        assert ((given > 0.5) == right).mean() > 0.9 and given[:, 2].min() > 0.999 and given[:, 4].max() < 0.001
    else:
        assert np.corrcoef(found[output.prediction].numpy(), right)[0, 1] > 0.95
