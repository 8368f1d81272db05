"""A virtual environment for every peer, made from the package registry; a reason where that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.common import RESULTS

FOLDER = Path(os.environ.get("ONEFOLD_PEER_ENVS", RESULTS / "peers" / "envs"))
SHARED = ("numpy", "scikit-learn")  # what the worker itself needs
TORCH = "torch==2.13.0"

# What pip installs, one call after the other. The environment of this project is the present one.
OWN = "onefold"
ENVIRONMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "scikit-learn": (SHARED,),
    "scikit-learn-intelex": ((*SHARED, "scikit-learn-intelex"),),
    "himalaya": ((*SHARED, "packaging", "himalaya"),),
    "gpytorch": ((*SHARED, TORCH), ("gpytorch",)),
    "neo-ls-svm": ((*SHARED, "pandas", "neo-ls-svm"),),
    "xrfm": ((*SHARED, TORCH), ("xrfm==0.4.5",)),
    "lightgbm": ((*SHARED, "lightgbm"),),
    "catboost": ((*SHARED, "catboost"),),
    "mapie": ((*SHARED, "mapie"),),
    "tinygp": (("numpy", "jax", "tinygp"),),  # of benchmarks/series.py,
    "celerite2": (("numpy", "celerite2"),),  # as this one
}


class CannotInstall(Exception):
    """A peer that is not to be had here; the message is pip's reason."""


def interpreter(name: str, folder: Path = FOLDER) -> str:
    """The Python of an environment, which is made where it is not there yet."""
    if name == OWN:
        return sys.executable
    place = folder / name
    python = place / "bin" / "python"
    made = place / "made"
    if made.exists():
        return str(python)
    _call(sys.executable, "-m", "venv", "--clear", str(place))
    for packages in ENVIRONMENTS[name]:
        _call(str(python), "-m", "pip", "install", "--quiet", *packages)
    made.touch()
    return str(python)


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [text for text in map(str.strip, done.stderr.splitlines()) if "Error: " in text]
        said = said or [text for text in done.stderr.splitlines() if text.startswith("ERROR: ")]
        raise CannotInstall((said or [f"exit {done.returncode}"])[-1].strip()[:300])
