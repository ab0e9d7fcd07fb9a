import fcntl
import os

import pytest
from lines import Line


@pytest.fixture(scope="session")
def finished_line(tmp_path_factory):
    """A line that has run once; tests read what it left and do not change it. All processes of a test run share it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, printed = shared / "finished-line", shared / "finished-line.txt"
    folder.mkdir(exist_ok=True)
    line = Line(folder)
    with (shared / "finished-line.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second waits until it has run
        if not printed.exists():
            result = line.run()
            assert result.exit_code == 0, result.output
            printed.write_text(result.output)
    line.printed = printed.read_text()
    return line
