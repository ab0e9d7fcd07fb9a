import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.serving.embedded.batching import (
    FILLED,
    FIXED_COST,
    Batcher,
    OneByOne,
    Task,
    _merged,
    chosen,
    longest,
    run_together,
)
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.settings import Batching


class Doubling:
    """A model that gives each row twice over, and keeps what it was run with."""

    def __init__(self, work=lambda arrays: None) -> None:
        self.runs: list[list[np.ndarray]] = []
        self.work = work

    def run(self, feeds, fetches, arrays):
        self.runs.append(list(arrays))
        self.work(arrays)
        return [array + array for array in arrays]


def strings(*texts: bytes) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def task(*arrays, servable=None, rows: int | None = None, length: int = 0, call: Call | None = None) -> Task:
    arrays = tuple(map(np.asarray, arrays))
    rows = (len(arrays[0]) if arrays and arrays[0].ndim else 0) if rows is None else rows
    return Task("m", servable or Doubling(), ("x",), ("y",), arrays, call or Call(), rows=rows, length=length)


def refused(ask) -> RequestError:
    with pytest.raises(RequestError) as caught:
        ask()
    return caught.value


QUEUES = st.lists(
    st.tuples(st.integers(1, 8), st.integers(0, 400)).map(lambda both: task(rows=both[0], length=both[1])),
    min_size=1,
    max_size=30,
)


# Which tasks share a batch


@given(QUEUES, st.integers(8, 40), st.booleans())
def test_a_batch_has_the_oldest_once_and_no_more_rows_than_it_may(queue, most, by_length):
    batch = chosen(queue, most, by_length=by_length)
    assert queue[0] in batch and len(set(map(id, batch))) == len(batch) and all(one in queue for one in batch)
    assert sum(one.rows for one in batch) <= most


@given(QUEUES, st.integers(8, 40))
def test_most_of_a_batch_by_length_is_text(queue, most):
    batch = chosen(queue, most, by_length=True)
    area = sum(one.rows for one in batch) * (max(one.length for one in batch) + FIXED_COST)
    assert sum(one.rows * (one.length + FIXED_COST) for one in batch) >= FILLED * area * (1 - 1e-9)


@given(QUEUES, st.integers(8, 40))
def test_without_lengths_a_batch_is_the_first_that_fit(queue, most):
    batch = chosen(queue, most, by_length=False)
    assert batch == queue[: len(batch)]
    assert len(batch) == len(queue) or sum(one.rows for one in queue[: len(batch) + 1]) > most


@given(QUEUES, st.integers(8, 40), st.booleans())
def test_every_task_gets_its_turn(queue, most, by_length):
    left, turns = list(queue), 0
    while left:
        batch = chosen(left, most, by_length=by_length)
        left = [one for one in left if one not in batch]
        turns += 1
    assert turns <= len(queue)


def test_texts_of_like_length_are_taken_and_others_left():
    queue = [task(rows=1, length=length) for length in (100, 5, 104, 500, 98, 0)]
    assert {one.length for one in chosen(queue, 64, by_length=True)} == {98, 100, 104}


def test_the_length_of_a_row_is_that_of_all_its_texts():
    assert longest([strings(b"abc", b"a")]) == 3
    assert longest([strings(b"abc", b"a"), strings(b"", b"abcd")]) == 5
    assert longest([strings(b"ab", b"c", b"def", b"g").reshape(2, 2)]) == 4
    assert longest([np.zeros([3, 500])]) == longest([strings()]) == longest([]) == 0


# A run together

ROWS = st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=4), min_size=1, max_size=8)


@given(ROWS, st.sampled_from([(), (32,), (1, 2, 4, 8, 16, 32), (5, 32)]))
def test_each_task_gets_its_own_rows(rows, sizes):
    servable = Doubling()
    tasks = [task(np.array(row, np.float32), servable=servable) for row in rows]
    padding, outputs = run_together(tasks, Batching(max_batch_size=32, allowed_batch_sizes=sizes))
    for row, (output,) in zip(rows, outputs, strict=True):
        assert output.tolist() == (2 * np.array(row, np.float32)).tolist()
    ((ran,),) = servable.runs
    total = sum(map(len, rows))
    assert len(ran) == total + padding == min((size for size in sizes if size >= total), default=total)


def test_rows_that_fill_a_batch_up_are_rows_that_were_sent():
    servable = Doubling()
    run_together([task(strings(b"a", b"b"), servable=servable)], Batching(allowed_batch_sizes=(4, 64)))
    assert servable.runs[0][0].tolist() == [b"a", b"b", b"a", b"a"]


def test_an_empty_task_fills_nothing_up():
    servable = Doubling()
    both = [task(np.zeros([2]), servable=servable), task(np.zeros([0]), servable=servable)]
    for tasks in (both, both[::-1]):
        padding, outputs = run_together(tasks, Batching(allowed_batch_sizes=(8, 64)))
        assert padding == 6 and sorted(len(output) for (output,) in outputs) == [0, 2]
    error = refused(lambda: run_together(both[1:], Batching(allowed_batch_sizes=(8, 64))))
    assert error.code == "INVALID_ARGUMENT" and "zero rows" in error.message


@pytest.mark.parametrize("output", [np.float32(1), np.zeros([3]), np.zeros([0, 2])])
def test_outputs_that_have_not_a_row_for_each_row_are_refused(output):
    servable = Doubling()
    servable.run = lambda feeds, fetches, arrays: [np.asarray(output)]
    error = refused(lambda: run_together([task(np.zeros([2]), servable=servable)], Batching()))
    assert error.code == "FAILED_PRECONDITION"


def test_narrow_rows_are_filled_up_with_zeros_or_empty_texts():
    numbers = _merged([np.ones([1, 2], np.int64), np.ones([2, 3], np.int64)], 0)
    assert numbers.tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]] and numbers.dtype == np.int64
    texts = _merged([strings(b"a", b"b").reshape(1, 2), strings(b"c").reshape(1, 1)], 1)
    assert texts.tolist() == [[b"a", b"b"], [b"c", b""], [b"a", b"b"]] and texts.dtype == object
    assert _merged([np.ones([1, 1, 2]), np.ones([1, 2, 1])], 0).sum() == 4


def test_one_task_alone_is_not_copied():
    array = np.zeros([3])
    assert _merged([array], 0) is array


# The queue


class Gated(Doubling):
    """Runs when it is let."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        super().__init__(self._wait)

    def _wait(self, arrays) -> None:
        self.began.set()
        assert self.go.wait(60)


class Asked(threading.Thread):
    """A task that is asked in a thread of its own."""

    def __init__(self, runner, asked: Task) -> None:
        super().__init__(daemon=True)
        self.runner, self.task, self.outcome = runner, asked, None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self.runner.run(self.task)
        except Exception as error:
            self.outcome = error

    def result(self):
        self.join(60)
        return self.outcome


@pytest.fixture
def batcher():
    made = []

    def make(**parameters) -> Batcher:
        made.append(Batcher(Batching(**parameters), Monitoring()))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def enqueued(batcher: Batcher, count: int) -> bool:
    end = time.monotonic() + 60
    while sum(map(len, batcher._queues.values())) != count and time.monotonic() < end:
        time.sleep(0.001)
    return sum(map(len, batcher._queues.values())) == count


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ([], "at least one input"),
        ([np.float32(1)], "at least one dimension"),
        ([np.zeros([2]), np.zeros([3])], "equal 0th-dimension"),
        ([np.zeros([9])], "Task size 9 is larger than maximum input batch size 8"),
    ],
)
def test_what_cannot_be_batched_is_refused(batcher, arrays, told):
    error = refused(lambda: batcher(max_batch_size=8).run(task(*arrays)))
    assert error.code == "INVALID_ARGUMENT" and told in error.message


def test_too_many_rows_are_refused_before_they_are_looked_at(batcher, monkeypatch):
    monkeypatch.setattr("bertline.serving.embedded.batching.longest", lambda arrays: pytest.fail("it looks at each row"))
    assert "Task size" in refused(lambda: batcher().run(task(np.empty([1 << 24, 0], object)))).message


def test_a_full_queue_refuses(batcher):
    servable, full = Gated(), batcher(max_batch_size=2, max_enqueued_batches=2)
    first = Asked(full, task(np.zeros([1]), servable=servable))
    assert servable.began.wait(60)
    waiting = [Asked(full, task(np.zeros([2]), servable=servable)) for _ in range(2)]
    assert enqueued(full, 2)
    error = refused(lambda: full.run(task(np.zeros([1]), servable=servable)))
    assert error.code == "UNAVAILABLE" and "queue" in error.message and "full" in error.message
    servable.go.set()
    assert [len(asked.result()[0]) for asked in (first, *waiting)] == [1, 2, 2]


def test_those_that_nobody_waits_for_are_not_run(batcher):
    servable, cancelled, one = Gated(), threading.Event(), batcher()
    first = Asked(one, task(np.zeros([1]), servable=servable))
    assert servable.began.wait(60)
    late = Asked(one, task(np.full([1], 7.0), servable=servable, call=Call(deadline=time.monotonic() + 0.05)))
    gone = Asked(one, task(np.full([1], 8.0), servable=servable, call=Call(is_cancelled=cancelled.is_set)))
    stays = Asked(one, task(np.full([1], 9.0), servable=servable))
    assert late.result().code == "DEADLINE_EXCEEDED" and enqueued(one, 3)
    cancelled.set()
    servable.go.set()
    assert gone.result().code == "CANCELLED"
    assert stays.result()[0].tolist() == [18.0] and len(first.result()[0]) == 1
    assert [run[0].tolist() for run in servable.runs] == [[0.0], [9.0]]


def test_tasks_of_other_kinds_run_apart(batcher):
    servable, one = Gated(), batcher()
    asked = [Asked(one, task(np.zeros([1]), servable=servable))]
    assert servable.began.wait(60)
    for array in (np.zeros([1, 2]), np.zeros([1, 3]), np.zeros([1, 2], np.int64), np.ones([1, 2])):
        asked.append(Asked(one, task(array, servable=servable)))
    asked.append(Asked(one, task(np.ones([1, 2]), servable=Doubling())))
    assert enqueued(one, 5)
    servable.go.set()
    assert [each.result()[0].dtype for each in asked] == [np.float64] * 3 + [np.int64] + [np.float64] * 2
    assert sorted(len(run[0]) for run in servable.runs) == [1, 1, 1, 2]


def test_one_that_fails_spoils_no_other(batcher):
    def work(arrays) -> None:
        if (arrays[0] < 0).any():
            raise RequestError("INVALID_ARGUMENT", "below zero")

    servable, blocker, one = Doubling(work), Gated(), batcher()
    first = Asked(one, task(np.zeros([1]), servable=blocker))
    assert blocker.began.wait(60)
    asked = [Asked(one, task(np.array([value]), servable=servable)) for value in (1.0, -1.0, 2.0)]
    assert enqueued(one, 3)
    blocker.go.set()
    first.result()
    assert [asked[0].result()[0].tolist(), asked[2].result()[0].tolist()] == [[2.0], [4.0]]
    assert asked[1].result().message == "below zero" and len(servable.runs) == 4


def test_a_batch_that_is_not_full_waits_as_long_as_it_is_told(batcher):
    servable, one = Doubling(), batcher(max_batch_size=3, batch_timeout_micros=60_000_000)
    asked = [Asked(one, task(np.zeros([1]), servable=servable)) for _ in range(3)]
    assert all(len(each.result()[0]) == 1 for each in asked)
    assert [len(run[0]) for run in servable.runs] == [3]


def test_at_the_end_those_who_wait_are_told(batcher):
    servable, one = Gated(), batcher()
    first = Asked(one, task(np.zeros([1]), servable=servable))
    assert servable.began.wait(60)
    waiting = Asked(one, task(np.zeros([1]), servable=servable))
    assert enqueued(one, 1)
    stopping = threading.Thread(target=one.stop)
    stopping.start()
    assert waiting.result().code == "UNAVAILABLE"
    servable.go.set()
    stopping.join(60)
    assert len(first.result()[0]) == 1
    assert refused(lambda: one.run(task(np.zeros([1])))).code == "UNAVAILABLE"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 3))
def test_whatever_comes_together_each_gets_its_own(sizes, threads):
    one = Batcher(Batching(max_batch_size=8, allowed_batch_sizes=(2, 8), num_batch_threads=threads), Monitoring())
    servable = Doubling()
    asked = [Asked(one, task(np.full([size], number), servable=servable)) for number, size in enumerate(sizes)]
    assert [each.result()[0].tolist() for each in asked] == [[2 * number] * size for number, size in enumerate(sizes)]
    one.stop()


def test_one_by_one_runs_so_many_at_a_time():
    servable, one = Gated(), OneByOne(1)
    first = Asked(one, task(np.zeros([1]), servable=servable))
    assert servable.began.wait(60)
    late = task(np.zeros([1]), servable=servable, call=Call(deadline=time.monotonic() + 0.05))
    assert refused(lambda: one.run(late)).code == "DEADLINE_EXCEEDED"
    servable.go.set()
    assert len(first.result()[0]) == 1 and len(servable.runs) == 1
    assert len(one.run(task(np.zeros([2]), servable=servable))[0]) == 2
