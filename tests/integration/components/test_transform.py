"""Transform on real Beam: what it stores and what its graph gives is what the TextEncoder gives."""

import dataclasses
import os
import string

import pytest
import tensorflow as tf
import tensorflow_transform as tft
from tfx.types import artifact_utils, channel_utils, standard_artifacts
from tfx.utils import json_utils

from bertline.components.artifacts import Vocabulary
from bertline.components.transform import executor as transform
from bertline.components.transform.component import Executor, Transform
from bertline.components.transform.executor import first_values, target_vocabulary_of, vocabulary_of
from bertline.models.tasks.base.task import get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS, read_vocabulary
from bertline.pipeline.config import TextConfig

TEXT = TextConfig(seq_len=12)
VOCAB = [*SPECIAL_TOKENS, *"中!。", *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
ROWS = [
    ("A café!", "fresh"),
    ("中文。 full\u3000width\u00a0here", "rotten"),
    ("", "fresh"),
    (None, "rotten"),
    ("İstanbul \x00 no label", None),
    ("long " * 40, "stale"),  # a class that the schema does not know
]
SCHEMA = """
feature { name: "text" type: BYTES }
feature { name: "label" type: BYTES string_domain { value: "fresh" value: "rotten" } }
feature { name: "words" type: INT }
feature { name: "source" type: BYTES }
"""


def example(text: str | None, label: str | None) -> bytes:
    values = {"text": text, "label": label, "source": "web"}
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        for name, value in values.items()
        if value is not None
    }
    features["words"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def artifact(artifact_type, folder):
    made = artifact_type()
    made.uri = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture(scope="module")
def transformed(tmp_path_factory):
    """(transform graph, transformed examples, vocabulary) of ROWS as `train` and the first of them as `eval`."""
    return run(tmp_path_factory.mktemp("transform"), TEXT, {"vocab.txt": VOCAB})


def run(root, text: TextConfig, vocabularies: dict[str, list[str]]) -> tuple[str, str, str]:
    examples = artifact(standard_artifacts.Examples, root / "examples")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    for split, rows in (("train", ROWS), ("eval", ROWS[:1])):
        path = root / "examples" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"
        path.parent.mkdir()
        with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for row in rows:
                writer.write(example(*row))
    schema = artifact(standard_artifacts.Schema, root / "schema")
    (root / "schema" / "schema.pbtxt").write_text(SCHEMA)
    vocabulary = artifact(Vocabulary, root / "vocabulary")
    for name, tokens in vocabularies.items():
        (root / "vocabulary" / name).write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    graph = artifact(standard_artifacts.TransformGraph, root / "graph")
    output = artifact(standard_artifacts.Examples, root / "output")
    component = Transform(
        *(channel_utils.as_channel([made]) for made in (examples, schema, vocabulary)),
        task="classification",
        text=text.model_dump_json(),
        code="test",
    )
    Executor().Do(
        {"examples": [examples], "schema": [schema], "vocabulary": [vocabulary]},
        {"transform_graph": [graph], "transformed_examples": [output]},
        component.exec_properties,
    )
    # What follows must work without the artifact that the graph was made from.
    os.rename(root / "vocabulary", root / "elsewhere")
    return graph.uri, output.uri, str(root / "elsewhere" / "vocab.txt")


def stored(graph: str, output: str, split: str) -> dict:
    spec = tft.TFTransformOutput(graph).transformed_feature_spec()
    files = tf.io.gfile.glob(f"{output}/Split-{split}/*")
    records = list(tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator())
    return tf.io.parse_example(records, spec)


def expected_ids(vocab_path: str) -> list[list[int]]:
    encoder = TextEncoder.from_config(vocab_path, TEXT, undecided=True)
    return encoder(tf.constant([text or "" for text, _ in ROWS])).to_list()


def test_stored_ids_are_ragged_and_equal_the_encoders(transformed):
    graph, output, vocab_path = transformed
    train = stored(graph, output, "train")
    assert isinstance(train["token_ids"], tf.RaggedTensor)
    assert train["token_ids"].to_list() == expected_ids(vocab_path)
    assert stored(graph, output, "eval")["token_ids"].to_list() == expected_ids(vocab_path)[:1]


def test_labels_follow_the_schema_and_a_missing_or_unknown_one_is_minus_one(transformed):
    graph, output, _ = transformed
    assert stored(graph, output, "train")["label_id"].numpy().tolist() == [0, 1, 0, 1, -1, -1]


def test_the_graph_carries_the_vocabulary_and_no_path_of_its_artifact(transformed):
    graph, _, vocab_path = transformed
    found = vocabulary_of(graph)
    assert found.startswith(graph) and found.endswith("/assets/vocab.txt")
    assert read_vocabulary(found) == VOCAB
    saved_model = os.path.join(graph, "transform_fn", "saved_model.pb")
    with open(saved_model, "rb") as file:
        assert os.path.dirname(os.path.dirname(vocab_path)).encode() not in file.read()


def test_the_graph_gives_the_same_ids_again(transformed):
    graph, _, vocab_path = transformed
    output = tft.TFTransformOutput(graph)
    raw = tf.io.parse_example([example(text, label) for text, label in ROWS], output.raw_feature_spec())
    assert output.transform_features_layer()(raw)["token_ids"].to_list() == expected_ids(vocab_path)


def test_the_component_is_the_node_transform_and_keeps_config_and_code_in_the_cache_key():
    inputs = (standard_artifacts.Examples, standard_artifacts.Schema, Vocabulary)
    channels = [channel_utils.as_channel([artifact_type()]) for artifact_type in inputs]
    component = Transform(*channels, task="classification", text=TEXT.model_dump_json(), code="abc")
    assert component.id == "Transform"
    assert set(component.outputs) == {"transform_graph", "transformed_examples"}
    config = json_utils.loads(component.exec_properties["custom_config"])
    expected = {"task": "classification", "text": TEXT.model_dump_json(), "text_keys": ["text"], "code": "abc"}
    assert config == expected


def test_first_values_are_found_in_every_kind_of_tensor():
    ragged = tf.ragged.constant([["a", "b"], [], ["c"]])
    expected = [b"a", b"", b"c"]
    assert first_values(ragged).numpy().tolist() == expected
    assert first_values(ragged.to_sparse()).numpy().tolist() == expected
    assert first_values(tf.sparse.from_dense(tf.zeros([2, 0], tf.string))).numpy().tolist() == [b"", b""]
    assert first_values(tf.constant([["a"], ["b"]])).numpy().tolist() == [b"a", b"b"]
    assert first_values(tf.constant(["a", "b"])).numpy().tolist() == [b"a", b"b"]


@pytest.mark.parametrize("separate", [pytest.param(False, marks=pytest.mark.full), True])
def test_a_task_that_writes_texts_has_an_encoder_for_them(tmp_path, monkeypatch, separate):
    def features(columns, context):
        assert (context.target is context.text) != separate
        return {"token_ids": context.text(columns["text"]), "target_ids": context.target(columns["label"])}

    task = get_task("classification")
    preprocessing = dataclasses.replace(task.preprocessing, label="text", features=features)
    task = dataclasses.replace(task, preprocessing=preprocessing)
    monkeypatch.setattr(transform, "get_task", lambda name: task)
    text = TEXT.model_copy(update={"separate_vocabularies": separate})
    second = [*SPECIAL_TOKENS, "rotten", "fresh"]
    graph, output, path = run(tmp_path, text, {"vocab.txt": VOCAB, **({"target_vocab.txt": second} if separate else {})})
    assert read_vocabulary(vocabulary_of(graph)) == VOCAB
    assert read_vocabulary(target_vocabulary_of(graph)) == (second if separate else VOCAB)
    assert (target_vocabulary_of(graph) == vocabulary_of(graph)) != separate
    used = os.path.join(os.path.dirname(path), "target_vocab.txt") if separate else path
    writes = TextEncoder.from_config(used, text, undecided=True)
    expected = writes(tf.constant([label or "" for _, label in ROWS])).to_list()
    train = stored(graph, output, "train")
    assert train["target_ids"].to_list() == expected
    assert train["token_ids"].to_list() == expected_ids(path)
