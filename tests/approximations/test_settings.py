"""Settings that mean nothing are refused where they are written down, not in the middle of a fit."""

from __future__ import annotations

import pytest

from onefold.approximations import Auto, ConjugateGradients, Nystroem, Toeplitz


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        (Nystroem, "rank", 1.5),
        (Nystroem, "rank", 0),
        (Toeplitz, "tolerance", 1.5),
        (ConjugateGradients, "n_components", 0),
        (ConjugateGradients, "n_components", 2.5),
        (ConjugateGradients, "max_iterations", 0),
        (ConjugateGradients, "tolerance", 0.0),
        (ConjugateGradients, "tolerance", 2.0),
        (Auto, "seconds", 0.0),
        (Auto, "seconds", "short"),
    ],
)
def test_refused_by_name(kind, setting, value):
    with pytest.raises(ValueError, match=f"^{setting} must"):
        kind(**{setting: value})
