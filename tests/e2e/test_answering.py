"""Questions about texts through the whole pipeline: answers that follow from question and text are learned, served with
their places, and not given where there is none."""

import json
import random
import subprocess
import sys

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
import yaml
from click.testing import CliRunner
from lines import ALONE, Line
from squad_reference import official_scores

from bertline.pipeline.cli import main
from bertline.serving.contract import read_metadata

pytestmark = pytest.mark.full

# A text speaks of two things of three. Whoever does not look at the question is right in one row of three, by saying
# nothing or by naming one of the two.
ANSWERS = {
    "colour": ["dark red", "绿色", "bleu fonce\u0301", "grey"],
    "city": ["北京", "New York", "Orle\u0301ans", "Köln"],
    "animal": ["🐘", "old cat", "żubr", "dog"],
}
FILLING = "the a was seen at night and 🎬 then e\u0301tude we walked , home .".split(" ")
WITHOUT_READING = 1 / 3


def make_context(chance, kinds, words):
    parts = [chance.choice(FILLING) for _ in range(words)]
    for kind in kinds:
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(ANSWERS[kind]))
    return chance.choice((" ", "\r\n")).join(parts)


def make_articles(count=60, seed=0):
    """As SQuAD 2.0 has them. One paragraph in five is longer than what the model reads at once."""
    chance = random.Random(seed)
    articles, number = [], 0
    for title in range(count):
        paragraphs = []
        for _ in range(5):
            kinds = chance.sample(list(ANSWERS), 2)
            context = make_context(
                chance, kinds, chance.randint(40, 60) if chance.random() < 0.2 else chance.randint(4, 14)
            )
            questions = []
            for kind in ANSWERS:
                found = [(text, context.find(text)) for text in ANSWERS[kind] if text in context]
                questions.append(
                    {
                        "id": f"q{number}",
                        "question": f"{chance.choice(('what', 'which'))} {kind} was seen ?",
                        "answers": [{"text": text, "answer_start": at} for text, at in found],
                        "is_impossible": not found,
                    }
                )
                number += 1
            paragraphs.append({"context": context, "qas": questions})
        articles.append({"title": f"Article {title}", "paragraphs": paragraphs})
    return articles


def make_line(folder, articles):
    line = Line(folder)
    (folder / "squad.json").write_text(json.dumps({"version": "v2.0", "data": articles}))
    config = {
        "name": "tiny",
        "task": "answering",
        "data": {"path": "squad.json", "split": {"eval_fraction": 0.2}},
        "text": {"vocab_size": 300, "seq_len": 48},
        "model": {"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0},
        "training": {"epochs": 12, "batch_size": 16, "learning_rate": 0.002, "buckets": [16, 24, 32, 48]},
        "evaluation": {"thresholds": {"f1": 0.9}, "max_drop": 0.2},
        **ALONE,
    }
    line.config.write_text(yaml.safe_dump(config, allow_unicode=True))
    return line


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = make_line(tmp_path_factory.mktemp("answering"), make_articles())
    done = line.run()
    assert done.exit_code == 0, done.output
    assert '--second "' in done.output  # the command to go on with asks about a text
    assert "no_answer_threshold" in done.output
    return line


def test_answers_that_follow_from_question_and_text_are_learned(line):
    metrics = line.summary["metrics"]
    assert metrics["f1"] >= 0.9 > WITHOUT_READING
    assert metrics["has_answer_f1"] >= 0.85 and metrics["no_answer_exact_match"] >= 0.85


def evaluation(line):
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    found = []
    for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        texts = [feature[name].bytes_list.value[0].decode() for name in ("text", "text_2")]
        found.append((*texts, [answer.decode() for answer in feature["answers"].bytes_list.value]))
    return found


def test_the_evaluators_scores_are_the_official_ones_of_the_served_answers(line):
    rows = evaluation(line)
    serve = tf.saved_model.load(line.summary["pushed_path"]).signatures["serving_default"]
    questions, contexts, right = zip(*rows, strict=True)
    given = serve(question=tf.constant(questions), context=tf.constant(contexts))
    scores = [
        (*official_scores(answer.decode(), expected), bool(expected))
        for answer, expected in zip(given["answer"].numpy(), right, strict=True)
    ]

    def mean(column, which=(True, False)):
        chosen = [score[column] for score in scores if score[2] in which]
        return pytest.approx(sum(chosen) / len(chosen), abs=1e-6)

    metrics = line.summary["metrics"]
    assert metrics["rows"] == len(rows)
    assert metrics["exact_match"] == mean(0) and metrics["f1"] == mean(1)
    assert metrics["has_answer_exact_match"] == mean(0, [True]) and metrics["has_answer_f1"] == mean(1, [True])
    assert metrics["no_answer_exact_match"] == mean(0, [False])


def test_an_article_is_on_one_side_and_the_threshold_stands_in_the_metadata(line):
    of_context = {
        paragraph["context"]: article["title"] for article in make_articles() for paragraph in article["paragraphs"]
    }
    titles = {of_context[context] for _, context, _ in evaluation(line)}
    questions = sum(15 for title in set(of_context.values()) if title in titles)
    assert 0 < len(titles) < 60 and line.summary["rows"]["eval"] == questions
    assert list(read_metadata(line.summary["pushed_path"])["tuned"]) == ["no_answer_threshold"]


SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
rows = json.loads(sys.argv[2])
given = serve(question=tf.constant([q for q, _ in rows]), context=tf.constant([c for _, c in rows]))
first = {name: value.shape[0] for name, value in given.items()}
answers = [
    [text.decode(), int(start), int(end), float(score)]
    for text, start, end, score in zip(*(given[name].numpy() for name in ("answer", "start", "end", "score")))
]
others = [
    [[text.decode(), int(start), int(end)] for text, start, end in zip(*best)]
    for best in zip(*(given[name].numpy() for name in ("n_best", "n_best_starts", "n_best_ends")))
]
print(json.dumps([first, answers, others]))
"""
LONG = " ".join(FILLING * 5)
ASKED = [
    ("which city was seen ?", "we walked 🎬 at night\r\nand then 北京 was seen , old cat ."),
    ("what colour was seen ?", "🎬 🎬 e\u0301tude was bleu fonce\u0301\r\nat Orle\u0301ans ."),
    ("which animal was seen ?", f"{LONG} 🐘 {LONG} Köln {LONG}"),
    ("which animal was seen ?", "we walked home at night , dark red and Köln ."),
]
EXPECTED = ["北京", "bleu fonce\u0301", "🐘", ""]


def test_a_process_without_our_code_gets_answers_with_their_places(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"], json.dumps(ASKED)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    first, answers, others = json.loads(done.stdout.splitlines()[-1])
    assert set(first.values()) == {len(ASKED)}  # TensorFlow Serving splits batches along the first dimension
    assert [answer for answer, *_ in answers] == EXPECTED
    for (_, context), (answer, start, end, score), best in zip(ASKED, answers, others, strict=True):
        assert context[start:end] == answer and 0 < score <= 1
        assert all(context[begin:end] == text for text, begin, end in best)


def ask(line, *arguments, stdin=None):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments], input=stdin)


def test_predict_answers_a_person_and_a_program(line):
    person = ask(line, ASKED[0][0], ASKED[3][0], "--second", ASKED[0][1], "--second", ASKED[3][1])
    first, second = person.output.splitlines()
    assert first.startswith("北京  ") and "at 31-33" in first and second.startswith("(no answer)  ")
    program = ask(line, "--pairs", "--json", stdin="which city was seen ?\t🎬 Köln , dog .\n")
    given = json.loads(program.output)
    assert (given["question"], given["context"]) == ("which city was seen ?", "🎬 Köln , dog .")
    assert (given["answer"], given["start"], given["end"]) == ("Köln", 2, 6)
    assert isinstance(given["start"], int) and given["n_best"][0] == "Köln"
    alone = ask(line, "which city ?")
    assert alone.exit_code == 1 and "reads two texts" in alone.output


def test_answers_that_do_not_stand_where_they_should_stop_the_pipeline_with_their_question(tmp_path):
    articles = make_articles(10)
    bad = [question for question in articles[3]["paragraphs"][0]["qas"] if question["answers"]][0]
    bad["answers"][0]["answer_start"] += 1
    other = make_line(tmp_path, articles)
    refused = other.run("--set", "data.max_bad_fraction=0")
    assert refused.exit_code == 1
    assert f"question '{bad['id']}': its answer" in refused.output and "squad.json:" in refused.output
    assert not (other.workspace / "models").exists()
    quarantined = (other.workspace / "pipelines" / "tiny" / "quarantine.jsonl").read_text().splitlines()
    assert len(quarantined) == 1 and bad["id"] in quarantined[0]


def test_the_kept_rows_give_the_evaluators_metrics(line):
    assert line.rows_agree()
