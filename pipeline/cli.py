"""The command `bertline`.

Nothing heavy is imported before a command needs it: `--help` and a wrong config answer in well under a second.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from bertline.components.steps import Step
from bertline.pipeline.commands.checkpoint import checkpoint
from bertline.pipeline.commands.deploy.compile import compile_command
from bertline.pipeline.commands.deploy.submit import submit
from bertline.pipeline.commands.explain import explain
from bertline.pipeline.commands.manifests import manifests
from bertline.pipeline.commands.predict import predict, tokenize
from bertline.pipeline.commands.prune import prune
from bertline.pipeline.commands.report import report
from bertline.pipeline.commands.runs import compare, runs
from bertline.pipeline.commands.serve import serve
from bertline.pipeline.commands.ui import ui
from bertline.pipeline.commands.versions import lineage, rollback, sync
from bertline.pipeline.commands.watch import watch
from bertline.pipeline.commands.worker import worker
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.machine import refusal
from bertline.pipeline.settings.loader import load
from bertline.pipeline.settings.source import preset_names

REFUSED = 3


class _Group(click.Group):
    """Shows a `BertlineError` as one sentence, without a stack trace."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BertlineError as error:
            _show(error)
            sys.exit(1)
        except OSError as error:
            if (refused := refusal(error)) is None:
                raise
            _show(refused)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo(
                "\ninterrupted; run the same command again to resume from the last finished step or checkpoint.", err=True
            )
            sys.exit(130)


def _show(error: BertlineError) -> None:
    click.secho("error: ", fg="red", bold=True, err=True, nl=False)
    click.echo(str(error), err=True)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="bertline")
def main() -> None:
    """A BERT pipeline: raw text in, an evaluated, pushed and tracked model out.

    \b
    bertline new data.csv         inspects your file and writes data.yaml
    bertline run data.yaml        trains, evaluates, pushes and records
    bertline search data.yaml     searches for the best settings
    bertline watch data.yaml      runs again whenever new data arrives
    bertline worker data.yaml     trains together with a run on another machine
    bertline compile data.yaml    compiles the pipeline for Kubeflow or Vertex; submit starts it
    bertline runs                 lists runs, and what each changed
    bertline compare --last 2     shows what differs between runs, with intervals
    bertline report --last        writes a report of a run as one page
    bertline ui                   opens MLflow's UI
    bertline predict "some text"  predicts with the model that was pushed last
    bertline explain MODEL "text" explains a prediction: words, and attention of each head
    bertline serve                serves gRPC and REST, as TensorFlow Serving does
    bertline manifests            writes Kubernetes manifests to serve it
    bertline prune --keep 0.5     prunes the least important attention heads
    bertline rollback             returns to the previous version
    bertline lineage 7            shows what made version 7
    bertline sync                 sends MLflow what could not be sent yet
    bertline tokenize "some text" shows the tokens of a text
    bertline checkpoint show DIR  shows what a checkpoint contains; convert writes another format
    """


@main.command(epilog=f"Presets: {', '.join(preset_names())}.")
@click.argument("config", default="reviews")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting: training.epochs=2.")
@click.option(
    "--from", "again_from", type=click.Choice([step.value for step in Step]), help="Run this step and all after it again."
)
@click.option("--allow-anomalies", is_flag=True, help="Continue in spite of anomalies in the data; recorded with the run.")
@click.option("--workspace", metavar="DIR", help="Folder for everything the run writes. [default: ./workspace]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
def run(
    config: str,
    overrides: tuple[str, ...],
    again_from: str | None,
    allow_anomalies: bool,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Run the pipeline: raw text to an evaluated, pushed and tracked model.

    CONFIG is a YAML file or a preset (reviews by default). Steps whose code, config and data are unchanged come from
    the cache; a training that was killed resumes from its last checkpoint.

    \b
    bertline run                                        the sample: review sentences
    bertline run my.yaml --set training.epochs=3        your data, one setting changed
    bertline run my.yaml --from Trainer                 train again, though nothing changed
    bertline run my.yaml --set "seeds=[1,2,3]"          three trainings, mean ± std; the best is pushed

    Exit code: 0 blessed and pushed, 3 refused by the evaluator or by ServeCheck, 130 interrupted, 1 anything else.
    """
    began = time.perf_counter()
    if allow_anomalies:
        overrides = (*overrides, "validation.allow_anomalies=true")
    resolved = load(config, overrides, workspace=workspace)
    from bertline.pipeline.commands.run import Started, run_line

    summary = run_line(resolved, Started(config, overrides, began), again_from=again_from, as_json=as_json)
    sys.exit(0 if summary.blessed else REFUSED)


@main.command()
@click.argument("config")
@click.option("--trials", type=int, metavar="N", help="How many settings to try. [default: search.trials of the config]")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting: search.method=random.")
@click.option("--workspace", metavar="DIR", help="Folder for everything the search writes. [default: ./workspace]")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON and nothing else.")
def search(config: str, trials: int | None, overrides: tuple[str, ...], workspace: str | None, as_json: bool) -> None:
    """Search for the best settings; nothing is pushed.

    The config says which settings, and their ranges. Each trial trains and evaluates a model; one that fails is noted, and
    the search continues. The same command resumes a search that was killed, and with more --trials extends one that has
    ended: finished trainings come from the cache.

    \b
    search:
      space:
        training.learning_rate: {min: 1.0e-5, max: 2.0e-4, scale: log}
        training.epochs: [2, 3, 4]
      trials: 10
      method: bayesian          or random
      metric: matthews          by default the first of evaluation.thresholds

    The best settings are written as a config file, with the command that trains with it and pushes.

    Note: the evaluation examples select the settings, so the winner's metrics on them are biased upwards, the more so the
    more trials and the fewer examples. Keep a test set (data.test), which selects nothing, to measure it without bias.

    Exit code: 0 at least one trial succeeded, 130 interrupted, 1 anything else.
    """
    from bertline.pipeline.studies.search import Request, run_search

    if trials is not None:
        overrides = (*overrides, f"search.trials={trials}")
    run_search(Request(config, overrides, workspace), as_json=as_json)


@main.command()
@click.argument("data", type=click.Path())
@click.option("--out", type=click.Path(), help="Config file to write. [default: DATA's name with .yaml]")
@click.option("--task", help="The task, instead of the detected one; for example similarity, or glue/mnli.")
@click.option("--format", help="The format of the file, instead of the detected one; for example tsv, or conll.")
@click.option(
    "--checkpoint",
    metavar="FOLDER|NAME",
    help="Encoder to start from: a folder, hf://ORGANISATION/NAME, or a KerasHub preset as bert_tiny_en_uncased; none: from"
    " scratch. [default: the best installed one for the language of the texts]",
)
@click.option("--query", metavar="SELECT", help="Query of a database; DATA is then its SQLAlchemy address.")
def new(
    data: str, out: str | None, task: str | None, format: str | None, checkpoint: str | None, query: str | None
) -> None:
    """Inspect DATA, a file or folder, and write a config for it, with the reasons as comments.

    \b
    CSV, TSV, JSONL, Parquet,     texts with a class, a number, tags, or endings to choose from; one text or two
    Excel, a database's --query
    Label Studio, doccano         exports of annotated texts: classes, or spans of characters; Prodigy's, too
    CoNLL                         words with tags
    SQuAD's JSON                  questions about texts
    plain text                    documents to pre-train on
    train.en beside train.de      lines and their translations; name the file, or the folder
    a folder                      GLUE's files, or one for training, one for evaluation, perhaps one for test
    """
    from bertline.pipeline.new import write_config

    whole = os.path.abspath(data.partition("?")[0] if "://" in data else data)
    out = out or f"{Path(whole).name.partition('.')[0]}.yaml"
    click.echo(write_config(data, out, format=format, task=task, checkpoint=checkpoint, query=query))
    click.echo(f"\nWritten to {out}. Next: bertline run {out}", err=True)


main.add_command(predict)
main.add_command(tokenize)
main.add_command(checkpoint)
main.add_command(explain)
main.add_command(serve)
main.add_command(manifests)
main.add_command(rollback)
main.add_command(lineage)
main.add_command(runs)
main.add_command(compare)
main.add_command(report)
main.add_command(ui)
main.add_command(sync)
main.add_command(watch)
main.add_command(worker)
main.add_command(compile_command)
main.add_command(submit)
main.add_command(prune)


@main.command()
def settings() -> None:
    """List every setting of a config with its default and meaning."""
    from bertline.pipeline.settings.reference import reference

    click.echo(reference())


@main.command()
@click.option("--workspace", default="workspace", show_default=True)
def doctor(workspace: str) -> None:
    """Check the environment and say what to fix."""
    from bertline.pipeline.commands.doctor import examine

    began = time.perf_counter()
    findings = examine(Path(workspace))
    for finding in findings:
        mark, colour = {"ok": ("✓", "green"), "note": ("·", "yellow"), "wrong": ("✗", "red")}[finding.level]
        click.secho(f"{mark} ", fg=colour, nl=False)
        click.echo(f"{finding.what}: {finding.found}" + (f"\n    → {finding.remedy}" if finding.remedy else ""))
    wrong = sum(finding.level == "wrong" for finding in findings)
    click.echo(f"{'No problems found' if not wrong else f'{wrong} to fix'} ({time.perf_counter() - began:.0f} s).")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
