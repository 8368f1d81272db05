"""
How many landmarks? Digits
==========================

With m landmarks the model is a sum over m centres instead of n, but all n rows stay in the loss.
The time is proportional to n m², so large tables are feasible with few landmarks. How much accuracy
is lost? The handwritten digits of scikit-learn are small enough to compare with the exact method.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from onefold import LSSVCCV
from onefold.approximations import Nystroem

X, y = load_digits(return_X_y=True)
X = X / 16.0
folds = StratifiedKFold(5, shuffle=True, random_state=0)
grid = {"gammas": 2.0 ** np.arange(-10, 0, 1.5), "alphas": 2.0 ** np.arange(-14, 2, 3)}


def searched(approximation):
    """A whole search, its held-out error, and its time."""
    begin = time.perf_counter()
    model = LSSVCCV(
        cv=folds, approximation=approximation, refit="same", random_state=0, n_jobs=1, **grid
    )
    model.fit(X, y)
    return model, -model.best_score_, time.perf_counter() - begin


sizes = [10, 20, 40, 80, 160, 320, 640]
landmarks = [searched(Nystroem(m)) for m in sizes]
exact, exact_error, exact_seconds = searched("exact")
for m, (_, error, seconds) in zip(sizes, landmarks):
    print(f"{m:4d} landmarks: held-out error {error:6.2%}, {seconds:5.2f} s")
print(f"exact, {len(y)} centres: held-out error {exact_error:6.2%}, {exact_seconds:5.2f} s")

# %%
# The times are those of whole searches (42 candidates, 5 folds, 10 classes) in this run.

errors = np.array([100 * e for _, e, _ in landmarks])
seconds = np.array([s for _, _, s in landmarks])
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for ax, values, level, unit, words in (
    (left, errors, 100 * exact_error, "%", "held-out error (%)"),
    (right, seconds, exact_seconds, "s", "time of the search (s)"),
):
    ax.loglog(sizes, values, "o-", color="#0072b2", lw=2, ms=5, label="landmarks")
    ax.axhline(level, color="#d55e00", lw=1.6, ls="--", label=f"exact: {level:.1f} {unit}")
    ax.set(xlabel="number of landmarks", ylabel=words)
    ax.set_xticks(sizes, [str(m) for m in sizes])
    ax.minorticks_off()
    ax.grid(color="0.9")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small")
left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
right.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])

# %%
# By default, landmarks are cluster centres, which are means of many rows. These are the landmarks
# of the model with 40.

centres = np.asarray(landmarks[sizes.index(40)][0].expansion_.centres)
figure, axes = plt.subplots(4, 10, figsize=(8, 3.4), layout="constrained")
for ax, centre in zip(axes.flat, centres):
    ax.imshow(centre.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.axis("off")
