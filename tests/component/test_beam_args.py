"""What every Beam step is told."""

import pytest
from tfx.utils.dependency_utils import make_beam_dependency_flags

from pipeline.build import beam_args
from pipeline.config import BeamConfig


@pytest.mark.parametrize("given", [BeamConfig().args, (), ("--runner=DirectRunner", "--direct_num_workers=2")])
def test_tfx_is_not_packed_up_for_workers_on_this_machine(given):
    told = beam_args(given)
    assert make_beam_dependency_flags(told) == told and told[: len(given)] == list(given)


@pytest.mark.parametrize(
    "given", [("--runner=FlinkRunner",), ("--runner", "DataflowRunner"), ("--requirements_file=my.txt",)]
)
def test_workers_elsewhere_and_what_the_user_says_of_them_are_left_alone(given):
    assert beam_args(given) == list(given)
