"""All that steps take from the private side of TFX and of the libraries below it: no release promises to keep it.

Known to work with TFX 1.16.0, TensorFlow Transform 1.16.0 and TensorFlow Data Validation 1.16.1. After an upgrade
`tests/integration/components/test_private_tfx.py` says what of it has changed. Every step takes what it needs from here, so
nothing is imported before it is used.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import apache_beam as beam

    from bertline.pipeline.core.arrow import pa


class TrainerHook(abc.ABC):
    """A base before TFX's `GenericExecutor` of the Trainer, which asks its own `_GetFnArgs` for what it tells `run_fn`.

    That method is the one place where artifacts that the stock Trainer does not know can reach the function. Without it
    they would not: the Trainer would fail at the first of its settings that is missing.
    """

    @abc.abstractmethod
    def fn_args(self, made: Any, inputs: Mapping[str, Any], properties: Mapping[str, Any]) -> Any:
        """What `run_fn` is told, given what TFX has made of it."""

    def _GetFnArgs(self, input_dict: Any, output_dict: Any, exec_properties: Any) -> Any:
        made = super()._GetFnArgs(input_dict, output_dict, exec_properties)  # type: ignore[misc]
        return self.fn_args(made, input_dict, exec_properties)


class TransformHook:
    """A base before TFX's executor of Transform, which asks its own `_GetPreprocessingFn` for the function.

    By its dotted path the stock executor would find the function too, but by a reload of the function's module, which
    would leave the process with two of every class in it. Without this method that is what would happen, or, as the step
    names no path, Transform would fail for want of one.
    """

    preprocessing_fn: Callable[..., Any]
    """(inputs, custom_config) -> outputs; a static method."""

    def _GetPreprocessingFn(self, inputs: Mapping[str, Any], unused_outputs: Mapping[str, Any]) -> Callable[..., Any]:
        from tfx.components.transform import executor_utils

        return executor_utils.MaybeBindCustomConfig(inputs, self.preprocessing_fn)


def make_beam_pipeline(executor: Any) -> beam.Pipeline:
    """A pipeline with all that a step is told of Beam: `_make_beam_pipeline` of TFX's `BaseBeamExecutor`.

    It is made for those who derive an executor, and yet has an underscore. Without it steps could not go through Beam.
    """
    return executor._make_beam_pipeline()


def beam_args(executor: Any) -> Sequence[str]:
    """What a step is told of Beam: `_beam_pipeline_args` of TFX's `BaseBeamExecutor`.

    Without it no step would know whether its data is small (`components/small_data.py`).
    """
    return executor._beam_pipeline_args


def begin_transformed(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any], splits: Sequence[str], name: str = "transformed_examples"
) -> list[str]:
    """Makes the artifacts of transformed examples as TFX's Transform does, and gives the prefix of each split's files.

    By functions of its `executor_utils`, which are for itself. Without them small data would have to go through Beam.
    """
    from tfx.components.transform import executor_utils

    executor_utils.MatchNumberOfTransformedExamplesArtifacts(inputs, outputs)
    executor_utils.SetSplitNames(splits, outputs[name])
    return executor_utils.GetSplitPaths(outputs[name])


def analyze_in_place(function: Callable[..., Any], feature_spec: Mapping[str, Any], folder: str) -> None:
    """Writes the graph of a function that analyses no data: `analyze_in_place` of TensorFlow Transform's `impl_helper`.

    TensorFlow Transform does so itself in fewer cases than it could. Without it small data would go through Beam.
    """
    from tensorflow_transform import impl_helper

    types = impl_helper.get_type_specs_from_feature_specs(feature_spec)
    impl_helper.analyze_in_place(function, False, feature_spec, types, folder)


def tensor_to_arrow(schema: Any) -> Any:
    """What makes record batches of tensors, to be encoded as the Examples that TensorFlow Transform would write.

    `make_tensor_to_arrow_converter` of its `impl_helper`. Without it small data would go through Beam.
    """
    from tensorflow_transform import impl_helper

    return impl_helper.make_tensor_to_arrow_converter(schema)


def statistics_of(batch: pa.RecordBatch) -> Any:
    """Statistics without Beam: `generate_statistics_in_memory` of TensorFlow Data Validation's `stats_impl`.

    Its public functions take data frames and CSV files, or go through Beam, as small data would without this one.
    """
    from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory

    return generate_statistics_in_memory(batch)
