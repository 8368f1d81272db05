"""scikit-learn's metadata routing for estimators that split their rows themselves.

They consume what their splitter consumes: ``fit(X, y, groups=...)`` hands the groups on. So a grouped
`cv` is a request for groups, as it is in scikit-learn's own ``...CV`` estimators; nobody has to say it
twice. What the user says by ``set_fit_request`` comes first.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from onefold.typing import CrossValidation


class AsksForItsSplitter(BaseEstimator):
    """Requests groups on behalf of `cv`."""

    cv: CrossValidation

    def get_metadata_routing(self) -> Any:
        """The requests of this estimator, as meta-estimators of scikit-learn ask for them."""
        found = super().get_metadata_routing()
        wanted = _groups_of(self.cv)
        if wanted is not None and found.fit.requests.get("groups") is None:
            found.fit.add_request(param="groups", alias=wanted)
        return found


def _groups_of(cv: Any) -> bool | str | None:
    """True where a splitter takes groups, or the name that it has for them; None where it does not."""
    if not hasattr(cv, "get_metadata_routing"):
        return None
    request = cv.get_metadata_routing().split.requests.get("groups")
    return request if request is True or isinstance(request, str) else None
