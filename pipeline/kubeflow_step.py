"""What a container of a compiled line runs: one step, told in the words of Kubeflow Pipelines.

TFX's own entry point does the work. Around it: TensorFlow's environment, what the step tells as lines of the container's
log, and a mistake that the user can mend without a stack trace.
"""

from __future__ import annotations

import runpy
import sys

from pipeline.environment import prepare

_ENTRY_POINT = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"


def main() -> None:
    prepare()
    from components import events
    from pipeline.errors import BertlineError, cause_of

    try:
        with events.listening(_tell):
            runpy.run_module(_ENTRY_POINT, run_name="__main__", alter_sys=True)
    except Exception as error:
        mistake = cause_of(error, BertlineError)
        if mistake is None:
            raise
        print(f"Error: {mistake}", file=sys.stderr, flush=True)
        sys.exit(1)


def _tell(event: object) -> None:
    from components import events

    if isinstance(event, events.Note):
        print(event.text, flush=True)
    elif isinstance(event, events.Training):
        shown = ", ".join(f"{name} {value:.6g}" for name, value in event.record.numbers().items())
        print(shown, flush=True)


if __name__ == "__main__":
    main()
