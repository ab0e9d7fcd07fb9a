"""`bertline new` finds files that go together line by line, and says which language it takes for the source."""

from __future__ import annotations

import gzip
from pathlib import Path

import new_files
import pytest
from new_files import SENTENCES, write

from bertline.components.ingest.readers.registry import check_inputs
from bertline.pipeline.config import run, task_names
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import describe, write_config
from bertline.pipeline.new import inspection as looking
from bertline.pipeline.settings.loader import load


@pytest.fixture(autouse=True)
def known(monkeypatch):
    for module in (run, looking):
        monkeypatch.setattr(module, "task_names", lambda: sorted({*task_names(), "translation"}))


def config_of(path, **asked):
    """The config that is written for a file or folder, as it loads; its files pass the first look."""
    out = f"{path}.yaml"
    write_config(str(path), out, **asked)
    config = load(out)
    check_inputs(config.data)
    return config


def files(folder: Path, *names: str, lines: int = 40) -> Path:
    for name in names:
        write(folder, name, "\n".join(SENTENCES[:lines]))
    return folder


def test_a_folder_of_parallel_files_is_a_translation_and_its_test_files_stay_unread(tmp_path):
    folder = new_files.parallel(tmp_path)
    config = config_of(folder)
    assert (config.task, config.name, config.data.format) == ("translation", "captions", "parallel")
    assert [Path(path).name for path in (config.data.train, config.data.eval)] == ["train.en", "val.en"]
    assert (config.data.text, config.data.label) == ("en", "de") and config.text.seq_len == 128
    text = Path(f"{folder}.yaml").read_text()
    assert "test.* is not read" in text and "train.en and train.de" in text and "checkpoint" not in text


def test_the_file_that_is_named_is_translated_from(tmp_path):
    folder = Path(new_files.parallel(tmp_path))
    config = config_of(folder / "train.de")
    assert (Path(config.data.path).name, config.data.text, config.data.label) == ("train.de", "de", "en")


@pytest.mark.parametrize(
    "names, source, target",
    [
        (["train.en", "train.de", "dev.en", "dev.de"], "en", "de"),
        (["train.de-en.de", "train.de-en.en", "valid.de-en.de", "valid.de-en.en"], "de", "en"),
        (["train.fr.txt", "train.cs.txt", "val.fr.txt", "val.cs.txt"], "cs", "fr"),
        (["source.txt", "target.txt"], "source", "target"),
        (["train.tgt", "train.src", "test.src", "test.tgt"], "src", "tgt"),
        (["a.eng_Latn", "a.zho_Hans"], "eng_Latn", "zho_Hans"),
        (["a.pt-BR", "a.en"], "en", "pt-BR"),
    ],
)
def test_languages_are_found_in_names(tmp_path, names, source, target):
    config = config_of(files(tmp_path / "corpus", *names))
    assert (config.data.text, config.data.label) == (source, target)


def test_compressed_files_are_found_and_further_languages_named(tmp_path):
    folder = files(tmp_path / "corpus", "train.de", "train.fr", "val.en", "val.de", "val.fr")
    (folder / "train.en.gz").write_bytes(gzip.compress("\n".join(SENTENCES).encode()))
    assert Path(config_of(folder).data.train).name == "train.en.gz"
    assert "label: de   # translated into; could also be fr" in Path(f"{folder}.yaml").read_text()


@pytest.mark.parametrize("names", [["train.txt", "dev.txt"], ["notes.md", "notes.rst"], ["train.tok", "train.raw"]])
def test_names_that_differ_in_no_language_are_no_translation(tmp_path, names):
    folder = files(tmp_path / "corpus", *names)
    with pytest.raises(BertlineError, match="no two files here are aligned line by line"):
        describe(str(folder), format="parallel")
    with pytest.raises(BertlineError, match="no two files here are aligned|one file with train"):
        describe(str(folder), task="translation")


def test_files_out_of_step_are_told_and_can_be_used_for_something_else(tmp_path):
    folder = tmp_path / "corpus"
    write(folder, "a.en", "\n\n".join(SENTENCES))
    write(folder, "a.de", "Nur dies.\n")
    with pytest.raises(BertlineError, match="(?s)shifts all that follow.*say with --task what they are for"):
        describe(str(folder / "a.en"))
    assert describe(str(folder / "a.en"), task="pretraining").task == "pretraining"


def test_empty_lines_and_another_encoding_are_mentioned(tmp_path):
    folder = tmp_path / "corpus"
    write(folder, "a.en", "\n".join(SENTENCES))
    write(folder, "a.de", "\n".join(["", *(f"Satz Nummer {at}, schön" for at in range(39))]), "cp1252")
    config = config_of(folder)
    assert config.data.encoding == "cp1252" and config.data.incomplete == "stop"
    assert "or quarantine: 1 lines are empty on one side" in Path(f"{folder}.yaml").read_text()


def test_pairs_without_a_part_for_each_side_are_told(tmp_path):
    folder = files(tmp_path / "corpus", "a.en", "a.de", "b.en", "b.de")
    with pytest.raises(BertlineError, match=r"one pair with train in its name.*it has a\.\*, b\.\*"):
        describe(str(folder))
    folder = files(tmp_path / "other", "train.en", "train.de", "val.en", "val.fr")
    with pytest.raises(BertlineError, match="do not have two languages in common"):
        describe(str(folder))


def test_too_few_lines_to_hold_some_out_are_told(tmp_path):
    with pytest.raises(BertlineError, match="2 lines with their translations, too few"):
        describe(str(files(tmp_path / "corpus", "a.en", "a.de", lines=2)))


def test_a_table_is_a_translation_only_where_it_is_asked_for(tmp_path):
    path = new_files.translated_table(tmp_path)
    config = config_of(path, task="translation")
    assert (config.task, config.data.text, config.data.label) == ("translation", "source", "target")
    with pytest.raises(BertlineError, match="--task translation"):
        describe(path)
    with pytest.raises(BertlineError, match="do not look like those of translation"):
        describe(new_files.classes(tmp_path), task="translation")
