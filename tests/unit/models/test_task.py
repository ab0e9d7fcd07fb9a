"""What a task's value promises to whoever declares one, and to whoever only reads it."""

import json
import subprocess
import sys
from dataclasses import replace

from bertline.models.tasks.base.later import Part, later
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import task_names
from bertline.pipeline.orchestration.fingerprints import code_fingerprint


def parts_of(part: Part) -> list[Part]:
    return [part, *(inner for value in vars(part).values() if isinstance(value, Part) for inner in parts_of(value))]


def test_every_task_can_be_read_without_tensorflow():
    script = (
        "import sys; from bertline.models.tasks.base.task import get_task, task_names;"
        "print({get_task(name).serving.response.call for name in task_names()} and 'tensorflow' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "False"


def test_what_is_named_for_later_is_there_when_a_field_is_read():
    for name in task_names():
        task = get_task(name)
        assert task.inspection and task.config.recognition
        for part in (*parts_of(task), *task.serving.signatures.values()):
            for field in vars(part):
                getattr(part, field)  # a name that its module has not would raise
        assert all(guess.resolve() for guess in task.config.recognition.formats.values())


def test_a_changed_part_keeps_the_other_fields_as_they_are_meant():
    graph = later("bertline.models.tasks.graphs.regression")
    given = get_task("regression").objective
    changed = replace(given, accuracy=graph.answer)
    assert changed.loss is given.loss and changed.accuracy.__name__ == "answer"


def test_a_step_is_known_by_the_code_that_its_task_names_for_later():
    found = json.loads(code_fingerprint("bertline.models.tasks.matching"))
    graphs = {name.split("/")[-1] for name in found if name.startswith("models/tasks/graphs/")}
    assert graphs >= {"matching.py", "regression.py", "similarity.py"} and "models/heads/bi_encoder.py" in found
