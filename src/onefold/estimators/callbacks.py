"""scikit-learn's callbacks, which came with version 1.9: the one place that knows their interface.

`CallbackSupportMixin`, `with_callbacks` and the contexts are public there; `_init_callback_context` is
private by its name, and documented for estimators of others. Older versions have none of it: there is no
``set_callbacks`` then, and nothing is told.
"""

from __future__ import annotations

from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for what this version of scikit-learn does not have."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "Tasks", "with_callbacks"]


class Tasks:
    """A fit as callbacks see it: one task, and in it a task for each evaluation.

    Evaluations run side by side, and are told of when they have ended: a task begins and ends at once.

    Parameters
    ----------
    estimator : estimator
        Its ``fit`` is wrapped by `with_callbacks`, which tidies up.
    X, y, sample_weight
        What it is fitted with.
    evaluations : int or None
        How many there will be at most; None where nobody knows.
    """

    def __init__(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any, *, evaluations: int | None
    ) -> None:
        self._estimator, self._context = estimator, None
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=evaluations)
            self._context.call_on_fit_task_begin(**self._data)

    def evaluated(self) -> bool:
        """Tell of an evaluation; whether somebody wants no more of them."""
        if self._context is None:
            return False
        task = self._context.subcontext(task_name="evaluation")
        task.call_on_fit_task_begin(**self._data)
        return bool(task.call_on_fit_task_end(**self._data))

    def end(self) -> None:
        """The estimator is fitted."""
        if self._context is not None:
            self._context.call_on_fit_task_end(**self._data, reconstruction_attributes={})
