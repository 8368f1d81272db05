"""Search: a strategy proposes, one loop evaluates, a ledger remembers, a rule for ties chooses."""

from onefold.search.checkpoint import Checkpoint, open_checkpoint
from onefold.search.choice import BlendResult, Crossfit, Leader, blend_leaders
from onefold.search.evaluation import Candidate, Evaluation
from onefold.search.fingerprint import fingerprint
from onefold.search.halving import Halving
from onefold.search.ledger import GridEdgeWarning, Ledger, best_cell, deviation, edges, tie_tolerance
from onefold.search.loop import (
    Found,
    NoScoreError,
    Proposal,
    Search,
    SearchStoppedWarning,
    Stage,
    StopSearch,
)
from onefold.search.metric import MetricSearch, drawn
from onefold.search.metrics import importances, tracks_of
from onefold.search.progress import Callback, Progress
from onefold.search.setup import Family, Setup, family_kernels
from onefold.search.strategies import (
    Cells,
    FullGrid,
    Strategy,
    register_strategy,
    registered_strategies,
    resolve_strategy,
)

__all__ = [
    "BlendResult",
    "Callback",
    "Candidate",
    "Cells",
    "Checkpoint",
    "Crossfit",
    "Evaluation",
    "Family",
    "Found",
    "FullGrid",
    "GridEdgeWarning",
    "Halving",
    "Leader",
    "Ledger",
    "MetricSearch",
    "NoScoreError",
    "Progress",
    "Proposal",
    "Search",
    "SearchStoppedWarning",
    "Setup",
    "Stage",
    "StopSearch",
    "Strategy",
    "best_cell",
    "blend_leaders",
    "deviation",
    "drawn",
    "edges",
    "family_kernels",
    "fingerprint",
    "importances",
    "open_checkpoint",
    "register_strategy",
    "registered_strategies",
    "resolve_strategy",
    "tie_tolerance",
    "tracks_of",
]
