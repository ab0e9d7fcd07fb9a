"""A file of models that is read again while the server runs."""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from serving_client import Client, eventually, refused, request, serving
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.launch.config_files import models_text, one_model, read_models


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "models.config"


@pytest.fixture
def second(base, made) -> Path:
    """Another model under the same root."""
    shutil.copytree(made[2], base.parent / "second" / "1")
    return base.parent / "second"


def write(file: Path, **models: Path) -> None:
    """Whole at once: the server reads at any time."""
    config = model_server_config_pb2.ModelServerConfig(model_config_list={})
    for name, path in models.items():
        config.MergeFrom(one_model(name, path))
    file.with_suffix(".new").write_text(models_text(config))
    os.rename(file.with_suffix(".new"), file)


@contextlib.contextmanager
def polling(file: Path, base: Path, **settings) -> Iterator[Client]:
    write(file, m=base)
    read = {"models": read_models(file), "model_config_file": file, "config_poll_seconds": 0.1, "root": base.parent}
    with serving(base, **(read | settings)) as client:
        yield client


def served(client: Client, name: str) -> bool:
    asked = request(x=[2.0])
    asked.model_spec.name = name
    try:
        return bool(client.predictions.Predict(asked).outputs)
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND
        return False


def test_a_model_that_is_added_to_the_file_is_served_and_one_that_is_removed_is_not(base, second, file):
    with polling(file, base) as client:
        assert served(client, "m") and not served(client, "second")
        write(file, m=base, second=second)
        assert eventually(lambda: served(client, "second")) and served(client, "m")
        write(file, second=second)
        assert eventually(lambda: not served(client, "m")) and served(client, "second")
        write(file)
        assert eventually(lambda: not served(client, "second"))
        write(file, m=base)
        assert eventually(lambda: served(client, "m"))


def test_the_file_has_the_last_word(base, second, file):
    with polling(file, base) as client:
        client.reload("second", second)
        assert eventually(lambda: served(client, "m") and not served(client, "second"))


@pytest.mark.parametrize("broken", [b"model_config_list { config {", b"\xff\xfe", b"", None])
def test_a_file_that_cannot_be_read_is_logged_once_and_changes_nothing(base, second, file, broken, caplog):
    caplog.set_level(logging.ERROR, "serving")
    with polling(file, base) as client:
        if broken is None:
            file.unlink()
        else:
            file.write_bytes(broken)
        assert eventually(lambda: "models.config" in caplog.text) and served(client, "m")
        write(file, m=base, second=second)
        assert eventually(lambda: served(client, "second")) and served(client, "m")
    assert caplog.text.count("The models stay as they are") == 1


@pytest.mark.parametrize("is_rooted", [True, False])
def test_the_file_names_no_folder_that_a_reload_may_not_name(base, other_place, file, is_rooted, caplog):
    caplog.set_level(logging.ERROR, "serving")
    with polling(file, base, **({} if is_rooted else {"root": None})) as client:
        write(file, m=base, other=other_place)
        assert eventually(lambda: "The models stay as they are" in caplog.text)
        assert refused(lambda: client.reload("other", other_place)).code() == grpc.StatusCode.PERMISSION_DENIED
        assert served(client, "m") and not served(client, "other")


def test_without_an_interval_the_file_is_read_once(base, second, file):
    with polling(file, base, config_poll_seconds=0.0) as client:
        write(file, second=second)
        shutil.copytree(second / "1", base / "2")
        assert eventually(lambda: client.version() == 2)  # so long the server has looked about
        assert not served(client, "second")
