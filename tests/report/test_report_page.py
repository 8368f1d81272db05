"""The page: well-formed, labelled, text stays text; quiet and readable in a browser."""

from __future__ import annotations

import shutil
from functools import cache, partial
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from report_cases import NAMES, labels, numbers, table

from onefold import LSSVRCV
from onefold.approximations import Nystroem
from onefold.plots import GridDisplay
from onefold.report import gather
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
    for text in ("<p><b></p></b>", "<p>", "</p>"):
        with pytest.raises(AssertionError):
            Page(text)


def test_a_messy_table_shows_its_names_as_they_are():
    frame, model = table()
    report = gather(model, frame)
    text = check_page(report.html()).text()
    for name in (*NAMES[:4:3], "a & b", '"d"'):
        assert name in text
    Page(report._repr_html_())


@cache
def _facts():
    X, y, estimator = numbers()
    return gather(estimator, X, y).as_dict()


@settings(max_examples=40)
@given(st.lists(st.text(min_size=1, max_size=30), min_size=4, max_size=4, unique=True), st.text())
@example(NAMES[:4], NAMES[4])
@example(NAMES[3:], "</style><script>")
@example(["<", ">", "&", '"'], "'")
def test_any_names_make_a_page(names, title):
    facts = dict(_facts())
    old = facts["importances"]["shares"]
    facts["importances"] = facts["importances"] | {"shares": dict(zip(names, old.values()))}
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
    estimator = LSSVRCV(gammas=[0.1], alphas=[0.1]).fit(frame, y)
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
    assert "matplotlib can't draw 'Grid' (no such letter …)" in text
    found, _ = pictures_of(estimator, y)
    assert [one["title"] for one in found] == ["Predictions"]
    assert found[0]["source"].startswith("data:image/png;base64,")
    assert pictures_of(estimator)[0] == []  # the targets are needed


def test_a_large_table_makes_no_large_page(pictures):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    y = X[:, 0] + 0.1 * rng.normal(size=3000)
    estimator = LSSVRCV(approximation=Nystroem(100), gammas=[0.02], alphas=[0.1]).fit(X, y)
    assert len(estimator.report(X=X, y=y).html()) < 1_500_000


# Texts of too little contrast to what is behind them.
FAINT = """
() => {
  const parse = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const colour = node ? parse(getComputedStyle(node).backgroundColor) : [255, 255, 255, 1];
    return colour[3] > 0 ? colour : behind(node.parentElement);
  };
  return [...document.querySelectorAll("body *")]
    .filter((n) => [...n.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim()))
    .filter((n) => {
      const a = luminance(parse(getComputedStyle(n).color)), b = luminance(behind(n));
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
    }).map((n) => n.textContent.slice(0, 40));
}
"""
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


def noted(noise, what):
    said = getattr(what, "url", None) or str(what)
    if not said.startswith("data:"):
        noise.append(said)


@pytest.mark.parametrize("make", [numbers, labels, table])
def test_a_page_in_a_browser(make, browser, tmp_path, pictures):
    """On a phone in the light and in the dark; without scripts, by keyboard and on paper."""
    path = tmp_path / "page.html"
    made = make()
    report = gather(made[1], made[0]) if make is table else gather(made[2], *made[:2])
    path.write_text(report.html(), encoding="utf-8")
    check_page(path.read_text("utf-8"))
    grounds = []
    for scheme in ("light", "dark"):
        shown = browser.new_context(
            color_scheme=scheme, viewport={"width": 360, "height": 740}
        ).new_page()
        shown.noise = []
        for event in ("console", "pageerror", "request"):
            shown.on(event, partial(noted, shown.noise))
        shown.goto(path.as_uri())
        shown.wait_for_load_state("load")
        assert {*shown.noise} <= {path.as_uri()}
        assert shown.evaluate(OUTSIDE) == []
        assert shown.evaluate(FAINT) == []
        grounds.append(shown.evaluate("getComputedStyle(document.body).backgroundColor"))
        shown.context.close()
    assert grounds[0] != grounds[1]
    shown = browser.new_context(java_script_enabled=False, forced_colors="active").new_page()
    shown.goto(path.as_uri())
    assert "Scores" in shown.get_by_role("main").inner_text()
    assert shown.get_by_role("navigation").count() == 1
    shown.keyboard.press("Tab")
    assert shown.locator("a:focus").inner_text() == "Skip to the report"
    assert shown.locator("a:focus").bounding_box()["x"] >= 0
    assert len(shown.pdf()) > 5_000
    shown.context.close()
