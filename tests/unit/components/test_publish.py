"""What a server that watches the destination may rely on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bertline.components.pusher import executor as publishing
from bertline.components.pusher.executor import latest, model_digest, publish, pushed_versions
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import METADATA_FILE

ROOT = Path(publishing.__file__).parents[3]


def make_model(folder: Path, weights: bytes = b"weights") -> Path:
    for name, content in {
        "saved_model.pb": b"graph",
        "variables/variables.data-00000-of-00001": weights,
        "assets/vocab.txt": b"[PAD]\n[UNK]\n",
        "assets.extra/tf_serving_warmup_requests": b"warm",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def push_in_new_process(destination: Path, *models: Path) -> subprocess.Popen:
    code = (
        "import sys; from bertline.components.pusher.executor import publish\nfor m in sys.argv[2:]: "
        "publish(m, sys.argv[1], {})"
    )
    return subprocess.Popen([sys.executable, "-c", code, str(destination), *map(str, models)], cwd=ROOT)


def names(destination: Path) -> set[str]:
    return {path.name for path in destination.iterdir()} - {".bertline-lock", ".bertline-last"}


def test_a_version_is_the_model_and_its_card(tmp_path):
    model = make_model(tmp_path / "model")
    pushed = publish(model, tmp_path / "served", {"pipeline": "reviews"})
    assert (pushed.version, pushed.path, pushed.fresh) == (1, tmp_path / "served" / "1", True)
    metadata = json.loads((pushed.path / METADATA_FILE).read_text())
    assert metadata == {"pipeline": "reviews", "digest": model_digest(model), "version": 1} == pushed.metadata
    for path in (path for path in model.rglob("*") if path.is_file()):
        assert (pushed.path / path.relative_to(model)).read_bytes() == path.read_bytes()


def test_a_model_that_is_there_keeps_its_number(tmp_path):
    served = tmp_path / "served"
    first = publish(make_model(tmp_path / "a", b"a"), served, {"run": 1})
    publish(make_model(tmp_path / "b", b"b"), served, {})
    again = publish(tmp_path / "a", served, {"run": 2})
    assert (again.version, again.path, again.fresh) == (first.version, first.path, False)
    assert names(served) == {"1", "2"}


def test_a_version_pushed_onwards_is_the_same_model(tmp_path):
    # The metadata is ours, not the model's: copying a version to the next stage finds it there.
    staged = publish(make_model(tmp_path / "model"), tmp_path / "staging", {})
    assert publish(tmp_path / "model", tmp_path / "live", {}).fresh
    assert not publish(staged.path, tmp_path / "live", {}).fresh


@pytest.mark.parametrize("metadata", ["", "[1]", '{"digest": 7}'])
def test_metadata_that_says_nothing_is_no_proof_of_a_push(tmp_path, metadata):
    served = tmp_path / "served"
    first = publish(make_model(tmp_path / "model"), served, {})
    (first.path / METADATA_FILE).write_text(metadata)
    assert publish(tmp_path / "model", served, {}).version == 2


def test_a_damaged_version_is_no_proof_of_a_push(tmp_path):
    served = tmp_path / "served"
    first = publish(make_model(tmp_path / "model"), served, {})
    (first.path / "saved_model.pb").write_bytes(b"")
    assert publish(tmp_path / "model", served, {}).version == 2


def test_numbers_rise_above_whatever_is_there(tmp_path):
    served = tmp_path / "served"
    (served / "00000123").mkdir(parents=True)
    (served / "not-a-number").mkdir()
    (served / "124").write_text("a file")
    assert publish(make_model(tmp_path / "model"), served, {}).version == 125
    assert [pushed.version for pushed in pushed_versions(served)] == [123, 125]
    assert pushed_versions(served)[0].metadata == {}
    assert latest(served).version == 125


def test_a_missing_destination_has_no_versions(tmp_path):
    assert pushed_versions(tmp_path / "nowhere") == []
    assert latest(tmp_path / "nowhere") is None


def test_digest_tells_names_and_contents_apart(tmp_path):
    def digest(**files: bytes) -> str:
        folder = tmp_path / "-".join(files) / str(sum(map(len, files.values())))
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return model_digest(folder)

    digests = {digest(a=b"bc"), digest(ab=b"c"), digest(a=b"b", c=b""), digest(a=b"", bc=b""), digest(a=b"bcd")}
    assert len(digests) == 5


def test_a_copy_that_fails_midway_leaves_nothing(tmp_path):
    model = make_model(tmp_path / "model")
    (model / "assets" / "vanished").symlink_to(tmp_path / "gone")
    served = tmp_path / "served"
    with pytest.raises(BertlineError, match="was not pushed"):
        publish(model, served, {})
    assert names(served) == set()


def test_a_killed_push_is_never_a_version_and_is_swept_up(tmp_path):
    model, served = make_model(tmp_path / "model"), tmp_path / "served"
    os.truncate(model / "variables" / "variables.data-00000-of-00001", 512 << 20)
    pusher = push_in_new_process(served, model)
    while pusher.poll() is None and not list(served.glob(".incoming-*")):
        time.sleep(0.001)
    pusher.send_signal(signal.SIGKILL)
    assert pusher.wait() == -signal.SIGKILL
    (half,) = names(served)
    assert half.startswith(".incoming-")
    assert pushed_versions(served) == []

    assert publish(make_model(tmp_path / "next"), served, {}).version == 1
    assert names(served) == {"1"}


def test_a_watcher_only_ever_sees_whole_versions(tmp_path):
    served = tmp_path / "served"
    models = [make_model(tmp_path / f"model-{i}", bytes([i]) * (4 << 20)) for i in range(5)]
    sizes = {path.relative_to(models[0]): path.stat().st_size for path in models[0].rglob("*") if path.is_file()}
    pusher = push_in_new_process(served, *models)
    glances = 0
    while pusher.poll() is None:
        for pushed in pushed_versions(served):
            glances += 1
            assert pushed.metadata["version"] == pushed.version
            assert all((pushed.path / name).stat().st_size == size for name, size in sizes.items())
    assert pusher.returncode == 0
    assert glances > 0 and latest(served).version == 5


def test_pushers_at_the_same_time_never_collide(tmp_path):
    served = tmp_path / "served"
    models = [make_model(tmp_path / f"model-{i}", bytes([i]) * 1000) for i in range(12)]
    shared = make_model(tmp_path / "shared")
    pushers = [push_in_new_process(served, shared, *models[start::3]) for start in range(3)]
    assert [pusher.wait() for pusher in pushers] == [0, 0, 0]
    pushed = pushed_versions(served)
    assert [version.version for version in pushed] == list(range(1, 14))
    assert all(version.metadata["version"] == version.version for version in pushed)
    assert sorted(model_digest(version.path) for version in pushed) == sorted(map(model_digest, [shared, *models]))


def test_a_destination_that_cannot_be_written_is_explained(tmp_path):
    model = make_model(tmp_path / "model")
    (tmp_path / "file").write_text("")
    with pytest.raises(BertlineError, match="is a file; set push.destination to a folder"):
        publish(model, tmp_path / "file", {})
    with pytest.raises(BertlineError, match="was not pushed.*push.destination"):
        publish(model, tmp_path / "file" / "below", {})


def test_only_a_saved_model_is_pushed(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BertlineError, match="no SavedModel"):
        publish(tmp_path / "empty", tmp_path / "served", {})
    assert not (tmp_path / "served").exists()


def test_the_number_of_a_removed_version_is_not_given_again(tmp_path):
    model = make_model(tmp_path / "model")
    first = publish(model, tmp_path / "served", {})
    shutil.rmtree(first.path)
    assert publish(model, tmp_path / "served", {}).version == first.version + 1
