"""What every Beam step is told, and what Beam then leaves out."""

import concurrent.futures
import json
import os
import xml.dom

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.userstate import CombiningValueStateSpec
from tfx.utils.dependency_utils import make_beam_dependency_flags

from bertline.components.small_data import SmallDataOptions
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration import lean_beam
from bertline.pipeline.orchestration.beam import ONE_WORKER_BYTES, beam_args
from bertline.pipeline.settings.loader import load


def told(*settings, raw_bytes=1000):
    return beam_args(load("reviews", [f"beam.{setting}" for setting in settings]), raw_bytes)


@pytest.mark.parametrize("settings", [(), ("workers=2",), ("args=['--direct_num_workers=3']",)])
def test_tfx_is_not_packed_up_for_workers_on_this_machine(settings):
    found = told(*settings)
    assert make_beam_dependency_flags(found) == found


def test_small_data_has_one_worker_in_this_process_and_large_data_one_a_core():
    assert told()[:2] == ["--direct_running_mode=in_memory", "--direct_num_workers=1"] == told(raw_bytes=None)[:2]
    large = [f"--direct_num_workers={os.cpu_count()}", "--direct_running_mode=multi_processing"]
    assert sorted(told(raw_bytes=ONE_WORKER_BYTES)[:2]) == large
    assert told("workers=1", raw_bytes=ONE_WORKER_BYTES)[:2] == told()[:2]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (
            ("runner=flink", "endpoint=jobs:8081", "workers=8"),
            {"runner": "FlinkRunner", "flink_master": "jobs:8081", "parallelism": 8},
        ),
        (("runner=spark", "endpoint=spark://s:7077"), {"runner": "SparkRunner", "spark_master_url": "spark://s:7077"}),
        (("runner=portable", "endpoint=jobs:8099"), {"runner": "PortableRunner", "job_endpoint": "jobs:8099"}),
        (
            ("runner=dataflow", "args=['--project=p', '--region=r', '--temp_location=gs://b/t']", "image=mine:2"),
            {"runner": "DataflowRunner", "project": "p", "sdk_container_image": "mine:2"},
        ),
    ],
)
def test_workers_elsewhere_run_in_the_image_with_our_packages(settings, wanted):
    found = told(*settings)
    assert make_beam_dependency_flags(found) == found, "the image has them"
    options = PipelineOptions(found).get_all_options()
    wanted = {"sdk_container_image": "bertline:0.1.0", **wanted}
    assert {name: options[name] for name in wanted} == wanted
    if wanted["runner"] != "DataflowRunner":
        assert PipelineOptions(found).view_as(PortableOptions).environment_type == "DOCKER"


def test_what_the_user_says_of_workers_wins():
    found = told("runner=portable", "endpoint=jobs:8099", "args=['--environment_type=LOOPBACK']")
    options = PipelineOptions(found).get_all_options()
    assert (options["environment_type"], options["sdk_container_image"]) == ("LOOPBACK", "none")
    assert make_beam_dependency_flags(found) == found


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("runner=flink",), "beam.endpoint: required"),
        (("runner=dataflow", "args=['--project=p']"), "--region=…, --temp_location=…"),
    ],
)
def test_what_a_runner_lacks_is_told_before_anything_runs(settings, said):
    with pytest.raises(BertlineError, match=said):
        told(*settings)


class Counting(beam.DoFn):
    """Has a state, and a look at it is counted."""

    COUNT = CombiningValueStateSpec("count", combine_fn=sum)
    looks = 0

    def process(self, pair, count=beam.DoFn.StateParam(COUNT)):  # noqa: B008  as Beam wants it
        count.add(1)
        yield pair[0], count.read()

    def __getattribute__(self, name):
        Counting.looks += name == "process"
        return super().__getattribute__(name)


def test_what_a_dofn_is_made_of_is_looked_at_once_and_is_still_known():
    lean_beam.install()
    lean_beam.install()
    first, again = (userstate.get_dofn_specs(Counting()) for _ in range(2))
    assert first == again == userstate.get_dofn_specs.__wrapped__(Counting()) == ({Counting.COUNT}, set())
    before = Counting.looks
    assert userstate.is_stateful_dofn(Counting()) and Counting.looks == before
    with_its_own = beam.DoFn()
    with_its_own.process = Counting().process  # a method that the class does not have
    assert userstate.is_stateful_dofn(with_its_own) and not userstate.is_stateful_dofn(beam.DoFn())
    with beam.Pipeline() as pipeline:
        counted = pipeline | beam.Create([("a", 1)] * 3) | beam.ParDo(Counting()) | beam.CombinePerKey(max)
        assert_that(counted, equal_to([("a", 3)]))


def test_options_are_parsed_once_and_are_views_of_the_same_values_as_ever():
    lean_beam.install()
    usual = PipelineOptions.view_as.__wrapped__
    flags = ["--direct_num_workers=3", "--experiments=one", "--small_data_bytes=7"]
    for view_as in (usual, PipelineOptions.view_as):
        options = PipelineOptions(flags)
        debug, again = (view_as(options, DebugOptions) for _ in range(2))
        debug.experiments.append("two")
        debug.view_as(StandardOptions).runner = "Another"
        assert again.experiments == ["one", "two"] and view_as(options, StandardOptions).runner == "Another"
        assert view_as(options, DirectOptions).direct_num_workers == 3
        assert view_as(options, SmallDataOptions).small_data_bytes == 7
        assert view_as(PipelineOptions(flags), DebugOptions).experiments == ["one"]  # of others nothing has become known
        assert view_as(PipelineOptions(flags, runner="Mine"), StandardOptions).runner == "Mine"
        assert view_as(PipelineOptions([]), StandardOptions).runner is None
    with pytest.raises(AttributeError):
        PipelineOptions(flags).view_as(StandardOptions).nothing  # noqa: B018


def test_a_function_is_pickled_with_the_modules_that_it_reaches():
    lean_beam.install()
    usual = cloudpickle._find_imported_submodules.__wrapped__

    def reach():
        return concurrent.futures.thread, xml.dom, json

    for dependencies in ([concurrent], [xml, json], [concurrent.futures, 1, "xml"], []):
        found = cloudpickle._find_imported_submodules(reach.__code__, dependencies)
        assert {*found} == {*usual(reach.__code__, dependencies)}
    assert [each.__name__ for each in cloudpickle._find_imported_submodules(reach.__code__, [xml])] == ["xml.dom"]
