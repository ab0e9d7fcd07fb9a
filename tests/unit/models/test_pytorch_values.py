"""Real weights on real texts, raw text to pooled vector: the numbers that PyTorch gave
(tests/data/pytorch_values.jsonl)."""

from __future__ import annotations

import numpy as np
import pytest
from pytorch_sample import BOUND, CONFIG, Expected, encode, ids_digest, look, pack, read_table, sources

from bertline.models.checkpoints import load_encoder
from bertline.models.encoders.bert.backbone import Encoder
from bertline.models.tokenization.packing import Tokens

ABOUT, TABLE = read_table()
FEW = slice(25, 28)  # short ones, the first of them a pair


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(CONFIG.model.checkpoint)[0]


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return pack([line.rows for line in TABLE])


def largest_difference(encoder: Encoder, tokens: Tokens, table: list[Expected]) -> float:
    found = [look(line, out.hidden_states, out.pooled) for line, out in zip(table, encode(encoder, tokens), strict=True)]
    return float(np.abs(np.array(found) - [line.values for line in table]).max())


def test_the_table_is_of_the_installed_weights_and_texts():
    assert len(TABLE) == 200 and sum(len(line.rows) == 2 for line in TABLE) == 40
    found = sources([line.rows for line in TABLE])
    assert found == {name: ABOUT[name] for name in found}, "another version of the samples: write the table anew"


def test_real_texts_and_pairs_have_hugging_face_s_ids_and_segments(tokens):
    ids, segments = tokens["token_ids"].to_list(), tokens["segment_ids"].to_list()
    assert [ids_digest(*both) for both in zip(ids, segments, strict=True)] == [line.ids for line in TABLE]
    assert min(map(len, ids)) < 6 and max(map(len, ids)) == 512


def test_states_of_every_layer_and_pooled_vectors_are_pytorch_s(encoder, tokens):
    assert largest_difference(encoder, tokens, TABLE) <= BOUND


def test_a_hundredth_of_noise_in_a_weight_of_any_kind_is_more_than_the_bound(encoder, tokens):
    few = {name: ragged[FEW] for name, ragged in tokens.items()}
    assert largest_difference(encoder, few, TABLE[FEW]) <= BOUND
    chance = np.random.default_rng(0)
    for part in (encoder.embeddings, encoder.layers[2], encoder.pooler):
        for weight in part.trainable_variables:
            if weight.path.endswith("key/bias"):  # it moves all scores of a query alike, which softmax does not see
                continue
            right = weight.numpy()
            weight.assign(right + chance.normal(0, 0.01, right.shape))
            assert largest_difference(encoder, few, TABLE[FEW]) > 10 * BOUND, weight.path
            weight.assign(right)
