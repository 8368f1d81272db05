"""Model files of earlier releases load, and predict what they did (`tests.tools.keep_models`)."""

from __future__ import annotations

import json

import numpy as np
import pytest

import onefold
from onefold.saving import peek
from tests.tools import keep_models
from tests.tools.keep_models import DATA, MODELS, answers

FILES = sorted(DATA.glob("*.onefold"))
# A value is a sum of a few hundred terms, of kernels whose arguments are such sums too: n² roundings of
# the largest term are far more than there are, and far less than a wrong model would be off by.
ROUNDING = 300**2 * np.finfo(np.float64).eps


def test_each_release_since_the_first_has_its_files():
    kept = {path.stem.removeprefix(f"{name}-") for path in FILES for name in MODELS}
    assert "1.0.0rc1" in kept
    assert all(path.stat().st_size < 70_000 for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kept_files_predict_what_they_did(path):
    kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    found = answers(onefold.load(path), kept["rows"])
    assert found.keys() == kept["answers"].keys()
    for method, expected in kept["answers"].items():
        if isinstance(expected[0], str):
            assert found[method] == expected
        else:
            np.testing.assert_allclose(found[method], expected, rtol=0, atol=ROUNDING * kept["size"])


def test_the_first_format_version_is_read():
    assert {peek(path)["format_version"] for path in FILES} >= {1}


def test_files_are_never_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(keep_models, "DATA", tmp_path)
    (tmp_path / f"blend-{onefold.__version__}.onefold").write_text("kept")
    assert keep_models.main() == 1
    assert "never overwritten" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]
