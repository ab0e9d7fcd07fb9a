"""How requests are run: each by itself, or together with others that wait.

A batch of texts is padded to its longest inside the graph, so a long text makes its neighbours cost as much as itself. Of
the tasks that wait, a batch therefore takes the oldest and those nearest to it in length, as far as padding stays small.
Everything else is TensorFlow Serving's scheduler: its parameters, its refusals, its messages.

Over 300 lines in one module: the queue and what is chosen from it follow one rule, which is to be read at once.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.lifecycle.servable import Feeds, Fetches, Servable
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.embedded.splitting import joined, parts_of
from bertline.serving.settings import Batching

FIXED_COST = 24
"""What a text costs beside its own bytes, in bytes: its [CLS] and [SEP], and its share of what each run costs."""
FILLED = 0.8
"""At least so much of a batch's area is text, and not padding."""


@dataclass(eq=False)
class Task:
    """One run that a request asks for."""

    model: str
    servable: Servable
    feeds: Feeds
    fetches: Fetches
    arrays: Sequence[np.ndarray]
    call: Call
    rows: int = 0
    length: int = 0
    """Bytes of its longest row."""
    entered: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)
    outputs: list[np.ndarray] | None = None
    error: Exception | None = None

    def finish(self, outputs: list[np.ndarray] | None = None, error: Exception | None = None) -> None:
        self.outputs, self.error = outputs, error
        self.done.set()


class Runner(Protocol):
    """What runs tasks."""

    def run(self, task: Task) -> list[np.ndarray]:
        """The outputs under `task.fetches`."""

    def stop(self) -> None:
        """Ends its threads; what still waits is refused."""


class OneByOne:
    """Without batching: each task in the thread that brings it, so many at a time."""

    def __init__(self, at_once: int) -> None:
        self._free = threading.BoundedSemaphore(at_once)

    def run(self, task: Task) -> list[np.ndarray]:
        task.call.check()
        wait = min(task.call.remaining, threading.TIMEOUT_MAX)
        if not self._free.acquire(timeout=wait):
            raise RequestError("DEADLINE_EXCEEDED", "Deadline exceeded")
        try:
            task.call.check()
            return task.servable.run(task.feeds, task.fetches, task.arrays)
        finally:
            self._free.release()

    def stop(self) -> None:
        pass


class Batcher:
    """Tasks of one graph and one kind share a run."""

    def __init__(self, settings: Batching, monitoring: Monitoring) -> None:
        self._settings, self._monitoring = settings, monitoring
        self._changed = threading.Condition()
        self._queues: OrderedDict[Hashable, list[Task]] = OrderedDict()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(settings.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, task: Task) -> list[np.ndarray]:
        task.call.check()
        task.rows = _rows(task.arrays)
        parts = self._parts(task)
        self._enter(parts)
        for part in parts:
            if not part.done.wait(max(0.0, min(part.call.remaining, threading.TIMEOUT_MAX))):
                # It is dropped when its turn comes.
                raise RequestError("DEADLINE_EXCEEDED", "Deadline exceeded")
        for part in parts:  # when all are done: the caller then lets go of the model
            if part.error:
                raise part.error
        outputs = [part.outputs for part in parts if part.outputs is not None]
        return outputs[0] if len(parts) == 1 else joined(outputs)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            for queue in self._queues.values():
                for task in queue:
                    task.finish(error=RequestError("UNAVAILABLE", "The server is shutting down"))
            self._queues.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _parts(self, task: Task) -> list[Task]:
        """The task, or what it is cut into where it is larger than a run."""
        limit = self._settings.rows_of_run
        if task.rows > self._settings.max_batch_size:
            raise RequestError(
                "INVALID_ARGUMENT",
                f"Task size {task.rows} is larger than maximum input batch size {self._settings.max_batch_size}",
            )
        parts = [task]
        if task.rows > limit:
            parts = [
                replace(task, arrays=arrays, rows=len(arrays[0]), done=threading.Event())
                for arrays in parts_of(task.arrays, task.rows, limit)
            ]
        for part in parts:
            part.length = longest(part.arrays)  # only now: it looks at each row
        return parts

    def _enter(self, parts: list[Task]) -> None:
        """Into the queue of their kind, all of them or none."""
        settings, key = self._settings, _kind(parts[0], self._settings)
        with self._changed:
            if self._stopped:
                raise RequestError("UNAVAILABLE", "The server is shutting down")
            queue = self._queues.get(key, [])
            if sum(task.rows for task in [*queue, *parts]) > settings.max_enqueued_batches * settings.rows_of_run:
                raise RequestError("UNAVAILABLE", "The batch scheduling queue to which this task was submitted is full")
            for task in parts:
                task.entered = time.monotonic()
            queue += parts
            self._queues[key] = queue
            self._changed.notify(len(parts))

    def _work(self) -> None:
        while batch := self._next():
            self._run(batch)

    def _next(self) -> list[Task] | None:
        """The next batch, when there is one; None when the server stops."""
        with self._changed:
            while not self._stopped:
                wait: float | None = None
                for key, queue in self._queues.items():
                    left = self._wait_of(queue)
                    if left <= 0:
                        return self._take(key)
                    wait = left if wait is None else min(wait, left)
                self._changed.wait(wait)
        return None

    def _wait_of(self, queue: Sequence[Task]) -> float:
        """How long the queue's next batch may still grow."""
        if sum(task.rows for task in queue) >= self._settings.rows_of_run:
            return 0.0
        return queue[0].entered + self._settings.batch_timeout_micros / 1e6 - time.monotonic()

    def _take(self, key: Hashable) -> list[Task]:
        queue = self._queues.pop(key)
        batch = chosen(queue, self._settings.rows_of_run, by_length=self._settings.by_length)
        taken = set(map(id, batch))
        if rest := [task for task in queue if id(task) not in taken]:
            self._queues[key] = rest  # at the end: another graph's tasks are next
            self._changed.notify()
        return batch

    def _run(self, batch: list[Task]) -> None:
        alive = []
        for task in batch:
            try:
                task.call.check()
                alive.append(task)
            except RequestError as error:
                task.finish(error=error)
        if not alive:
            return
        try:
            began = time.monotonic()
            padding, outputs = run_together(alive, self._settings)
            rows = sum(task.rows for task in alive)
            self._monitoring.batch(alive[0].model, rows, padding, [began - task.entered for task in alive])
        except Exception as error:  # whatever it is, somebody waits
            self._fail(alive, error)
            return
        for task, own in zip(alive, outputs, strict=True):
            task.finish(own)

    def _fail(self, batch: list[Task], error: Exception) -> None:
        if len(batch) == 1:
            batch[0].finish(error=error)
            return
        for task in batch:  # what one of them did wrong is not the others' fault
            self._run([task])


def chosen(queue: Sequence[Task], max_rows: int, *, by_length: bool) -> list[Task]:
    """The oldest task, and what goes with it into a batch of at most `max_rows`."""
    oldest = queue[0]
    order = sorted(queue, key=lambda task: task.length) if by_length else list(queue)
    low = high = order.index(oldest)
    rows, text = oldest.rows, oldest.rows * (oldest.length + FIXED_COST)
    while True:
        # Of the neighbours on both sides, the one that is nearer in length.
        sides = [side for side in (low - 1, high + 1) if 0 <= side < len(order)]
        fitting = []
        for side in sides:
            task = order[side]
            longest_row = max(order[high].length, task.length) + FIXED_COST if by_length else 0
            more = text + task.rows * (task.length + FIXED_COST)
            filled = not by_length or more >= FILLED * longest_row * (rows + task.rows)
            if rows + task.rows <= max_rows and filled:
                fitting.append((abs(task.length - oldest.length) if by_length else side, side, more))
        if not fitting:
            return order[low : high + 1]
        _, side, text = min(fitting)
        rows += order[side].rows
        low, high = min(low, side), max(high, side)


def run_together(tasks: Sequence[Task], settings: Batching) -> tuple[int, list[list[np.ndarray]]]:
    """(rows that were added to reach an allowed size, the outputs of each task)."""
    rows = sum(task.rows for task in tasks)
    sizes = settings.allowed_batch_sizes
    padding = (sizes[bisect_left(sizes, rows)] - rows) if sizes else 0
    merged = [_merged([task.arrays[number] for task in tasks], padding) for number in range(len(tasks[0].arrays))]
    outputs = tasks[0].servable.run(tasks[0].feeds, tasks[0].fetches, merged)
    for output in outputs:
        if output.ndim == 0:
            raise RequestError("FAILED_PRECONDITION", "Batched output tensor has 0 dimensions")
        if len(output) != rows + padding:
            raise RequestError(
                "FAILED_PRECONDITION",
                "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input"
                " tensors",
            )
    if len(tasks) == 1 and not padding:
        return 0, [outputs]
    ends = np.cumsum([task.rows for task in tasks])
    return padding, [[output[end - task.rows : end] for output in outputs] for task, end in zip(tasks, ends, strict=True)]


def longest(arrays: Sequence[np.ndarray]) -> int:
    """Bytes of the longest row of all string inputs together; numbers have no length that matters here."""
    texts = [array for array in arrays if array.dtype == object and array.ndim]
    if not texts:
        return 0
    if len(texts) == 1 and texts[0].ndim == 1:
        return max(map(len, texts[0]), default=0)
    rows = zip(*(array.reshape(len(array), -1) for array in texts), strict=False)
    return max((sum(len(text) for part in row for text in part) for row in rows), default=0)


def _rows(arrays: Sequence[np.ndarray]) -> int:
    if not arrays:
        raise RequestError("INVALID_ARGUMENT", "Batching Run() must have at least one input tensor")
    if any(array.ndim == 0 for array in arrays):
        raise RequestError("INVALID_ARGUMENT", "Batching Run() input tensors must have at least one dimension")
    if len({len(array) for array in arrays}) > 1:
        raise RequestError("INVALID_ARGUMENT", "Batching Run() input tensors must have equal 0th-dimension size")
    return len(arrays[0])


def _kind(task: Task, settings: Batching) -> Hashable:
    """Tasks of one kind can share a run."""
    pads = settings.pad_variable_length_inputs
    shapes = tuple((array.dtype.str, array.ndim if pads else array.shape[1:]) for array in task.arrays)
    return id(task.servable), task.feeds, task.fetches, shapes


def _merged(arrays: list[np.ndarray], padding: int) -> np.ndarray:
    """Rows one under another; those that are too narrow are filled up, and `padding` rows are added."""
    if len({array.shape[1:] for array in arrays}) > 1:
        widest = np.max([array.shape[1:] for array in arrays], axis=0)
        empty = b"" if arrays[0].dtype == object else 0
        arrays = [
            np.pad(array, [(0, 0), *((0, limit - size) for limit, size in zip(widest, array.shape[1:], strict=True))],
                   constant_values=empty)
            for array in arrays
        ]  # fmt: skip
    if padding:  # a row that is known to be valid
        rows = next((array for array in arrays if len(array)), None)
        if rows is None:
            raise RequestError("INVALID_ARGUMENT", "Cannot use an empty tensor with zero rows as padding when batching")
        arrays = [*arrays, np.repeat(rows[:1], padding, axis=0)]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
