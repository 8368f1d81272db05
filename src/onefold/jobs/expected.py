"""What a job will run and how long that will take, said before it starts."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from onefold.estimators.planning import plan
from onefold.jobs.job import Job
from onefold.linalg import is_sparse
from onefold.search.remaining import duration_words


def expected_note(job: Job) -> str | None:
    """The approximation and the expected time, or None where no plan is made of such a search.

    That is for rows on a cluster, and for ways through a grid that do not go through all of it.
    """
    settings = job.settings
    if job.client is not None or settings.search != "grid":
        return None
    labels = job.target.task == "classification"
    # Sparse rows have fewer kernels and metrics to choose among; an empty matrix says as much.
    shape = csr_matrix(job.X.shape) if is_sparse(job.X) else job.X.shape
    found = plan(
        shape,
        **job.search.parameters(),
        approximation=settings.approximation,
        n_gammas=None if settings.gammas is None else len(settings.gammas),
        n_alphas=None if settings.alphas is None else len(settings.alphas),
        cv=settings.cv,
        classes=len(np.unique(job.target.values)) if labels else 0,
        n_jobs=settings.jobs,
    )
    time = "" if found.seconds is None else f", about {duration_words(found.seconds)}"
    return f"will run {found.approximation!r}{time} ({found.reason})"
