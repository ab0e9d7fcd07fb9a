"""One small file or folder of every kind that `bertline new` knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

SENTENCES = [f"This is sentence number {number}, and it says something." for number in range(40)]
ENDINGS = ("found a star.", "bought some petrol.", "fell asleep.")


def csv_text(header: str, rows: list[tuple[str, ...]], delimiter: str = ",") -> str:
    quoted = [delimiter.join(f'"{cell}"' for cell in row) for row in rows]
    return "\n".join([header.replace(",", delimiter), *quoted]) + "\n" if header else "\n".join(quoted) + "\n"


def write(folder: Path, name: str, content: str, encoding: str = "utf-8") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding=encoding)
    return str(path)


def classes(folder: Path) -> str:
    rows = [(text, "ab"[at % 2]) for at, text in enumerate(SENTENCES)]
    return write(folder, "mails.csv", csv_text("text,label", rows))


def pairs(folder: Path) -> str:
    rows = [(text, f"It says {at} things.", "ab"[at % 2]) for at, text in enumerate(SENTENCES)]
    return write(folder, "pairs.csv", csv_text("premise,hypothesis,label", rows))


def numbers(folder: Path) -> str:
    rows = [(text, f"Like {text}", f"{at / 8:.3f}") for at, text in enumerate(SENTENCES)]
    return write(folder, "scores.csv", csv_text("sentence1,sentence2,score", rows))


def endings(folder: Path) -> str:
    rows = [(text, *ENDINGS, str(at % 3)) for at, text in enumerate(SENTENCES)]
    return write(folder, "endings.csv", csv_text("ctx,ending0,ending1,ending2,label", rows))


def lists(folder: Path) -> str:
    rows = [
        {"question": text, "choices": ENDINGS[: 2 + at % 2], "answer": "AB"[at % 2]} for at, text in enumerate(SENTENCES)
    ]
    return write(folder, "lists.jsonl", "\n".join(map(json.dumps, rows)))


def several(folder: Path) -> str:
    rows = [(text, ";".join(("funny", "sad", "loud")[: at % 4])) for at, text in enumerate(SENTENCES)]
    return write(folder, "moods.csv", csv_text("text,moods", rows))


def several_lists(folder: Path) -> str:
    rows = [{"text": text, "moods": ["funny", "sad", "loud"][at % 3 :]} for at, text in enumerate(SENTENCES)]
    return write(folder, "moods.jsonl", "\n".join(map(json.dumps, rows)))


def words(folder: Path) -> str:
    rows = [(f"Ada wrote {at} letters", "B-PER O O O") for at in range(40)]
    return write(folder, "words.csv", csv_text("text,tags", rows))


def conll(folder: Path) -> str:
    return write(folder, "names.conll", "Ada B-PER\nwrote O\n\nTo O\nLondon B-LOC\n\n" * 20)


def squad_json(articles: int, paragraphs: int, impossible: bool = False) -> str:
    def asked(number: str) -> dict:
        right = [] if impossible and number.endswith("1") else [{"text": "Ada", "answer_start": 0}]
        return {"id": number, "question": "Who wrote?", "answers": right, "is_impossible": not right}

    def article(title: int) -> dict:
        numbers = [f"{title}-{at}" for at in range(paragraphs)]
        return {"title": str(title), "paragraphs": [{"context": f"Ada wrote {n}.", "qas": [asked(n)]} for n in numbers]}

    return json.dumps({"version": "v2.0", "data": [article(title) for title in range(articles)]})


def three_files(folder: Path) -> str:
    for name, count in (("train", 30), ("dev", 10), ("test", 10)):
        rows = [(f"{name}: {text}", "ab"[at % 2]) for at, text in enumerate(SENTENCES[:count])]
        write(folder / "splits", f"{name}.csv", csv_text("text,label", rows))
    return str(folder / "splits")


def squad(folder: Path) -> str:
    return write(folder, "questions.json", squad_json(articles=30, paragraphs=2))


def label_studio(folder: Path) -> str:
    def task(at: int) -> dict:
        regions = [
            ("entity", "labels", {"start": 0, "end": 9, "text": "Ada Byron", "labels": ["PER"]}),
            ("mood", "choices", {"choices": [("good", "bad")[at % 2]]}),
        ]
        result = [{"from_name": name, "type": kind, "value": value} for name, kind, value in regions]
        return {"id": at, "data": {"text": f"Ada Byron wrote {at} letters."}, "annotations": [{"result": result}]}

    return write(folder, "export.json", json.dumps([task(at) for at in range(40)], indent=2))


def doccano(folder: Path) -> str:
    rows = [{"id": at, "text": f"Ada wrote {at} letters.", "label": [[0, 3, "PER"]], "Comments": []} for at in range(40)]
    return write(folder, "admin.jsonl", "\n".join(map(json.dumps, rows)))


def prodigy(folder: Path) -> str:
    rows = [
        {
            "text": text,
            "options": [{"id": "a"}, {"id": "b"}],
            "accept": ["ab"[at % 2]],
            "answer": "accept",
            "_view_id": "choice",
        }
        for at, text in enumerate(SENTENCES)
    ]
    return write(folder, "choices.jsonl", "\n".join(map(json.dumps, rows)))


def documents(folder: Path) -> str:
    return write(folder, "corpus.txt", "\n\n".join(f"{text}\nSo it is." for text in SENTENCES))


def glue(folder: Path, label: tuple[str, str] = ("entailment", "not_entailment"), name: str = "pairs") -> str:
    lines = [f"{at}\t{text}\tIt is.\t{label[at % 2]}" for at, text in enumerate(SENTENCES)]
    for split in ("train.tsv", "dev.tsv"):
        write(folder / name, split, "\n".join(["index\tsentence1\tsentence2\tlabel", *lines]))
    return str(folder / name)


def parallel(folder: Path, name: str = "captions") -> str:
    for split, texts in (("train", SENTENCES), ("val", SENTENCES[:9]), ("test", SENTENCES[:5])):
        write(folder / name, f"{split}.en", "\n".join(texts))
        write(folder / name, f"{split}.de", "\n".join(f"Dies ist Satz {at}." for at in range(len(texts))))
    return str(folder / name)


KINDS: dict[str, tuple[Callable[[Path], str], str]] = {  # kind -> what writes it, and the task of its config
    "classes": (classes, "classification"),
    "pairs": (pairs, "classification"),
    "numbers": (numbers, "regression"),
    "endings": (endings, "choice"),
    "lists": (lists, "choice"),
    "several": (several, "multilabel"),
    "several_lists": (several_lists, "multilabel"),
    "words": (words, "tagging"),
    "conll": (conll, "tagging"),
    "squad": (squad, "answering"),
    "three_files": (three_files, "classification"),
    "label_studio": (label_studio, "tagging"),
    "doccano": (doccano, "tagging"),
    "prodigy": (prodigy, "classification"),
    "documents": (documents, "pretraining"),
    "glue": (glue, "classification"),
    "parallel": (parallel, "translation"),
}


def translated_table(folder: Path) -> str:
    rows = [(str(at), f"Dies ist Satz {at}.", text) for at, text in enumerate(SENTENCES)]
    return write(folder, "pairs.csv", csv_text("id,target,source", rows))
