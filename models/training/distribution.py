"""Where a model is trained: on one device, on several of this machine, or by several processes.

The loop in `loop.py` is the same for all of them. What differs is here: who takes which rows of a batch, and what the
processes tell each other beside the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import as_it_is
from bertline.models.training.cluster import Cluster
from bertline.pipeline.config import TrainingConfig
from bertline.pipeline.core.errors import BertlineError


@dataclass(frozen=True)
class Devices:
    """A strategy, and this process's place in it."""

    strategy: tf.distribute.Strategy
    index: int = 0
    """Of this process."""
    processes: int = 1

    @property
    def is_chief(self) -> bool:
        """Whether this process writes."""
        return self.index == 0

    @property
    def replicas(self) -> int:
        """Copies of the model, in all processes together."""
        return self.strategy.num_replicas_in_sync

    def summed(self, numbers: Any) -> np.ndarray:
        """The sum of what each process gives: the same to all of them."""
        mine = np.asarray(numbers, np.float64)
        if self.processes == 1:
            return mine
        of_process = self.replicas // self.processes

        def value(context: Any) -> tf.Tensor:
            return tf.constant(mine if context.replica_id_in_sync_group % of_process == 0 else np.zeros_like(mine))

        given = self.strategy.experimental_distribute_values_from_function(value)
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, given, axis=None).numpy()

    def from_chief(self, number: float) -> float:
        """What the chief gives. Processes must decide alike, and two of them may compute a last digit otherwise."""
        return float(self.summed(number if self.is_chief else 0.0))

    def share(self, items: Sequence[Any]) -> Sequence[Any]:
        """What this process does of some work that can be done in any order."""
        return items[self.index :: self.processes]

    def deal(self, batches: tf.data.Dataset) -> Any:
        """The batches, each dealt out to the replicas in equal parts. TensorFlow's own way of doing so would hand whole
        batches to one process or another, by what it makes of the dataset."""
        if self.replicas == 1:
            return batches

        def of_process(context: Any) -> tf.data.Dataset:
            local = self.replicas // context.num_input_pipelines
            first = context.input_pipeline_id * local

            def dealt(batch: dict[str, tf.Tensor]) -> tf.data.Dataset:
                return tf.data.Dataset.from_tensor_slices(self._parts(batch, first, local))

            return batches.flat_map(as_it_is(dealt))

        return self.strategy.distribute_datasets_from_function(of_process)

    def _parts(self, batch: dict[str, tf.Tensor], first: int, local: int) -> dict[str, tf.Tensor]:
        """[local, rows, ...] of each tensor: what the replicas from `first` on get."""
        rows = batch["weight"].shape[0]
        size = tf.shape(batch["weight"])[0] // self.replicas if rows is None else rows // self.replicas
        return {
            name: tf.ensure_shape(
                tf.reshape(value, tf.concat([[self.replicas, size], tf.shape(value)[1:]], axis=0)),
                [self.replicas, None if rows is None else size, *value.shape[1:]],
            )[first : first + local]
            for name, value in batch.items()
        }


def scaled(settings: TrainingConfig, replicas: int) -> TrainingConfig:
    """The settings of all replicas together, by the rule that `training.scaling` names."""
    if settings.scaling == "none" or replicas == 1:
        return settings
    factor = replicas if settings.scaling == "linear" else replicas**0.5
    return settings.model_copy(
        update={
            "batch_size": settings.batch_size * replicas,
            "batch_tokens": settings.batch_tokens and settings.batch_tokens * replicas,
            "learning_rate": settings.learning_rate and settings.learning_rate * factor,
        }
    )


def join(names: tuple[str, ...] = ()) -> Devices:
    """The processes that TF_CONFIG names, which are waited for; or else the named devices, every GPU, or the CPU.

    A cluster is joined before TensorFlow computes anything in a process, or not at all.
    """
    cluster = Cluster.from_environment()
    if cluster is None:
        return Devices(_strategy(names))
    if names:
        raise BertlineError("training.devices: with TF_CONFIG each process takes all that it has; leave it out.")
    return Devices(_multi_worker(cluster), cluster.index, len(cluster))


def _strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    names = list(devices) or [f"GPU:{i}" for i, _ in enumerate(tf.config.list_logical_devices("GPU"))] or ["CPU:0"]
    known = {f"{device.device_type}:{device.name.rsplit(':', 1)[1]}" for device in tf.config.list_logical_devices()}
    missing = [name for name in names if name not in known]
    if missing:
        raise BertlineError(
            f"training.devices: {', '.join(missing)} not found; this machine has {', '.join(sorted(known))}."
        )
    # One CPU needs no mirroring; the default strategy takes the same code path without its overhead.
    return tf.distribute.get_strategy() if names == ["CPU:0"] else _mirrored(tuple(names))


@cache
def _mirrored(names: tuple[str, ...]) -> tf.distribute.Strategy:
    """One a process and devices: two would number their sums over replicas alike, and TensorFlow take them for the same."""
    return tf.distribute.MirroredStrategy(names)


@cache
def _multi_worker(cluster: Cluster) -> tf.distribute.Strategy:
    """One a process: its server has one port."""
    return tf.distribute.MultiWorkerMirroredStrategy()
