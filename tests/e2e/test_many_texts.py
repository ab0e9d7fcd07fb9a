"""A whole file is answered as its lines are one by one, by the model that the pipeline has pushed."""

import gzip
import json

import pytest
from click.testing import CliRunner
from lines import make_rows, write_csv

from bertline.pipeline.cli import main


def ask(line, *arguments, stdin=None):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments], input=stdin)


@pytest.fixture(scope="module")
def rows():
    return make_rows(300, seed=1)


@pytest.fixture(scope="module")
def alone(finished_line, rows):
    """What the model says of each row when it is asked about that one only."""
    from bertline.pipeline.inference.predictor import find

    model = find(None, str(finished_line.workspace)).load()
    return [model.ask([{"text": row["text"].encode()}])[0] for row in rows]


def test_a_file_is_answered_in_its_order_as_its_lines_are_one_by_one(finished_line, rows, alone, tmp_path):
    with gzip.open(tmp_path / "in.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": number, **row}) + "\n" for number, row in enumerate(rows))
    done = ask(finished_line, "--file", str(tmp_path / "in.jsonl.gz"), "--out", str(tmp_path / "out.jsonl"))
    assert done.exit_code == 0 and "300 predictions" in done.output
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(answer["id"], answer["text"]) for answer in found] == [(n, row["text"]) for n, row in enumerate(rows)]
    assert [answer["given_label"] for answer in found] == [row["label"] for row in rows]  # the file's own is kept
    for answer, single in zip(found, alone, strict=True):
        assert answer["label"] == single["label"].decode()
        assert answer["probabilities"] == pytest.approx(single["probabilities"].tolist(), abs=1e-5)


def test_a_training_file_and_its_texts_as_lines_are_answered_alike(finished_line, rows, alone, tmp_path):
    write_csv(tmp_path / "in.csv", [{"id": row["label"], **row} for row in rows])
    (tmp_path / "in.txt").write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    for name in ("in.csv", "in.txt"):
        done = ask(finished_line, "--file", str(tmp_path / name), "--out", "-")
        assert done.exit_code == 0
        found = [json.loads(line)["label"] for line in done.stdout.splitlines()]
        assert found == [single["label"].decode() for single in alone]


def test_what_does_not_go_together_is_refused_in_one_sentence(finished_line, tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    for arguments, part in [
        (("--file", str(tmp_path / "in.txt"), "a text"), "--file goes without TEXTS"),
        (("--out", "out.jsonl", "a text"), "--out and --format go with --file"),
        (("--mask", "--file", str(tmp_path / "in.txt")), "its task is classification, not pretraining"),
    ]:
        refused = ask(finished_line, *arguments)
        assert refused.exit_code == 1 and part in refused.output
