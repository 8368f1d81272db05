"""edwards2013: leave-one-out with multilevel circulant matrices, O(n log n)."""

from __future__ import annotations

from papers import edwards2013_energy as energy
from papers import edwards2013_errors as errors
from papers import edwards2013_errors_page as errors_page
from papers import edwards2013_times as times
from papers.page import Paper, Part

PAPER = Paper(
    key="edwards2013",
    reference=(
        "R. E. Edwards, H. Zhang, L. E. Parker, J. R. New, *Approximate l-fold Cross-Validation with "
        "Least Squares SVM and Kernel Ridge Regression*, ICMLA 2013."
    ),
    introduction=(
        "The paper replaces the kernel matrix by a multilevel circulant one and computes "
        "leave-one-out from "
        'that matrix alone (A-LOO): `Circulant(validate="matrix")` with `cv="loo"`. The features do not '
        "enter the matrix. It depends on the order of the rows, the level sizes and the spacings H_n. "
        "The exact leave-one-out is called E-LOO."
    ),
    parts=(
        Part("table1", "Table I and Figure 1: time", times.measure_table1, times.show_table1),
        Part("figure2", "Figure 2: against low rank", times.measure_figure2, times.show_figure2),
        Part(
            "table2",
            "Table II: errors of the circulant model",
            errors.measure_table2,
            errors_page.show_table2,
        ),
        Part("table3", "Table III: energy", energy.measure_table3, energy.show_table3),
    ),
)
