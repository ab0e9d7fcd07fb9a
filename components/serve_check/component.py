"""ServeCheck: the pipeline's door to `executor.py`."""

import json
import os

from tfx.components.evaluator import constants
from tfx.components.util.model_utils import is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types.standard_artifacts import Model, ModelBlessing
from tfx.utils import io_utils
from tfx.utils.path_utils import serving_model_path

from bertline.components.serve_check.executor import Report, serve_check
from bertline.components.step_files import SERVE_CHECK


@component
def ServeCheck(
    model: InputArtifact[Model],
    blessing: InputArtifact[ModelBlessing],
    served: OutputArtifact[ModelBlessing],
    name: Parameter[str],
    max_ms: Parameter[float],
    code: Parameter[str],
) -> None:
    """Loads a blessed model in a fresh server, asks it its samples, and blesses or refuses it once more.

    Args:
      model: the candidate.
      blessing: the Evaluator's verdict; a model that it refuses is not looked at.
      served: whether the model may be pushed, and a report.
      name: the pipeline's name, which servers know the model by.
      max_ms: milliseconds that the median answer may take.
      code: fingerprint of the sources, so that a change of code is not answered from the cache.
    """
    if is_model_blessed(blessing):
        report = serve_check(serving_model_path(model.uri), name=name, max_ms=max_ms)
    else:
        report = Report(skipped=True)
    io_utils.write_string_file(os.path.join(served.uri, SERVE_CHECK), report.to_json())
    marker = constants.BLESSED_FILE_NAME if report.blessed else constants.NOT_BLESSED_FILE_NAME
    io_utils.write_string_file(os.path.join(served.uri, marker), "\n".join(report.reasons))
    served.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(report.blessed))
    served.set_string_custom_property("reasons", json.dumps(report.reasons))
    # A busy machine or a port may be to blame, and not the model: a refusal is no result to hand on from the cache.
    if not report.blessed and not report.skipped:
        served.set_string_custom_property("again", "it refused the last time")
