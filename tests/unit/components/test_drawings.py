"""Plots and pages that are drawn once."""

import os

from matplotlib.figure import Figure

from bertline.components.tracking import drawings
from bertline.components.tracking.drawings import Drawings


def test_what_was_drawn_from_the_same_is_not_drawn_again(tmp_path):
    source, drawn = tmp_path / "rows", []
    source.write_text("1")

    def draw():
        drawn.append(source.read_text())
        return {"curves.png": Figure(), "deep/page.html": f"<p>{drawn[-1]} é"}

    def of(what):
        return Drawings(tmp_path / "kept").of(what, [source], draw)

    first = of("curves")
    assert sorted(first) == ["curves.png", "deep/page.html"] and first["deep/page.html"].read_text("utf-8") == "<p>1 é"
    assert first["curves.png"].read_bytes().startswith(b"\x89PNG")
    assert of("curves") == first and drawn == ["1"]
    assert of("others") != first  # it depends on something else beside the file
    source.write_text("2")
    assert of("curves")["deep/page.html"].read_text("utf-8") == "<p>2 é" and drawn == ["1", "1", "2"]


def test_code_that_draws_otherwise_draws_anew(tmp_path, monkeypatch):
    source = tmp_path / "rows"
    source.write_text("1")
    before = Drawings(tmp_path / "kept").of("page", [source], lambda: {"page.html": "old"})
    monkeypatch.setattr(drawings, "_code", lambda: "changed")
    after = Drawings(tmp_path / "kept").of("page", [source], lambda: {"page.html": "new"})
    assert [found["page.html"].read_text() for found in (before, after)] == ["old", "new"]


def test_what_fails_leaves_nothing_and_the_oldest_go(tmp_path, monkeypatch):
    source, kept = tmp_path / "rows", tmp_path / "kept"
    source.write_text("1")
    try:
        Drawings(kept).of("half", [source], lambda: {"page.html": "whole", "broken.png": object()})
    except AttributeError:
        assert not any(kept.iterdir())
    monkeypatch.setattr(drawings, "_LIMIT", 2)
    places = []
    for number in range(3):
        (page,) = Drawings(kept).of(str(number), [source], lambda: {"page.html": "page"}).values()
        os.utime(page.parent, (number, number))
        places.append(page.parent)
    assert {*kept.iterdir()} == {*places[1:]}
