"""The private side of sacreBLEU, as `models/compat.py` takes it."""

import pytest
from canary import still_takes
from sacrebleu.metrics import BLEU, CHRF

from bertline.models.compat import bleu_counts, bleu_score


@pytest.mark.parametrize("measure", [BLEU, CHRF])
def test_sacrebleu_still_gives_counts_of_one_text_that_may_be_added_up(measure):
    entry = "bleu_counts and bleu_score in models/compat.py"
    still_takes(measure, "_extract_corpus_statistics", "self", "hypotheses", "references", entry=entry)
    still_takes(measure, "_compute_score_from_stats", "self", "sums", entry=entry)
    metric = measure()
    pairs = [("the cat sat on the mat", "a cat sat on the mat"), ("it rains today again", "it rains again today")]
    sums = [sum(counts) for counts in zip(*(bleu_counts(metric, *pair) for pair in pairs), strict=True)]
    given, references = zip(*pairs, strict=True)
    wanted = measure().corpus_score(given, [references]).score
    assert bleu_score(metric, sums) == pytest.approx(wanted), f"sacreBLEU adds texts up otherwise; change {entry}"
