"""The page: well-formed, labelled, text stays text; quiet and readable in a browser."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from report_cases import FEW, NAMES, labels, numbers, table

from onefold import LSSVCCV, LSSVRCV
from onefold.plots import GridDisplay, RoundsDisplay
from onefold.report import write_report
from onefold.report.report import clean, page, pictures_of, sentence

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """A page taken apart; raises where elements do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "img"}:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


def check_page(text: str) -> Page:
    """Well-formed, labelled, in order, from nowhere else."""
    found = Page(text)
    ids = [one["id"] for _, one in found.elements if "id" in one]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in found.elements if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert found.all("html")[0]["lang"] == "en"
    assert all(one.get("alt") for one in found.all("img"))
    assert not found.all("script", "link", "iframe", "object", "form", "base", "i", "b")
    assert len(found.all("main")) == len(found.all("title")) == 1
    assert len(found.all("table")) == len(found.all("caption"))
    assert all("scope" in one for one in found.all("th"))
    for _, one in found.elements:
        assert not any(name.startswith("on") for name in one)
        assert one.get("src", "data:image/png").startswith("data:image/")
        assert one.get("href", "#main") in [f"#{name}" for name in ids]
        assert {*one.get("aria-labelledby", "").split()} <= {*ids}
    assert "http" not in text.replace("http-equiv", "")
    return found


@pytest.mark.parametrize("make", [numbers, labels])
def test_pages_are_well_formed(make):
    X, y, estimator = make()
    found = check_page(estimator.report(X=X, y=y).html())
    assert "Where it is least accurate" in found.text()
    assert len(found.all("section")) >= 9
    check_page(estimator.report().html())


@cache
def _facts():
    X, y, estimator = numbers()
    return write_report(estimator, None, X, y).as_dict()


@settings(max_examples=40)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=4, max_size=4, unique=True), st.text())
@example(NAMES[:4], NAMES[4])
@example(NAMES[3:], "</style><script>")
@example(["<", ">", "&", '"'], "'")
def test_any_names_make_a_page(names, title):
    facts = dict(_facts())
    facts["importances"] = {"shares": dict.fromkeys(names, 0.25), "more": 0, "how": "permuted"}
    facts["data"] = facts["data"] | {
        "alone": dict.fromkeys(names, 0.5),
        "missing": dict.fromkeys(names, 3),
        "warnings": [f"'{name}' is odd" for name in names],
        "classes": dict.fromkeys(names, 2),
    }
    facts["question"] = facts["question"] | {"target": title or "y", "fitted": f"log({title})"}
    facts["summary"] = [f"It is '{name}'." for name in names[:3]]
    slices = [{"column": n, "where": f"= {n}", "rows": 40, "share": 0.2, "loss": 1.0, "rest": 0.5}
              for n in names]  # fmt: skip
    rows = [{"row": n, "target": n, "prediction": n} for n in names]
    facts["slices"] = facts["slices"] | {"found": slices, "rows": rows}
    found = page(facts | {"title": title or "t"}, [], None)
    text = check_page(found).text()
    found.encode("utf-8")
    for name in names:
        assert " ".join(clean(name).split()) in text


def test_columns_with_such_names_are_gathered():
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=[*NAMES[:2], "a\nb", "\x1b[31mred" + "x" * 300])
    estimator = LSSVRCV(gammas=[0.1], alphas=[0.1], metric="diagonal", max_rounds=1).fit(frame, y)
    report = estimator.report(X=frame, y=pd.Series(y, name="</title><b>"))
    assert "</title><b>" in check_page(report.html()).text()
    assert NAMES[0] in report.text()
    assert "a b" in report.text()  # on one line, and saying nothing to the terminal
    assert "\x1b" not in report.text()
    assert max(len(line) for line in report.as_dict()["summary"]) < 400


def test_text_is_escaped():
    assert clean("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert sentence("it is 'عدد' (5 %)") == "it is &#39;<bdi>عدد</bdi>&#39; (5 %)"
    assert sentence("'a' & 'b'") == "&#39;a&#39; &amp; &#39;b&#39;"


def test_a_drawing_that_fails_is_named(pictures, monkeypatch):
    X, y, estimator = numbers()

    def broken(self, axes, style):
        raise RuntimeError("no such letter")

    monkeypatch.setattr(GridDisplay, "_draw", broken)
    text = check_page(estimator.report(X=X, y=y).html()).text()
    assert "matplotlib cannot draw 'Grid' (no such letter …)" in text
    found, _ = pictures_of(estimator, y)
    assert [one["title"] for one in found] == ["Predictions"]
    assert found[0]["source"].startswith("data:image/png;base64,")
    assert pictures_of(estimator)[0] == []  # the targets are needed


OUTSIDE = """
() => [document.documentElement, ...document.querySelectorAll("body *")]
  .filter((n) => !n.closest(".scroll, .skip") && n.getBoundingClientRect().right > innerWidth + 1)
  .map((n) => n.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("needs chromium or chrome (see .ci/run)")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.mark.parametrize("make", [labels, table])
def test_a_page_in_a_browser(make, browser, tmp_path, pictures):
    """On a phone in the light and in the dark; without scripts, by keyboard and on paper."""
    path = tmp_path / "page.html"
    made = make()
    model, *rows = (made[1], made[0]) if make is table else (made[2], *made[:2])
    report = write_report(model, None, *rows)
    path.write_text(report.html(), encoding="utf-8")
    check_page(path.read_text("utf-8"))
    grounds = []
    for scheme in ("light", "dark"):
        shown = browser.new_context(
            color_scheme=scheme, viewport={"width": 360, "height": 740}
        ).new_page()
        noise: list[str] = []
        for event in ("console", "pageerror", "request"):
            shown.on(event, lambda what, noise=noise: noise.append(getattr(what, "url", str(what))))
        shown.goto(path.as_uri())
        shown.wait_for_load_state("load")
        assert [one for one in noise if not one.startswith("data:")] == [path.as_uri()]
        assert shown.evaluate(OUTSIDE) == []
        grounds.append(shown.evaluate("getComputedStyle(document.body).backgroundColor"))
        shown.context.close()
    assert grounds[0] != grounds[1]
    shown = browser.new_context(java_script_enabled=False).new_page()
    shown.goto(path.as_uri())
    assert "Scores" in shown.get_by_role("main").inner_text()
    shown.keyboard.press("Tab")
    assert shown.locator("a:focus").inner_text() == "Skip to the report"
    assert shown.locator("a:focus").bounding_box()["x"] >= 0
    shown.context.close()


@cache
def staged():
    """A search whose metrics were learned from few rows, and whose finalists were compared on all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=1700)
    options = {"metric": "diagonal", "max_rounds": 1, "random_state": 0}
    return y, LSSVRCV(["rbf", "laplacian"], **options, gammas=[0.1, 0.5], alphas=[0.1, 1.0]).fit(X, y)


def test_finalists_are_no_grid_and_pictures_say_which_rows_they_are_of():
    """The page drew a line between two points, and explained outlines that were not there."""
    y, model = staged()
    rows = {one["rows"] for one in model.metric_history_}
    assert len(rows) > 1
    pictures = {one["title"]: one["caption"] for one in pictures_of(model, y)[0]}
    assert set(pictures) == {"Choice", "Metric", "Predictions"}
    tested = int(np.isfinite(model.heldout_prediction_).sum())
    first = model.metric_history_[0]["rows"]
    assert f"with models of {first:,} rows" in pictures["Metric"]
    assert (
        f"The choice was made later, with models of all rows, on {tested:,} held-out"
        in pictures["Metric"]
    )
    assert f"on {tested:,} held-out rows" in pictures["Choice"]
    assert "the simplest kernel and metric within one standard error" in pictures["Choice"]
    assert "ring" not in pictures["Metric"]


def test_captions_say_why_the_ring_is_not_around_the_best_score():
    """Text and ring named one cell, and both pictures showed a better one, without a word about it."""
    X, y, _ = labels()
    model = LSSVCCV(["rbf", "laplacian"], metric="diagonal", max_rounds=1, **FEW).fit(X, y)
    grid = GridDisplay.from_estimator(model)
    why = "the simplest kernel and metric within one standard error of the best, by squared error"
    better = replace(grid, scores=np.where(grid.scores == grid.scores.min(), 1.0, grid.scores))
    assert f"{why}, so others may have a better accuracy" in better.caption()
    assert f"of the chosen kernel on {len(y)} held-out rows" in better.caption()
    best = replace(grid, score=float(grid.scores.max()))
    assert best.caption().endswith("The ring marks the chosen candidate.")
    assert ("Dark borders" in grid.caption()) == (grid.flat is not None)
    assert "Dark borders" not in replace(grid, flat=None).caption()
    curve = replace(grid, alphas=np.ones_like(grid.alphas))
    assert "Grey squares" in curve.caption()
    rounds = RoundsDisplay.from_estimator(model)
    worst = min(rounds.scores, key=rounds.scores.get)
    assert f"{why}, so others may have a better accuracy" in replace(rounds, chosen=worst).caption()
    assert why in dict(write_report(model, X=X, y=y).as_dict()["ran"]["lines"])["selection rule"]
