"""Packages of others, as an installer leaves them: a folder of modules with the metadata that names their entry points."""

from __future__ import annotations

import shutil
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "foreign_package" / "quantities.py"
POINTS = """[bertline.tasks]
quantity = quantities:TASK
[bertline.readers]
arrows = quantities:ARROWS
[bertline.metrics]
mean_error = quantities:MEAN_ERROR
"""


def install(folder: Path, *, package: str = "quantities", version: str = "1.2", points: str = POINTS) -> Path:
    """Into a folder that is then to stand on the path of Python."""
    metadata = folder / f"{package}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text(points)
    shutil.copy(SOURCE, folder)
    return folder
