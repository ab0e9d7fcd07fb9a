"""Small data goes without Beam, and nobody sees it by the result."""

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
import tensorflow_transform as tft
from google.protobuf.json_format import MessageToDict
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import artifact_utils, channel_utils, standard_artifacts

from bertline.components.artifacts import Vocabulary
from bertline.components.sentence_pairs.executor import make_schema
from bertline.components.small_data import SMALL_BYTES, is_small
from bertline.components.statistics import component as statistics
from bertline.components.transform import component as transform
from bertline.components.transform.executor import target_vocabulary_of, vocabulary_of
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS, read_vocabulary
from bertline.pipeline.config import TextConfig
from bertline.pipeline.orchestration.beam import beam_args
from bertline.pipeline.settings.loader import load

BEAM = ["--direct_running_mode=in_memory", "--direct_num_workers=1", "--sdk_container_image=none"]
SMALL = [*BEAM, f"--small_data_bytes={SMALL_BYTES}"]
WAYS = {"beam": BEAM, "small": SMALL}
LINK, RATES = "stats_dashboard_link", "sample_rate_by_split"
LETTERS = "abcdefghij"
VOCAB = [*SPECIAL_TOKENS, *"中!é", *LETTERS, *(f"##{letter}" for letter in LETTERS)]


def artifact(artifact_type, folder):
    made = artifact_type()
    made.uri = str(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return made


def example(values: dict) -> bytes:
    made = tf.train.Example()
    for name, given in values.items():
        for value in given if isinstance(given, list) else [given]:
            feature = made.features.feature[name]
            if isinstance(value, int):
                feature.int64_list.value.append(value)
            elif isinstance(value, float):
                feature.float_list.value.append(value)
            else:
                feature.bytes_list.value.append(value.encode())
    return made.SerializeToString()


def write(folder, splits: dict[str, list[bytes]], shards: int = 1):
    examples = artifact(standard_artifacts.Examples, folder)
    examples.split_names = artifact_utils.encode_split_names(list(splits))
    for split, records in splits.items():
        (folder / f"Split-{split}").mkdir()
        for shard in range(shards):
            path = folder / f"Split-{split}" / f"data_tfrecord-{shard:05d}-of-{shards:05d}.gz"
            with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
                for record in records[shard::shards]:
                    writer.write(record)
    return examples


def no_beam(*_):
    raise AssertionError("small data went through Beam")


def do(executor, way, inputs, outputs, properties, monkeypatch):
    with monkeypatch.context() as patched:
        if way == "small":
            patched.setattr(BaseBeamExecutor, "_make_beam_pipeline", no_beam)
        context = BaseBeamExecutor.Context(beam_pipeline_args=list(WAYS[way]))
        executor(context).Do(inputs, outputs, properties)


# What is small


def test_data_is_small_up_to_the_limit_that_the_step_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"67890")
    (tmp_path / "other").write_bytes(b"1234567890")
    patterns = [str(tmp_path / "[ab]"), str(tmp_path / "missing*")]
    assert is_small([*BEAM, "--small_data_bytes=10"], patterns)
    assert not is_small([*BEAM, "--small_data_bytes=9"], patterns)
    assert not is_small(BEAM, patterns) and not is_small([], patterns)


def small_by(*settings, raw_bytes=1000) -> bool:
    return is_small(beam_args(load("reviews", [f"beam.{setting}" for setting in settings]), raw_bytes), [])


def test_only_the_one_worker_of_this_process_goes_without_beam():
    assert small_by()
    assert not small_by(raw_bytes=None), "compiled for Kubeflow: nobody knows the data yet"
    assert not small_by("workers=2") and not small_by("args=['--direct_num_workers=2']")
    assert not small_by("args=['--runner=FlinkRunner']") and not small_by("runner=flink", "endpoint=jobs:8081")
    assert not small_by("args=['--small_data_bytes=0']"), "the user's word wins"


def test_the_decision_is_in_the_cache_key_and_the_same_for_all_small_data():
    config = load("reviews")
    assert beam_args(config, 10) == beam_args(config, 10_000_000)


# StatisticsGen


def rows_of_all_kinds(count: int, seed: int) -> list[bytes]:
    """Texts that are missing, empty, long or not ASCII; numbers, whole, broken and missing; lists, empty ones too."""
    dice = random.Random(seed)
    rows = []
    for number in range(count):
        words = [dice.choice(["été", "中文", "a", "movie", "Ω"]) for _ in range(dice.randrange(12))]
        row = {"text": " ".join(words), "label": dice.choice(["good", "bad"]), "words": len(words)}
        row["score"], row["tags"] = dice.gauss(0, 3), words
        row["starts"] = [dice.randrange(100) for _ in range(dice.randrange(4))]
        row["always"] = "same"
        for name in ("text", "label", "words", "score"):
            if dice.random() < 0.1:
                del row[name]
        if number == 3:
            row["once"] = 7
        rows.append(example(row))
    return rows


@pytest.fixture(scope="module")
def summed_up(tmp_path_factory):
    """way -> (statistics artifact, split -> feature -> statistics)."""
    folder = tmp_path_factory.mktemp("statistics")
    splits = {"train": rows_of_all_kinds(700, 1), "eval": rows_of_all_kinds(40, 2)}
    examples = write(folder / "examples", splits, shards=2)
    examples.span = 4
    found = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        for way in WAYS:
            made = artifact(standard_artifacts.ExampleStatistics, folder / way)
            do(statistics.Executor, way, {"examples": [examples]}, {"statistics": [made]}, {"code": ""}, monkeypatch)
            protos = {
                split: tfdv.load_stats_binary(os.path.join(made.uri, f"Split-{split}", "FeatureStats.pb"))
                for split in splits
            }
            found[way] = made, protos
    return found


@pytest.mark.parametrize("split", ["train", "eval"])
def test_statistics_of_small_data_are_those_of_beam_feature_by_feature(summed_up, split):
    ((_, by_beam), (_, small)) = (summed_up[way] for way in ("beam", "small"))
    ((beam,), (other,)) = (protos[split].datasets for protos in (by_beam, small))
    assert (beam.name, beam.num_examples) == (other.name, other.num_examples)
    by_name = [{feature.path.step[0]: feature for feature in found.features} for found in (beam, other)]
    assert set(by_name[0]) == set(by_name[1]) >= {"text", "label", "words", "score", "tags", "starts", "always"}
    for name, feature in by_name[0].items():
        expected = {
            path: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
            for path, value in numbers_and_words(feature).items()
        }
        assert numbers_and_words(by_name[1][name]) == expected, name


def numbers_and_words(message) -> dict[str, Any]:
    """Every value of a proto by its path. Sums of floats follow the order in which they are added, in their last digit."""

    def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict | list):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                yield from walk(inner, f"{path}/{key}")
        else:
            yield path, value

    return dict(walk(MessageToDict(message), ""))


def test_the_artifact_of_small_data_says_what_that_of_beam_says(summed_up):
    beam, small = (summed_up[way][0] for way in ("beam", "small"))
    assert small.split_names == beam.split_names and small.span == beam.span == 4
    assert small.get_string_custom_property(LINK) == beam.get_string_custom_property(LINK)
    rates = [json.loads(made.get_json_value_custom_property(RATES)) for made in (beam, small)]
    assert rates[0] == rates[1] == {"train": 1.0, "eval": 1.0}


def test_statistics_of_other_options_are_left_to_tfx(tmp_path):
    examples = write(tmp_path / "examples", {"train": rows_of_all_kinds(9, 1), "eval": rows_of_all_kinds(9, 2)})
    made = artifact(standard_artifacts.ExampleStatistics, tmp_path / "made")
    context = BaseBeamExecutor.Context(beam_pipeline_args=list(SMALL))
    asked = {"code": "", "exclude_splits": '["eval"]'}
    statistics.Executor(context).Do({"examples": [examples]}, {"statistics": [made]}, asked)
    assert made.split_names == '["train"]' and not (tmp_path / "made" / "Split-eval").exists()


# Transform

TEXTS = ["a café!", "中 abc", "", None, "\x00 jig", "bad " * 40]


def classification(number: int) -> dict:
    return {"text": TEXTS[number % 6], "label": ["good", "bad", None, "unknown"][number % 4], "words": number}


def tagging(number: int) -> dict:
    words = ["ab", "中é", "bad!"][: number % 4]
    return {"words": words, "text": " ".join(words), "label": [["O", "B-x", "I-x"][len(word) % 3] for word in words]}


def translation(number: int) -> dict:
    return {"text": TEXTS[number % 6], "label": TEXTS[(number + 1) % 6], "words": number}


def pretraining(number: int) -> dict:
    ids = [1, *range(5, 7 + number % 5), 2, 8, 2]
    numbers = {"token_ids": ids, "segment_ids": [0] * len(ids), "masked_positions": [1], "masked_ids": [5]}
    return {**numbers, "phase": 0, "words": 3, "label": "next"}


CLASSES = 'string_domain { value: "good" value: "bad" }'
TAGS = 'string_domain { value: "O" value: "B-x" value: "I-x" }'
COMMON = 'feature { name: "text" type: BYTES } feature { name: "words" type: INT }'
CASES = {
    "classification": (
        classification,
        f'{COMMON} feature {{ name: "label" type: BYTES {CLASSES} }}',
        TextConfig(seq_len=12),
    ),
    "translation": (
        translation,
        f'{COMMON} feature {{ name: "label" type: BYTES }}',
        TextConfig(seq_len=12, separate_vocabularies=True),
    ),
    "tagging": (
        tagging,
        f'feature {{ name: "text" type: BYTES }} feature {{ name: "label" type: BYTES {TAGS} }}',
        TextConfig(seq_len=12),
    ),
    "pretraining": (pretraining, str(make_schema()), TextConfig(seq_len=12)),
}


def given(row: dict) -> bytes:
    return example({name: value for name, value in row.items() if value is not None})


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.full] * (name in ("pretraining", "translation"))) for name in sorted(CASES)
    ],
)
def transformed(request, tmp_path_factory):
    """(raw rows, way -> (transform graph, transformed examples)) of a task."""
    row, schema_text, text = CASES[request.param]
    root = tmp_path_factory.mktemp(request.param)
    splits = {"train": [given(row(number)) for number in range(60)], "eval": [given(row(number)) for number in range(5)]}
    examples = write(root / "examples", splits)
    schema = artifact(standard_artifacts.Schema, root / "schema")
    (root / "schema" / "schema.pbtxt").write_text(schema_text)
    vocabulary = artifact(Vocabulary, root / "vocabulary")
    for name, tokens in {"vocab.txt": VOCAB, "target_vocab.txt": [*SPECIAL_TOKENS, *reversed(VOCAB[5:])]}.items():
        (root / "vocabulary" / name).write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    inputs = {"examples": [examples], "schema": [schema], "vocabulary": [vocabulary]}
    channels = (channel_utils.as_channel(made) for made in inputs.values())
    properties = transform.Transform(*channels, task=request.param, text=text.model_dump_json(), code="").exec_properties
    found = {}
    with pytest.MonkeyPatch.context() as monkeypatch:
        for way in WAYS:
            graph = artifact(standard_artifacts.TransformGraph, root / way / "graph")
            output = artifact(standard_artifacts.Examples, root / way / "examples")
            outputs = {"transform_graph": [graph], "transformed_examples": [output]}
            do(transform.Executor, way, inputs, outputs, properties, monkeypatch)
            found[way] = graph, output
    os.rename(root / "vocabulary", root / "elsewhere")  # the graph must not need it
    return splits, found


def test_transformed_examples_are_those_of_beam_record_by_record(transformed):
    """In the order of the raw ones; by Beam too, as long as one worker reads one file."""
    splits, found = transformed
    for split, raw in splits.items():
        (beam_names, beam), (names, small) = (records(found[way][1].uri, split) for way in ("beam", "small"))
        assert names == beam_names == ["transformed_examples-00000-of-00001.gz"]
        assert len(small) == len(raw) and small == beam
    assert {*artifact_utils.decode_split_names(found["small"][1].split_names)} == {"train", "eval"}


def records(uri: str, split: str) -> tuple[list[str], list[tf.train.Example]]:
    names = sorted(os.listdir(f"{uri}/Split-{split}"))
    files = [f"{uri}/Split-{split}/{name}" for name in names]
    read = tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()
    return names, [tf.train.Example.FromString(record) for record in read]


def files_in(uri: str) -> set[str]:
    return {os.path.relpath(os.path.join(folder, name), uri) for folder, _, names in os.walk(uri) for name in names}


def test_the_graph_is_described_as_that_of_beam_and_has_its_vocabularies(transformed):
    _, found = transformed
    (beam, small) = (found[way][0].uri for way in ("beam", "small"))
    assert files_in(small) == files_in(beam)
    outputs = [tft.TFTransformOutput(uri) for uri in (beam, small)]
    for name in ("transformed_feature_spec", "raw_feature_spec"):
        first, second = (getattr(output, name)() for output in outputs)
        assert first == second and first
    for name in ("transformed_metadata", "raw_metadata"):
        first, second = (getattr(output, name).schema for output in outputs)
        assert first == second
    for path_of in (vocabulary_of, target_vocabulary_of):
        paths = [path_of(uri) for uri in (beam, small)]
        assert read_vocabulary(paths[0]) == read_vocabulary(paths[1])
        assert os.path.relpath(paths[0], beam) == os.path.relpath(paths[1], small)


def test_the_graph_answers_as_that_of_beam(transformed):
    splits, found = transformed
    answers = []
    for way in WAYS:
        output = tft.TFTransformOutput(found[way][0].uri)
        raw = tf.io.parse_example(splits["train"], output.raw_feature_spec())
        answers.append(output.transform_features_layer()(raw))
    assert set(answers[0]) == set(answers[1])
    for name, value in answers[0].items():
        assert type(value) is type(answers[1][name]) and value.dtype == answers[1][name].dtype
        as_list = [x.to_list() if isinstance(x, tf.RaggedTensor) else x.numpy().tolist() for x in (value, answers[1][name])]
        assert as_list[0] == as_list[1], name
