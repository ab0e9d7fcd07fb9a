"""Going back to a version before: nothing is lost, no number is given twice."""

import json

import pytest
from click.testing import CliRunner

from bertline.components.pusher.executor import latest, publish, pushed_versions, roll_back, withdrawn_versions
from bertline.pipeline.cli import main
from bertline.pipeline.commands.options.serving import last_pushed
from bertline.pipeline.console import summary
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference.pushed_model import model_folder


def model(folder, weights):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(weights)
    return folder


@pytest.fixture
def served(tmp_path):
    """Three versions."""
    for number in (1, 2, 3):
        publish(model(tmp_path / "made" / str(number), b"%d" % number), tmp_path / "served", {"n": number})
    return tmp_path / "served"


def numbers(versions):
    return [pushed.version for pushed in versions]


def test_one_back_and_one_more_and_no_further(served):
    assert roll_back(served).served.version == 2 and numbers(pushed_versions(served)) == [1, 2]
    done = roll_back(served)
    assert (done.served.version, done.withdrawn, done.restored) == (1, (2,), ())
    assert numbers(withdrawn_versions(served)) == [2, 3]
    with pytest.raises(BertlineError, match="version 1 is the only one.*--to 3 restores"):
        roll_back(served)


def test_to_a_version_withdraws_all_above_it_and_brings_it_back(served):
    done = roll_back(served, 1)
    assert done.withdrawn == (2, 3) and latest(served).version == 1
    assert roll_back(served, 3).restored == (3,) and numbers(pushed_versions(served)) == [1, 3]
    done = roll_back(served, 2)
    assert (done.served.version, done.withdrawn, done.restored) == (2, (3,), (2,))
    assert roll_back(served, 2).withdrawn == ()  # it is served already
    with pytest.raises(BertlineError, match="no version 9; there are 1, 2, 3"):
        roll_back(served, 9)


def test_a_withdrawn_number_is_not_given_again_and_its_model_not_pushed_again(served, tmp_path):
    roll_back(served)
    (served / ".bertline-last").unlink()
    again = publish(tmp_path / "made" / "3", served, {})
    assert again.withdrawn and again.version == 3 and not again.fresh and latest(served).version == 2
    assert publish(model(tmp_path / "made" / "4", b"4"), served, {}).version == 4


def test_where_nothing_was_pushed_it_is_said(tmp_path):
    with pytest.raises(BertlineError, match="no versions here"):
        roll_back(tmp_path / "nowhere")


def test_the_command_prints_what_is_served_now(served, tmp_path):
    def call(*arguments):
        return CliRunner().invoke(main, ["rollback", *arguments, "--workspace", str(tmp_path)])

    told = {"name": "reviews", "pushed_path": str(served / "3"), "destination": str(served)}
    (tmp_path / "summary.json").write_text(json.dumps(told))
    assert summary.served_now(tmp_path) == served / "3"
    back = call()
    assert back.exit_code == 0 and back.output.splitlines()[0] == "withdrawn: version 3"
    assert back.output.splitlines()[1].startswith("served: version 2 ")
    assert summary.served_now(tmp_path) == served / "2"  # what predict and serve take
    assert "restored: version 3" in call("reviews", "--to", "3").output
    assert call("--to", "3").output.startswith("served already: version 3 ")
    assert call("others").exit_code == 1 and "there is no such folder" in call("others").output


def test_what_was_pushed_before_is_taken_where_a_later_run_was_refused(tmp_path):
    for number in (1, 2):
        publish(model(tmp_path / "made" / str(number), b"%d" % number), tmp_path / "models" / "mails", {})
    refused = {"name": "mails", "pushed_path": None, "destination": str(tmp_path / "models" / "mails")}
    (tmp_path / "summary.json").write_text(json.dumps(refused))
    found = summary.served(tmp_path)
    assert (found.path, found.name) == (tmp_path / "models" / "mails" / "2", "mails")
    assert found.instead == "the last run, of mails, pushed no model; this is version 2 of mails"
    # Neither does a run of another pipeline hide it.
    (tmp_path / "summary.json").write_text(
        json.dumps({"name": "tickets", "destination": str(tmp_path / "models" / "tickets")})
    )
    found = summary.served(tmp_path)
    assert (found.path.name, found.name) == ("2", "mails") and "the last run, of tickets, pushed no model" in found.instead
    assert last_pushed(str(tmp_path)) == ("mails", str(tmp_path / "models" / "mails"))
    assert model_folder(None, str(tmp_path)) == found.path


def test_where_no_run_has_pushed_there_is_nothing_to_ask(tmp_path):
    (tmp_path / "models" / "empty").mkdir(parents=True)
    assert summary.served(tmp_path) is None
