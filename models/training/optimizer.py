"""AdamW, the original BERT's Adam, and LAMB, for every strategy.

Why not `keras.optimizers.AdamW`: under a distribution strategy Keras clips each replica's gradients *before* they are
summed, so that two replicas train another model than one. Here the order is sum, clip, update. Both Adams' update is
TensorFlow's fused kernel: one pass over a weight and its moments, which matters for the large embedding table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bertline.models.training.schedules import layer_scales, learning_rate

FIRST_LOSS_SCALE = 2.0**15
STEPS_TO_DOUBLE = 1000


class Optimizer(tf.Module):
    """Moments of the gradients, decoupled weight decay and global-norm clipping.

    Args:
      weights: Keras variables to train, created in the scope of the strategy.
      rule: `adamw`; `adam_reference`, the original BERT's, which does not correct the bias of young moments; or `lamb`,
        which makes each weight's update as long as a share of the weight itself.
      schedule, peak, total_steps, warmup: see `bertline.models.training.schedules.learning_rate`.
      layer_decay: factor of the learning rate from one encoder layer to the one below.
      scale_loss: multiply the loss so that small gradients survive float16, see `loss_scale`.
    """

    def __init__(
        self,
        weights: Sequence[Any],
        *,
        rule: str = "adamw",
        schedule: str = "linear",
        peak: float,
        total_steps: int,
        warmup: float,
        weight_decay: float,
        clip_norm: float,
        layer_decay: float = 1.0,
        scale_loss: bool = False,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
    ) -> None:
        super().__init__(name="optimizer")
        self._weights = list(weights)
        self._schedule: dict[str, Any] = {"schedule": schedule, "peak": peak, "total_steps": total_steps, "warmup": warmup}
        self._rule, self._weight_decay, self._clip_norm = rule, weight_decay, clip_norm
        self._betas, self._epsilon = betas, epsilon
        self._scales = layer_scales([weight.path for weight in self._weights], layer_decay)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.means = [self._moment(weight, "mean") for weight in self._weights]
        self.squares = [self._moment(weight, "square") for weight in self._weights]
        self._loss_scale = tf.Variable(FIRST_LOSS_SCALE, trainable=False, name="loss_scale") if scale_loss else None
        self._sound_steps = tf.Variable(0, trainable=False, name="sound_steps") if scale_loss else None

    @staticmethod
    def _moment(weight: Any, kind: str) -> tf.Variable:
        with tf.distribute.get_strategy().extended.colocate_vars_with(weight.value):
            return tf.Variable(tf.zeros_like(weight.value), trainable=False, name=f"{kind}/{weight.path}")

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Everything that decides the next update, under names of its own."""
        state = {"step": self.step}
        for weight, mean, square in zip(self._weights, self.means, self.squares, strict=True):
            state |= {f"mean/{weight.path}": mean, f"square/{weight.path}": square}
        if self._loss_scale is not None:
            state |= {"loss_scale": self._loss_scale, "sound_steps": self._sound_steps}
        return state

    @property
    def loss_scale(self) -> Any:
        """What the loss is multiplied by before its gradients are taken; `apply` divides them by it.

        It halves whenever a gradient is not finite, in which case nothing else changes, and doubles after
        `STEPS_TO_DOUBLE` steps without that.
        """
        return 1.0 if self._loss_scale is None else self._loss_scale

    def learning_rate(self, step: Any) -> tf.Tensor:
        return learning_rate(step, **self._schedule)

    def apply(self, gradients: Sequence[Any]) -> None:
        """Takes each replica's gradients; every replica ends with the same weights.

        A gradient of None (the loss does not depend on that weight) leaves its weight alone, decay included.
        """
        context = tf.distribute.get_replica_context()
        used = [index for index, gradient in enumerate(gradients) if gradient is not None]
        found = [tf.convert_to_tensor(gradients[index]) for index in used]
        if context.num_replicas_in_sync > 1:
            found = context.all_reduce(tf.distribute.ReduceOp.SUM, found)
        if self._loss_scale is not None:
            found = [gradient / self._loss_scale for gradient in found]
        norm = tf.linalg.global_norm(found)
        found, _ = tf.clip_by_global_norm(found, self._clip_norm, use_norm=norm)
        context.merge_call(self._update, args=(used, found, tf.math.is_finite(norm)))

    def _update(self, strategy: tf.distribute.Strategy, used: list[int], gradients: Sequence[Any], finite: Any) -> None:
        rate = self.learning_rate(self.step)
        count = tf.cast(self.step + 1, tf.float32)
        powers = [tf.pow(beta, count) for beta in self._betas]
        for index, gradient in zip(used, gradients, strict=True):
            weight = self._weights[index]
            decay = self._weight_decay if decays(weight.path) else 0.0
            arguments = (
                self.means[index],
                self.squares[index],
                gradient,
                rate * self._scales[index],
                powers,
                decay,
                finite,
            )
            strategy.extended.update(weight.value, self._update_if_finite, args=arguments, group=False)
        self.step.assign_add(1)
        if self._loss_scale is not None:
            strategy.extended.update(self._loss_scale, self._adapt_scale, args=(self._sound_steps, finite), group=False)

    def _update_if_finite(self, weight: Any, *arguments: Any) -> None:
        *values, finite = arguments
        rule = self._lamb if self._rule == "lamb" else self._adam
        if self._loss_scale is None:  # without a scale a gradient that is not finite is a fault, and has to show
            rule(weight, *values)
        else:
            tf.cond(finite, lambda: rule(weight, *values), lambda: None)

    def _adam(self, weight: Any, mean: Any, square: Any, gradient: Any, rate: Any, powers: Any, decay: float) -> None:
        if decay:
            weight.assign_sub(rate * decay * weight)
        # The kernel corrects by (1 - power); as if after endless steps, there is nothing to correct.
        self._kernel(weight, mean, square, gradient, rate, (0.0, 0.0) if self._rule == "adam_reference" else powers)

    def _lamb(self, weight: Any, mean: Any, square: Any, gradient: Any, rate: Any, powers: Any, decay: float) -> None:
        # At a learning rate of 0 the kernel leaves the weight alone and brings both moments up to date in one pass.
        self._kernel(weight, mean, square, gradient, 0.0, powers)
        root = tf.sqrt(1.0 - powers[1])  # corrects scalars instead of whole moments: fewer passes over a large table
        update = root / (1.0 - powers[0]) * (mean / (tf.sqrt(square) + self._epsilon * root))
        if decay:  # what is not decayed keeps its plain update too: a young bias of length 0 could never grow otherwise
            update += decay * weight
            length, wanted = tf.norm(update), tf.norm(weight)
            rate *= tf.where((length > 0) & (wanted > 0), tf.math.divide_no_nan(wanted, length), 1.0)
        weight.assign_sub(rate * update)

    def _kernel(self, weight: Any, mean: Any, square: Any, gradient: Any, rate: Any, powers: Any) -> None:
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

    @staticmethod
    def _adapt_scale(scale: Any, sound_steps: Any, finite: Any) -> None:
        sound = tf.where(finite, sound_steps + 1, 0)
        grown = tf.where(sound >= STEPS_TO_DOUBLE, 2.0, 1.0)
        scale.assign(tf.clip_by_value(scale * tf.where(finite, grown, 0.5), 1.0, 2.0**24))
        sound_steps.assign(tf.where(sound >= STEPS_TO_DOUBLE, 0, sound))


def decays(path: str) -> bool:
    """Biases and layer norms are not decayed, as in the original."""
    return not any(part in path.lower() for part in ("bias", "norm", "gamma", "beta"))
