"""HandleReloadConfigRequest and labels."""

from pathlib import Path

import pytest
from conformance_models import put
from conformance_targets import refused, refused_http, until
from tensorflow_serving.config import model_server_config_pb2


def of(*models, labels=None, policy="all", platform="tensorflow"):
    """A config of (name, base path) pairs; labels are the last one's."""
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.SetInParent()
    for name, base in models:
        model = config.model_config_list.config.add(name=name, base_path=str(base), model_platform=platform)
        if policy == "all":
            model.model_version_policy.all.SetInParent()
        elif policy:
            model.model_version_policy.specific.versions.append(policy)
        model.version_labels.update((labels or {}) if (name, base) == models[-1] else {})
    return config


@pytest.fixture
def two(root, config) -> Path:
    """The folder of a model with the versions 1 and 2, which add their number."""
    return root / "numbered"


@pytest.fixture
def three(root, config) -> Path:
    return root / "half_plus_three"


def test_a_reload_says_that_it_was_done(start, two):
    server = start(of(("a", two)))
    response = server.reload(of(("a", two)))
    assert (response.status.error_code, response.status.error_message) == (0, "")


def test_a_reload_adds_a_model_and_returns_when_it_answers(start, two, three):
    server = start(of(("a", two)))
    server.reload(of(("a", two), ("b", three)))
    assert (server.y("a", [1.0]), server.y("b", [1.0])) == ([2.5], [3.5])


def test_a_reload_drops_the_models_that_it_does_not_list(start, two, three):
    server = start(of(("a", two), ("b", three)))
    server.reload(of(("b", three)))
    until(lambda: not server.states("a"))
    refused(lambda: server.y("a", [1.0]), "NOT_FOUND", "Servable not found for request: Latest(a)")
    assert server.y("b", [1.0]) == [3.5]


def test_a_reload_of_no_models_drops_them_all(start, two):
    server = start(of(("a", two)))
    server.reload(of())
    until(lambda: not server.states("a"))
    refused(lambda: server.y("a", [1.0]), "NOT_FOUND", "Servable not found for request: Latest(a)")


def test_a_reload_changes_the_policy(start, two):
    server = start(of(("a", two)))
    server.reload(of(("a", two), policy=1))
    until(lambda: server.states("a") == {1: "AVAILABLE"})
    assert server.y("a", [1.0]) == [1.5]


def test_a_reload_points_a_model_to_another_folder(start, two, base):
    put(two / "2", base, 5)
    server = start(of(("a", two), policy=1))
    if server.at == "docker":
        pytest.skip("--target docker: a container that runs sees no new folder")
    server.reload(of(("a", base)))
    until(lambda: server.states("a") == {5: "AVAILABLE"})
    assert server.y("a", [1.0]) == [2.5]


CUSTOM = model_server_config_pb2.ModelServerConfig()
CUSTOM.custom_model_config.SetInParent()
ONLY_LISTS = (
    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported"
)
BAD = "INVALID_ARGUMENT"
REFUSALS = {
    "empty": (lambda a: model_server_config_pb2.ModelServerConfig(), BAD, ONLY_LISTS),
    "custom": (lambda a: CUSTOM, BAD, ONLY_LISTS),
    "listed-twice": (lambda a: of(("a", a), ("a", a)), BAD, "Illegal to list model a multiple times in config list"),
    "relative-path": (lambda a: of(("a", a), ("b", "some/where")), BAD,
                      "Expected model b to have an absolute path or URI; got base_path()=some/where"),
}  # fmt: skip


@pytest.mark.parametrize("config_of, code, message", REFUSALS.values(), ids=REFUSALS)
def test_a_wrong_config_is_refused_and_changes_nothing(start, two, config_of, code, message):
    server = start(of(("a", two)))
    refused(lambda: server.reload(config_of(two)), code, message)
    assert server.y("a", [1.0]) == [2.5]
    assert server.states("a") == {1: "AVAILABLE", 2: "AVAILABLE"}


@pytest.mark.usefixtures("embedded_only")
@pytest.mark.parametrize(
    "name, path, code",
    [
        ("b", "/etc", "PERMISSION_DENIED"),
        ("b", "{root}/../elsewhere", "PERMISSION_DENIED"),
        ("a", "/tmp", "PERMISSION_DENIED"),
        ("../b", "{root}/half_plus_three", "INVALID_ARGUMENT"),
        ("b/c", "{root}/half_plus_three", "INVALID_ARGUMENT"),
        ("b c", "{root}/half_plus_three", "INVALID_ARGUMENT"),
    ],
    ids=["outside", "out-by-dots", "known-name-outside", "name-with-dots", "name-with-a-slash", "name-with-a-blank"],
)
def test_a_reload_is_confined_to_the_root(start, root, two, name, path, code):
    server = start(of(("a", two)))
    refused(lambda: server.reload(of((name, path.format(root=root)))), code, "…")
    assert server.y("a", [1.0]) == [2.5]


@pytest.mark.usefixtures("embedded_only")
def test_a_link_does_not_lead_a_reload_out_of_the_root(start, root, two, tmp_path):
    put(two / "1", tmp_path / "elsewhere", 1)
    link = root / f"link-{tmp_path.name}"
    link.symlink_to(tmp_path / "elsewhere")
    server = start(of(("a", two)))
    refused(lambda: server.reload(of(("a", two), ("b", link))), "PERMISSION_DENIED", "…not under the root…")


@pytest.mark.usefixtures("embedded_only")
def test_without_a_root_a_reload_changes_policies_and_no_path(start, two, three):
    server = start(of(("a", two)), root=None)
    refused(lambda: server.reload(of(("a", two), ("b", three))), "PERMISSION_DENIED", "…may not name new paths…")
    server.reload(of(("a", two), policy=1))
    until(lambda: server.states("a") == {1: "AVAILABLE"})


@pytest.mark.usefixtures("embedded_only")
def test_an_unknown_platform_is_refused(start, two):
    server = start(of(("a", two)))
    refused(lambda: server.reload(of(("a", two), platform="caffe")), "INVALID_ARGUMENT", "…caffe…")


def test_a_label_names_a_version_over_grpc_and_rest(start, two):
    server = start(of(("a", two)))
    server.reload(of(("a", two), labels={"stable": 1, "canary": 2}))
    assert [server.y("a", [1.0], label=label) for label in ("stable", "canary")] == [[1.5], [2.5]]
    assert server.post("a/labels/stable:predict", {"instances": [1.0]}).document == {"predictions": [1.5]}


def test_an_answer_by_a_label_names_the_version(start, two):
    server = start(of(("a", two)))
    server.reload(of(("a", two), labels={"stable": 1}))
    model_spec = server.predict("a", {"x": [1.0]}, label="stable").model_spec
    assert (model_spec.version.value, model_spec.version_label) == (1, "")


def test_a_label_is_moved_by_another_reload(start, two):
    server = start(of(("a", two)))
    server.reload(of(("a", two), labels={"stable": 1}))
    server.reload(of(("a", two), labels={"stable": 2}))
    assert server.y("a", [1.0], label="stable") == [2.5]


def test_a_label_that_a_reload_leaves_out_is_gone(start, two):
    server = start(of(("a", two)))
    server.reload(of(("a", two), labels={"stable": 1, "canary": 2}))
    server.reload(of(("a", two), labels={"stable": 1}))
    message = "Unrecognized servable version label: canary"
    refused(lambda: server.y("a", [1.0], label="canary"), "INVALID_ARGUMENT", message)
    refused_http(server.post("a/labels/canary:predict", {"instances": [1.0]}), 400, message)


def test_a_label_is_of_its_model_alone(start, two, three):
    server = start(of(("b", three), ("a", two)))
    server.reload(of(("b", three), ("a", two), labels={"stable": 1}))
    refused(lambda: server.y("b", [1.0], label="stable"), "INVALID_ARGUMENT", "Unrecognized servable version label: stable")


def test_a_label_may_not_move_to_a_version_that_is_not_available(start, two):
    server = start(of(("a", two)))
    server.reload(of(("a", two), labels={"stable": 1}))
    refused(
        lambda: server.reload(of(("a", two), labels={"stable": 7})),
        "FAILED_PRECONDITION",
        "Request to assign label to version 7 of model a, which is not currently available for inference",
    )
    assert server.y("a", [1.0], label="stable") == [1.5]


@pytest.mark.usefixtures("embedded_only")
def test_a_config_whose_labels_are_refused_changes_nothing(start, two, three):
    server = start(of(("a", two), labels={"stable": 1}))
    refused(lambda: server.reload(of(("b", three), ("a", two), labels={"new": 7})), "FAILED_PRECONDITION", "…")
    assert not server.states("b")
    assert server.y("a", [1.0], label="stable") == [1.5]
