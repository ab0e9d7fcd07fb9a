"""`bertline watch`: new data is trained on once, and only a better model takes the place of the one that is pushed."""

import json

import pytest
import yaml
from lines import ALONE, Line, make_rows, write_csv

pytestmark = pytest.mark.full


def test_new_spans_are_run_on_once_and_only_what_is_better_is_pushed(tmp_path):
    line = Line(tmp_path)
    rows = make_rows(400)
    config = yaml.safe_load(line.config.read_text())
    config["data"] = {"path": "in/rows-{SPAN}.csv", "text": "text", "label": "label"}
    config["evaluation"]["slices"] = []
    config |= ALONE
    line.config.write_text(yaml.safe_dump(config))
    watched = ("watch", str(line.config), "--once")
    nothing = line.call(*watched)
    assert nothing.exit_code == 1 and "with a number for {SPAN}" in nothing.output
    (tmp_path / "in").mkdir()
    write_csv(tmp_path / "in" / "rows-1.csv", rows[:300])
    assert line.call(*watched).exit_code == 0
    assert line.summary["pushed_version"] == 1 and line.summary["rows"]["read"] == 300
    again = line.call(*watched)
    assert again.exit_code == 0 and "nothing new" in again.output
    write_csv(tmp_path / "in" / "rows-2.csv", rows[300:])
    code = line.call(*watched).exit_code
    assert line.summary["rows"]["read"] == 400
    verdict = json.loads((line.artifact("Evaluator", "evaluation") / "verdict.json").read_text())
    better = verdict["metrics"]["accuracy"] > verdict["baseline_metrics"]["accuracy"]
    assert (code == 0) == better == verdict["blessed"] == (line.summary["pushed_version"] == 2)
    if not better:
        assert any("of the currently pushed model" in reason for reason in verdict["reasons"])
