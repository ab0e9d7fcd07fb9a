"""The encoder that `bertline new` writes: named by the user, or at hand for the language, or none, with the reason."""

from __future__ import annotations

import pytest
import yaml
from checkpoint_files import write
from click.testing import CliRunner

from bertline.pipeline.cli import main
from bertline.pipeline.new.encoder import SAMPLE, unknown_words

ENGLISH = ["a fine film that moves", "a dull film that drags on"] * 20
CHINESE = ["这部电影非常感人值得一看", "剧情拖沓令人失望至极"] * 20


def model_of(folder, texts, *arguments):
    (folder / "texts.csv").write_text(
        "text,label\n" + "".join(f"{text} {number},{number % 2}\n" for number, text in enumerate(texts)), encoding="utf-8"
    )
    done = CliRunner().invoke(main, ["new", str(folder / "texts.csv"), "--out", str(folder / "made.yaml"), *arguments])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith(("  size:", "  checkpoint:"))]
    return yaml.safe_load((folder / "made.yaml").read_text())["model"], line


def test_english_texts_start_from_the_encoder_at_hand(tmp_path):
    assert model_of(tmp_path, ENGLISH)[0] == {"checkpoint": SAMPLE}


def test_a_language_that_the_encoder_at_hand_does_not_know_starts_from_scratch_and_says_what_to_get(tmp_path):
    model, line = model_of(tmp_path, CHINESE)
    assert model == {"size": "tiny"} and "[UNK]" in line and "of a BERT of this language" in line


def test_from_scratch_is_for_who_asks_for_it(tmp_path):
    assert model_of(tmp_path, ENGLISH, "--checkpoint", "none")[0] == {"size": "tiny"}


def test_a_checkpoint_that_is_named_is_written_by_its_place_beside_the_config(tmp_path, tensors):
    write(tmp_path / "bert", tensors)
    assert model_of(tmp_path, CHINESE, "--checkpoint", str(tmp_path / "bert"))[0] == {"checkpoint": "bert"}


def test_a_checkpoint_that_is_not_there_is_refused_and_nothing_written(tmp_path):
    (tmp_path / "texts.csv").write_text("text,label\n" + "a b c,x\nd e f,y\n" * 20)
    done = CliRunner().invoke(
        main,
        ["new", str(tmp_path / "texts.csv"), "--out", str(tmp_path / "made.yaml"), "--checkpoint", str(tmp_path / "no")],
    )
    assert done.exit_code == 1 and "does not exist" in done.output and not (tmp_path / "made.yaml").exists()


@pytest.mark.parametrize(("text", "fraction"), [("bad cäb", 0.0), ("bad 中 cab", 1 / 3), ("", 0.0)])
def test_unknown_words_are_those_that_a_tokenizer_calls_unk(tmp_path, text, fraction):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[UNK]\na\n##b\n##a\nb\nc\nd\n##d\nbad\n", encoding="utf-8")
    assert unknown_words([text], vocab) == pytest.approx(fraction)
