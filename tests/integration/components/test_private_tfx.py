"""The private side of TFX, TensorFlow Transform and TensorFlow Data Validation, as `components/compat.py` takes it."""

import tensorflow as tf
from canary import still_takes
from tensorflow_data_validation.statistics import stats_impl
from tensorflow_transform import impl_helper
from tfx.components.trainer.executor import GenericExecutor
from tfx.components.transform import executor_utils
from tfx.components.transform.executor import Executor as StockTransform
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor

from bertline.components import compat
from bertline.components.ingest.component import Executor as IngestExecutor
from bertline.components.trainer.component import Executor as TrainerExecutor
from bertline.components.transform.component import Executor as TransformExecutor


def test_the_trainer_of_tfx_asks_its_own_method_for_what_it_tells_the_function():
    entry = "TrainerHook in components/compat.py"
    still_takes(GenericExecutor, "_GetFnArgs", "self", "input_dict", "output_dict", "exec_properties", entry=entry)
    assert "_GetFnArgs" in GenericExecutor.Do.__code__.co_names, f"TFX's Trainer does not call _GetFnArgs; change {entry}"
    assert TrainerExecutor._GetFnArgs is compat.TrainerHook._GetFnArgs


def test_transform_of_tfx_asks_its_own_method_for_the_function():
    entry = "TransformHook in components/compat.py"
    still_takes(StockTransform, "_GetPreprocessingFn", "self", "inputs", "outputs", entry=entry)
    still_takes(executor_utils, "MaybeBindCustomConfig", "inputs", "function", entry=entry)
    called = {name for method in vars(StockTransform).values() for name in _names(method)}
    assert "_GetPreprocessingFn" in called, f"TFX's Transform does not call _GetPreprocessingFn; change {entry}"
    assert TransformExecutor._GetPreprocessingFn is compat.TransformHook._GetPreprocessingFn
    function = TransformExecutor()._GetPreprocessingFn({"custom_config": '{"task": "classification"}'}, {})
    assert function.keywords == {"custom_config": {"task": "classification"}}, f"change {entry}"


def test_an_executor_on_beam_knows_its_arguments_and_makes_its_pipeline():
    given = ["--direct_num_workers=1", "--small_data_bytes=7"]
    executor = IngestExecutor(IngestExecutor.Context(beam_pipeline_args=given, tmp_dir="", unique_id="1"))
    still_takes(BaseBeamExecutor, "_make_beam_pipeline", "self", entry="make_beam_pipeline in components/compat.py")
    assert given[1] in compat.beam_args(executor), "TFX keeps Beam's arguments elsewhere; change components/compat.py"
    assert compat.make_beam_pipeline(executor).options.get_all_options()["direct_num_workers"] == 1


def test_small_data_is_transformed_and_summed_up_by_functions_that_are_still_there():
    entry = "components/compat.py"
    for name, arguments in (
        ("MatchNumberOfTransformedExamplesArtifacts", ("inputs", "outputs")),
        ("SetSplitNames", ("splits", "artifacts")),
        ("GetSplitPaths", ("artifacts",)),
    ):
        still_takes(executor_utils, name, *arguments, entry=f"begin_transformed in {entry}")
    still_takes(impl_helper, "get_type_specs_from_feature_specs", "spec", entry=f"analyze_in_place in {entry}")
    in_place = ("function", "compat_v1", "spec", "types", "folder")
    still_takes(impl_helper, "analyze_in_place", *in_place, entry=f"analyze_in_place in {entry}")
    still_takes(impl_helper, "make_tensor_to_arrow_converter", "schema", entry=f"tensor_to_arrow in {entry}")
    still_takes(stats_impl, "generate_statistics_in_memory", "batch", entry=f"statistics_of in {entry}")
    spec = {"n": tf.io.FixedLenFeature([], tf.int64)}
    assert {*impl_helper.get_type_specs_from_feature_specs(spec)} == {"n"}, f"change analyze_in_place in {entry}"


def _names(method):
    return getattr(getattr(method, "__code__", None), "co_names", ())
