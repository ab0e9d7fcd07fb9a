"""What a person sees at the end of a run."""

from __future__ import annotations

import io

from rich.console import Console

from bertline.pipeline.console.display import show_summary
from bertline.pipeline.console.summary import Summary


def shown(summary, steps=(), width=100):
    printed = io.StringIO()
    show_summary(Console(file=printed, width=width, highlight=False), summary, list(steps))
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def scores(f1):
    return {"precision": f1, "recall": f1, "f1": f1, "rows": 20.0}


def test_the_rows_to_test_and_what_the_model_reaches_on_them_are_shown():
    test = {"f1": {"value": 0.75, "low": 0.5, "high": 1.0}}
    summary = Summary(name="x", task="classification", metrics={"f1": 0.8}, test=test, rows={"read": 9, "test": 4})
    lines = [" ".join(line.split()) for line in shown(summary)]
    assert "test f1 0.7500 (0.5000 to 1.0000)" in lines and any("0 for evaluation, 4 for test," in line for line in lines)


def test_of_many_classes_the_worst_are_shown_and_the_rest_is_counted():
    classes = {f"a class with a rather long name {number:02}": scores(number / 100) for number in range(76, -1, -1)}
    lines = [line for line in shown_of(classes) if "  class " in line]
    assert len(lines) == 5 and [line.split("name ")[1][:2] for line in lines[:5]] == ["00", "01", "02", "03", "04"]
    assert "f1 0.0000  on 20" in lines[0]
    assert "72 more with a higher f1; see bertline report --last" in " ".join(" ".join(shown_of(classes)).split())


def test_classes_without_evaluation_examples_take_no_place_among_the_worst():
    nan = float("nan")
    unmeasured = {f"rare {number}": {**scores(nan), "rows": 0.0} for number in range(9)}
    lines = shown_of({**unmeasured, **{f"frequent {number}": scores(number / 10) for number in range(7)}})
    assert [line.split()[2] for line in lines if "  class " in line] == ["0", "1", "2", "3", "4"]
    told = " ".join(" ".join(lines).split())
    assert "class rare" not in told and "2 more with a higher f1" in told and "9 without evaluation examples" in told


def shown_of(classes):
    return shown(Summary(name="x", task="classification", classes=classes))


def test_a_few_classes_are_all_shown_in_their_order():
    found = [line for line in shown_of({"b": scores(0.9), "a": scores(0.1)}) if "class " in line]
    assert [line.split()[1] for line in found] == ["b", "a"]


def test_a_refused_run_says_what_comes_next():
    refused = Summary(name="x", task="classification", blessed=False, reasons=["accuracy 0.1 is too low"])
    steps = [("bertline run x --set 'a=[b]'", "try it"), ("", "more data")]
    lines = shown(refused, steps)
    assert lines[-3:] == [
        "Next, for a model that passes:", "  bertline run x --set 'a=[b]'   # try it", "  # more data",
    ]  # fmt: skip
    assert not any("Next" in line for line in shown(refused))
