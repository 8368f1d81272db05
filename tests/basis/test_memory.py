"""Peak memory of a basis fit does not grow with the number of rows, beyond the rows themselves."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from onefold import LSSVRCV
from onefold.approximations import Nystroem

_PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from onefold import LSSVRCV
from onefold.approximations import Nystroem
X = np.load(sys.argv[1], mmap_mode="r")
y = np.load(sys.argv[2])
LSSVRCV(gammas=[0.1], approximation=Nystroem(200), n_jobs=2).fit(X, y)
# VmHWM starts at exec; getrusage's ru_maxrss would start at the peak of the process that forked.
status = Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""


def _files(folder, n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    np.save(folder / f"X{n}.npy", X)
    np.save(folder / f"y{n}.npy", np.sin(X).sum(axis=1).astype(float))
    return folder / f"X{n}.npy", folder / f"y{n}.npy"


def _peak(folder, n):
    arguments = [sys.executable, "-c", _PROGRAM, *map(str, _files(folder, n))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_peak_memory_does_not_grow_with_the_features(tmp_path):
    small, large = 20_000, 200_000
    growth = _peak(tmp_path, large) - _peak(tmp_path, small)
    # Rows, targets and their held-out predictions come to some 100 bytes a row; the features of the
    # model, n × m, would be 800 bytes a row in float32.
    assert growth < 250 * (large - small)


def test_memory_mapped_rows_give_the_same_numbers(tmp_path):
    rows, targets = _files(tmp_path, 3000)
    mapped, y = np.load(rows, mmap_mode="r"), np.load(targets)
    settings = {"gammas": [0.1], "approximation": Nystroem(50)}
    one, other = (LSSVRCV(**settings).fit(X, y) for X in (mapped, np.array(mapped)))
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
    )
    assert not isinstance(one.expansion_.centres, np.memmap)
