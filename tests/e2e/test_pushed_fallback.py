"""A whole pipeline from a file whose encoder TF-IDF beats, to a served answer: TF-IDF is pushed, and told everywhere."""

import json
import random

import pytest
from lines import Line, write_config, write_csv

pytestmark = pytest.mark.full  # its parts are in tests/integration/components/test_fallback.py

SIGNS = {"坏": ("无聊", "难看", "失望"), "好": ("精彩", "好看", "感人")}
OTHERS = "这部电影的故事和演员让人觉得非常结局音乐画面导演"
SENTENCE = "TF-IDF with logistic regression"


def reviews(count=400):
    chance = random.Random(4)

    def some():
        return "".join(chance.choice(OTHERS) for _ in range(chance.randrange(3, 9)))

    for number in range(count):
        label = chance.choice(sorted(SIGNS))
        yield {"text": f"{some()}{chance.choice(SIGNS[label])}{some()}{number}", "label": label, "source": "网"}


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fallback")
    write_csv(folder / "reviews.csv", list(reviews()))
    write_config(
        folder,
        data={"split": {"eval_fraction": 0.25}},
        training={"epochs": 1, "learning_rate": 1e-6},
        evaluation={"must_beat_baselines": True, "thresholds": {"accuracy": 0.8}},
    )
    return Line(folder)


def test_tf_idf_is_pushed_served_and_told(line):
    done = line.run()
    assert done.exit_code == 0, done.output
    summary, said = line.summary, " ".join(done.output.split())
    assert summary["kind"] == "tf-idf" and summary["pushed_version"] == 1 and summary["metrics"]["accuracy"] > 0.95
    assert (
        summary["serve_check"]["blessed"] and summary["baselines"]["tf-idf"]["accuracy"] == summary["metrics"]["accuracy"]
    )
    assert f"model {SENTENCE}, no encoder (accuracy" in said and "of the encoder trained from scratch" in said
    assert "--set model.checkpoint=FOLDER" in said and "start from a pre-trained encoder of this language" in said
    asked = line.call("predict", "真好看", "太无聊了", "--json")
    answers = [json.loads(row) for row in asked.output.splitlines() if row.startswith("{")]
    assert [answer["label"] for answer in answers] == ["好", "坏"] and f"note: the model is {SENTENCE}" in asked.output


def test_its_record_says_what_it_is(line):
    from mlflow import MlflowClient

    summary = line.summary
    client = MlflowClient(summary["mlflow_uri"])
    tags = client.get_run(summary["mlflow_run_id"]).data.tags
    assert tags["model_kind"] == "tf-idf" and "of the encoder trained from scratch" in tags["model_kind_why"]
    (version,) = client.search_model_versions("name = 'tiny'")
    assert version.tags["kind"] == "tf-idf"
    assert SENTENCE in line.call("report", "--last").output
    assert f"{SENTENCE} and has no encoder" in line.call("lineage", "1").output


def test_who_wants_the_encoder_gets_it(line):
    never = line.run("--set", "training.fallback=never", "--set", "evaluation.must_beat_baselines=false")
    assert line.summary["kind"] == "encoder" and "accuracy" in never.output
    compared = line.call("compare", "--last", "2")
    assert f"the model is {SENTENCE} and has no encoder" in " ".join(compared.output.split()), compared.output
