"""Threads: how many there may be, and that nobody gets more than they were given."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.threads import _controller, count_workers, limit_blas, map_threads


def _now() -> int:
    return max(library.num_threads for library in _controller().lib_controllers)


def test_a_worker_of_joblib_starts_no_more_threads_than_its_share(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert count_workers(None) == count_workers(-1) == 1
    assert count_workers(3) == 3  # asked for by name
    for nonsense in ("", "0", "many", "-2"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert count_workers(None) >= 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert count_workers(None) >= 1
    with pytest.raises(ValueError, match="n_jobs=0"):
        count_workers(0)


def test_blas_is_never_given_more_threads_than_it_has():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = _now()
    with limit_blas(1):
        assert _now() == 1
        with limit_blas(64):
            assert _now() == 1
        with limit_blas(None):
            assert _now() == 1
    assert _now() == before


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_item_once(workers):
    assert sorted(map_threads(lambda i: i * i, range(20), workers)) == [i * i for i in range(20)]
