from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertline.serving.embedded.lifecycle.versions import Policy, on_disk, wanted

NUMBERS = st.sets(st.integers(0, (1 << 63) - 1), max_size=20)


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir()
    return folder


def test_folders_named_by_numbers_are_versions(tmp_path):
    found = on_disk(made(tmp_path, "1", "20", "00000123", "0"))
    assert found == {1: tmp_path / "1", 20: tmp_path / "20", 123: tmp_path / "00000123", 0: tmp_path / "0"}


def test_a_version_may_be_the_nanoseconds_of_a_clock(tmp_path):
    assert list(on_disk(made(tmp_path, "1794864000123456789", str((1 << 63) - 1)))) == [1794864000123456789, (1 << 63) - 1]


@pytest.mark.parametrize(
    "name", ["a", "1a", "-1", "+1", "1.0", " 1", "1_0", "0x1", "١", "²", ".1", "1.making", str(1 << 63), "9" * 200]
)
def test_folders_by_other_names_are_none(tmp_path, name):
    assert on_disk(made(tmp_path, name, "7")) == {7: tmp_path / "7"}


def test_files_and_links_to_nothing_are_no_versions(tmp_path):
    (tmp_path / "1").touch()
    (tmp_path / "2").symlink_to(tmp_path / "nowhere")
    (tmp_path / "3").symlink_to(tmp_path / "3")
    (tmp_path / "4").symlink_to(made(tmp_path, "5") / "5")
    assert on_disk(tmp_path) == {4: tmp_path / "4", 5: tmp_path / "5"}


def test_of_two_spellings_of_a_number_one_is_taken_always(tmp_path):
    assert on_disk(made(tmp_path, "7", "007", "07")) == {7: tmp_path / "7"}


def test_a_folder_that_is_not_there_has_no_versions(tmp_path):
    assert on_disk(tmp_path / "later") == {}
    (tmp_path / "file").touch()
    assert on_disk(tmp_path / "file") == {}


@given(NUMBERS)
def test_without_a_policy_the_highest_is_wanted(found):
    assert wanted(found, Policy()) == sorted(found)[-1:]
    assert wanted(found, Policy(latest=Policy.Latest())) == sorted(found)[-1:]


@given(NUMBERS, st.integers(1, 30))
def test_latest_wants_the_highest_few(found, count):
    assert wanted(found, Policy(latest=Policy.Latest(num_versions=count))) == sorted(found)[-count:]


@given(NUMBERS)
def test_all_wants_all_in_their_order(found):
    assert wanted(found, Policy(all=Policy.All())) == sorted(found)


@given(NUMBERS, NUMBERS)
def test_specific_wants_those_named_that_are_there(found, named):
    assert wanted(found, Policy(specific=Policy.Specific(versions=named))) == sorted(found & named)
