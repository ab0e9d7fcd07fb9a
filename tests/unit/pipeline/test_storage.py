import gzip
import json
import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import bucket
import fsspec
import pytest

from bertline.components.ingest.files import digest, find_files, raw_bytes
from bertline.components.ingest.readers.registry import read
from bertline.components.pusher import destinations
from bertline.components.pusher.executor import latest, publish, pushed_versions, roll_back, withdrawn_versions
from bertline.components.trainer.checkpoint_mirror import checkpoints_at
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core import storage
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration.staging import TOLD, staged
from bertline.pipeline.settings.loader import load
from bertline.serving.contract import METADATA_FILE, read_metadata


@pytest.fixture(scope="module", autouse=True)
def server():
    with bucket.running() as environment:
        yield environment


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(storage.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def data(**settings):
    return DataConfig(**{"text": "text", "label": "label", **settings})


def test_raw_files_in_a_bucket_are_read_as_those_of_a_folder(tmp_path):
    for number, rows in enumerate(("text,label\ngood,yes\n", 'text,label\n"bad, very",no\n')):
        for content, ending in ((rows.encode(), "csv"), (gzip.compress(rows.encode(), mtime=0), "csv.gz")):
            bucket.put(f"raw/rows-{number}.{ending}", content)
            (tmp_path / f"rows-{number}.{ending}").write_bytes(content)
    for ending in ("*.csv", "*.csv.gz", "rows-{SPAN}.csv"):
        there, here = (data(path=f"{folder}/{ending}") for folder in ("s3://bucket/raw", tmp_path))
        assert [Path(file.path).name for file in find_files(there)] == [Path(file.path).name for file in find_files(here)]
        rows = [
            [row.values for file in find_files(which) for row in read(file, which, ["text", "label"])]
            for which in (there, here)
        ]
        assert rows[0] == rows[1] and len(rows[0]) == 2
        assert digest(there) == digest(here) and raw_bytes(find_files(there)) == raw_bytes(find_files(here))
    assert len(find_files(data(path="s3://bucket/raw/rows-{SPAN}.csv", spans=1))) == 1


def test_both_sides_of_parallel_text_may_be_in_a_bucket():
    bucket.put("pairs/train.en", b"a man\n")
    bucket.put("pairs/train.de.gz", gzip.compress(b"ein Mann\n"))
    given = DataConfig(path="s3://bucket/pairs/train.en", format="parallel", text="en", label="de")
    (file,) = find_files(given)
    assert file.partner == "s3://bucket/pairs/train.de.gz"


@pytest.mark.parametrize(
    "path, told",
    [
        ("s3://bucket/raw/none-*.csv", "data.path: no file matches s3://bucket/raw/none-*.csv"),
        ("s3://nowhere/rows.csv", "data.path: there is no file s3://nowhere/rows.csv"),
        ("foo://bucket/rows.csv", "data.path: foo://bucket/rows.csv: nothing opens foo://"),
        ("abfs://bucket/rows.csv", "abfs:// needs a package that is not installed"),
    ],
)
def test_what_is_not_there_is_told(path, told):
    with pytest.raises(BertlineError) as caught:
        find_files(data(path=path))
    assert told in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_a_package_that_is_missing_is_named_as_an_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(BertlineError, match=r"gs:// needs a package .* pip install 'bertline\[gcs\]'"):
        find_files(data(path="gs://bucket/rows.csv"))


def test_a_bucket_that_nobody_answers_for_is_told_with_what_to_look_at(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(type(fsspec.filesystem("s3")), "cachable", False)  # or the server before is asked
    with pytest.raises(BertlineError, match="cannot be reached: EndpointConnectionError.*AWS_ENDPOINT_URL"):
        storage.local_copy("s3://elsewhere/checkpoint")


def test_a_copy_is_made_once_and_again_when_the_bucket_has_changed(cache):
    uri = bucket.put("checkpoint/config.json", b"{}").removesuffix("/config.json")
    bucket.put("checkpoint/deep/vocab.txt", b"[PAD]\n")
    first = Path(storage.local_copy(uri))
    assert first.name == "checkpoint" and (first / "deep" / "vocab.txt").read_bytes() == b"[PAD]\n"
    assert storage.local_copy(uri) == str(first)
    bucket.put("checkpoint/config.json", b'{"more": 1}')
    assert json.loads((Path(storage.local_copy(uri)) / "config.json").read_text()) == {"more": 1}
    assert Path(storage.local_copy(f"{uri}/deep/vocab.txt")).read_bytes() == b"[PAD]\n"
    assert storage.local_copy(str(cache)) == str(cache)
    assert not list(cache.glob(".incoming-*"))


def test_a_checkpoint_in_a_bucket_says_its_own_settings(tmp_path):
    bucket.put("minilm/config.json", b'{"do_lower_case": false, "max_position_embeddings": 64}')
    bucket.put("minilm/model.safetensors", b"weights")
    bucket.put("minilm/vocab.txt", b"[PAD]\n")
    written = tmp_path / "my.yaml"
    written.write_text(
        "name: my\ndata: {path: s3://bucket/raw/rows-0.csv, text: text, label: label}\n"
        "model: {checkpoint: s3://bucket/minilm}\npush: {destination: s3://bucket/models}\n"
        "evaluation: {thresholds: {accuracy: 0.5}}\n"
    )
    config = load(str(written))
    assert config.text.vocab == "s3://bucket/minilm/vocab.txt" and config.model.checkpoint == "s3://bucket/minilm"
    assert str(config.push_path) == "s3://bucket/models"


def make_model(folder, content):
    (folder / "variables").mkdir(parents=True)
    (folder / "variables" / "variables.index").write_text(content)
    (folder / "saved_model.pb").write_text(content)
    return folder


def test_versions_are_pushed_to_a_bucket_and_rolled_back(tmp_path):
    models = [make_model(tmp_path / name, name) for name in ("one", "two")]
    destination = "s3://bucket/models/line"
    pushed = [publish(model, destination, {"task": "classification"}) for model in models]
    assert [one.version for one in pushed] == [1, 2] and all(one.fresh for one in pushed)
    assert str(pushed[1].path) == "s3://bucket/models/line/2" and read_metadata(pushed[1].path)["version"] == 2
    again = publish(models[0], destination, {})
    assert again.version == 1 and not again.fresh
    assert [one.version for one in pushed_versions(destination)] == [1, 2]

    done = roll_back(destination)
    assert done.withdrawn == (2,) and done.served.version == 1 and latest(destination).version == 1
    assert publish(models[1], destination, {}).withdrawn
    stored = bucket.everything()
    assert stored["models/line/withdrawn-2/saved_model.pb"] == b"two"
    assert not any(name.startswith("models/line/2/") for name in stored)
    assert roll_back(destination, to=2).restored == (2,)
    assert [one.version for one in withdrawn_versions(destination)] == []
    assert publish(make_model(tmp_path / "three", "three"), destination, {}).version == 3


def test_a_number_in_a_bucket_is_given_once(tmp_path):
    """Whoever has claimed a number and died leaves it unused; what it has copied is no version."""
    destination = "s3://bucket/models/claimed"
    bucket.put("models/claimed/.bertline-claims/1", b"\n")
    bucket.put("models/claimed/1/variables/variables.index", b"half")
    assert pushed_versions(destination) == []
    assert publish(make_model(tmp_path / "model", "whole"), destination, {}).version == 2


def test_two_who_push_to_a_bucket_at_one_moment_get_a_number_each(tmp_path, monkeypatch):
    """Both have looked which numbers are taken before either takes one."""
    both_have_looked, highest = threading.Barrier(2), destinations._highest

    def looked(destination):
        found = highest(destination)
        both_have_looked.wait(30)
        return found

    monkeypatch.setattr(destinations, "_highest", looked)
    models, destination = [make_model(tmp_path / name, name) for name in ("one", "two")], "s3://bucket/models/at-once"
    with ThreadPoolExecutor(2) as pool:
        pushed = list(pool.map(lambda model: publish(model, destination, {}), models))
    assert sorted(one.version for one in pushed) == [1, 2]
    assert [(one.path / "saved_model.pb").read_text() for one in pushed] == ["one", "two"]


def test_a_server_that_looks_while_a_version_arrives_finds_the_model_last(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "werkzeug"):  # the bucket's own log
        publish(make_model(tmp_path / "model", "x"), "s3://bucket/models/order", {})
    put = re.findall(r"PUT /bucket/models/order/(\S+)", caplog.text)
    assert put[0] == ".bertline-claims/1" and put[-1] == "1/saved_model.pb"
    assert set(put[1:-1]) == {f"1/{METADATA_FILE.as_posix()}", "1/variables/variables.index"}


def test_checkpoints_go_to_the_bucket_and_come_back_from_it():
    place = "s3://bucket/checkpoints/key"
    with pytest.raises(RuntimeError), checkpoints_at(place) as (folder, saved):
        (folder / "step-1").write_text("first")
        saved()
        (folder / "step-1").unlink()
        (folder / "step-2").write_text("second")
        (folder / "history.jsonl").write_text("{}\n")
        saved()
        raise RuntimeError("killed")
    assert {name for name in bucket.everything() if name.startswith("checkpoints/")} == {
        "checkpoints/key/step-2",
        "checkpoints/key/history.jsonl",
    }
    with checkpoints_at(place) as (folder, saved):
        assert (folder / "step-2").read_text() == "second"
    assert not any(name.startswith("checkpoints/") for name in bucket.everything())


def told(tmp_path, root):
    artifact = {"name": "x", "uri": f"{root}/Ingest/examples"}
    return {
        "inputs": {"artifacts": {"examples": {"artifacts": [artifact]}}},
        "outputs": {
            "artifacts": {"model": {"artifacts": [{"name": "y", "uri": f"{root}/Trainer/model"}]}},
            "outputFile": str(tmp_path / "told" / "output.json"),
        },
    }


def test_a_step_works_on_copies_and_its_outputs_go_to_the_bucket(tmp_path, monkeypatch):
    monkeypatch.setenv(storage.COPIES, "{}")
    bucket.put("root/Ingest/examples/Split-train/data.gz", b"rows")
    arguments = ["--executor_class_path", "x", TOLD, json.dumps(told(tmp_path, "s3://bucket/root"))]
    with staged(arguments, lambda line: None) as given:
        seen = json.loads(given[3])
        (source,) = seen["inputs"]["artifacts"]["examples"]["artifacts"]
        (target,) = seen["outputs"]["artifacts"]["model"]["artifacts"]
        assert (Path(source["uri"]) / "Split-train" / "data.gz").read_bytes() == b"rows"
        assert storage.origin(target["uri"]) == "s3://bucket/root/Trainer/model"
        (Path(target["uri"]) / "Format-Serving").mkdir(parents=True)
        (Path(target["uri"]) / "Format-Serving" / "saved_model.pb").write_text("model")
        output = {"artifacts": {"model": {"artifacts": [{"uri": target["uri"], "metadata": {"path": "kept"}}]}}}
        Path(seen["outputs"]["outputFile"]).write_text(json.dumps(output))
    assert bucket.everything()["root/Trainer/model/Format-Serving/saved_model.pb"] == b"model"
    written = json.loads((tmp_path / "told" / "output.json").read_text())
    expected = {"uri": "s3://bucket/root/Trainer/model", "metadata": {"path": "kept"}}
    assert written["artifacts"]["model"]["artifacts"] == [expected]
    assert not Path(source["uri"]).exists()  # nothing is left on the machine


def test_a_step_on_this_machine_is_told_what_it_was_told(tmp_path):
    arguments = [TOLD, json.dumps(told(tmp_path, str(tmp_path)))]
    with staged(arguments, lambda line: None) as given:
        assert given == arguments
