"""What a method of benchmarks.tables takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.tables_data import Table


@dataclass(frozen=True)
class Run:
    """One job: a prepared table and what the command line says."""

    table: Table
    seed: int
    threads: int = 2
    device: str = "cpu"
    lightgbm_settings: int = 25
    xrfm_settings: int = 12


@dataclass(frozen=True)
class Outcome:
    """Predictions of the test rows (labels 0, 1, … in classification) and what was chosen."""

    prediction: Any
    settings: dict[str, Any] = field(default_factory=dict)
    notes: str = ""
