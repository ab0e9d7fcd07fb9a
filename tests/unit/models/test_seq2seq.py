"""The encoder-decoder beside KerasHub's layers, and what its masks and its cache promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from bertline.models.seq2seq.config import Seq2SeqSize
from bertline.models.seq2seq.model import Seq2Seq, causal_bias, sine_positions
from bertline.pipeline.core.errors import BertlineError

VOCAB_SIZE = 11
TINY = {
    "source_pieces": VOCAB_SIZE, "target_pieces": VOCAB_SIZE, "layers": 2, "decoder_layers": 3, "hidden": 16, "heads": 2,
    "intermediate": 24, "max_positions": 32,
}  # fmt: skip
SHAPES = [
    {"norm": "post"},
    {"norm": "pre", "positions": "learned", "activation": "gelu"},
    {"norm": "pre", "share_embeddings": False, "tie_output": False},
]


def made(**changes: Any) -> Seq2Seq:
    model = Seq2Seq(Seq2SeqSize(**{**TINY, **changes}), begin_id=2, seed=5)
    random = np.random.default_rng(1)
    for variable in model.trainable_variables:  # biases and norms too, so that nothing is hidden by its zeros
        variable.assign(variable + random.normal(scale=0.1, size=variable.shape))
    return model


def batch(rows: int = 3, source: int = 7, target: int = 6, seed: int = 0) -> dict[str, tf.Tensor]:
    random = np.random.default_rng(seed)
    lengths = random.integers(3, source + 1, rows)
    lengths[0] = source
    return {
        "token_ids": tf.constant(random.integers(5, VOCAB_SIZE, (rows, source)), tf.int32),
        "mask": tf.sequence_mask(lengths, source),
        "target_ids": tf.constant(random.integers(5, VOCAB_SIZE, (rows, target)), tf.int32),
        "target_ids_mask": tf.ones([rows, target], tf.bool),
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_every_weight_is_trained(shape: dict[str, Any]) -> None:
    model = made(**shape)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch()) ** 2)
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        # A bias of the keys adds the same to all scores of a place, and so changes nothing.
        moved = np.abs(tf.convert_to_tensor(gradient)).max()
        assert moved > 1e-5 or variable.path.endswith("key/bias"), variable.path


@pytest.mark.parametrize("shape", SHAPES)
def test_writing_token_by_token_gives_the_logits_of_the_whole(shape: dict[str, Any]) -> None:
    model, given = made(**shape), batch()
    whole = model(given).numpy()
    before = np.pad(given["target_ids"][:, :-1], [[0, 0], [1, 0]], constant_values=2)
    source, past = model.read(given["token_ids"], given["mask"]), None
    for place in range(before.shape[1]):
        written = model.write(before[:, place : place + 1], source, past=past, begin=place)
        past = written.past
        np.testing.assert_allclose(model.logits(written.states), whole[:, place], atol=1e-5)


def test_beams_of_one_source_are_read_as_if_each_had_its_own() -> None:
    model, given = made(), batch()
    beams = 4
    targets = np.random.default_rng(3).integers(5, VOCAB_SIZE, (3 * beams, 5))
    together = model.write(targets, model.read(given["token_ids"], given["mask"]), bias=causal_bias(5), beams=beams)
    copied = {name: tf.repeat(given[name], beams, axis=0) for name in ("token_ids", "mask")}
    apart = model.write(targets, model.read(copied["token_ids"], copied["mask"]), bias=causal_bias(5))
    np.testing.assert_allclose(together.states, apart.states, atol=1e-5)


def gradients_of_place(model: Seq2Seq, given: dict[str, tf.Tensor], place: int) -> tuple[np.ndarray, np.ndarray]:
    """How much the logits of one place depend on each vector of the source and of the target."""
    layer = model.source_embeddings
    noted: list[tf.Tensor] = []
    with tf.GradientTape() as tape:

        def watched(ids: Any, begin: Any = 0, training: bool = False) -> Any:
            vectors = layer(ids, begin=begin, training=training)
            tape.watch(vectors)
            noted.append(vectors)
            return vectors

        watched.token = layer.token  # type: ignore[attr-defined]  of the output
        model.source_embeddings = model.target_embeddings = watched
        logits = model(given)
        model.source_embeddings = model.target_embeddings = layer
        chosen = tf.reduce_sum(logits[:, place] ** 2)
    found = tape.gradient(chosen, noted)
    rows = given["token_ids"].shape[0]
    return tuple(np.abs(part).sum(axis=1).reshape(rows, -1) for part in found)  # type: ignore[return-value]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_nothing_leaks_from_the_future_or_from_padding(norm: str) -> None:
    given = batch()
    source, target = gradients_of_place(made(norm=norm), given, place=2)
    mask = given["mask"].numpy()
    assert (source[~mask] == 0).all()
    assert (source[mask] > 0).all()
    assert (target[:, 3:] == 0).all()  # the place itself sees what is written before it: three tokens, the begin included
    assert (target[:, :3] > 0).all()


def test_padding_never_changes_a_logit() -> None:
    model, given = made(), batch()
    longer = {
        "token_ids": tf.pad(given["token_ids"], [[0, 0], [0, 4]], constant_values=7),
        "mask": tf.pad(given["mask"], [[0, 0], [0, 4]]),
        "target_ids": tf.pad(given["target_ids"], [[0, 0], [0, 3]], constant_values=9),
    }
    np.testing.assert_allclose(model(longer)[:, :6], model(given), atol=1e-5)


def test_where_a_place_looks_sums_to_one_and_never_at_padding() -> None:
    model, given = made(), batch()
    _, looks = model.forced(given)
    assert len(looks) == 3
    for look in looks:
        assert look.shape == (3, 2, 6, 7)
        np.testing.assert_allclose(np.sum(look, axis=-1), 1.0, atol=1e-5)
        assert (np.moveaxis(look.numpy(), 3, 1)[~given["mask"].numpy()] == 0).all()


def test_a_saved_model_is_the_same_again(tmp_path: Any) -> None:
    model, given = made(norm="pre", share_embeddings=False), batch()
    again = Seq2Seq.from_config(model.get_config())
    for mine, its in zip(model.variables, again.variables, strict=True):
        its.assign(mine)
    np.testing.assert_array_equal(again(given), model(given))


def test_two_vocabularies_cannot_share_a_table() -> None:
    with pytest.raises(BertlineError, match="one vocabulary for both languages"):
        Seq2SeqSize(source_pieces=5, target_pieces=6)


def test_dropout_is_drawn_while_training_alone() -> None:
    model, given = made(dropout=0.5), batch()
    np.testing.assert_array_equal(model(given), model(given))
    assert np.abs(model(given, training=True) - model(given, training=True)).max() > 0.01


@pytest.fixture
def keras_hub() -> Iterator[Any]:
    import keras_hub

    yield keras_hub


def test_places_are_kerashubs(keras_hub: Any) -> None:
    layer = keras_hub.layers.SinePositionEncoding()
    np.testing.assert_allclose(sine_positions(40, 16), layer(np.zeros((1, 40, 16), np.float32))[0], atol=1e-5)


@pytest.mark.parametrize(("norm", "activation"), [("post", "relu"), ("pre", "relu"), ("post", "gelu")])
def test_the_layers_are_kerashubs(keras_hub: Any, norm: str, activation: str) -> None:
    """Our weights in KerasHub's TransformerEncoder and TransformerDecoder give our logits."""
    model, given = made(norm=norm, activation=activation), batch()
    exact = keras.activations.relu if activation == "relu" else lambda x: keras.activations.gelu(x, approximate=False)
    settings = {
        "intermediate_dim": 24, "num_heads": 2, "dropout": 0.0, "activation": exact, "layer_norm_epsilon": 1e-6,
        "normalize_first": norm == "pre",
    }  # fmt: skip

    def vectors(ids: Any) -> Any:
        return model.source_embeddings(ids).numpy().reshape(*ids.shape, 16)

    states = vectors(given["token_ids"])
    for ours in model.encoder_layers:
        theirs = keras_hub.layers.TransformerEncoder(**settings)
        theirs.build(states.shape)
        take(theirs._self_attention_layer, ours.attention)
        take_norms(theirs, ours)
        states = theirs(states, padding_mask=given["mask"])
    states = states if model.encoder_norm is None else model.encoder_norm(states)
    before = np.pad(given["target_ids"][:, :-1], [[0, 0], [1, 0]], constant_values=2)
    written = vectors(before)
    for ours in model.decoder_layers:
        theirs = keras_hub.layers.TransformerDecoder(**settings)
        theirs.build(decoder_sequence_shape=written.shape, encoder_sequence_shape=states.shape)
        take(theirs._self_attention_layer, ours.attention)
        take(theirs._cross_attention_layer, ours.source)
        take_norms(theirs, ours)
        for mine, its in ((ours.source_norm.gamma, "gamma"), (ours.source_norm.beta, "beta")):
            getattr(theirs._cross_attention_layer_norm, its).assign(mine)
        written = theirs(written, states, encoder_padding_mask=given["mask"])
    written = written if model.decoder_norm is None else model.decoder_norm(written)
    np.testing.assert_allclose(model(given), written @ model.source_embeddings.token.embeddings.numpy().T, atol=2e-4)


def take(theirs: Any, ours: Any) -> None:
    """Gives their attention our weights, cut up by head."""
    for name, mine in (("query", ours.query), ("key", ours.key), ("value", ours.value)):
        dense = getattr(theirs, f"_{name}_dense")
        dense.kernel.assign(np.reshape(mine.kernel, dense.kernel.shape))
        dense.bias.assign(np.reshape(mine.bias, dense.bias.shape))
    theirs._output_dense.kernel.assign(np.reshape(ours.output_projection.kernel, theirs._output_dense.kernel.shape))
    theirs._output_dense.bias.assign(ours.output_projection.bias)


def take_norms(theirs: Any, ours: Any) -> None:
    of_attention, of_feedforward = theirs._self_attention_layer_norm, theirs._feedforward_layer_norm
    for its, mine in ((of_attention, ours.attention_norm), (of_feedforward, ours.contract_norm)):
        its.gamma.assign(mine.gamma)
        its.beta.assign(mine.beta)
    for its, mine in (
        (theirs._feedforward_intermediate_dense, ours.expand),
        (theirs._feedforward_output_dense, ours.contract),
    ):
        its.kernel.assign(mine.kernel)
        its.bias.assign(mine.bias)
