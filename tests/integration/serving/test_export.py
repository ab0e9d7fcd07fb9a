"""The SavedModel answers as the trained model does, in a process that has nothing of ours."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.serving.contract import read_metadata
from bertline.serving.export.samples import make_samples
from bertline.serving.export.saved_model import ServedModel, export

LABELS = ("bad", "good")
TEXTS = ["a good café", "", "好 film 🎬", "a a a a bad one", "\u3000ｗｉｄｅ e\u0301"]
VOCAB_SIZE = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "cafe", "好", "one", "##s", "e"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(VOCAB_SIZE) + "\n", encoding="utf-8")
    task, text_encoder = get_task("classification"), TextEncoder(str(vocab), seq_len=16)
    size = EncoderSize(vocab_size=len(VOCAB_SIZE), layers=2, hidden=8, heads=2, intermediate=16)
    context = Context(text_encoder, tuple(LABELS))
    model = task.model.build(Encoder(size, seed=1), context, 0.1, 1)
    model.head.kernel.assign(model.head.kernel * 50)  # so that answers differ visibly
    export(ServedModel(task, context, model), str(folder / "model"), {"task": task.name})
    vocab.unlink()  # the model must carry its own
    tokens = text_encoder(tf.constant(TEXTS))
    batch = {"token_ids": tokens.to_tensor(), "mask": tf.sequence_mask(tokens.row_lengths())}
    return folder / "model", tf.nn.softmax(model(batch, training=False)).numpy(), tokens.to_list()


def test_a_reloaded_model_answers_as_the_trained_one_in_a_process_without_our_code(exported, tmp_path):
    folder, probabilities, tokens = exported
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    script = f"""
import json, sys
import tensorflow as tf, tensorflow_text
signatures = tf.saved_model.load({str(moved)!r}).signatures
texts = tf.constant({TEXTS!r})
answer = signatures["serving_default"](text=texts)
asked = signatures["tokenize"](text=texts)
ours = [name for name in sys.modules if name.split(".")[0] in ("bertline", "keras")]
print(json.dumps([answer["probabilities"].numpy().tolist(), [label.decode() for label in answer["label"].numpy()],
                  asked["token_ids"].numpy().tolist(), asked["lengths"].numpy().tolist(), ours]))
"""
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    finally:
        moved.rename(folder)
    assert done.returncode == 0, done.stderr[-2000:]
    given, labels, ids, lengths, ours = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(given, probabilities, atol=1e-6)
    assert labels == [LABELS[i] for i in probabilities.argmax(axis=1)]
    assert [row[:length] for row, length in zip(ids, lengths, strict=True)] == tokens
    assert ours == []


def test_a_server_that_restores_variables_by_name_gives_the_same_answers(exported):
    """As TensorFlow Serving does: a session on the graph, and not TensorFlow 2's own loader."""
    folder, probabilities, _ = exported
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(folder))
        signature = meta.signature_def["serving_default"]
        given = session.run(signature.outputs["probabilities"].name, {signature.inputs["text"].name: TEXTS})
    np.testing.assert_allclose(given, probabilities, atol=1e-6)


def test_no_weight_is_stored_twice(exported):
    folder, _, _ = exported
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    shapes = [tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()]
    assert shapes.count((len(VOCAB_SIZE), 8)) == 1, "the table of the pieces' vectors"


def test_examples_are_answered_as_their_texts(exported):
    folder, probabilities, _ = exported
    signatures = tf.saved_model.load(str(folder)).signatures

    def example(**values):
        feature = {
            name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()])) for name, value in values.items()
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    labels = ["good", "bad", "unheard of", "good", "bad"]
    records = [example(text=text, label=label) for text, label in zip(TEXTS, labels, strict=True)]
    given = signatures["serving_examples"](examples=tf.constant(records))["probabilities"].numpy()
    np.testing.assert_allclose(given, probabilities, atol=1e-6)
    targets = signatures["evaluation_targets"](examples=tf.constant([*records, example(text="no label")]))
    assert targets["label_id"].numpy().tolist() == [1, 0, 0, 1, 0, 0]
    assert targets["label_weight"].numpy().tolist() == [1, 1, 0, 1, 1, 0]


def test_the_vocabulary_is_an_asset_and_the_metadata_says_what_the_model_is(exported):
    folder, _, _ = exported
    assert (folder / "assets" / "vocab.txt").read_text(encoding="utf-8").split() == VOCAB_SIZE
    assert read_metadata(folder) == {"task": "classification"}
    assert read_metadata(folder.parent) == {}


def test_samples_and_signatures_trace_what_they_share_once(tmp_path, monkeypatch):
    task = get_task("classification")
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB_SIZE) + "\n", encoding="utf-8")
    text_encoder = TextEncoder(str(tmp_path / "vocab.txt"), seq_len=16)
    context = Context(text_encoder, LABELS)
    size = EncoderSize(vocab_size=len(VOCAB_SIZE), layers=1, hidden=8, heads=2, intermediate=16)
    model = task.model.build(Encoder(size, seed=1), context, 0.1, 1)
    passes, read = [], []
    call, tokenize = model.call, TextEncoder.tokenize
    monkeypatch.setattr(model, "call", lambda batch, training=False: passes.append(1) or call(batch, training=training))
    monkeypatch.setattr(TextEncoder, "tokenize", lambda self, texts: read.append(1) or tokenize(self, texts))
    served = ServedModel(task, context, model)
    samples = make_samples(served.predict, [{"text": b"a good film"}, {"text": b"bad"}], "m")
    export(served, str(tmp_path / "model"), {"task": task.name})
    assert len(passes) == 3  # texts, Examples, and vectors in the place of texts
    assert len(read) == 2  # texts, Examples
    answer = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](text=tf.constant([b"bad"]))
    wanted = tf.make_ndarray(samples[1].predict_log.response.outputs["probabilities"])
    np.testing.assert_allclose(answer["probabilities"], wanted, atol=1e-6)
