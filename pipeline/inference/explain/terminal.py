"""An explanation in a terminal: shaded words, and the strongest of them in a table, which needs no colour."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertline.models.explain.explanation import Attribution, Explanation
from bertline.models.tokenization.joiner import JOINER
from bertline.pipeline.runs.listing import plain

_SHOWN_WORDS = 12
_SHOWN_TOKENS = 40
_BAR = 20
_FOR, _AGAINST = "rgb(0,114,178)", "rgb(213,94,0)"
_FAINT, _STRONG, _STRONGEST = 0.05, 0.25, 0.6
"""Shares of the strongest word. Where there are no colours, strong words have their number beside them."""


def show(console: Console, found: Explanation) -> None:
    console.print(Text.assemble(("output  ", "bold"), plain(found.answer, 400)), soft_wrap=True)
    for attribution in found.attributions:
        console.print()
        console.print(Text.assemble(("target  ", "bold"), plain(attribution.name, 200)), soft_wrap=True)
        for line in _texts(attribution, found, coloured=console.color_system is not None):
            console.print(line, soft_wrap=True)
        console.print(_table(attribution))
        console.print(Text(_sum(attribution), "dim"), soft_wrap=True)
    if found.alignment is not None:
        console.print("\n[bold]attended to[/]")
        console.print(_alignment(found, found.alignment))
    for note in found.notes:
        console.print(Text.assemble(("note ", "yellow"), plain(note, 400)), soft_wrap=True)


def _texts(attribution: Attribution, found: Explanation, *, coloured: bool) -> Iterator[Text]:
    added, most = attribution.words, max(abs(attribution.words).max(initial=0.0), 1e-9)
    for number, (name, text) in enumerate(found.texts.items()):
        line = Text.assemble((f"{name:<8}" if len(found.texts) > 1 else " " * 8, "dim"))
        end = 0
        for at, word in sorted(enumerate(attribution.reading.words), key=lambda item: item[1].start):
            if word.text != number or word.end <= end:
                continue
            line.append(_clean(text[end : word.start]))
            line.append(_clean(text[max(word.start, end) : word.end]), _shade(added[at] / most) if coloured else "")
            if not coloured and abs(added[at]) >= _STRONG * most:
                line.append(f"({added[at]:+.2f})")
            end = word.end
        line.append(_clean(text[end:]), "dim")
        yield line


def _clean(text: str) -> str:
    """Nothing that steers a terminal."""
    return plain(text, len(text) + 1).plain if text.strip() else " " * bool(text)


def _shade(fraction: float) -> str:
    """In the colour of the side: the letters, those with a line below, or all of the word's ground. No paler shades, which
    would be the loudest on a dark terminal, and whether it is dark is not known."""
    if abs(fraction) < _FAINT:
        return ""
    colour = _FOR if fraction > 0 else _AGAINST
    if abs(fraction) < _STRONG:
        return colour
    return f"bold underline {colour}" if abs(fraction) < _STRONGEST else f"bold white on {colour}"


def _table(attribution: Attribution) -> Table:
    added, words = attribution.words, attribution.reading.words
    most = max(abs(added).max(initial=0.0), 1e-9)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(justify="right")
    for at in sorted(range(len(words)), key=lambda at: -abs(added[at]))[:_SHOWN_WORDS]:
        value = float(added[at])
        bar = Text(("█" if value > 0 else "░") * max(1, round(_BAR * abs(value) / most)), "blue" if value > 0 else "red")
        place = Text(f"[{words[at].start}:{words[at].end}]", "dim")
        table.add_row(f"        {value:+.3f}", bar, plain(words[at].shown), place)
    return table


def _sum(attribution: Attribution) -> str:
    found = attribution.found
    return (
        f"        {attribution.unit} {found.score:+.3f} = {found.baseline:+.3f} for the baseline"
        f" {attribution.words.sum():+.3f} from the words (to within {abs(found.error):.0e}, {found.gradients} gradients)"
    )


def _alignment(found: Explanation, weights: np.ndarray) -> Table:
    stack = found.attentions["source"]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    for token, row in list(zip(stack.looking, weights, strict=True))[:_SHOWN_TOKENS]:
        at = int(row.argmax())
        table.add_row("       ", plain(_bare(token)), plain(_bare(stack.looked_at[at])), f"{row[at]:.2f}")
    return table


def _bare(token: str) -> str:
    return token.replace(JOINER, "") or token
