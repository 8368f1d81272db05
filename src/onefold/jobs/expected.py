"""What a job will run and how long that will take, said before it starts."""

from __future__ import annotations

from typing import Any

from onefold.estimators import LSSVCCV, LSSVRCV
from onefold.estimators.planning import plan
from onefold.jobs.job import Job
from onefold.machine.speed import duration_words


def expected_note(job: Job) -> str | None:
    """The approximation and the expected time, or None where no plan is made of such a search.

    That is for ways through a grid that do not go through all of it.
    """
    settings = job.settings
    if settings.search != "grid":
        return None
    kind = LSSVCCV if job.target.task == "classification" else LSSVRCV
    estimator: Any = kind(
        **job.search.parameters(),
        gammas=settings.gammas,
        alphas=settings.alphas,
        approximation=settings.approximation,
        cv=settings.cv,
        n_jobs=settings.jobs,
    )
    found = plan(estimator, job.X, job.target.values)
    time = "" if found.seconds is None else f", about {duration_words(found.seconds)}"
    return f"will run {found.approximation!r}{time} ({found.reason})"
