"""Pipelines around our estimators are saved by skops, as docs/sklearn.md shows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import onefold

sio = pytest.importorskip("skops.io")
X = np.random.default_rng(0).normal(size=(60, 3))
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0]}


@pytest.mark.parametrize("machine", [onefold.LSSVRCV(**SMALL), onefold.LSSVCCV(**SMALL)], ids=str)
def test_a_pipeline_through_skops(tmp_path, machine):
    y = X[:, 0] > 0 if hasattr(machine, "class_weight") else X[:, 0]
    model = make_pipeline(StandardScaler(), machine).fit(X, y)
    sio.dump(model, tmp_path / "model.skops")
    unknown = sio.get_untrusted_types(file=tmp_path / "model.skops")
    assert unknown
    assert all(name.startswith("onefold.") for name in unknown)
    loaded = sio.load(tmp_path / "model.skops", trusted=unknown)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_pipeline_in_a_model_file_is_refused_with_the_remedy(tmp_path):
    model = make_pipeline(StandardScaler(), onefold.LSSVR()).fit(X, X[:, 0])
    with pytest.raises(TypeError, match=r"cannot save a Pipeline.*with skops or joblib"):
        onefold.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
