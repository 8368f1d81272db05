"""The page: well-formed, labelled, and text stays text whatever it holds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from page_checks import Page, check_page
from report_cases import NAMES, labels, numbers, table

from onefold import LSSVRCV
from onefold.approximations import Nystroem
from onefold.plots import GridDisplay
from onefold.report import gather
from onefold.report.report import clean, page, pictures_of, sentence


@pytest.mark.parametrize("make", [numbers, labels])
def test_pages_are_well_formed(make):
    X, y, estimator = make()
    found = check_page(estimator.report(X=X, y=y).html())
    assert "Where it is least accurate" in found.text()
    assert len(found.all("section")) >= 9
    check_page(estimator.report().html())


def test_a_messy_table_shows_its_names_as_they_are():
    frame, model = table()
    report = gather(model, frame)
    found = check_page(report.html())
    text = found.text()
    for name in [*NAMES[:4:3], "a & b", '"d"']:
        assert " ".join(name.split()) in text
    assert "alert(1)" in text
    assert not found.all("i")
    check_page(f"<html lang='en'><title></title><h1></h1><main></main>{report._repr_html_()}</html>")


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
    facts["question"] = facts["question"] | {"target": title or "y"}
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
    frame = pd.DataFrame(X, columns=NAMES[:4])
    estimator = LSSVRCV(gammas=[0.1], alphas=[0.1]).fit(frame, y)
    report = estimator.report(X=frame, y=pd.Series(y, name="</title><b>"))
    text = check_page(report.html()).text()
    assert "</title><b>" in text
    assert NAMES[0] in report.text()


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
    assert [one.title for one in found] == ["Predictions"]
    assert found[0].source.startswith("data:image/png;base64,")
    assert pictures_of(estimator)[0] == []  # the targets are needed


def test_a_large_table_makes_no_large_page(pictures):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    y = X[:, 0] + 0.1 * rng.normal(size=3000)
    estimator = LSSVRCV(approximation=Nystroem(100), gammas=[0.02], alphas=[0.1]).fit(X, y)
    assert len(estimator.report(X=X, y=y).html()) < 1_500_000


def test_the_parser_of_the_tests_notices_what_is_wrong():
    for text in ("<p><b></p></b>", "<p>", "</p>"):
        with pytest.raises(AssertionError):
            Page(text)
