"""What a caller may not name: paths outside of the root, and names that are paths."""

import time
from pathlib import Path

import grpc
from serving_client import eventually, refused, request, serving


def test_a_reload_reaches_nothing_outside_the_root(base, other_place):
    with serving(base, root=base.parent) as client:
        (base.parent / "link").symlink_to(other_place)
        for path in (other_place, base / ".." / ".." / "elsewhere", base.parent / "link", "/"):
            error = refused(lambda path=path: client.reload("other", path))
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED and str(other_place) not in error.details()
        assert client.server.manager.names() == ["m"] and client.answers()
        client.reload("other", base)
        assert client.server.manager.names() == ["other"]


def test_without_a_root_a_reload_names_no_new_path(base, other_place):
    with serving(base) as client:
        assert refused(lambda: client.reload("other", other_place)).code() == grpc.StatusCode.PERMISSION_DENIED
        client.reload("m", base)
        assert client.answers()


def test_a_version_that_leads_out_of_the_root_is_not_read(base, other_place, monkeypatch):
    walked = []
    monkeypatch.setattr(
        Path, "rglob", lambda folder, pattern, rglob=Path.rglob: (walked.append(folder), rglob(folder, "*"))[1]
    )
    with serving(base, root=base.parent) as client:
        (base / "2").symlink_to(other_place / "1")
        assert eventually(lambda: 2 in client.status() and client.status()[2].status.error_message)
        assert client.status()[2].status.error_code == grpc.StatusCode.PERMISSION_DENIED.value[0]
        time.sleep(0.3)
        assert client.version() == 1
    assert {folder.name for folder in walked} == {"1"}


def test_a_name_that_is_no_name_is_refused(base):
    with serving(base, root=base.parent) as client:
        for name in ("../m", "..", ".", "m/../m", "", "m\n", "m%2e", "ä"):
            assert refused(lambda name=name: client.reload(name, base)).code() == grpc.StatusCode.INVALID_ARGUMENT, name
        assert client.server.manager.names() == ["m"] and client.answers()


def test_names_are_no_paths(base):
    with serving(base) as client:
        for name in ("../m", "./m", "m/1", "m\0", "M"):
            asked = request(x=[2.0])
            asked.model_spec.name = name
            assert refused(lambda asked=asked: client.predictions.Predict(asked)).code() == grpc.StatusCode.NOT_FOUND
        for path in ("/v1/models/..%2Fm:predict", "/v1/models/../models/m:predict", "/v1/models/m%2F1:predict"):
            assert client.rest(path=path)[0] in (400, 404)


def test_a_long_name_is_answered_with_its_own_error(base):
    with serving(base) as client:
        for character in ("x", "ä", "\U0001f600", "%", "\n"):
            asked = request(x=[2.0])
            asked.model_spec.name = character * 20_000
            error = refused(lambda asked=asked: client.predictions.Predict(asked))
            assert error.code() == grpc.StatusCode.NOT_FOUND, character
            assert "Servable not found" in error.details()
