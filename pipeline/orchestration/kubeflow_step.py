"""What a container of a compiled line runs: one step, told in the words of Kubeflow Pipelines.

TFX's own entry point does the work. Around it: TensorFlow's environment, copies of what is in a bucket, what the step tells
as lines of the container's log, and a mistake that the user can mend without a stack trace.
"""

from __future__ import annotations

import runpy
import sys
from contextlib import nullcontext

from bertline.pipeline.core.environment import prepare

_ENTRY_POINT = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"


def main() -> None:
    prepare()
    from bertline.pipeline.core import events
    from bertline.pipeline.core.errors import BertlineError, cause_of
    from bertline.pipeline.orchestration.staging import staged

    try:
        given = sys.argv[1:]
        with events.listening(_log), nullcontext(given) if _opens_buckets(given) else staged(given, print) as arguments:
            sys.argv[1:] = arguments
            try:
                runpy.run_module(_ENTRY_POINT, run_name="__main__", alter_sys=True)
            except SystemExit as end:  # which is how it ends when all is well, too
                if end.code:
                    raise
    except Exception as error:
        mistake = cause_of(error, BertlineError)
        if mistake is None:
            raise
        print(f"Error: {mistake}", file=sys.stderr, flush=True)
        sys.exit(1)


def _opens_buckets(arguments: list[str]) -> bool:
    """A step that Beam's workers elsewhere do gives them the names in the bucket; TensorFlow and Beam open gs:// alone."""
    from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
    from tfx.utils.import_utils import import_class_by_path

    from bertline.pipeline.core.errors import BertlineError
    from bertline.pipeline.orchestration.beam import works_here

    if works_here(arguments):
        return False
    executor = import_class_by_path(arguments[arguments.index("--executor_class_path") + 1])
    if not issubclass(executor, BaseBeamExecutor):
        return False
    if any(scheme in argument for argument in arguments for scheme in ('"uri": "s3://', '"uri":"s3://')):
        raise BertlineError(
            "beam.runner: its workers open gs:// and shared folders, and no s3://; set cluster.root to one."
        )
    return True


def _log(event: object) -> None:
    from bertline.pipeline.core import events

    if isinstance(event, events.Note):
        print(event.text, flush=True)
    elif isinstance(event, events.Training):
        shown = ", ".join(f"{name} {value:.6g}" for name, value in event.record.numbers().items())
        print(shown, flush=True)


if __name__ == "__main__":
    main()
