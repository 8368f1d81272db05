r"""The level order **n** = (n_0, …, n_{p−1}) of a multilevel circulant matrix for any number of rows.

A factorisation of n whose levels are of similar size is used as it is. Where n has none (a prime,
say), the shape holds a few cells more than there are rows. Those cells carry no data: the smoother
treats them as rows left out of training, so that nothing is invented for them.
"""

from __future__ import annotations

import math

_BALANCED = 4.0  # largest level over smallest


def choose_shape(n: int, levels: int) -> tuple[int, ...]:
    """The balanced shape of `levels` levels with the fewest cells, at least `n`."""
    cells = n
    while True:
        shape = factorise(cells, levels)
        if shape[-1] <= _BALANCED * shape[0]:
            return shape
        cells += 1


def factorise(n: int, levels: int) -> tuple[int, ...]:
    """The most balanced factorisation of `n` into `levels` factors, in ascending order."""
    best = (1,) * (levels - 1) + (n,)
    divisors = _divisors(n)

    def extend(head: tuple[int, ...], rest: int) -> None:
        nonlocal best
        left = levels - len(head)
        if left == 1:
            if rest * best[0] < best[-1] * head[0]:
                best = (*head, rest)
            return
        for factor in divisors:
            if factor**left > rest:
                break
            if rest % factor == 0 and factor >= head[-1]:
                extend((*head, factor), rest // factor)

    if levels > 1:
        for first in divisors:
            if first**levels > n:
                break
            extend((first,), n // first)
    return best


def fold_shape(n: int, levels: int, folds: int) -> tuple[int, ...] | None:
    """A shape whose leading level is the number of folds, or None if the folds differ in size."""
    if n % folds != 0 or (levels == 1 and folds != n):
        return None
    return (folds,) if levels == 1 else (folds, *factorise(n // folds, levels - 1))


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]
