"""The private side of TFX's local runner and of keras-tuner, as `pipeline/compat.py` takes it, and Beam's."""

import keras_tuner
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.transforms import userstate
from canary import still_takes
from tfx.orchestration.local import runner_utils
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.portable import launcher, runtime_parameter_utils
from tfx.proto.orchestration.local_deployment_config_pb2 import LocalDeploymentConfig

from bertline.pipeline.compat import keep_in
from bertline.pipeline.orchestration import lean_beam


def test_the_local_runner_of_tfx_still_has_the_parts_that_steps_are_launched_by():
    entry = "LocalPipeline in pipeline/compat.py"
    still_takes(runtime_parameter_utils, "substitute_runtime_parameter", "pipeline", "parameters", entry=entry)
    still_takes(runner_utils, "extract_local_deployment_config", "pipeline", entry=entry)
    still_takes(runner_utils, "extract_executor_spec", "deployment", "name", entry=entry)
    still_takes(runner_utils, "extract_custom_driver_spec", "deployment", "name", entry=entry)
    given = ("pipeline_node", "mlmd_connection", "pipeline_info", "pipeline_runtime_spec")
    given += ("executor_spec", "custom_driver_spec")
    still_takes(launcher, "Launcher", entry=entry, **dict.fromkeys(given, ""))
    still_takes(launcher.Launcher, "launch", "self", entry=entry)
    still_takes(LocalDagRunner, "run_with_ir", "self", "pipeline", entry="LocalEngine in pipeline/orchestration/runner.py")
    connection = LocalDeploymentConfig.DESCRIPTOR.fields_by_name["metadata_connection_config"].message_type
    assert "connection_config" in connection.oneofs_by_name, f"TFX names the connection otherwise; change {entry}"


def test_an_oracle_of_keras_tuner_is_given_a_folder_to_write_in(tmp_path):
    still_takes(keras_tuner.Oracle, "_set_project_dir", "self", "folder", "name", entry="keep_in in pipeline/compat.py")
    oracle = keras_tuner.oracles.RandomSearchOracle(objective=keras_tuner.Objective("score", "max"), max_trials=1)
    keep_in(oracle, str(tmp_path))
    oracle.hyperparameters.Int("layers", 1, 9)
    oracle.create_trial("search")
    assert list(tmp_path.rglob("*.json")), "keras-tuner keeps its trials elsewhere; change keep_in in pipeline/compat.py"


@pytest.mark.parametrize(
    ("owner", "name", "arguments"),
    [
        (userstate, "get_dofn_specs", ("dofn",)),
        (PipelineOptions, "view_as", ("self", "kind")),
        (cloudpickle, "_find_imported_submodules", ("code", "dependencies")),
        (worker_handlers.EmbeddedWorkerHandler, "__init__", ("self", "payload", "state", "provision", "manager")),
    ],
)
def test_beam_still_has_what_is_made_leaner_in_it(owner, name, arguments):
    still_takes(owner, name, *arguments, entry="pipeline/orchestration/lean_beam.py")
    lean_beam.install()
    assert hasattr(getattr(owner, name), "__wrapped__"), (
        f"Beam's {name} was not made leaner; change pipeline/orchestration/lean_beam.py"
    )


def test_options_of_beam_keep_their_values_where_lean_beam_looks_for_them():
    entry = "_parsed_once in pipeline/orchestration/lean_beam.py"
    kept = vars(PipelineOptions(["--experiments=one"]).view_as(DebugOptions))
    assert {"_flags", "_visible_options", "_all_options"} <= kept.keys(), f"Beam's options keep {[*kept]}; change {entry}"
    still_takes(DebugOptions, "_visible_option_list", "self", entry=entry)
    assert hasattr(worker_handlers, "STATE_CACHE_SIZE_MB"), "change _without_state_cache in lean_beam.py"
