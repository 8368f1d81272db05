"""Pictures as text in a page, in dark styles, and without matplotlib."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from plotted_machines import LABELS, Y, fitted

from onefold import plots
from onefold.plots import (
    BlendDisplay,
    GridDisplay,
    ImportanceDisplay,
    PredictionDisplay,
    ReliabilityDisplay,
    RoundsDisplay,
    SearchPathDisplay,
    SparsityDisplay,
    TrustDisplay,
    as_svg,
    search_overview,
)

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def displays():
    blend, plain = fitted("blend"), fitted("plain")
    rng = np.random.default_rng(0)
    p = rng.uniform(size=len(Y))
    return {
        "grid": GridDisplay.from_estimator(plain),
        "points": GridDisplay.from_estimator(fitted("objective")),
        "curve": GridDisplay.from_estimator(fitted("linear")),
        "path": SearchPathDisplay.from_estimator(fitted("halving")),
        "predictions": PredictionDisplay.from_estimator(plain, Y),
        "crowd": PredictionDisplay(rng.normal(size=5000), rng.normal(size=5000), 0.9, 1.0),
        "reliability": ReliabilityDisplay(p, LABELS == "yes"),
        "importance": ImportanceDisplay.from_estimator(blend, names=["<b>&", "价格 🙂", "c" * 60]),
        "rounds": RoundsDisplay.from_estimator(blend),
        "blend": BlendDisplay.from_estimator(blend),
        "sparsity": SparsityDisplay.from_estimator(fitted("sparse")),
        "trust": TrustDisplay.from_estimator(fitted("checked")),
    }


NAMES = [
    "grid", "points", "curve", "path", "predictions", "crowd", "reliability", "importance", "rounds",
    "blend", "sparsity", "trust",
]  # fmt: skip


@pytest.fixture(scope="module")
def texts(displays):
    return {name: as_svg(display) for name, display in displays.items()}


@pytest.mark.parametrize("name", NAMES)
def test_svg_stands_by_itself(displays, texts, name):
    display, text = displays[name], texts[name]
    assert not hasattr(display, "ax_")  # what was drawn is a copy
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["role"] == "img"
    title, description = root[0], root[1]
    assert title.text == display.title
    assert description.text == display.describe()
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
    assert "<style" not in text  # it would hold for the whole page
    assert not re.findall(r"(?:href|src)=\"(?!#|data:image/png)", text)
    assert "#000000" not in text
    assert len(text) < 90_000


def test_no_two_pictures_of_a_page_share_an_id(texts):
    seen = set()
    for text in texts.values():
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids))
        assert not seen & set(ids)
        seen |= set(ids)
        assert set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text)) <= set(ids)


def test_the_same_picture_gives_the_same_text_in_any_style(displays, texts):
    for name in ("grid", "predictions", "trust"):
        with plt.style.context("dark_background"):
            assert as_svg(displays[name]) == texts[name]
    assert not plt.get_fignums()


def test_no_background_and_ink_of_the_page(texts):
    text = texts["predictions"]
    assert 'fill="currentColor"' in text
    assert "stroke: currentColor" in text
    assert not re.search(r"fill: #fff", text)


def test_figures_with_words_of_their_own(fit):
    figure = search_overview(fit("families"))
    text = as_svg(figure)
    assert "best of each" in ElementTree.fromstring(text)[0].text
    text = as_svg(figure, title="<search>", description="a & b")
    assert ElementTree.fromstring(text)[0].text == "<search>"
    assert ElementTree.fromstring(text)[1].text == "a & b"
    assert "<title" in as_svg(Figure())


def shown_ticks(axis):
    low, high = sorted(axis.get_view_interval())
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "importance"])
def test_text_is_seen_on_black_and_nothing_overlaps(displays, name):
    with plt.style.context("dark_background"):
        drawn = displays[name].plot(Figure(figsize=(4.8, 3.9), layout="constrained").add_subplot())
        figure = drawn.ax_.figure
        figure.draw_without_rendering()
    axes = drawn.ax_
    words = [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
    words += axes.get_legend().get_texts() if axes.get_legend() else []
    words += shown_ticks(axes.xaxis) + shown_ticks(axes.yaxis)
    words = [one for one in words if one.get_text() and one.get_visible()]
    assert all(min(to_rgb(one.get_color())) > 0.7 for one in words)
    boxes = [one.get_window_extent() for one in words]
    frame = figure.bbox
    for box in boxes:
        assert box.x0 >= frame.x0 - 1
        assert box.x1 <= frame.x1 + 1
        assert box.y1 <= frame.y1 + 1
    ticks = [label.get_window_extent() for label in shown_ticks(axes.xaxis)]
    assert all(left.x1 <= right.x0 for left, right in pairwise(ticks))
    legend = axes.get_legend()
    if legend is not None:
        assert not legend.get_window_extent().overlaps(axes._left_title.get_window_extent())


def test_importing_the_pictures_does_not_import_matplotlib():
    words = "import sys, onefold.plots as p; p.GridDisplay; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


def test_without_matplotlib(displays, monkeypatch):
    for name in ("matplotlib.figure", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for draw in (displays["trust"].plot, lambda: as_svg(displays["trust"])):
        with pytest.raises(ImportError, match=r'pip install "onefold\[plot\]"'):
            draw()


def test_every_display_is_exported():
    kinds = ["Grid", "SearchPath", "Prediction", "Reliability", "Importance", "Rounds", "Blend"]
    exported = {name.removesuffix("Display") for name in plots.__all__ if name.endswith("Display")}
    assert exported == {*kinds, "Sparsity", "Trust", ""}
    assert all(hasattr(plots, name) for name in plots.__all__)
