"""Tables as other programs write them, from ``tune`` to ``predict``: read alike, noted, or refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from cli_arguments import SMALL

from onefold.cli import main
from onefold.tables import Categories, load_table_model, training

MODEL = "t-onefold/model.onefold"
N = 60


@pytest.fixture
def frame(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=N).round(3), "price": rng.integers(1000, 99999, N)})
    frame["y"] = (np.sin(frame["size"]) + 0.1 * rng.normal(size=N)).round(4)
    frame.to_csv("plain.csv", index=False)
    return frame


def tune(*options: str, table: str = "t.csv") -> int:
    return main(["tune", table, "--target", "y", "--force", "--out", "t-onefold", *SMALL, *options])


def predictions(capsys, table: str, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["predict", MODEL, table, *options]) == 0
    return capsys.readouterr().out.splitlines()[1:]


def european(frame: pd.DataFrame, gap: str, unit: str) -> None:
    """Semicolons, decimal commas, points between thousands, another encoding."""
    spelled = pd.DataFrame(
        {
            "größe": [str(v).replace(".", ",") for v in frame["size"]],
            "price": [f"{v:,}".replace(",", "." if unit else "") + unit for v in frame.price],
            "y": [str(v).replace(".", ",") for v in frame.y],
        }
    )
    spelled.loc[3, "größe"] = gap
    spelled.to_csv("t.csv", sep=";", index=False, encoding="cp1252")


OPTIONS = ["--decimal", ",", "--encoding", "cp1252", "--delimiter", ";", "--na-values", "fehlt,?"]


def test_options_are_remembered(frame, capsys, refused):
    european(frame, "fehlt", " €")
    assert "missing values in 'größe' (1 of 60 rows)" in refused(
        "tune", "t.csv", "--target", "y", *OPTIONS, "--missing", "error"
    )
    assert tune(*OPTIONS) == 0
    assert " €' is read as " in capsys.readouterr().err
    frame.loc[3, "size"] = np.nan
    frame.rename(columns={"size": "größe"}).to_parquet("t.parquet")
    expected = predictions(capsys, "t.parquet")
    assert len(expected) == N
    assert predictions(capsys, "t.csv") == expected


def test_options_hold_for_tables_larger_than_memory(frame, capsys, monkeypatch, refused):
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    european(frame, "fehlt", "")
    line = refused("tune", "t.csv", "--target", "y", *OPTIONS, "--missing", "error")
    assert "missing values in 'größe' (1 of 60 rows)" in line
    european(frame, "0,5", " €")
    assert tune(*OPTIONS, "--approximation", "nystroem") == 0
    frame.loc[3, "size"] = 0.5
    frame.rename(columns={"size": "größe"}).to_parquet("t.parquet")
    assert predictions(capsys, "t.csv") == predictions(capsys, "t.parquet")


def test_the_remembered_ways_can_be_overridden(frame, capsys):
    frame.to_csv("t.csv", index=False)
    assert tune() == 0
    expected = predictions(capsys, "t.csv")
    frame.to_csv("e.csv", index=False, sep=":", decimal=",", encoding="utf-16")
    options = ["--decimal", ",", "--delimiter", ":"]
    assert predictions(capsys, "e.csv", *options) == expected
    assert predictions(capsys, "e.csv", *options, "--encoding", "utf-16") == expected


def test_formats_of_columns_are_remembered(frame, capsys):
    assert tune(table="plain.csv") == 0
    expected = predictions(capsys, "plain.csv")
    spelled = frame.assign(
        price=[f"${v:,}" for v in frame.price], size=[f"{v} %" for v in frame["size"]]
    )
    spelled.to_csv("t.csv", index=False)
    assert tune() == 0
    told = capsys.readouterr().err
    assert "column 'price' holds numbers: '$" in told
    assert "column 'size' holds numbers: '" in told
    assert predictions(capsys, "t.csv") == expected
    assert main(["predict", MODEL, "plain.csv"]) == 2
    assert "is not written like 1234.5 %; write it that way" in capsys.readouterr().err


def test_row_numbers_and_identifiers(frame, capsys):
    frame.to_csv("t.csv")
    assert tune("--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["features"] == 2
    assert "'unnamed_1'" in found["column_notes"][0]
    assert any("column 'price' has a different whole number" in note for note in found["column_notes"])
    frame.to_csv("new.csv", index=False)
    assert len(predictions(capsys, "new.csv")) == N


@pytest.mark.parametrize("disk", [False, True])
def test_notes_are_the_same_on_disk(frame, capsys, monkeypatch, disk):
    if disk:
        monkeypatch.setattr(training, "available_memory", lambda: 1000)
    frame.to_csv("t.csv")
    assert tune("--approximation", "nystroem") == 0
    told = capsys.readouterr().err
    assert "left out, as row numbers or empty columns without a name: 'unnamed_1'" in told
    assert "column 'price' has a different whole number in every row" in told


def test_categorical_columns(frame, capsys, refused, monkeypatch):
    frame["code"] = np.arange(N) % 3
    frame.to_csv("t.csv", index=False)
    assert tune("--categorical", "code") == 0
    (codes,) = load_table_model(MODEL).preparation_.of_kind(Categories)
    assert codes.categories == ("0", "1", "2")
    assert len(predictions(capsys, "t.csv")) == N
    base = ["tune", "t.csv", "--target", "y", "--force"]
    assert "no column 'cod'; did you mean 'code'?" in refused(*base, "--categorical", "cod")
    assert "categorical names the target column 'y'" in refused(*base, "--categorical", "y")
    line = refused(*base, "--categorical", "code", "--drop", "code")
    assert "drop and categorical both name column 'code'; choose one" in line
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    assert tune("--categorical", "code", "--approximation", "nystroem", "--force") == 0
    assert load_table_model(MODEL).preparation_.of_kind(Categories) == [codes]


@pytest.mark.parametrize(
    ("labels", "free"),
    [
        (("007", "008"), 2**60),
        (("1.0", "2.0"), 2**60),
        (("True", "False"), 2**60),
        (("007", "008"), 1000),
        (("1.0", "2.0"), 1000),
        ((" 1", " 2"), 1000),
    ],
)
def test_labels_come_back_as_they_were_written(frame, capsys, monkeypatch, labels, free):
    monkeypatch.setattr(training, "available_memory", lambda: free)
    frame["y"] = [labels[int(side)] for side in frame["size"] > 0]
    frame.to_csv("t.csv", index=False)
    assert tune("--approximation", "nystroem") == 0
    assert set(predictions(capsys, "t.csv")) == set(labels)
    assert main(["predict", MODEL, "t.csv", "--score"]) == 0
    assert float(capsys.readouterr().err.split("accuracy ")[1].split("%")[0]) > 80


def test_options_for_text_are_refused_elsewhere(frame, refused):
    frame.to_parquet("t.parquet")
    for option in (
        ["--decimal", ","],
        ["--encoding", "latin-1"],
        ["--delimiter", ";"],
        ["--na-values", "?"],
    ):
        line = refused("tune", "t.parquet", "--target", "y", *option)
        assert f"{option[0]} is for .csv and .tsv tables" in line


def test_plan_reads_as_tune_does(frame, capsys, refused):
    frame.to_csv("t.csv", index=False, sep=":", encoding="utf-16-le")
    assert "--encoding utf-16-le" in refused("plan", "t.csv", "--target", "y")
    options = ["--encoding", "utf-16-le", "--delimiter", ":", "--json"]
    assert main(["plan", "t.csv", "--target", "y", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["features"]) == (N, 2)


def test_plan_counts_the_categories_of_codes(frame, capsys, refused):
    frame.assign(code=np.arange(N) % 3).to_csv("t.csv", index=False)
    base = ["plan", "t.csv", "--target", "y", "--json"]
    assert main([*base, "--categorical", "code"]) == 0
    assert json.loads(capsys.readouterr().out)["features"] == 5
    assert "no column 'cod'; did you mean 'code'?" in refused(*base, "--categorical", "cod")


def test_plan_takes_the_folds_that_tune_takes(frame, capsys, refused):
    frame.to_csv("t.csv", index=False)
    assert main(["plan", "t.csv", "--target", "y", "--cv", "loo"]) == 0
    assert "Exact()" in capsys.readouterr().out
    assert "number of folds" in refused("plan", "t.csv", "--target", "y", "--cv", "1")
