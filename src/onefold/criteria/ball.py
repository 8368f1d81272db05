r"""The smallest ball around rows of a kernel's feature space.

    R² = max_β Σ β_i K̃_ii − βᵀK̃β    over β ≥ 0, Σ β_i = 1,    K̃ = K + diag(shift)

β are the weights of the ball's centre. With g_i = K̃_ii − 2(K̃β)_i, the squared distance of row i from
the centre but for a constant, a step moves weight to the farthest row i from the row j that gains most
by it, (g_i − g_j)² / ‖φ_i − φ_j‖², in closed form. The objective is a lower bound of R², the largest
distance from the centre an upper one, and their difference is max g − βᵀg: steps end where it is 1e-8
of the objective.

Some n to 5 n steps from β = 1/n, each of O(n) for a shift: O(n²) in all. All shifts go side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.machine.threads import check_stop

_TOLERANCE = 1e-8
_MOST_STEPS = 200  # times the number of rows, and
_FEWEST = 2000
_LOOK = 20  # steps between two looks at the bounds


def squared_radii(K: Any, shifts: Any) -> Any:
    """R² for each row of `shifts` (m, n), shape (m,); NaN where rounding hides it. In NumPy.

    K is overwritten: it is centred, which leaves distances as they are and their digits larger.
    """
    n, found, numbers = len(K), np.full(len(shifts), np.nan), np.arange(len(shifts))
    mean = K.mean(axis=0)
    K -= mean[None, :]
    K -= mean[:, None] - mean.mean()
    balls = _Balls(K, np.asarray(shifts, dtype=np.float64))
    for step in range(max(_MOST_STEPS * n, _FEWEST)):
        if step % _LOOK == 0:
            check_stop()
            radii, done = balls.look()
            found[numbers[done]] = radii[done]
            numbers = numbers[~done]
            if not numbers.size:
                break
            if done.any():
                balls.keep(~done)
        balls.step()
    return found


class _Balls:
    """Weights β (balls, n) and distances g (balls, n) of some shifts of one matrix."""

    def __init__(self, K: Any, shifts: Any) -> None:
        self._K, self._shifts = K, shifts
        self._diagonal = np.diagonal(K)[None, :] + shifts
        self._beta = np.full(shifts.shape, 1.0 / len(K))
        self._g = self._diagonal - 2.0 * (K.mean(axis=1)[None, :] + shifts / len(K))

    def keep(self, some: Any) -> None:
        """Go on with some alone."""
        self._shifts, self._diagonal = self._shifts[some], self._diagonal[some]
        self._beta, self._g = self._beta[some], self._g[some]

    def look(self) -> tuple[Any, Any]:
        """The squared radii so far, and whether each is known to the tolerance."""
        inner = np.sum(self._beta * self._g, axis=1)
        radii = (np.sum(self._beta * self._diagonal, axis=1) + inner) / 2
        return radii, self._g.max(axis=1) - inner <= _TOLERANCE * radii

    def step(self) -> None:
        """Move weight in every ball from one row to another."""
        beta, g, each = self._beta, self._g, np.arange(len(self._g))
        i = g.argmax(axis=1)
        towards = self._K[i]
        above = g[each, i][:, None] - g
        apart = self._diagonal[each, i][:, None] + self._diagonal - 2.0 * towards
        apart[each, i] = 1.0
        gains = above * (above / apart)  # squares leave the range of float64 long before
        j = np.where(beta > 0, gains, -1.0).argmax(axis=1)
        there = beta[each, j]
        move = np.minimum(above[each, j] / (2.0 * apart[each, j]), there)
        beta[each, i] += move
        beta[each, j] = there - move  # exactly 0 where all of it moves
        g -= (2.0 * move)[:, None] * (towards - self._K[j])
        g[each, i] -= 2.0 * move * self._shifts[each, i]
        g[each, j] += 2.0 * move * self._shifts[each, j]
