import pytest
from lines import Line


@pytest.fixture(scope="session")
def finished_line(tmp_path_factory):
    """A line that has run once; tests read what it left and do not change it."""
    line = Line(tmp_path_factory.mktemp("line"))
    result = line.run()
    assert result.exit_code == 0, result.output
    line.printed = result.output
    return line
