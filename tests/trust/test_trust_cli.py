"""The verdict where people look: printed by ``onefold tune`` and ``onefold inspect``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.cli import main


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t = np.arange(80)
    rows = [f"{i},{np.sin(i / 9):.6f}" for i in t]
    Path("s.csv").write_text("time,level\n" + "\n".join(rows) + "\n", encoding="utf-8")


def test_the_verdict_is_printed_and_kept(series: Any, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["tune", "s.csv", "--target", "level", "--approximation", "toeplitz", "--check"]
    argv += ["--gammas", "0.1,1", "--alphas", "0.01,1", "--ordered", "--force"]
    assert main(argv) == 0
    words = "the approximation applies (0 grid steps from the exact choice on 53 rows, regret"
    assert re.search(f"trust check +{re.escape(words)}", capsys.readouterr().out)
    assert main(["inspect", "s-onefold/model.onefold"]) == 0
    assert words in capsys.readouterr().out
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["approximation"]["trust"]["verdict"] == "applies"
