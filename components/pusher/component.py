"""The Pusher of the pipeline: a door to `components/pusher/executor.py`, open to blessed models only."""

import json
import os

from tfx.components.util.model_utils import is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types.standard_artifacts import Model, ModelBlessing, PushedModel
from tfx.utils.path_utils import serving_model_path

from bertline.components.pusher.executor import RUN_VARIABLE, publish
from bertline.serving.contract import read_metadata


@component
def Publish(
    model: InputArtifact[Model],
    pushed_model: OutputArtifact[PushedModel],
    destination: Parameter[str],
    card: Parameter[str],
    code: Parameter[str],
    blessing: InputArtifact[ModelBlessing] = None,
    served: InputArtifact[ModelBlessing] = None,
) -> None:
    """Pushes a blessed model to `destination` as the next version.

    Args:
      model: the Trainer's model.
      pushed_model: says in its properties whether, where and as which version the model was pushed.
      destination: folder that a server watches.
      metadata: JSON object that is written into the version.
      code: fingerprint of the sources, so that a change of code is not answered from the cache.
      blessing: the Evaluator's verdict; without one every model is pushed.
      served: that of ServeCheck, likewise.
    """
    if any(verdict is not None and not is_model_blessed(verdict) for verdict in (blessing, served)):
        pushed_model.set_int_custom_property("pushed", 0)
        return
    model_path = serving_model_path(model.uri)
    run = os.environ.get(RUN_VARIABLE)
    by = {"mlflow_run_id": run} if run else {}
    pushed = publish(model_path, destination, {**read_metadata(model_path), **json.loads(card), **by})
    pushed_model.set_int_custom_property("pushed", int(not pushed.withdrawn))
    if pushed.withdrawn:
        pushed_model.set_int_custom_property("withdrawn", pushed.version)
        pushed_model.set_string_custom_property("again", "its model was withdrawn the last time")
        return
    pushed_model.set_int_custom_property("fresh", int(pushed.fresh))
    pushed_model.set_string_custom_property("pushed_version", str(pushed.version))
    pushed_model.set_string_custom_property("pushed_destination", str(pushed.path))
    pushed_model.set_string_custom_property("digest", pushed.metadata["digest"])
