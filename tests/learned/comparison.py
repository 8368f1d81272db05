"""A fitted search beside what the literal twin found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from tests.learned.literal_search import Cell, choice_of_all
from tests.learned.literal_twin import Data


def key_of(names: Any) -> tuple[Any, ...]:
    """A cell's names as the twin has them."""
    first = [names[name] for name in ("kernel", "metric", "round")]
    return (*first, round(names["gamma"], 10), names["alpha"])


def same_search(
    model: Any, cells: list[Cell], data: Data, new: Any, history: list[tuple[Cell, int]]
) -> Cell:
    """The cells tried, their scores, the choice, its held-out predictions, the final model.

    `history` are the best cells of all groups where metrics were learned, and from how many rows.
    """
    table, known = model.cv_results_, {cell.key: cell for cell in cells}
    found = [key_of(names) for names in table["params"]]
    assert sorted(found) == sorted(known)
    for place, key in enumerate(found):
        scores = [table[f"split{i}_test_score"][place] for i in range(len(data.splits))]
        assert_allclose(scores, known[key].scores, rtol=1e-8, atol=1e-10, err_msg=str(key))
    chosen = choice_of_all(cells, data)
    assert found[model.best_index_] == chosen.key
    assert_allclose(model.best_score_, chosen.score, rtol=1e-8, atol=1e-12)
    heldout = model.heldout_prediction_.reshape(len(data.X), -1)
    assert_allclose(heldout, chosen.heldout, rtol=1e-8, atol=1e-8)
    final = data.fit(chosen.whole, chosen.width, chosen.alpha, np.arange(len(data.X)))
    assert_allclose(model.expansion_.predict(new), final(new), rtol=1e-8, atol=1e-8)
    noted = [(*key_of(one), one["rows"], one["score"]) for one in model.metric_history_]
    wanted = {(*cell.key, rows): cell.score for cell, rows in history}  # tracks share their round 0
    assert sorted(one[:-1] for one in noted) == sorted(wanted)
    assert_allclose(
        [one[-1] for one in noted], [wanted[one[:-1]] for one in noted], rtol=1e-8, atol=1e-12
    )
    return chosen
