"""What a user does first, with the onefold that is installed: Python, then the commands of the shell.

`python tests/tools/smoke.py`, in an environment that has the wheel; noxfile.py does so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import onefold
from onefold import LSSVCCV, TableRegressor

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMANDS = (
    "tune examples/houses.csv --target price --id house --simple",
    "predict houses-onefold/model.onefold examples/new_houses.csv --out prices.csv --interval 0.9",
    "report houses-onefold examples/houses.csv --out report.html",
    "inspect houses-onefold/model.onefold",
)


def check_table(folder: Path) -> None:
    """A model of a table predicts, and does so after it was saved and loaded."""
    houses = folder / "examples" / "houses.csv"
    new_houses = folder / "examples" / "new_houses.csv"
    model = TableRegressor(simple=True).fit(houses, "price")
    predicted = model.predict(new_houses)
    bounds = model.predict_interval(new_houses, coverage=0.9)
    assert predicted.shape == (20,)
    assert np.isfinite(predicted).all()
    assert np.isfinite(bounds).all()
    model.report(folder / "houses.html", houses)
    model.save(folder / "houses.onefold")
    loaded = onefold.load(folder / "houses.onefold")
    assert loaded.predict(new_houses).tolist() == predicted.tolist()


def check_arrays() -> None:
    """A classifier of arrays."""
    X, y = load_iris(return_X_y=True)
    model = LSSVCCV().fit(X, y)
    assert model.score(X, y) > 0.9
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


def check_commands(folder: Path) -> None:
    """The commands of the shell end well."""
    program = Path(sys.executable).with_name("onefold")
    for command in COMMANDS:
        subprocess.run([program, *command.split()], cwd=folder, check=True)


if __name__ == "__main__":
    assert Path(onefold.__file__).is_relative_to(sys.prefix), onefold.__file__
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(EXAMPLES, Path(name, "examples"))
        check_table(Path(name))
        check_arrays()
        check_commands(Path(name))
    print(f"onefold {onefold.__version__}: Python and {len(COMMANDS)} commands")
