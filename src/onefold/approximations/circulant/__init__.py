r"""Multilevel circulant kernel matrices: training and cross-validation in O(n log n).

The kernel matrix is replaced by U = circ_n[u], whose first row u holds the kernel at the nodes of a
regular grid of p axes [ding2011]_, [edwards2013]_. The features do not enter U; they enter through
the order of the rows, the spacings of the grid, and the predictions with the true kernel.
"""

from onefold.approximations.circulant.settings import Circulant

__all__ = ["Circulant"]
