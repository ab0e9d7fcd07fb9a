"""What TFX's own command line is pointed at.

    tfx pipeline create --engine local --pipeline_path pipeline/orchestration/local_runner.py
    tfx run create --engine local --pipeline_name reviews

TFX runs this file without arguments, so the config comes from the environment: BERTLINE_CONFIG is a preset or a file
(`reviews` by default), BERTLINE_WORKSPACE the folder for what the run writes (`workspace` beside this package by default,
so that both commands may be given from anywhere).
"""

import os
import sys
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "bertline" / "__init__.py").is_file())
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bertline.pipeline.core.environment import prepare  # noqa: E402

prepare()

from rich.console import Console  # noqa: E402

from bertline.pipeline.console.display import Display, show_summary  # noqa: E402
from bertline.pipeline.core import events  # noqa: E402
from bertline.pipeline.core.errors import BertlineError  # noqa: E402
from bertline.pipeline.orchestration.builder import create_pipeline  # noqa: E402
from bertline.pipeline.orchestration.runner import LocalEngine  # noqa: E402
from bertline.pipeline.settings.loader import load  # noqa: E402


def main() -> None:
    workspace = os.environ.get("BERTLINE_WORKSPACE", str(ROOT / "workspace"))
    config = load(os.environ.get("BERTLINE_CONFIG", "reviews"), workspace=str(Path(workspace).resolve()))
    if config.seeds:
        raise BertlineError("seeds: TFX's command runs the pipeline once; use `bertline run`, or leave seeds out.")
    engine, console = LocalEngine(config), Console(highlight=False)
    with Display(console) as display, events.listening(display.hear):
        engine.run(create_pipeline(config))
    if engine.record.summary.steps:  # `tfx pipeline create` comes here too, and runs nothing
        show_summary(console, engine.record.summary, [])


if __name__ == "__main__":
    main()
