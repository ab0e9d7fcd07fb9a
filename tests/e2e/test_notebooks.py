"""Every notebook runs from its first cell to its last, in the order of their numbers and in one folder.

One kernel serves them all, so that TensorFlow and TFX are imported once; what a notebook has named is gone before the next.
"""

import ast
import importlib.util
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
_MAX_LINES = 18


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder, and a kernel of this very Python in it."""
    folder = tmp_path_factory.mktemp("notebooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", f"{sys.prefix}/share/jupyter")
        patch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        kernel = KernelManager(kernel_name="python3")
        kernel.start_kernel(cwd=str(folder))
        try:
            yield folder, kernel
        finally:
            kernel.shutdown_kernel(now=True)


@pytest.mark.full
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, desk):
    folder, kernel = desk
    book = nbformat.read(shutil.copy(path, folder), as_version=4)
    book.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))
    NotebookClient(book, km=kernel, timeout=900).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    pages = [output for output in outputs if "<iframe" in str(output.get("data", {}).get("text/html", ""))]
    assert pictures or pages, "something to look at"


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_leaves_the_work_to_the_package(path):
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert max(len(cell.source.splitlines()) for cell in code) <= _MAX_LINES
    assert book.cells[0].cell_type == "markdown" and len(code) <= 16


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_finds_all_that_it_takes_from_the_package(path):
    """Without running it: every cell is Python, and what it imports of ours is there."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    ours = [(name, "") for cell in cells for name in re.findall(r"(?m)^%load_ext (\S+)$", cell)]
    for cell in map(ast.parse, map(TransformerManager().transform_cell, cells)):
        for node in ast.walk(cell):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "bertline":
                ours += [(node.module, name.name) for name in node.names]
            elif isinstance(node, ast.Import):
                ours += [(name.name, "") for name in node.names if name.name.partition(".")[0] == "bertline"]
    assert ours
    for module, name in ours:
        found = importlib.import_module(module)
        assert not name or hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), (module, name)


def test_there_are_six():
    assert [path.stem[:2] for path in BOOKS] == ["01", "02", "03", "04", "05", "06"]
