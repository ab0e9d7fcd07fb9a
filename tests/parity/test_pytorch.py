"""Every number of our encoders beside those of Hugging Face's models on PyTorch, in one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import torch
import transformers
from pytorch_sample import BOUND, CONFIG, Outputs, encode, look, pack, read_table, read_texts
from pytorch_values import load_bert, run, tokenize
from safetensors.numpy import load_file

from bertline.models.checkpoints import load_encoder
from bertline.models.checkpoints.opening import open_source
from bertline.pipeline.core.checkpoint_formats import find

TINY = dict(
    vocab_size=60,
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=20,
    attn_implementation="eager",
)
RELATIVES = {
    "BERT": (transformers.BertModel, transformers.BertConfig, {}),
    "BERT, gelu_new": (transformers.BertModel, transformers.BertConfig, {"hidden_act": "gelu_new"}),
    "RoBERTa": (transformers.RobertaModel, transformers.RobertaConfig, {"type_vocab_size": 1, "pad_token_id": 1}),
    "ALBERT": (transformers.AlbertModel, transformers.AlbertConfig, {"embedding_size": 8}),
}


def differences(ours: Outputs, theirs: Outputs) -> list[float]:
    """The largest of the hidden states, of the pooled vector and of the attention weights."""
    pairs = [
        (ours.hidden_states, theirs.hidden_states),
        (ours.pooled, theirs.pooled),
        *zip(ours.attentions, theirs.attentions, strict=True),
    ]
    for one, other in pairs:
        assert one.shape == other.shape
    states, pooled, *attentions = (float(np.abs(one - other).max()) for one, other in pairs)
    return [states, pooled, max(attentions)]


def test_every_number_of_200_real_texts_is_pytorch_s_and_so_is_the_stored_table(measured):
    table = read_table()[1]
    samples = [line.rows for line in table]
    bert, (encoder, _), tokens = load_bert(), load_encoder(CONFIG.model.checkpoint), pack(samples)
    found, of_table = [], []
    theirs = tokenize(read_texts(samples))
    for row, (line, ids, ours) in enumerate(zip(table, theirs, encode(encoder, tokens), strict=True)):
        assert tokens["token_ids"][row].numpy().tolist() == ids["input_ids"][0].tolist()
        assert tokens["segment_ids"][row].numpy().tolist() == ids["token_type_ids"][0].tolist()
        expected = run(bert, **ids)
        found.append(differences(ours, expected))
        of_table.append(np.abs(look(line, expected.hidden_states, expected.pooled) - line.values).max())
    assert len(found) == 200
    for name, largest in zip(("hidden states", "pooled vectors", "attention weights"), np.max(found, 0), strict=True):
        measured[f"{name} of MiniLM, {tokens['token_ids'].flat_values.shape[0]:,} tokens in {len(found)} texts"] = largest
    measured["PyTorch and its stored table"] = max(of_table)
    assert np.max(found) <= BOUND and max(of_table) <= BOUND


def tiny_model(name: str) -> torch.nn.Module:
    """Weights large enough, and biases far enough from 0, that a mistake anywhere shows in the output."""
    torch.manual_seed(0)
    model_class, config_class, changes = RELATIVES[name]
    model = model_class(config_class(**TINY | changes)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    return model


@pytest.mark.parametrize("name", RELATIVES)
def test_a_random_model_that_hugging_face_saved_gives_its_own_numbers_here(name, tmp_path, measured):
    model = tiny_model(name)
    model.save_pretrained(tmp_path)
    encoder, report = load_encoder(tmp_path)
    assert report.left_out == report.fresh == ()
    chance = np.random.default_rng(0)
    lengths = [1, 3, 8, 17, 18]
    rows = [chance.integers(5, 60, length).tolist() for length in lengths]
    segments = [sorted(chance.integers(0, model.config.type_vocab_size, length).tolist()) for length in lengths]
    tokens = {"token_ids": tf.ragged.constant(rows), "segment_ids": tf.ragged.constant(segments)}
    found = [
        differences(ours, run(model, input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([kinds])))
        for ids, kinds, ours in zip(rows, segments, encode(encoder, tokens), strict=True)
    ]
    measured[f"all of them, of a tiny random {name}"] = np.max(found)
    assert np.max(found) <= BOUND


@pytest.mark.parametrize("name", RELATIVES)
def test_a_file_of_torch_save_is_read_equal_to_safetensors(name, tmp_path):
    model = tiny_model(name)
    for folder in ("safetensors", "bin"):
        model.save_pretrained(tmp_path / folder)
    (tmp_path / "bin" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "bin" / "pytorch_model.bin")
    expected = load_file(tmp_path / "safetensors" / "model.safetensors")
    assert len(expected) > 20 and stored(tmp_path / "bin").keys() == stored(tmp_path / "safetensors").keys()
    for folder in ("safetensors", "bin"):
        for key, array in stored(tmp_path / folder).items():
            np.testing.assert_array_equal(array, expected[key])
    first, second = (load_encoder(tmp_path / folder)[0] for folder in ("safetensors", "bin"))
    for one, other in zip(first.weights, second.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def stored(folder: Path) -> dict[str, np.ndarray]:
    """The file's own name -> numbers, as our readers have them."""
    with open_source(find(folder)) as source:
        return {tensor.name: np.array(tensor.as_float32()) for tensor in source.tensors.values()}
