"""What every Beam step is told, in Beam's own words."""

from __future__ import annotations

import os
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions

from bertline.components.small_data import SMALL_BYTES
from bertline.pipeline.config import Config

ONE_WORKER_BYTES = 256 * 2**20
"""Raw bytes up to which one process is quickest: others have to import TensorFlow first."""


def beam_args(config: Config, raw_bytes: int | None) -> list[str]:
    """The settings as arguments, and then the user's own.

    Args:
      raw_bytes: how much is read; None where that is not known yet.
    """
    beam = config.beam
    image = beam.image or config.cluster.image
    if beam.runner == "direct":
        workers = beam.workers or (1 if (raw_bytes or 0) < ONE_WORKER_BYTES else os.cpu_count() or 1)
        mode = "in_memory" if workers == 1 else "multi_processing"
        told = [f"--direct_running_mode={mode}", f"--direct_num_workers={workers}"]
        # Not where nobody knows yet what the steps will read, and by which process.
        told += [f"--small_data_bytes={SMALL_BYTES}"] if workers == 1 and raw_bytes is not None else []
    elif beam.runner == "dataflow":
        told = ["--runner=DataflowRunner", f"--sdk_container_image={image}"]
        told += [f"--num_workers={beam.workers}"] if beam.workers else []
    else:
        name, option = {
            "flink": ("FlinkRunner", "flink_master"),
            "spark": ("SparkRunner", "spark_master_url"),
            "portable": ("PortableRunner", "job_endpoint"),
        }[beam.runner]
        told = [f"--runner={name}", f"--{option}={beam.endpoint}"]
        if not beam.names("environment_type"):
            told += ["--environment_type=DOCKER", f"--sdk_container_image={image}"]
        if beam.workers and beam.runner == "flink":
            told.append(f"--parallelism={beam.workers}")
    return _without_packing([*told, *beam.args])


def _without_packing(told: list[str]) -> list[str]:
    """With one more argument that saves seconds of each step where the workers have our packages already.

    For workers elsewhere TFX packs itself up anew in every step, unless something says that they have it. Those of the
    DirectRunner, and of a process or a loopback of this machine, do, and they never look at what says so.
    """
    named = PipelineOptions(told).get_all_options(drop_default=True)
    says_so = any(named.get(name) for name in ("extra_packages", "setup_file", "requirements_file", "sdk_container_image"))
    return [*told, "--sdk_container_image=none"] if works_here(told) and not says_so else told


def works_here(told: Sequence[str]) -> bool:
    """Whether Beam's workers are processes of this machine."""
    named = PipelineOptions(list(told)).get_all_options(drop_default=True)
    runner, environment = named.get("runner", "DirectRunner"), named.get("environment_type")
    directly = runner in ("DirectRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner")
    return directly or environment in ("LOOPBACK", "PROCESS")
