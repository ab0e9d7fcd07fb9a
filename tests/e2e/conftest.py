import pytest
from lines import Line
from shared import made_once

PRINTED = "printed.txt"


@pytest.fixture(scope="session")
def finished_line(tmp_path_factory):
    """A line that has run once; tests read what it left and do not change it. All processes of a test run share it."""

    def run(folder):
        (folder / "line").mkdir()
        result = Line(folder / "line").run()
        assert result.exit_code == 0, result.output
        (folder / PRINTED).write_text(result.output)

    folder = made_once(tmp_path_factory, "finished-line", run)
    line = Line(folder / "line")
    line.printed = (folder / PRINTED).read_text()
    return line
