"""Plots of heads: what each is worth, and what a model is worth with fewer of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bertline.components.reports.plots import new_figure

_MAX_NUMBERS = 300
"""Cells that have a number in them: of more, nobody reads them."""


def draw_plots(report: Mapping[str, Any]) -> dict[str, Figure]:
    """By the names of their files; of a report of `bertline prune`, as JSON has it."""
    return {"head_importance.png": head_importance(report), "heads_kept.png": heads_kept(report)}


def head_importance(report: Mapping[str, Any]) -> Figure:
    """Layers by heads, one map for each way of measuring; heads that were pruned are crossed out."""
    maps = {by: np.asarray(values, float) for by, values in report["importance"].items()}
    layers, heads = next(iter(maps.values())).shape
    figure = new_figure(max(4.5, 1.5 + 0.55 * heads) * len(maps), max(3.0, 1.5 + 0.45 * layers))
    for axes, (by, values) in zip(figure.subplots(1, len(maps), squeeze=False)[0], maps.items(), strict=True):
        shown = axes.imshow(values, cmap="Blues", aspect="auto")
        figure.colorbar(shown, ax=axes)
        low, high = np.nanmin(values), np.nanmax(values)
        for (layer, head), value in np.ndenumerate(values):
            is_dark = value > (low + high) / 2
            if values.size <= _MAX_NUMBERS and not np.isnan(value):
                colour = "white" if is_dark else "black"
                axes.text(head, layer, f"{value:.2g}", ha="center", va="center", fontsize=7, color=colour)
            if head in report["lost"].get(str(layer), ()):
                axes.plot(head, layer, "x", color="tab:red", markersize=16, alpha=0.7)
        axes.set_xticks(range(heads))
        axes.set_yticks(range(layers))
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        axes.set_title(title_of(by, report["metric"]))
    return figure


def title_of(by: str, metric: str) -> str:
    return "gradient of the loss with respect to the head's mask" if by == "gradient" else f"{metric} lost without the head"


def heads_kept(report: Mapping[str, Any]) -> Figure:
    """The metric by the share of the heads that is kept."""
    figure = new_figure(6.5, 4.5)
    axes = figure.add_subplot()
    points = report["curve"]
    fractions, values = (np.asarray([point[name] for point in points], float) for name in ("keep", "value"))
    axes.plot(fractions, values, "o-", color="tab:blue")
    axes.axhline(values[-1], color="tab:gray", linestyle=":", linewidth=1)
    if report["heads_after"]:
        axes.axvline(report["heads_after"] / report["heads_before"], color="tab:red", linestyle=":", linewidth=1)
    axes.set_xlim(0, 1.03)
    axes.set_xlabel(f"fraction of the {report['heads_before']} heads that is kept, the most important first")
    axes.set_ylabel(report["metric"])
    axes.set_title(f"{report['rows']:,} evaluation examples")
    return figure
