"""Thresholds that `bertline new` writes lie above what counting words reaches on the file."""

from __future__ import annotations

import random

import yaml
from new_files import csv_text, write

from bertline.pipeline.new import write_config

FILLERS = "the film was seen by many people on that day".split()
GOOD, BAD = "wonderful brilliant moving".split(), "dreadful boring clumsy".split()


def rows_of(count, noise=0.0, seed=0):
    """Reviews of which one word tells the class, in all but some of them."""
    drawn = random.Random(seed)
    rows = []
    for at in range(count):
        told = drawn.choice((GOOD, BAD)[at % 2])
        label = "bad" if (at % 2) != (drawn.random() < noise) else "good"
        rows.append((" ".join([*drawn.sample(FILLERS, 6), told, f"number{at}"]), label))
    return rows


def thresholds(tmp_path, rows, evaluation=None, header="text,label"):
    path = tmp_path / "data"
    path.mkdir(exist_ok=True)
    write(path, "train.csv", csv_text(header, rows))
    if evaluation:
        write(path, "dev.csv", csv_text(header, evaluation))
    asked = str(path) if evaluation else str(path / "train.csv")
    text = write_config(asked, str(tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"))
    return yaml.safe_load(text)["evaluation"]["thresholds"], text.splitlines()[-1]


def test_a_threshold_is_above_counting_words_and_says_so(tmp_path):
    found, line = thresholds(tmp_path, rows_of(300, noise=0.2))
    assert 0.7 < found["accuracy"] < 0.9, "the majority has 0.5, and a fifth of the labels are wrong"
    assert "counting words (TF-IDF) has accuracy 0." in line and "on 300 examples" in line
    score = float(line.split("has accuracy ")[1].split()[0])
    assert score < found["accuracy"] <= score + 0.0105


def test_from_scratch_counting_words_may_be_pushed_and_keeps_its_threshold(tmp_path):
    path = write(tmp_path, "train.csv", csv_text("text,label", rows_of(300, noise=0.2)))
    found = yaml.safe_load(write_config(str(path), str(tmp_path / "from.yaml"), checkpoint="none"))["evaluation"]
    line = (tmp_path / "from.yaml").read_text().splitlines()[-1]
    score = float(line.split("has accuracy ")[1].split(",")[0].split()[0])
    assert 0.55 <= found["thresholds"]["accuracy"] < score - 0.05 and "and is pushed where an encoder" in line


def test_few_examples_say_nothing_of_a_baseline(tmp_path):
    found, line = thresholds(tmp_path, rows_of(40))
    assert found == {"accuracy": 0.55} and "TF-IDF" not in line


def test_what_words_decide_nearly_always_is_left_to_the_comparison_of_a_run(tmp_path):
    found, line = thresholds(tmp_path, rows_of(200))
    assert found == {"accuracy": 0.95} and "a run compares" in line


def test_texts_that_occur_again_are_not_known_by_heart(tmp_path):
    drawn = random.Random(1)
    rows = [(" ".join(drawn.sample(FILLERS, 6)) + f" number{at}", drawn.choice(("a", "b"))) for at in range(150)]
    found, _ = thresholds(tmp_path, rows * 4)
    assert found["accuracy"] < 0.7, "the labels are chance, and every text is there four times"


def test_where_a_file_is_held_out_that_is_what_counts(tmp_path):
    found, line = thresholds(tmp_path, rows_of(200), rows_of(120, noise=0.4, seed=2))
    assert 0.5 < found["accuracy"] < 0.8 and "on 120 examples" in line


def test_an_evaluation_example_that_stands_in_both_files_is_not_learned(tmp_path):
    drawn = random.Random(5)
    rows = [(" ".join(drawn.sample(FILLERS, 6)) + f" number{at}", drawn.choice(("a", "b"))) for at in range(300)]
    found, _ = thresholds(tmp_path, rows, rows[:120])
    assert found["accuracy"] < 0.7, "the labels are chance"


def test_numbers_have_a_threshold_above_word_overlap(tmp_path):
    drawn = random.Random(3)
    rows = []
    for _ in range(150):
        shared = drawn.randrange(7)
        words = [f"word{drawn.randrange(500)}" for at in range(6)]
        others = words[:shared] + [f"other{drawn.randrange(500)}" for _ in range(6 - shared)]
        rows.append((" ".join(words), " ".join(others), f"{shared / 2 + drawn.random() * 1.5:.2f}"))
    found, line = thresholds(tmp_path, rows, header="sentence1,sentence2,score")
    assert 0.6 < found["pearson"] <= 0.95 and "word overlap has pearson" in line
