"""decherchi2010: the kernel matrix replaced by the Toeplitz matrix of its diagonals' means."""

from __future__ import annotations

from papers import decherchi2010_errors as errors
from papers import decherchi2010_times as times
from papers.page import Paper, Part

PAPER = Paper(
    key="decherchi2010",
    reference=(
        "S. Decherchi, P. Gastaldo, R. Zunino, *Efficient Approximate Regularized Least Squares by "
        "Toeplitz Matrix*, Pattern Recognition Letters, 2010."
    ),
    introduction=(
        "Regularised least squares solves (K + λI) α = y. The paper replaces every diagonal of K by its "
        "mean. The result T is a Toeplitz matrix: n numbers instead of n², and a solution in O(n²) by "
        "Levinson's recursion. New rows are predicted with the true kernel. In onefold this is "
        '`approximation=Toeplitz(negative="solve")` ([manual](../manual/toeplitz.md)): T + λI may be '
        "indefinite; the system is solved all the same, as in the paper.\n\n"
        "The published figures are pictures, and our copy of the paper lacks them, so we compare our "
        "curves with what the text says about them. Rows are shuffled with "
        "seed 0. The test rows are the last of the shuffled rows, as many as Table 2 says; the first n "
        "of the others are the training rows. "
        "Coordinates are scaled to [−1, 1]. The grid is the same for all methods: γ times the number of "
        "variables from 1/4 to 16384 by factors of 4, λ from 10⁻³ to 100 by factors of 10. "
        "`python -m papers.decherchi2010_jobs` runs the jobs for Figures 2 and 3."
    ),
    parts=(
        Part("table1", "Table 1: cost and memory", times.measure_table1, times.show_table1),
        Part("table2", "Table 2: data sets", errors.measure_table2, errors.show_table2),
        Part("figure2", "Figure 2: test errors", errors.measure_figure2, errors.show_figure2),
        Part("figure3", "Figure 3: speed-up", times.measure_figure3, times.show_figure3),
    ),
)
