"""The dense twin of a multilevel circulant matrix, written out from the definitions."""

from __future__ import annotations

import itertools

import numpy as np


def dense_row(kernel, shape, spacing):
    """The first row by enumerating D_j for every multi-index j."""
    u = np.zeros(shape)
    for j in np.ndindex(*shape):
        sets = [{0} if i == 0 else {i, size - i} for i, size in zip(j, shape)]
        points = np.array(list(itertools.product(*sets))) * np.asarray(spacing)
        u[j] = kernel(points, np.zeros((1, len(shape)))).sum()
    return u


def dense_matrix(u):
    """circ_n[u]: entry (j, l) is u at l − j modulo n, level by level."""
    return np.array([np.roll(u, j, axis=tuple(range(u.ndim))).ravel() for j in np.ndindex(*u.shape)])
