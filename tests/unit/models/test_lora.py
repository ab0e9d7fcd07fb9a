import numpy as np
import pytest

from bertline.models.adapters import lora
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.pipeline.core.errors import BertlineError

SIZE = EncoderSize(vocab_size=20, layers=2, hidden=8, heads=2, intermediate=16)
BATCH = {"token_ids": np.array([[2, 7, 9, 3], [2, 11, 3, 0]]), "mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]], bool)}
CONTEXT = Context(None, ("no", "yes"))
RANK, ALPHA = 3, 6.0


def build():
    return get_task("classification").model.build(Encoder(SIZE, seed=1), CONTEXT, 0.1, 1)


def adapted(trained=True):
    """A model with adapters; `trained` gives them values as if from a training."""
    model = build()
    lora.adapt(model, rank=RANK, alpha=ALPHA, seed=0)
    if trained:
        random = np.random.default_rng(2)
        for variable in model.trainable_variables:
            variable.assign(variable + random.normal(size=variable.shape).astype(np.float32))
    return model


def logits(model):
    return model(BATCH, training=False).numpy()


def test_fresh_adapters_change_no_number():
    np.testing.assert_allclose(logits(adapted(trained=False)), logits(build()), atol=1e-6)


def test_only_adapters_pooler_and_head_are_trained():
    places = [f"encoder/layer_{layer}/attention/{name}" for layer in range(2) for name in ("query", "value")]
    wanted = {f"{place}/lora_kernel_{side}" for place in places for side in "ab"}
    wanted |= {"encoder/pooler/kernel", "encoder/pooler/bias", "head/kernel", "head/bias"}
    assert {variable.path for variable in adapted().trainable_variables} == wanted


def test_adapters_of_different_layers_start_differently_and_from_the_seed():
    first = [v.numpy() for v in adapted(trained=False).trainable_variables if v.path.endswith("lora_kernel_a")]
    again = [v.numpy() for v in adapted(trained=False).trainable_variables if v.path.endswith("lora_kernel_a")]
    assert all(np.array_equal(*pair) for pair in zip(first, again, strict=True))
    assert len({value.tobytes() for value in first}) == len(first) == 4


def test_a_merged_model_gives_the_numbers_of_the_adapted_one():
    model, plain = adapted(), build()
    for source, target in zip(lora.without_adapters(model), plain.variables, strict=True):
        assert source.path == target.path
        target.assign(source)
    before = logits(plain)
    lora.merge(model, plain)
    assert np.abs(before - logits(model)).max() > 1e-2
    np.testing.assert_allclose(logits(plain), logits(model), atol=1e-5)


def test_a_merged_kernel_is_the_kernel_and_the_scaled_product():
    model, plain = adapted(), build()
    kernels = {variable.path: variable.numpy() for variable in model.variables}
    lora.merge(model, plain)
    place = "encoder/layer_1/attention/value"
    product = kernels[f"{place}/lora_kernel_a"].astype(np.float64) @ kernels[f"{place}/lora_kernel_b"]
    (merged,) = (variable.numpy() for variable in plain.variables if variable.path == f"{place}/kernel")
    np.testing.assert_allclose(merged, kernels[f"{place}/kernel"] + ALPHA / RANK * product, atol=1e-5)


def test_a_rank_above_the_hidden_size_is_refused():
    with pytest.raises(
        BertlineError, match="training.lora_rank=9 is wider than the encoder itself, whose hidden size is 8"
    ):
        lora.adapt(build(), rank=9, alpha=1.0, seed=0)
