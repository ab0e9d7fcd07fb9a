"""The config refuses what is wrong before anything heavy is imported, and says what would be right."""

import json
import subprocess
import sys
import textwrap

import checkpoint_files
import pytest

from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import Config, task_names
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.loader import load
from bertline.pipeline.settings.metric_names import metric_names
from bertline.pipeline.settings.source import preset_names

MINIMAL = """
name: tickets
data:
  path: tickets.csv
  text: body
  label: queue
evaluation:
  thresholds: {accuracy: 0.8}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = tmp_path / "my.yaml"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def refusal(source, overrides=()):
    with pytest.raises(BertlineError) as error:
        load(source, overrides)
    return str(error.value)


def test_a_config_of_eight_lines_is_enough(write, tmp_path):
    config = load(write(MINIMAL))
    assert config.data.path == str(tmp_path / "tickets.csv")
    assert config.training.learning_rate == 5e-4  # from scratch
    assert config.model.num_layers == 2 and config.model.intermediate_dim == 512
    assert config.push_path == tmp_path / "workspace" / "models" / "tickets"


def test_one_column_or_two_hold_the_texts(write):
    assert load(write(MINIMAL)).data.text_columns == {"text": "body"}
    pair = load(write(MINIMAL.replace("text: body", "text: [premise, hypothesis]")))
    assert pair.data.text_columns == {"text": "premise", "text_2": "hypothesis"}
    assert load(write(MINIMAL.replace("text: body", "text: [body]"))).data.text == "body"
    assert Config.from_json(pair.to_json()) == pair


def test_answering_reads_squads_files_split_by_article(write):
    asked = "name: qa\ntask: answering\ndata: {path: squad.json}\nevaluation: {thresholds: {f1: 0.8}}\n"
    config = load(write(asked))
    assert (config.data.format, config.data.label, config.data.split.group) == ("squad", None, "title")
    assert config.data.text_columns == {"text": "question", "text_2": "context"} and config.text.seq_len == 384
    assert load(write(asked), ["data.split.group=id", "text.seq_len=256"]).data.split.group == "id"


@pytest.mark.parametrize("token", ["URL", "[U RL]", "[]", "[URL", "[[A]]"])
def test_a_reserved_token_without_brackets_is_refused(write, token):
    message = refusal(write(MINIMAL), [f'text.reserved_tokens=["{token}"]'])
    assert f"{token!r} is not letters, digits, - and _ in brackets" in message


def test_every_preset_loads():
    for name in preset_names():
        assert load(name).name == name


def test_a_resolved_config_survives_json():
    config = load("reviews")
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("body", "body\n  lable: x"), ["line 6", "data.lable is not a setting", "did you mean label?"]),
        (("thresholds: {accuracy: 0.8}", "thresholds: {}"), ["line 8", "name at least one metric"]),
        (("name: tickets", "name: My Tickets"), ["line 2", "name"]),
        (("path: tickets.csv", "train: tickets.csv"), ["give either `path`, or both `train` and `eval`"]),
        (("evaluation:", "eval:"), ["eval is not a setting", "evaluation is missing"]),
        (("name: tickets", "name: tickets\ntask: clasification"), ["did you mean classification?"]),
        (("label: queue", "label: body"), ["name the same column 'body'"]),
        (("text: body", "text: [body, queue]"), ["name the same column 'queue'"]),
        (("text: body", "text: [body, body]"), ["line 5", "both texts name the same column 'body'"]),
        (("text: body", "text: [a, b, c]"), ["line 5", "one text or two, and 3 columns are named"]),
        (("text: body", "text: 7"), ["line 5", "name the column of the text, or two columns"]),
        (("text: body", "text: []"), ["line 5", "one text or two, and 0 columns are named"]),
    ],
)
def test_a_mistake_is_named_with_line_and_remedy(write, change, expected):
    message = refusal(write(MINIMAL.replace(*change)))
    for part in expected:
        assert part in message


def test_broken_yaml_names_line_and_column(write):
    assert "line 3, column" in refusal(write("name: x\ndata: {a: 1\nb: ]"))


def test_an_unknown_preset_gets_the_nearest_one():
    assert "did you mean reviews?" in refusal("review")


def test_set_changes_one_setting_and_refuses_nonsense(write):
    assert load("reviews", ["training.epochs=7", "training.buckets=[8, 16]"]).training.buckets == (8, 16)
    changed = load(write(MINIMAL), ["evaluation.thresholds.accuracy=0.9", "data.text=title"])  # which the file gives
    assert (changed.evaluation.thresholds, changed.data.text) == ({"accuracy": 0.9}, "title")
    assert "section.key=value" in refusal("reviews", ["training.epochs"])
    assert "training.epoch is not a setting; did you mean epochs?" in refusal("reviews", ["training.epoch=2"])
    assert "name is a value, not a section" in refusal("reviews", ["name.x=2"])


def test_a_checkpoint_brings_its_vocabulary_case_and_sizes():
    config = load("reviews")
    assert (
        config.text.vocab.endswith("vocab.txt") and config.text.lowercase and config.text.tokenizer_variant == "huggingface"
    )
    assert "a checkpoint has its own sizes; leave out num_layers" in refusal("reviews", ["model.num_layers=3"])


def test_what_the_user_says_of_the_text_stands_above_what_the_checkpoint_says(write, tmp_path):
    folder = checkpoint_files.write_config(tmp_path / "encoder")
    for path in (folder / "vocab.txt", folder / "model.safetensors", tmp_path / "mine.txt"):
        path.touch()
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": false}')
    cased = write(MINIMAL + "model: {checkpoint: encoder}\n")
    assert (load(cased).text.lowercase, load(cased).text.strip_accents) == (False, False)
    mine = {"lowercase": True, "strip_accents": True, "tokenizer_variant": "original", "vocab": str(tmp_path / "mine.txt")}
    chosen = load(write(MINIMAL + f"model: {{checkpoint: encoder}}\ntext: {json.dumps(mine)}\n"), ["text.lowercase=true"])
    assert chosen.text.model_dump(include=set(mine)) == mine


def test_a_folder_that_is_no_checkpoint_is_refused(write, tmp_path):
    message = refusal(write(MINIMAL + f"model: {{checkpoint: {tmp_path}}}\n"))
    assert "has no config.json" in message


def test_help_and_config_errors_import_neither_tensorflow_nor_tfx():
    script = (
        "import sys; from bertline.pipeline import cli; from bertline.pipeline.settings.loader import load; "
        "load('reviews');"
        "print([m for m in ('tensorflow', 'tfx', 'apache_beam', 'mlflow', 'keras') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"


def test_a_run_that_cannot_be_asked_for_is_refused_without_importing_mlflow(tmp_path):
    script = (
        "import sys; from bertline.pipeline.settings.loader import load; from bertline.pipeline.core.errors "
        "import BertlineError\n"
        "for name in ('latest', 'abcdef'):\n"
        "    try: load('reviews', [f'model.checkpoint=runs:/{name}'], workspace=sys.argv[1])\n"
        "    except BertlineError as error: print(error, 'mlflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "new"], capture_output=True, text=True, check=True)
    malformed, absent = done.stdout.splitlines()
    assert "runs:/latest is not runs:/ and the id of an MLflow run" in malformed and malformed.endswith(" False")
    assert f"there is no MLflow store sqlite:///{tmp_path}/new/mlflow.db" in absent and absent.endswith(" False")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("password", ["hunter2", "p@hunter2", "hunter2@"])
def test_a_password_in_the_tracking_address_is_refused_and_not_repeated(password):
    message = refusal("reviews", [f"tracking.uri=https://me:{password}@example.org"])
    assert "MLFLOW_TRACKING_PASSWORD" in message and "hunter2" not in message and "example.org" in message


def test_seeds_are_whole_numbers_and_each_is_named_once():
    assert load("reviews").seeds == () and load("reviews", ["seeds=[1, 2, 3]"]).seeds == (1, 2, 3)
    assert "name each seed once" in refusal("reviews", ["seeds=[1, 2, 1]"])
    assert "greater than or equal to 0 (received -1)" in refusal("reviews", ["seeds=[-1]"])
    assert "at most 100 items" in refusal("reviews", [f"seeds={list(range(101))}"])
    assert "seeds" in refusal("reviews", ["seeds=3"])


PHASES = """
name: bert
task: pretraining
data: {path: corpus.txt}
pretraining:
  phases:
    - {seq_len: 64, epochs: 3, batch_size: 64}
    - {seq_len: 256, batch_size: 16}
evaluation:
  thresholds: {perplexity: 60}
"""


def test_phases_decide_how_long_a_text_may_be(write):
    config = load(write(PHASES))
    assert config.text.seq_len == 256
    assert [(phase.epochs, phase.batch_size) for phase in config.pretraining.phases] == [(3, 64), (1, 16)]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("text.seq_len=128", "their seq_len must rise, up to text.seq_len (received [64, 256] and 128"),
        ("pretraining.phases=[{seq_len: 256}, {seq_len: 64}]", "their seq_len must rise"),
        ("pretraining.phases=[{seq_len: 1024}]", "less than or equal to 512"),
        ("pretraining.phases=[{seq_len: 64, epoch: 2}]", "epoch"),
        ("training.gradient_accumulation_steps=32", "batch_size=16 cannot be divided into 32 equal parts"),
    ],
)
def test_phases_that_cannot_be_are_refused(write, override, expected):
    assert expected in refusal(write(PHASES), [override])


@pytest.mark.parametrize(
    ("change", "line", "nearest"),
    [
        (("{accuracy: 0.8}", "\n    acuracy: 0.8"), 9, "evaluation.thresholds.acuracy: the task classification"),
        (("{accuracy: 0.8}", "{accuracy: 0.8}\n  slice_thresholds: {acuracy: 0.5}"), 9, "slice_thresholds.acuracy"),
        (("evaluation:", "training: {monitor: acuracy}\nevaluation:"), 7, "training.monitor"),
    ],
)
def test_a_misspelt_metric_is_named_with_its_line_and_the_nearest_one(write, change, line, nearest):
    message = refusal(write(MINIMAL.replace(*change)))
    assert f"my.yaml, line {line}: " in message and nearest in message
    assert "has no metric 'acuracy'; did you mean accuracy?; it has accuracy, f1" in message


def test_the_metrics_that_a_config_may_name_are_those_of_its_task():
    for task in task_names():
        assert metric_names(task) == tuple(get_task(task).evaluation.metrics)


@pytest.mark.parametrize("name", ["mails.csv", "mails.tsv.gz", "mails.jsonl", "mails.xlsx", "squad.json", "folder"])
def test_data_in_the_place_of_a_config_is_told_of_the_command_that_writes_one(tmp_path, name):
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text('{"data": []}')
    assert f"not a config; `bertline new {tmp_path / name}` writes one" in refusal(str(tmp_path / name))


def test_a_config_may_be_json(write, tmp_path):
    whole = {"name": "x", "data": {"path": "a.csv", "label": "y"}, "evaluation": {"thresholds": {"accuracy": 0.8}}}
    (tmp_path / "my.json").write_text(json.dumps(whole))
    assert load(str(tmp_path / "my.json")).name == "x"
