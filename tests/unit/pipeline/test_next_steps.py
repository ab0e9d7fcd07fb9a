"""What is suggested after a run works as it is typed, and follows from what the run came to."""

from __future__ import annotations

import shlex
from pathlib import Path

import made_rows
import pytest
import yaml
from click.testing import CliRunner

from bertline.components.evaluator.predictions.rows import FILE_NAME as ROWS
from bertline.components.evaluator.verdict import FILE_NAME as VERDICT
from bertline.components.evaluator.verdict import Verdict
from bertline.pipeline import cli
from bertline.pipeline.commands.run import Started
from bertline.pipeline.console.next_steps import next_steps
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.settings.loader import load

FALLING, RISING = [0.9, 0.7, 0.6], [0.7, 0.4, 0.5]
MEASURED = {"accuracy": 0.6817, "cross_entropy": 0.7123}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config_of(overrides=(), **changes):
    plain = {
        "name": "mails",
        "data": {"path": "mails.csv", "label": "queue"},
        "training": {"epochs": 3},
        "evaluation": {"thresholds": {"accuracy": 0.8, "cross_entropy": 0.5}},
        **changes,
    }
    Path("my config.yaml").write_text(yaml.safe_dump(plain))
    return load("my config.yaml", overrides)


def summary_of(task="classification", **fields):
    """Of a run that was refused."""
    folder = Path.cwd() / "evaluation"
    folder.mkdir(exist_ok=True)
    verdict = Verdict(blessed=False, reasons=[], metrics=MEASURED, slices={}, less_is_better=["cross_entropy"])
    (folder / VERDICT).write_text(verdict.to_json())
    known = {"metrics": MEASURED, "rows": {"train": 5000}, "evaluation": str(folder), "blessed": False, **fields}
    return Summary(name="mails", task=task, **known)


def pushed(task="classification", texts=None, **fields):
    """Of a run that was blessed and pushed, whose evaluation examples have these texts."""
    summary = summary_of(task, blessed=True, pushed_version=1, **fields)
    if texts:
        rows = made_rows.random_predictions(task, len(next(iter(texts.values()))))
        table = rows.table
        for name, values in texts.items():
            table = table.set_column(table.column_names.index(name), name, [values])
        type(rows)(table, rows.description).write(Path(summary.evaluation, ROWS))
    return summary


def commands(config, summary, overrides=()):
    return [command for command, _ in next_steps(config, Started("my config.yaml", overrides), summary)]


def test_a_suggested_run_repeats_the_settings_of_the_one_before(here):
    overrides = ["data.exclude={queue: [a b]}", "training.epochs=3", "training.learning_rate=0.001"]
    config = config_of(overrides)
    again = [command for command in commands(config, pushed(eval_losses=FALLING), overrides) if " run " in command]
    (words,) = map(shlex.split, again)
    given = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    assert given == ["data.exclude={queue: [a b]}", "training.learning_rate=0.001", "training.epochs=4"]
    assert load("my config.yaml", given).training.epochs == 4 and words[2] == "my config.yaml"


def test_another_workspace_is_named_in_every_command(here):
    config = load("my config.yaml", workspace=str(here / "else where")) if config_of() else None
    for summary in (pushed(), summary_of()):
        shown = [shlex.split(command) for command in commands(config, summary) if command]
        assert shown and all("--help" in words or words[words.index("--workspace") + 1] == "else where" for words in shown)


@pytest.mark.parametrize(("losses", "longer"), [(FALLING, True), (RISING, False), ([0.7], True), ([], False)])
@pytest.mark.parametrize("summary", [pushed, summary_of])
def test_more_epochs_are_suggested_only_where_the_evaluation_loss_still_fell(here, losses, longer, summary):
    found = commands(config_of(), summary(eval_losses=losses))
    assert any("training.epochs=4" in command for command in found) is longer


def test_the_best_epoch_is_suggested_where_the_loss_has_risen(here):
    steps = dict(next_steps(config_of(), Started("c.yaml"), summary_of(eval_losses=RISING)))
    (why,) = [why for command, why in steps.items() if "training.restore_best=true" in command]
    assert "lowest after epoch 2" in why


def test_the_pushed_model_is_asked_with_an_evaluation_example(here):
    asked = commands(config_of(), pushed(texts={"text": [" ", "two\nlines", 'It cost $5, "he" said.']}))[0]
    assert shlex.split(asked)[-1] == 'It cost $5, "he" said.'
    asked = commands(config_of(), pushed(texts={"text": ["word " * 99, "A mail of mine."]}))[0]
    assert asked.endswith('predict "A mail of mine."')


@pytest.mark.parametrize("task", made_rows.TASKS)
def test_what_is_asked_of_each_task_is_what_predict_takes(here, task, monkeypatch):
    """Up to the model, which is not there."""
    pairs = {"regression", "similarity", "matching", "answering"}
    data = {"path": "x.csv", "text": ["a", "b"] if task in pairs else "a", "label": "c"}
    data |= {"choices": ["d", "e"]} if task == "choice" else {}
    if task in ("matching", "pretraining", "answering"):
        del data["label"]
    if task == "answering":
        data = {"path": "x.json"}
    if task == "pretraining":
        data = {"path": "x.txt"}
    measured = {"pretraining": "perplexity", "similarity": "pearson", "regression": "pearson", "matching": "mrr"}
    measured |= {"tagging": "f1", "answering": "f1", "multilabel": "micro_f1", "translation": "bleu"}
    config = config_of(task=task, data=data, evaluation={"thresholds": {measured.get(task, "accuracy"): 0.5}})
    for summary in (pushed(task), pushed(task, evaluation=None)):
        words = shlex.split(commands(config, summary)[0])
        result = CliRunner().invoke(cli.main, words[1:])
        assert result.exit_code == 1 and "has pushed a model yet" in result.output


def test_a_refused_run_has_thresholds_that_were_reached_and_other_ways_on(here):
    found = commands(config_of(), summary_of(eval_losses=FALLING, baseline={"majority": {"label": "a", "accuracy": 0.5}}))
    given = " ".join(found)
    assert "evaluation.thresholds.accuracy=0.681" in given and "evaluation.thresholds.cross_entropy=0.713" in given
    assert "model.checkpoint=FOLDER" in given and found[-1].endswith("run --help")


def test_a_threshold_that_no_learning_is_needed_for_is_not_suggested(here):
    summary = summary_of(baseline={"majority": {"label": "a", "accuracy": 0.7}}, rows={"train": 80})
    steps = next_steps(config_of(), Started("c.yaml"), summary)
    assert not any("thresholds.accuracy" in command for command, _ in steps)
    told = [why for command, why in steps if not command]
    assert told[0] == "more labelled examples: 80 are few to train on" and "always predicting 'a'" in told[1]


def test_a_metric_that_says_no_more_than_the_majority_gets_no_lower_threshold(here):
    refused = summary_of()
    found = Verdict(
        blessed=False, reasons=[], metrics={"matthews": 0.0}, slices={}, baselines={"majority": {"matthews": 0.0}}
    )
    (Path.cwd() / "evaluation" / VERDICT).write_text(found.to_json())
    refused.metrics = {"matthews": 0.0}
    steps = next_steps(config_of(evaluation={"thresholds": {"matthews": 0.2}}), Started("c.yaml"), refused)
    assert not any("thresholds.matthews" in command for command, _ in steps)
    assert any("matthews 0.0000 as well" in why for _, why in steps)


@pytest.mark.parametrize(
    ("recall", "training", "weighed"), [(0.2, {}, True), (0.8, {}, False), (0.2, {"sampling": "balanced"}, False)]
)
def test_a_rare_class_that_is_overlooked_is_told_with_what_helps(here, recall, training, weighed):
    classes = {"late": {"precision": 0.5, "recall": recall, "f1": 0.3, "rows": 4.0}}
    summary = summary_of(metrics={**MEASURED, "rows": 200.0}, positive="late", classes=classes)
    steps = next_steps(config_of(training=training), Started("c.yaml"), summary)
    assert any("training.class_weights=balanced" in command for command, _ in steps) is weighed
    assert any("more labelled examples of 'late'" in why for _, why in steps) is (recall < 0.5)


@pytest.mark.parametrize(("words", "shorter"), [(300, True), (20, False)])
def test_a_model_that_answers_too_slowly_is_to_be_faster_and_not_better(here, words, shorter):
    summary = pushed(texts={"text": ["word " * words] * 3}, serve_check={"blessed": False, "median_ms": 1510.4})
    summary.blessed, summary.pushed_version, summary.rows = False, None, {"train": 54}
    given = commands(config_of(), summary)
    assert given[0].endswith("run 'my config.yaml'"), "as it is: the machine may have been busy"
    assert any("serve_check.max_latency_ms=2000" in command for command in given)
    assert any("text.long=head_tail" in command for command in given) is shorter
    assert not any("epochs" in command or "thresholds" in command or not command for command in given)


def test_a_run_whose_model_was_withdrawn_suggests_nothing(here):
    assert commands(config_of(), summary_of(blessed=True, withdrawn_version=2)) == []


def test_where_the_recipe_has_chosen_the_epochs_more_of_them_are_not_suggested(here):
    chosen, given = config_of(training={}), config_of()
    for of in (pushed, summary_of):
        assert not any("training.epochs" in command for command in commands(chosen, of(eval_losses=FALLING)))
        assert any("training.epochs" in command for command in commands(given, of(eval_losses=FALLING)))
    # It has kept the best of them, too.
    assert not any("training.restore_best" in command for command in commands(chosen, summary_of(eval_losses=RISING)))


def test_a_lower_threshold_that_a_baseline_is_above_is_suggested_with_what_it_needs_as_well(here):
    refused = summary_of()
    beaten = Verdict(blessed=False, reasons=[], metrics=MEASURED, slices={}, baselines={"tf-idf": {"accuracy": 0.75}})
    (Path.cwd() / "evaluation" / VERDICT).write_text(beaten.to_json())
    (command,) = [one for one in commands(config_of(), refused) if "thresholds.accuracy" in one]
    assert "--set evaluation.must_beat_baselines=false" in command
    given = [word for word in shlex.split(command) if word.startswith("evaluation.")]
    assert not config_of(given).evaluation.must_beat_baselines
    (without,) = [one for one in commands(config_of(), summary_of()) if "thresholds.accuracy" in one]
    assert "must_beat" not in without


def test_where_tf_idf_was_pushed_a_checkpoint_is_suggested_and_no_more_epochs(here):
    kind = {"kind": "tf-idf", "kind_why": "accuracy 0.86 against 0.84", "eval_losses": FALLING}
    steps = next_steps(config_of(), Started("c.yaml"), pushed(**kind))
    (why,) = [why for command, why in steps if "model.checkpoint=FOLDER" in command]
    assert why.startswith("the pushed model is TF-IDF with logistic regression; for a better one start from")
    assert not any("training.epochs" in command for command, _ in steps)
    refused = summary_of(**kind)
    itself = Verdict(blessed=False, reasons=[], metrics=MEASURED, slices={}, baselines={"tf-idf": {"accuracy": 0.6818}})
    (Path.cwd() / "evaluation" / VERDICT).write_text(itself.to_json())
    (lower,) = [command for command in commands(config_of(), refused) if "thresholds.accuracy" in command]
    assert "must_beat" not in lower and not any("training.epochs" in command for command in commands(config_of(), refused))
