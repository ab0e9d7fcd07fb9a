"""CoNLL files, in all the ways in which they are written: a sentence a row, and one bad line spoils one sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bertline.components.ingest.files import InputFile, find_files
from bertline.components.ingest.readers import conll, records
from bertline.components.ingest.readers.records import BadRow, Row
from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.components.ingest.rows import WRONG_TAGS, sort_example
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError


def rows_of(folder: Path, content: str | bytes, name: str = "a.conll", **settings) -> list[Row | BadRow]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = DataConfig(path=str(path), **settings)
    check_inputs(data)
    (file,) = find_files(data)
    return list(read(file, data, ("text", "label")))


def sentences(rows: list[Row | BadRow]) -> list[tuple[int, str | None, str | None]]:
    return [(row.line, row.values["text"], row.values["label"]) for row in rows if isinstance(row, Row)]


EXPECTED = [(1, "Ada Lovelace wrote", "B-PER I-PER O"), (5, "In London", "O B-LOC")]


@pytest.mark.parametrize("between", ["\t", " ", "   ", "\tNNP\t", " NNP B-NP ", "\tNNP\tB-NP\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_words_and_tags_are_read_from_two_to_four_columns(tmp_path, between, end, begin):
    lines = ["Ada B-PER", "Lovelace I-PER", "wrote O", "", "In O", "London B-LOC"]
    content = begin + end.join(line.replace(" ", between) for line in lines)
    assert sentences(rows_of(tmp_path, content)) == EXPECTED
    assert sentences(rows_of(tmp_path, content + end + end)) == EXPECTED


def test_lines_of_white_space_and_document_starts_part_sentences(tmp_path):
    content = "-DOCSTART- -X- O O\n\na x y O\n \n\t\n-DOCSTART- -X- -X- O\nb x y O\n\r\n\nc x y O\n"
    assert sentences(rows_of(tmp_path, content)) == [(3, "a", "O"), (7, "b", "O"), (10, "c", "O")]


def test_a_hash_is_a_comment_only_where_it_cannot_be_a_word(tmp_path):
    lines = [
        "# sent_id = 1",
        "#begin",
        "#hashtag\tO",
        "#\tO",
        "# in the middle of it",
        "Ada\tB-PER",
        "",
        "#",
        "#\tO",
        "# O",
    ]
    found = sentences(rows_of(tmp_path, "\n".join(lines)))
    assert found == [(3, "#hashtag # Ada", "O O B-PER"), (9, "# #", "O O")]
    assert sentences(rows_of(tmp_path, "# a comment\n# id 7\na O\n# O\n#a O\n")) == [(3, "a # #a", "O O O")]


def test_a_hash_word_without_its_tag_is_a_mistake_and_no_comment(tmp_path):
    (bad,) = rows_of(tmp_path, "a\tO\n#hashtag\nb\tO\n")
    assert (bad.line, bad.kind) == (2, conll.MISSING_TAG) and "'#hashtag' has no tag" in bad.reason
    (bad,) = rows_of(tmp_path, "a\tO\n#\nb\tO\n")
    assert (bad.line, bad.kind) == (2, conll.MISSING_TAG)


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("Ada", conll.MISSING_TAG, "the word 'Ada' has no tag"),
        ("Ada\tNNP\t", conll.MISSING_TAG, "the word 'Ada' has no tag"),
        ("Ada\tB-PER", records.COLUMNS, "2 columns where 3 belong"),
        ("Ada\tNNP\tx\tB-PER", records.COLUMNS, "4 columns where 3 belong"),
        ("\tNNP\tB-PER", records.COLUMNS, "the tag 'B-PER' has no word before it"),
        ("Ada\tNNP\tPER", conll.NO_TAG, "'PER' is no tag; a tag is O, or a letter and a type, as B-PER"),
        ("A\0da\tNNP\tO", records.UNUSABLE, "a.conll, line 4, column 2: a NUL byte"),
    ],
)
def test_a_bad_line_is_told_by_file_and_line_and_spoils_its_sentence_only(tmp_path, line, kind, reason):
    before, bad, after = rows_of(tmp_path, f"one\tx\tO\n\ntwo\tx\tO\n{line}\nthree\tx\n\nfour\tx\tO\n")
    assert isinstance(before, Row) and isinstance(after, Row) and after.values["text"] == "four"
    assert isinstance(bad, BadRow) and bad.place == f"{tmp_path}/a.conll:4" and bad.kind == kind
    assert bad.reason.startswith(reason) and bad.raw == line


def test_an_undecodable_byte_spoils_its_sentence_only(tmp_path):
    bad, good = rows_of(tmp_path, b"caf\xe9 O\n\ncaf\xc3\xa9 O\n")
    assert bad.kind == records.ENCODING and bad.line == 1 and "0xE9" in bad.reason
    assert good.values["text"] == "café"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "there is no word in the file"),
        ("# a comment\n\n", "there is no word in the file"),
        ("text,label\na,x\n", ":1: no line of the file is a word and a tag in 2 to 4 columns"),
        ("\n1\tAda\tada\tPROPN\tNNP\t_\t0\troot\t_\t_\n", ":2: no line of the file is a word and a tag"),
    ],
)
def test_a_file_that_is_something_else_is_refused_at_once(tmp_path, content, part):
    with pytest.raises(BertlineError) as caught:
        rows_of(tmp_path, content)
    assert part in str(caught.value) and "a.conll" in str(caught.value)


def test_a_word_with_a_space_in_it_stays_one_word(tmp_path):
    (row,) = rows_of(tmp_path, "10 000\tO\n\u3000\tO\nfois\tO\n")
    assert row.values["text"] == "10\u00a0000 \u3000 fois"
    kept = sort_example(row, DataConfig(path="a.conll"), "train", (), "tags")
    assert kept.features == {"text": "10\u00a0000 \u3000 fois", "label": ("O", "O", "O"), "words": 3}


def test_segment_numbers_are_dropped_on_request(tmp_path):
    content = "科0\tB-GPE.NAM\n技1\tI-GPE.NAM\n310\tO\n\ufffd\ufffd0\tO\n"
    (row,) = rows_of(tmp_path, content, segment_numbers=True)
    assert row.values == {"text": "科 技 3 \ufffd\ufffd", "label": "B-GPE.NAM I-GPE.NAM O O"}
    (row,) = rows_of(tmp_path, content)
    assert row.values["text"] == "科0 技1 310 \ufffd\ufffd0"
    (bad,) = rows_of(tmp_path, "科\tO\n", segment_numbers=True)
    assert bad.kind == conll.SEGMENTS and "data.segment_numbers" in bad.reason


def test_other_endings_are_named_by_the_config_and_compressed_files_are_looked_through(tmp_path):
    assert sentences(rows_of(tmp_path, "a O\n", "weibo.train", format="conll")) == [(1, "a", "O")]
    assert sentences(rows_of(tmp_path, gzip.compress(b"a O\n"), "a.iob2.gz")) == [(1, "a", "O")]


def test_a_column_that_no_conll_file_has_is_named(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("a O\n")
    with pytest.raises(BertlineError, match="evaluation.slices: of CoNLL files only the word and its tag are read"):
        check_inputs(DataConfig(path=str(path)), ["source"])


def sorted_row(text: str | None, label: str | None, **settings):
    return sort_example(
        Row("a.csv", 3, {"text": text, "label": label}), DataConfig(path="a.csv", **settings), "train", (), "tags"
    )


def test_words_and_tags_may_stand_in_two_columns_of_any_file():
    kept = sorted_row("Ada  Lovelace wrote\n", "B-PER I-PER O")
    assert kept.features == {"text": "Ada Lovelace wrote", "label": ("B-PER", "I-PER", "O"), "words": 3}
    assert kept.labels == ("B-PER", "I-PER", "O") and kept.missing == ()


def test_words_and_tags_may_be_lists_of_a_jsonl_file(tmp_path):
    lines = ['{"tokens": ["Ada", "wrote\u3000much"], "tags": ["B-PER", "O"]}', '{"tokens": ["Ada wrote"], "tags": ["O"]}']
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([*lines, '{"tokens": [], "tags": []}']), encoding="utf-8")
    data = DataConfig(path=str(path), text="tokens", label="tags")
    rows = read(InputFile(str(path), "jsonl", None), data, ("tokens", "tags"))
    kept, bad, empty = (sort_example(row, data, "train", (), "tags") for row in rows)
    assert kept.features == {"text": "Ada wrote\u3000much", "label": ("B-PER", "O"), "words": 2}
    assert bad.kind == WRONG_TAGS and bad.line == 2 and "'Ada wrote'" in bad.reason
    assert len(empty.missing) == 2


def test_a_row_whose_tags_do_not_fit_is_bad():
    for text, label, settings, reason in (
        ("Ada wrote", "B-PER", {}, "2 words and 1 tags; each word has one tag"),
        ("Ada wrote", "PER O", {}, "'PER' is no tag"),
        ("Ada wrote", "O I-PER", {"tag_scheme": "IOB2"}, "'I-PER' cannot follow 'O' in IOB2"),
    ):
        bad = sorted_row(text, label, **settings)
        assert isinstance(bad, BadRow) and bad.kind == WRONG_TAGS and bad.line == 3 and bad.reason.startswith(reason)


def test_a_row_without_words_or_tags_is_incomplete():
    assert sorted_row("Ada wrote", None).features == {"text": "Ada wrote", "words": 2}
    assert sorted_row(None, "B-PER O").features == {"label": ("B-PER", "O"), "words": 0}
    assert sorted_row("Ada", None, incomplete="quarantine").kind == "missing label"
