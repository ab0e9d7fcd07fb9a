"""Versions come and go on the disk while requests go on: policies, swaps, and loads that fail."""

import shutil
import threading

import pytest
from conformance_models import put, put_broken
from conformance_targets import State, refused, until
from tensorflow_serving.config import model_server_config_pb2

M = "model"


def of(base, policy=None, numbers=()):
    """A config of one model."""
    config = model_server_config_pb2.ModelServerConfig()
    model = config.model_config_list.config.add(name=M, base_path=str(base), model_platform="tensorflow")
    if policy == "latest":
        model.model_version_policy.latest.num_versions = numbers
    elif policy == "specific":
        model.model_version_policy.specific.versions.extend(numbers)
    elif policy == "all":
        model.model_version_policy.all.SetInParent()
    return config


@pytest.fixture
def adds(root, config):
    """A version that adds 1, and one that adds 2."""
    return {number: root / "numbered" / str(number) for number in (1, 2)}


@pytest.mark.parametrize(
    "policy, numbers, served",
    [
        (None, (), [12]),
        ("latest", 1, [12]),
        ("latest", 2, [12, 5]),
        ("latest", 9, [12, 5, 3]),
        ("latest", 0, [12]),
        ("all", (), [12, 5, 3]),
        ("specific", (3, 5), [5, 3]),
        ("specific", (5, 77), [5]),
    ],
    ids=["default", "latest-1", "latest-2", "latest-9", "latest-0", "all", "specific-3-5", "specific-one-is-missing"],
)
def test_a_policy_chooses_among_the_versions_that_are_there(start, base, adds, policy, numbers, served):
    for number in (3, 5, 12):  # by number 12 is the highest, by name 5
        put(adds[1], base, number)
    server = start(of(base, policy, numbers))
    assert server.states(M) == {number: "AVAILABLE" for number in served}
    assert server.predict(M, {"x": [1.0]}).model_spec.version.value == max(served)


@pytest.mark.parametrize(
    "name, number", [("00000123", 123), ("0", 0), ("1700000000", 1700000000), ("9000000000", 9000000000)]
)
def test_a_folder_named_by_an_integer_is_a_version(start, base, adds, name, number):
    put(adds[1], base, name)
    server = start(of(base))
    assert server.states(M) == {number: "AVAILABLE"}
    assert server.y(M, [1.0], version=number) == [1.5]


def test_other_folders_and_files_are_passed_over(start, base, adds):
    put(adds[1], base, 1)
    put(adds[2], base, "v2")
    put(adds[2], base, "2.0")
    put(adds[2], base, "2-new")
    (base / "README").write_text("not a version")
    assert start(of(base, "all")).states(M) == {1: "AVAILABLE"}


def test_a_new_version_takes_the_place_of_the_old_one(start, base, adds):
    put(adds[1], base, 1)
    server = start(of(base))
    put(adds[2], base, 2)
    until(lambda: server.states(M) == {2: "AVAILABLE"})
    assert server.y(M, [1.0]) == [2.5]
    refused(lambda: server.y(M, [1.0], version=1), "NOT_FOUND", f"Servable not found for request: Specific({M}, 1)")


def test_no_request_fails_while_a_version_replaces_another(start, base, adds):
    put(adds[1], base, 1)
    server = start(of(base))
    answers, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                answers.append(server.y(M, [1.0])[0])
            except Exception as error:
                answers.append(error)
                return

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until(lambda: answers)
        put(adds[2], base, 2)
        until(lambda: server.states(M) == {2: "AVAILABLE"})
        seen = len(answers)
        until(lambda: len(answers) > seen or not asking.is_alive())
    finally:
        stop.set()
        asking.join()
    assert set(answers) == {1.5, 2.5}
    assert answers == sorted(answers), "the old version answered after the new one"


def test_an_older_version_is_served_again_when_the_newest_is_taken_away(start, base, adds):
    put(adds[1], base, 1)
    put(adds[2], base, 2)
    server = start(of(base))
    assert server.y(M, [1.0]) == [2.5]
    shutil.rmtree(base / "2")
    until(lambda: server.states(M) == {1: "AVAILABLE"})
    assert server.y(M, [1.0]) == [1.5]
    until(lambda: {one.version: State.Name(one.state) for one in server.status(M)} == {1: "AVAILABLE", 2: "END"})
    refused(lambda: server.y(M, [1.0], version=2), "NOT_FOUND", f"Servable not found for request: Specific({M}, 2)")


def test_a_version_that_cannot_be_loaded_leaves_the_old_one_answering(start, base, adds):
    put(adds[1], base, 1)
    server = start(of(base))
    put_broken(base, 2)
    until(lambda: server.states(M).get(2) == "END")
    assert server.states(M)[1] == "AVAILABLE"
    assert server.y(M, [1.0]) == [1.5]
    (failed,) = (one for one in server.status(M) if one.version == 2)
    assert failed.state == State.END and failed.status.error_code and failed.status.error_message


def test_a_version_after_one_that_failed_is_served(start, base, adds):
    put(adds[1], base, 1)
    server = start(of(base))
    put_broken(base, 2)
    until(lambda: server.states(M).get(2) == "END")
    put(adds[2], base, 3)
    until(lambda: server.states(M).get(3) == "AVAILABLE" and server.states(M).get(1) is None)
    assert server.y(M, [1.0]) == [2.5]


def test_each_of_several_versions_answers_by_its_number(start, base, adds):
    put(adds[1], base, 1)
    put(adds[2], base, 2)
    server = start(of(base, "all"))
    assert [server.y(M, [1.0], version=number) for number in (1, 2)] == [[1.5], [2.5]]


@pytest.mark.usefixtures("embedded_only")
def test_the_version_that_answers_stays_though_its_folder_is_taken_away(start, base, adds):
    put(adds[1], base, 1)
    server = start(of(base))
    shutil.rmtree(base)
    put(adds[2], base.parent / f"{base.name}-other", 1)
    assert server.y(M, [1.0]) == [1.5]


@pytest.mark.usefixtures("embedded_only")
def test_a_model_without_a_version_is_awaited(start, base, adds):
    server = start(of(base))
    refused(lambda: server.y(M, [1.0]), "NOT_FOUND", f"Servable not found for request: Latest({M})")
    put(adds[1], base, 1)
    until(lambda: server.states(M) == {1: "AVAILABLE"})
    assert server.y(M, [1.0]) == [1.5]


@pytest.mark.usefixtures("embedded_only")
def test_a_version_that_was_still_being_copied_is_tried_again(start, base, adds):
    put_broken(base, 1)
    server = start(of(base))
    assert server.states(M) == {1: "END"}
    shutil.copytree(adds[1], base / "1", dirs_exist_ok=True)
    until(lambda: server.states(M) == {1: "AVAILABLE"})
    assert server.y(M, [1.0]) == [1.5]


@pytest.mark.usefixtures("embedded_only")
def test_a_link_out_of_the_root_is_not_followed(start, base, adds, tmp_path):
    put(adds[1], base, 1)
    elsewhere = put(adds[2], tmp_path / "elsewhere", 2)
    server = start(of(base))
    (base / "2").symlink_to(elsewhere)
    until(lambda: server.states(M).get(2) == "END")
    assert server.y(M, [1.0]) == [1.5]
