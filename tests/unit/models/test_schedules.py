import math

import numpy as np
import pytest

from bertline.models.training.schedules import layer_scales, learning_rate

TOTAL, WARMUP, PEAK = 40, 0.2, 3e-3
WARMUP_STEPS = 8


def expected(schedule, step):
    """Said in the plainest way, branch by branch, in double precision."""
    if step < WARMUP_STEPS:
        return PEAK * (step + 1) / (WARMUP_STEPS + 1)
    done = min(1.0, (step - WARMUP_STEPS) / (TOTAL - WARMUP_STEPS))
    if schedule == "linear":
        return PEAK * (1 - done)
    if schedule == "cosine":
        return PEAK * (1 + math.cos(math.pi * done)) / 2
    if schedule == "inverse_sqrt":
        return PEAK * math.sqrt(WARMUP_STEPS + 1) / math.sqrt(step + 1)
    return PEAK


@pytest.mark.parametrize("schedule", ["linear", "cosine", "inverse_sqrt", "constant"])
def test_a_schedule_is_the_curve_that_it_names(schedule):
    steps = range(TOTAL + 5)
    found = [float(learning_rate(step, schedule=schedule, peak=PEAK, total_steps=TOTAL, warmup=WARMUP)) for step in steps]
    np.testing.assert_allclose(found, [expected(schedule, step) for step in steps], rtol=1e-5, atol=1e-9)
    assert max(found) == pytest.approx(PEAK) == found[WARMUP_STEPS]


@pytest.mark.parametrize("schedule", ["linear", "cosine", "inverse_sqrt", "constant"])
def test_without_warm_up_the_first_step_has_the_peak(schedule):
    assert float(learning_rate(0, schedule=schedule, peak=PEAK, total_steps=1, warmup=0.0)) == pytest.approx(PEAK)


def test_learning_rates_shrink_layer_by_layer_from_the_head_down():
    paths = {
        "head/kernel": 1.0,
        "encoder/pooler/kernel": 1.0,
        "encoder/layer_2/attention/query/kernel": 0.5,
        "model/encoder/layer_1/expand/bias": 0.25,
        "encoder/layer_0/contract_norm/gamma": 0.125,
        "encoder/embeddings/token/embeddings": 0.0625,
    }
    assert layer_scales(list(paths), 0.5) == list(paths.values())


def test_a_tenth_layer_lies_above_the_second():
    paths = [f"encoder/layer_{number}/expand/kernel" for number in range(12)]
    assert layer_scales(paths, 0.9) == [0.9 ** (12 - number) for number in range(12)]


def test_layers_of_a_head_are_no_layers_of_the_encoder():
    assert layer_scales(["decoder/layer_0/expand/kernel", "head_of_encoder/kernel"], 0.5) == [1.0, 1.0]
