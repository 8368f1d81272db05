"""Structure of rows is noticed where it misleads, and only there."""

from __future__ import annotations

import numpy as np
import pandas as pd

from onefold import TableRegressor
from onefold.tables.structure import Structure
from onefold.tables.training import training_of


def noticed(frame: pd.DataFrame, target: str = "y") -> Structure | None:
    with training_of(TableRegressor(), frame, target) as training:
        return training.structure


def storms(seed: int = 0, groups: int = 80, rows: int = 12) -> pd.DataFrame:
    """Rows of storms: the target moves slowly within a storm, as do two of the features."""
    generator = np.random.default_rng(seed)
    walks = generator.normal(size=(groups, rows, 3)).cumsum(axis=1) * 0.3
    walks += 2.0 * generator.normal(size=(groups, 1, 3))
    flat = walks.reshape(-1, 3)
    name = np.repeat([f"storm {number}" for number in range(groups)], rows)
    return pd.DataFrame({"name": name, "a": flat[:, 0], "b": flat[:, 1], "y": flat[:, 2]})


def test_rows_of_one_storm_are_noticed_as_a_group():
    frame = storms().sample(frac=1.0, random_state=0)
    structure = noticed(frame)
    assert structure is not None
    assert (structure.kind, structure.columns) == ("groups", ("name",))
    assert structure.ratio > 1.3
    assert structure.p_value < 0.01
    names = frame["name"].to_numpy()
    assert len(set(zip(names, structure.codes))) == len(set(names)) == len(set(structure.codes))
