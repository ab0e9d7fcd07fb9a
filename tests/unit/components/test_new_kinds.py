"""`bertline new` tells kinds of data apart, says why in the config, and refuses what it cannot read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import new_files
import pytest
from new_files import ENDINGS, SENTENCES, csv_text, squad_json, write

from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.components.ingest.rows import sort_example
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import describe, write_config
from bertline.pipeline.settings.loader import load


def config_of(path, **asked):
    """The config that is written for a file, as it loads."""
    out = f"{path}.yaml"
    write_config(path, out, **asked)
    return load(out)


def comments(path, **asked):
    out = Path(f"{path}.yaml")
    out.unlink(missing_ok=True)
    return write_config(path, str(out), **asked)


@pytest.mark.parametrize("kind", list(new_files.KINDS))
def test_every_kind_is_told_by_its_file_alone(tmp_path, kind):
    make, task = new_files.KINDS[kind]
    config = config_of(make(tmp_path))
    assert config.task == task
    check_inputs(config.data)


@pytest.mark.parametrize("kind", list(new_files.KINDS))
def test_task_and_bound_have_a_reason(tmp_path, kind):
    lines = comments(new_files.KINDS[kind][0](tmp_path)).splitlines()
    assert lines[0].startswith("# Inferred from ")
    for begin in ("task: ", ("  size: ", "  checkpoint: "), "  thresholds: "):
        (line,) = [line for line in lines if line.startswith(begin)]
        assert "   # " in line


def test_several_classes_a_row_are_found_in_a_column_and_in_a_list(tmp_path):
    config = config_of(new_files.several(tmp_path))
    assert (config.data.label, config.data.label_delimiter) == ("moods", ";")
    assert config.evaluation.thresholds == {"micro_f1": 0.3}
    config = config_of(new_files.several_lists(tmp_path))
    assert (config.data.label, config.data.label_delimiter) == ("moods", ",")
    assert "any number of 3 classes per example" in comments(new_files.several_lists(tmp_path))


def test_choices_are_found_in_columns_and_in_a_list(tmp_path):
    config = config_of(new_files.endings(tmp_path))
    assert (config.data.text, config.data.choices) == ("ctx", ("ending0", "ending1", "ending2"))
    assert config.evaluation.thresholds == {"accuracy": 0.4} and config.data.first_choice == 0
    config = config_of(new_files.lists(tmp_path))
    assert (config.data.text, config.data.choices, config.data.label) == ("question", "choices", "answer")
    assert "each example has 2 to 3 texts" in comments(new_files.lists(tmp_path))


@pytest.mark.parametrize(
    "header, labels, first",
    [
        ("question,A,B,C,label", "ABC", 0),
        ("q,option1,option2,option3,answer", "123", 1),
        ("q,sol_a,sol_b,sol_c,gold", "abc", 0),
    ],
)
def test_choices_go_by_letters_and_by_numbers_from_1(tmp_path, header, labels, first):
    rows = [(text, *ENDINGS, labels[at % 3]) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.csv", csv_text(header, rows)))
    assert config.task == "choice" and config.data.first_choice == first
    assert config.data.choices == tuple(header.split(",")[1:4])


def test_choices_without_a_header_are_found_by_labels_that_count_them(tmp_path):
    rows = [("xy"[at % 2], text, *(f"{end} {at}" for end in ENDINGS), str(at % 3)) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.csv", csv_text("", rows)))
    assert config.task == "choice"
    assert config.data.columns == ("column1", "text", "choice1", "choice2", "choice3", "label")


def test_a_text_is_read_with_the_question_that_the_choices_answer(tmp_path):
    rows = [(text, "What did it say?", *ENDINGS, str(at % 3)) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.csv", csv_text("context,question,answer0,answer1,answer2,label", rows)))
    assert config.task == "choice" and config.data.text == ("context", "question")


def test_a_label_is_known_by_a_word_of_its_name(tmp_path):
    rows = [(text, "yn"[at % 2], str(at % 5)) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.csv", csv_text("body,verified,star_rating", rows)))
    assert config.data.label == "star_rating"


def test_numbered_columns_of_numbers_are_no_choices(tmp_path):
    rows = [(text, "1", "5", "3", str(at % 3)) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.csv", csv_text("text,rating1,rating2,rating3,label", rows)))
    assert (config.task, config.data.label) == ("classification", "label")


def test_a_table_of_scores_without_a_header_whose_quotes_are_letters_is_understood(tmp_path):
    lines = [
        f'main\t{at:04}\t{at / 8:.3f}\tIt says {at}{", too" * (at % 2)}.\tSo "it is.{chr(9) + "more" if at > 20 else ""}'
        for at in range(40)
    ]
    config = config_of(write(tmp_path, "sts.csv", "\n".join(lines)))
    assert config.task == "regression" and config.data.text == ("text1", "text2") and config.data.label == "label"
    assert (config.data.delimiter, config.data.quotes, config.data.further_columns) == ("\t", False, True)


def test_whole_numbers_are_classes_unless_they_are_many_points(tmp_path):
    rows = [(text, str(at)) for at, text in enumerate(SENTENCES)] * 3
    assert config_of(write(tmp_path, "a.csv", csv_text("text,intent", rows))).task == "classification"
    assert config_of(write(tmp_path, "b.csv", csv_text("text,score", rows))).task == "regression"


@pytest.mark.parametrize("name", ["names.conll", "train.txt", "names.tsv", "names.dev", "names"])
def test_conll_is_known_by_its_lines_whatever_its_name(tmp_path, name):
    config = config_of(write(tmp_path, name, "-DOCSTART- -X- O\n\n# of a letter\nAda\tB-PER\nwrote\tO\n\n" * 20))
    assert (config.task, config.data.format, config.data.tag_scheme) == ("tagging", "conll", "any")
    assert config.evaluation.thresholds == {"f1": 0.3} and not config.data.segment_numbers


def test_numbers_at_every_word_are_dropped_and_mentioned(tmp_path):
    path = write(tmp_path, "weibo.train", "王0\tB-PER.NAM\n明1\tI-PER.NAM\n在0\tO\n\n" * 9)
    assert config_of(path).data.segment_numbers
    assert "segment_numbers: true   # every word ends with a number" in comments(path)


def test_questions_are_split_by_text_where_articles_are_too_few(tmp_path):
    config = config_of(write(tmp_path, "a.json", squad_json(articles=1, paragraphs=40)))
    assert config.task == "answering" and config.data.split.group == "context"
    assert config_of(new_files.squad(tmp_path)).data.split.group == "title"


def test_the_bound_of_answers_is_above_never_answering(tmp_path):
    config = config_of(write(tmp_path, "a.json", squad_json(articles=30, paragraphs=2, impossible=True)))
    assert config.evaluation.thresholds == {"f1": 0.6}


def test_json_with_an_object_a_line_is_a_table(tmp_path):
    lines = [json.dumps({"text": text, "label": at % 2}) for at, text in enumerate(SENTENCES)]
    config = config_of(write(tmp_path, "a.json", "\n".join(lines)))
    assert (config.task, config.data.format) == ("classification", "jsonl")


def test_documents_with_headings_and_several_sentences_a_line(tmp_path):
    config = config_of(
        write(tmp_path, "a.raw", "".join(f" = {at} = \n\n It was {at}. It rained. All left.\n" for at in range(40)))
    )
    assert (config.task, config.data.format) == ("pretraining", "documents")
    assert (config.data.documents, config.data.sentences) == ("headings", "split")
    assert config_of(new_files.documents(tmp_path)).data.sentences == "lines"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
@pytest.mark.parametrize("name, content", [("a.txt", "Un café.\n\n"), ("a.conll", "Zoé B-PER\ndort O\n\n")])
def test_another_encoding_of_text_is_found(tmp_path, name, content, encoding):
    lines = "".join(content.replace("Un", f"Un {at}") for at in range(40))
    assert config_of(write(tmp_path, name, lines, encoding)).data.encoding == encoding


def test_text_with_as_many_tabs_in_every_line_is_a_table(tmp_path):
    config = config_of(write(tmp_path, "a.txt", "".join(f"{text}\t{at % 2}\n" for at, text in enumerate(SENTENCES))))
    assert (config.task, config.data.format, config.data.columns) == ("classification", "tsv", ("text", "label"))


def test_files_of_glue_are_known_by_their_columns_and_labels(tmp_path):
    path = new_files.glue(tmp_path)
    assert "task: glue/rte   # train.tsv and dev.tsv are laid out as its files" in comments(path)
    assert config_of(new_files.glue(tmp_path, ("0", "1"), "other")).evaluation.thresholds == {"accuracy": 0.57}
    assert "task: glue/wnli" in Path(f"{tmp_path}/other.yaml").read_text()


def test_where_several_tasks_of_glue_fit_they_are_named(tmp_path):
    content = "index\tsentence1\tsentence2\tgold_label\n" + "".join(
        f"{at}\t{text}\tSo.\tneutral\n" for at, text in enumerate(SENTENCES)
    )
    for name in ("train.tsv", "dev_matched.tsv", "dev_mismatched.tsv"):
        write(tmp_path / "mnli", name, content)
    with pytest.raises(BertlineError, match="fit glue/mnli and glue/mnli-mm; say which it is, as --task glue/mnli"):
        describe(str(tmp_path / "mnli"))
    assert Path(config_of(str(tmp_path / "mnli"), task="glue/mnli-mm").data.eval).name == "dev_mismatched.tsv"


def test_other_folders_have_a_file_to_train_on_and_one_to_hold_out(tmp_path):
    for name in ("my-train.csv", "my-dev.csv", "my-test.csv"):
        Path(new_files.classes(tmp_path / "mails")).rename(tmp_path / "mails" / name)
    config = config_of(str(tmp_path / "mails"))
    assert [Path(path).name for path in (config.data.train, config.data.eval)] == ["my-train.csv", "my-dev.csv"]
    assert config.name == "mails"
    new_files.squad(tmp_path / "alone")
    assert config_of(str(tmp_path / "alone")).task == "answering"


def test_a_task_that_is_asked_for_is_taken_if_it_fits(tmp_path):
    assert config_of(new_files.numbers(tmp_path), task="similarity").task == "similarity"
    assert config_of(new_files.pairs(tmp_path), task="matching").data.label is None
    with pytest.raises(BertlineError, match="do not look like those of choice; they look like classification"):
        describe(new_files.classes(tmp_path), task="choice")
    with pytest.raises(BertlineError, match="--task taging: there is no such task; did you mean tagging"):
        describe(new_files.classes(tmp_path), task="taging")
    with pytest.raises(BertlineError, match="conll is for the task tagging"):
        describe(new_files.conll(tmp_path), task="classification")


def test_pairs_without_a_label_are_told_of_matching(tmp_path):
    rows = [(text, f"It says {at}.") for at, text in enumerate(SENTENCES)]
    with pytest.raises(BertlineError, match="no column looks like a label.*--task matching"):
        describe(write(tmp_path, "a.csv", csv_text("query,document", rows)))


@pytest.mark.parametrize(
    "name, content, part",
    [
        ("a.xlsx", b"PK\x03\x04", "a workbook; unpack it, or save the sheet as CSV"),
        ("a.data", b"\x1f\x8b\x08", "give it an ending .gz"),
        ("a.bin", b"a\0b", "not text"),
        ("a.json", b'[{"text": "a"}]', "write one object a line"),
        ("a.json", b'{"text": [\n1]}', "no list 'data'"),
        ("a.txt", b" \n", "empty"),
        ("a.txt", b"Only this.\nAnd that.\n", "plain text of 1 document, too few"),
        ("a.conll", b"Ada O\nwrote O\n", "every tag of 1 sentences is O"),
        ("a.conll", b"Ada wrote to London\n", "Is it a CoNLL file"),
        ("a.json", squad_json(articles=1, paragraphs=1).encode(), "questions about 1 text, too few"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(tmp_path, name, content, part):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BertlineError) as error:
        describe(str(tmp_path / name))
    assert part in str(error.value) and name in str(error.value)


def test_a_folder_without_two_such_files_is_refused_with_what_it_has(tmp_path):
    write(tmp_path, "one.csv", "text\n")
    write(tmp_path, "two.csv", "text\n")
    with pytest.raises(BertlineError, match="one file with train in its name.*it has one.csv, two.csv"):
        describe(str(tmp_path))


CHARACTERS = list("王明住在北京")
CHARACTER_TAGS = ["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"]


def jsonl(folder, rows, name="a.jsonl"):
    return write(folder, name, "\n".join(json.dumps(row, ensure_ascii=False) for row in rows))


def test_lists_of_words_and_of_their_tags_are_tagging(tmp_path):
    rows = [{"id": at, "tokens": CHARACTERS, "ner_tags": CHARACTER_TAGS} for at in range(40)]
    config = config_of(path := jsonl(tmp_path, rows))
    assert (config.task, config.data.text, config.data.label) == ("tagging", "tokens", "ner_tags")
    (file,) = check_inputs(config.data)
    kept = sort_example(next(iter(read(file, config.data))), config.data, "train", (), "tags")
    assert kept.features["text"] == "王 明 住 在 北 京" and kept.features["label"] == tuple(CHARACTER_TAGS)
    assert "B-PER I-PER O O B-LOC I-LOC" in comments(path)


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("a.jsonl", [{"text": "".join(CHARACTERS), "labels": CHARACTER_TAGS}] * 40, ["a tag for each character of text"]),
        ("a.json", [[CHARACTERS, CHARACTER_TAGS]] * 40, ["each line is a JSON list", '"words": [']),
    ],
)
def test_tags_that_cannot_be_read_as_they_stand_are_told_how_to_write_them(tmp_path, name, content, parts):
    with pytest.raises(BertlineError) as error:
        describe(jsonl(tmp_path, content, name))
    assert all(part in str(error.value) for part in parts)


@pytest.mark.parametrize("indent", [None, 1])
def test_one_json_list_is_refused_with_a_command_that_makes_it_readable(tmp_path, indent):
    rows = [{"text": text, "label": "ab"[at % 2]} for at, text in enumerate(SENTENCES)]
    path = write(tmp_path, "my rows.json", json.dumps(rows, indent=indent))
    with pytest.raises(BertlineError, match="one JSON list") as error:
        describe(path)
    command = str(error.value).splitlines()[-1]
    subprocess.run(command.replace("python3", sys.executable, 1), shell=True, cwd=tmp_path, check=True)
    assert config_of(str(tmp_path / "my rows.jsonl")).task == "classification"


def test_a_folder_with_test_examples_that_have_labels_is_measured_by_them(tmp_path):
    folder = Path(new_files.three_files(tmp_path))
    config = config_of(str(folder))
    assert [Path(path).name for path in (config.data.train, config.data.eval, config.data.test)] == [
        "train.csv", "dev.csv", "test.csv",
    ]  # fmt: skip
    assert "chooses nothing" in comments(str(folder))
    for unlabelled in ("text\nA text.\n", "text,label\nA text.,\n"):
        (folder / "test.csv").write_text(unlabelled)
        assert "test" not in comments(str(folder))


def test_a_file_called_train_is_taken_with_those_beside_it(tmp_path):
    folder = Path(new_files.three_files(tmp_path))
    of_folder = config_of(str(folder)).data
    assert config_of(str(folder / "train.csv")).data == of_folder and of_folder.test
    (folder / "dev.csv").unlink()
    data = config_of(str(folder / "test.csv")).data
    assert data.path and data.test is None
    (folder / "train.csv.yaml").unlink()
    data = config_of(str(folder / "train.csv")).data
    assert (Path(data.path).name, Path(data.test).name) == ("train.csv", "test.csv")


def test_a_tag_for_each_character_is_no_export_of_doccano(tmp_path):
    rows = [{"id": at, "text": "王明", "label": ["B-PER", "I-PER"]} for at in range(20)]
    with pytest.raises(BertlineError, match="a tag for each character"):
        describe(jsonl(tmp_path, rows, "a.jsonl"))


def test_two_json_files_side_by_side_are_no_translation(tmp_path):
    rows = [{"text": text, "label": at % 2} for at, text in enumerate(SENTENCES)]
    for name in ("notes.en.json", "notes.no.json"):
        path = jsonl(tmp_path, rows, name)
    assert describe(path).task == "classification"


def test_of_two_classes_the_positive_one_is_written_with_its_reason_and_of_more_none(tmp_path):
    rows = [(text, "spam" if at % 5 else "ham") for at, text in enumerate(SENTENCES)]
    path = write(tmp_path, "mails.csv", csv_text("text,label", rows))
    assert config_of(path).data.positive == "spam"
    assert "  positive: spam   # by its name; f1 is of this class" in comments(path)
    many = write(tmp_path, "many.csv", csv_text("text,label", [(text, "abc"[at % 3]) for at, (text, _) in enumerate(rows)]))
    assert config_of(many).data.positive is None and "positive:" not in comments(many)
