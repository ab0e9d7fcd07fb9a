"""Requests of more rows than a run takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertline.serving.embedded.batching import Batcher, Task
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.embedded.splitting import joined, parts_of
from bertline.serving.settings import Batching


class Doubling:
    """A model that gives each row twice over, and keeps how many rows it was run with."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, feeds, fetches, arrays):
        self.sizes.append(len(arrays[0]))
        if any((array < 0).any() for array in arrays):
            raise RequestError("INVALID_ARGUMENT", "below zero")
        return [array + array for array in arrays]


@pytest.fixture
def ask():
    """Runs one request in a batcher of its own, and gives the outputs."""
    made = []

    def asked(servable, *arrays, **parameters):
        made.append(Batcher(Batching(**{"enable_large_batch_splitting": True} | parameters), Monitoring()))
        return made[-1].run(Task("m", servable, ("x",), ("y",), tuple(map(np.asarray, arrays)), Call()))

    yield asked
    for one in made:
        one.stop()


def refused(ask) -> RequestError:
    with pytest.raises(RequestError) as caught:
        ask()
    return caught.value


@given(st.integers(0, 50), st.integers(1, 20))
def test_parts_put_together_are_the_whole(rows, most):
    arrays = [np.arange(rows), np.arange(3 * rows).reshape(rows, 3)]
    parts = parts_of(arrays, rows, most)
    assert all(len(part[0]) == most for part in parts[:-1]) and all(0 < len(part[0]) <= most for part in parts)
    if parts:
        assert all(np.array_equal(one, other) for one, other in zip(joined(parts), arrays, strict=True))


@pytest.mark.parametrize(("rows", "sizes"), [(1, [1]), (4, [4]), (5, [1, 4]), (8, [4, 4]), (10, [2, 4, 4])])
def test_what_is_larger_than_a_run_is_answered_in_runs_of_its_parts(ask, rows, sizes):
    servable, sent = Doubling(), np.arange(2.0 * rows).reshape(rows, 2)
    (found,) = ask(servable, sent, max_batch_size=10, max_execution_batch_size=4)
    assert np.array_equal(found, 2 * sent) and sorted(servable.sizes) == sizes


def test_parts_are_filled_up_to_the_sizes_that_are_allowed(ask):
    servable = Doubling()
    (found,) = ask(servable, np.arange(7), max_batch_size=8, max_execution_batch_size=4, allowed_batch_sizes=(2, 4))
    assert found.tolist() == [0, 2, 4, 6, 8, 10, 12] and servable.sizes == [4, 4]


def test_texts_are_split_as_well(ask):
    class Upper:
        def run(self, feeds, fetches, arrays):
            return [np.array([text.upper() for text in arrays[0]], object)]

    texts = np.array([b"a" * (number % 7) for number in range(100)], object)
    (found,) = ask(Upper(), texts, max_batch_size=100, max_execution_batch_size=8)
    assert found.tolist() == [text.upper() for text in texts]


def test_without_a_size_of_runs_nothing_is_split(ask):
    servable = Doubling()
    ask(servable, np.zeros([8]), max_batch_size=8)
    assert servable.sizes == [8]


@pytest.mark.parametrize("splits", [False, True])
def test_a_request_beyond_the_largest_is_refused_all_the_same(ask, splits):
    error = refused(
        lambda: ask(Doubling(), np.zeros([9]), max_batch_size=8, max_execution_batch_size=4,
                    enable_large_batch_splitting=splits)
    )  # fmt: skip
    assert (error.code, error.message) == ("INVALID_ARGUMENT", "Task size 9 is larger than maximum input batch size 8")


def test_a_request_that_the_queue_cannot_hold_is_refused_whole(ask):
    servable = Doubling()
    error = refused(
        lambda: ask(servable, np.zeros([9]), max_batch_size=16, max_execution_batch_size=4, max_enqueued_batches=2)
    )
    assert error.code == "UNAVAILABLE" and "full" in error.message and not servable.sizes


def test_one_part_that_fails_fails_the_request(ask):
    error = refused(lambda: ask(Doubling(), np.array([1, 1, 1, 1, 1, -1]), max_batch_size=8, max_execution_batch_size=2))
    assert (error.code, error.message) == ("INVALID_ARGUMENT", "below zero")


def test_outputs_of_parts_that_do_not_fit_together_are_refused(ask):
    class AsWideAsItsLongest:
        def run(self, feeds, fetches, arrays):
            return [np.zeros([len(arrays[0]), max(map(len, arrays[0]))])]

    texts = np.array([b"a", b"b", b"ccc"], object)
    error = refused(lambda: ask(AsWideAsItsLongest(), texts, max_batch_size=4, max_execution_batch_size=2))
    assert error.code == "FAILED_PRECONDITION" and "[1] and [3]" in error.message
