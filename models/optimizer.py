"""AdamW for every strategy, and its schedule.

Why not `keras.optimizers.AdamW`: under a distribution strategy Keras clips each replica's gradients *before* they are
summed, so that two replicas train another model than one. Here the order is sum, clip, update. The update itself is
TensorFlow's fused Adam kernel: one pass over a weight and its moments, which matters for the large embedding table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class AdamW(tf.Module):
    """Adam with decoupled weight decay, global-norm clipping and linear warm-up and decay.

    Args:
      weights: Keras variables to train, created in the scope of the strategy.
      peak: learning rate at the end of the warm-up.
      total_steps: steps of the whole training; the learning rate is 0 after them.
      warmup: share of `total_steps` over which the learning rate rises.
    """

    def __init__(
        self,
        weights: Sequence[Any],
        *,
        peak: float,
        total_steps: int,
        warmup: float,
        weight_decay: float,
        clip_norm: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
    ) -> None:
        super().__init__(name="adamw")
        self._weights = list(weights)
        self._peak, self._total_steps = peak, total_steps
        self._warmup_steps = int(warmup * total_steps)
        self._weight_decay, self._clip_norm = weight_decay, clip_norm
        self._betas, self._epsilon = betas, epsilon
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.means = [self._moment(weight, "mean") for weight in self._weights]
        self.squares = [self._moment(weight, "square") for weight in self._weights]

    @staticmethod
    def _moment(weight: Any, kind: str) -> tf.Variable:
        with tf.distribute.get_strategy().extended.colocate_vars_with(weight.value):
            return tf.Variable(tf.zeros_like(weight.value), trainable=False, name=f"{kind}/{weight.path}")

    def learning_rate(self, step: Any) -> tf.Tensor:
        """Rises linearly to the peak, then falls linearly to 0 at the last step."""
        step = tf.cast(step, tf.float32)
        rise = (step + 1.0) / float(max(1, self._warmup_steps + 1))
        fall = (self._total_steps - step) / float(max(1, self._total_steps - self._warmup_steps))
        return self._peak * tf.clip_by_value(tf.minimum(rise, fall), 0.0, 1.0)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Takes each replica's gradients; every replica ends with the same weights."""
        context = tf.distribute.get_replica_context()
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if context.num_replicas_in_sync > 1:
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        context.merge_call(self._update, args=(gradients,))

    def _update(self, strategy: tf.distribute.Strategy, gradients: Sequence[Any]) -> None:
        rate = self.learning_rate(self.step)
        count = tf.cast(self.step + 1, tf.float32)
        powers = [tf.pow(beta, count) for beta in self._betas]
        for weight, mean, square, gradient in zip(self._weights, self.means, self.squares, gradients, strict=True):
            decay = self._weight_decay if decays(weight.path) else 0.0
            strategy.extended.update(
                weight.value, self._update_one, args=(mean, square, gradient, rate, powers, decay), group=False
            )
        self.step.assign_add(1)

    def _update_one(self, weight: Any, mean: Any, square: Any, gradient: Any, rate: Any, powers: Any, decay: float) -> None:
        if decay:
            weight.assign_sub(rate * decay * weight)
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=powers[0],
            beta2_power=powers[1],
            lr=rate,
            beta1=self._betas[0],
            beta2=self._betas[1],
            epsilon=self._epsilon,
            grad=gradient,
            use_locking=True,
        )


def decays(path: str) -> bool:
    """Biases and layer norms are not decayed, as in the original."""
    return not any(part in path.lower() for part in ("bias", "norm", "gamma", "beta"))
