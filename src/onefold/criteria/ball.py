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

from onefold.linalg import Array, like, namespace, to_numpy
from onefold.machine.threads import check_stop

_TOLERANCE = 1e-8
_MOST_STEPS = 200  # times the number of rows, and
_FEWEST = 2000
_LOOK = 20  # steps between two looks at the bounds


def squared_radii(K: Array, shifts: Any) -> Any:
    """R² for each row of `shifts` (m, n), a NumPy array (m,); NaN where rounding hides it.

    K is overwritten: it is centred, which leaves distances as they are and their digits larger.
    """
    xp, n, found = namespace(K), K.shape[0], np.full(len(shifts), np.nan)
    mean = xp.mean(K, axis=0)
    K -= mean[None, :]
    K -= mean[:, None] - xp.mean(mean)
    balls = _Balls(K, like(np.asarray(shifts, dtype=np.float64), K))
    numbers = np.arange(len(shifts))
    for step in range(max(_MOST_STEPS * n, _FEWEST)):
        if step % _LOOK == 0:
            check_stop()
            radii, done = balls.look()
            found[numbers[done]] = radii[done]
            numbers = numbers[~done]
            if not numbers.size:
                break
            if done.any():
                balls.keep(np.flatnonzero(~done))
        balls.step()
    return found


class _Balls:
    """Weights β (balls, n) and distances g (balls, n) of some shifts of one matrix."""

    def __init__(self, K: Array, shifts: Array) -> None:
        xp = namespace(K)
        self._K, self._shifts = K, shifts
        self._diagonal = xp.linalg.diagonal(K)[None, :] + shifts
        self._beta = xp.zeros_like(shifts) + 1.0 / K.shape[0]
        self._g = self._diagonal - 2.0 * (xp.mean(K, axis=1)[None, :] + shifts / K.shape[0])

    def keep(self, numbers: Any) -> None:
        """Go on with these alone."""
        self._shifts, self._diagonal = self._shifts[numbers, :], self._diagonal[numbers, :]
        self._beta, self._g = self._beta[numbers, :], self._g[numbers, :]

    def look(self) -> tuple[Any, Any]:
        """The squared radii so far, and whether each is known to the tolerance."""
        xp = namespace(self._K)
        inner = xp.sum(self._beta * self._g, axis=1)
        radii = (xp.sum(self._beta * self._diagonal, axis=1) + inner) / 2
        gap = xp.max(self._g, axis=1) - inner
        return to_numpy(radii), to_numpy(gap <= _TOLERANCE * radii)

    def step(self) -> None:
        """Move weight in every ball from one row to another."""
        xp, beta, g = namespace(self._K), self._beta, self._g
        each = xp.arange(g.shape[0])
        i = xp.argmax(g, axis=1)
        towards = self._K[i, :]
        above = g[each, i][:, None] - g
        apart = self._diagonal[each, i][:, None] + self._diagonal - 2.0 * towards
        apart[each, i] = 1.0
        gain = xp.where(beta > 0, above**2 / apart, -xp.ones_like(above))
        j = xp.argmax(gain, axis=1)
        free, there = above[each, j] / (2.0 * apart[each, j]), beta[each, j]
        move = xp.where(free < there, free, there)
        beta[each, i] += move
        beta[each, j] = there - move  # exactly 0 where all of it moves
        g -= (2.0 * move)[:, None] * (towards - self._K[j, :])
        g[each, i] -= 2.0 * move * self._shifts[each, i]
        g[each, j] += 2.0 * move * self._shifts[each, j]
