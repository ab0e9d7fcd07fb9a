"""Which epoch's weights are kept, and when a training has stood still."""

from __future__ import annotations

import numpy as np

from bertline.models.training.checkpointing import BestEpoch


def judged(*epochs: tuple[float, float]) -> BestEpoch:
    found = BestEpoch()
    for step, (selection_loss, loss) in enumerate(epochs, 1):
        found.judge(step, selection_loss, lambda step=step: {"w": np.asarray([step])}, loss)
    return found


def test_the_loss_decides_between_epochs_whose_metric_is_the_same():
    assert judged((-0.99, 0.05), (-0.99, 0.04), (-0.99, 0.045)).best_step == 2
    assert judged((-0.99, 0.05), (-0.99, 0.04), (-0.99, 0.045)).stale_epochs == 1


def test_a_better_metric_is_worth_more_than_any_loss():
    assert judged((-0.8, 0.5), (-0.9, 2.0), (-0.8, 0.1)).best_step == 2


def test_an_undefined_metric_leaves_the_choice_to_the_loss():
    assert judged((np.inf, 0.5), (np.inf, 0.4), (np.inf, 0.6)).best_step == 2


def test_what_is_best_survives_a_restart_and_a_checkpoint_of_before_is_read():
    found, again, older = judged((-0.9, 0.4)), BestEpoch(), BestEpoch()
    again.restore(found.tensors())
    again.judge(2, -0.9, dict, 0.3)
    assert again.best_step == 2
    older.restore({name: value for name, value in found.tensors().items() if name != "held_out/best_tie"})
    older.judge(2, -0.9, dict, 0.3)
    assert older.best_step == 1
