"""Methods for the three jobs with given grids and hyper-parameters: kernel machines alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.methods import Fitted, Options, plain
from benchmarks.tables_data import Table

# (a): every width and every ridge. (b) and (c): one of each.
GAMMAS = 2.0 ** np.arange(-15, 10, 2)
RIDGES = 2.0 ** np.arange(-15, 6, 2)
FOLDS = 5
GAMMA = 0.02
RIDGE = 0.01
SMALL_CENTRES = 500
MEDIUM_CENTRES = 2000
LARGE_CENTRES = 1000


def tuned(predict: Callable[[Any], Any], accuracy: float, **facts: float) -> Fitted:
    """A choice from the grid of (a), with its cross-validated error."""
    return Fitted(predict, facts={"cv error": 1 - float(accuracy)} | facts)


def signs(y: Any) -> Any:
    return 2.0 * y - 1.0


# -- (a): the whole grid ------------------------------------------------------------------------------


def onefold_grid(table: Table, options: Options) -> Fitted:
    from onefold import LSSVCCV

    model = LSSVCCV(
        gammas=GAMMAS, alphas=RIDGES, cv=FOLDS, approximation="exact", n_jobs=options.threads
    ).fit(table.X, table.y)
    return tuned(model.predict, 1 + model.best_score_)


def _grid_search(machine: Any, cells: dict[str, Any], y: Any, table: Table, options: Options) -> Fitted:
    from joblib import parallel_config
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    cv = list(StratifiedKFold(FOLDS).split(table.X, table.y))
    with parallel_config("loky", n_jobs=options.threads, inner_max_num_threads=1):
        search = GridSearchCV(machine, cells, cv=cv, scoring=_accuracy_of_signs).fit(table.X, y)
    return tuned(lambda X: search.predict(X) > 0, search.best_score_)


def _accuracy_of_signs(model: Any, X: Any, y: Any) -> float:
    return float(np.mean(np.sign(model.predict(X)) == y))


def kernel_ridge_grid(table: Table, options: Options) -> Fitted:
    from sklearn.kernel_ridge import KernelRidge

    cells = {"gamma": GAMMAS, "alpha": RIDGES}
    return _grid_search(KernelRidge(kernel="rbf"), cells, signs(table.y), table, options)


def svc_grid(table: Table, options: Options) -> Fitted:
    from sklearn.svm import SVC

    return _grid_search(SVC(), {"gamma": GAMMAS, "C": 1 / RIDGES}, signs(table.y), table, options)


def svc_grid_intelex(table: Table, options: Options) -> Fitted:
    from sklearnex.svm import SVC

    return _grid_search(SVC(), {"gamma": GAMMAS, "C": 1 / RIDGES}, signs(table.y), table, options)


def nystroem_grid(table: Table, options: Options) -> Fitted:
    """500 centres; every ridge by exact leave-one-out of the labels ±1.

    Of two classes, RidgeClassifierCV in scikit-learn 1.9.1 gives every ridge an accuracy of 1.
    """
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline

    best: tuple[float, Any] = (-1.0, None)
    for gamma in GAMMAS:
        centres = min(SMALL_CENTRES, len(table.y))
        features = Nystroem(gamma=gamma, n_components=centres, random_state=options.seed)
        model = make_pipeline(features, RidgeCV(RIDGES, scoring=_accuracy_of_signs))
        model.fit(table.X, signs(table.y))
        best = max(best, (float(model[-1].best_score_), model), key=lambda found: found[0])
    return tuned(lambda X: best[1].predict(X) > 0, best[0])


def himalaya_grid(table: Table, options: Options) -> Fitted:
    """Ridge values by its own cross-validation, widths one after the other."""
    from himalaya.kernel_ridge import KernelRidgeCV
    from sklearn.model_selection import StratifiedKFold

    cv = list(StratifiedKFold(FOLDS).split(table.X, table.y))
    y = signs(table.y)
    best: tuple[float, Any] = (-1.0, None)
    for gamma in GAMMAS:
        solver = {"score_func": lambda truth, found: (np.sign(found) == truth).mean(axis=-2)}
        model = KernelRidgeCV(
            RIDGES, kernel="rbf", kernel_params={"gamma": gamma}, cv=cv, solver_params=solver
        ).fit(table.X, y)
        best = max(best, (float(np.max(model.cv_scores_)), model), key=lambda found: found[0])
    return tuned(lambda X: best[1].predict(X) > 0, best[0])


# -- (b) and (c): one fit -----------------------------------------------------------------------------


def onefold_fit(table: Table, options: Options) -> Fitted:
    from onefold import LSSVR

    model = LSSVR(gamma=GAMMA, alpha=RIDGE, n_jobs=options.threads)
    return plain(model.fit(table.X, table.y), table)


def _onefold_centres(table: Table, options: Options, centres: int) -> Fitted:
    from onefold import LSSVR
    from onefold.approximations import Nystroem

    few = min(centres, len(table.y) // 2)
    model = LSSVR(gamma=GAMMA, alpha=RIDGE, approximation=Nystroem(few), n_jobs=options.threads)
    return plain(model.set_params(random_state=0).fit(table.X, table.y), table)


def _sklearn_centres(table: Table, options: Options, centres: int) -> Fitted:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    few = min(centres, len(table.y) // 2)
    features = Nystroem(gamma=GAMMA, n_components=few, random_state=options.seed)
    return plain(make_pipeline(features, Ridge(alpha=RIDGE)).fit(table.X, table.y), table)


def onefold_medium(table: Table, options: Options) -> Fitted:
    return _onefold_centres(table, options, MEDIUM_CENTRES)


def onefold_large(table: Table, options: Options) -> Fitted:
    return _onefold_centres(table, options, LARGE_CENTRES)


def nystroem_medium(table: Table, options: Options) -> Fitted:
    return _sklearn_centres(table, options, MEDIUM_CENTRES)


def nystroem_large(table: Table, options: Options) -> Fitted:
    return _sklearn_centres(table, options, LARGE_CENTRES)


def kernel_ridge(table: Table, options: Options) -> Fitted:
    from sklearn.kernel_ridge import KernelRidge

    return plain(KernelRidge(kernel="rbf", gamma=GAMMA, alpha=RIDGE).fit(table.X, table.y), table)


def _svr(kind: Any, table: Table) -> Fitted:
    """The loss of a residual beyond 0.1, the deviation of the noise, weighs 1 / (2 · ridge)."""
    return plain(
        kind(gamma=GAMMA, C=1 / (2 * RIDGE), epsilon=0.1, cache_size=2000).fit(table.X, table.y), table
    )


def svr(table: Table, options: Options) -> Fitted:
    from sklearn.svm import SVR

    return _svr(SVR, table)


def svr_intelex(table: Table, options: Options) -> Fitted:
    from sklearnex.svm import SVR

    return _svr(SVR, table)


def himalaya_fit(table: Table, options: Options) -> Fitted:
    from himalaya.kernel_ridge import KernelRidge

    model = KernelRidge(RIDGE, kernel="rbf", kernel_params={"gamma": GAMMA})
    return plain(model.fit(table.X, table.y), table)


def gpytorch_fit(table: Table, options: Options) -> Fitted:
    """An exact Gaussian process with the given width and noise, solved by its first prediction."""
    return _gaussian_process(table, options, steps=0)


def gpytorch_grid(table: Table, options: Options) -> Fitted:
    """100 steps of Adam on the marginal likelihood of the labels ±1, in place of a grid."""
    return _gaussian_process(table, options, steps=100)


def _gaussian_process(table: Table, options: Options, steps: int) -> Fitted:
    import gpytorch
    import torch

    torch.set_num_threads(options.threads)
    X = torch.as_tensor(table.X, dtype=torch.float32)
    labels = table.task == "classification"
    y = torch.as_tensor(signs(table.y) if labels else table.y, dtype=torch.float32)

    class Machine(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, rows: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(rows), self.kernel(rows))

    model = Machine()
    model.kernel.outputscale = 1.0
    model.likelihood.noise = RIDGE
    model.kernel.base_kernel.lengthscale = (2 * GAMMA) ** -0.5
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        (-likelihood(model(X), y)).backward()
        optimiser.step()
    model.eval()

    def predict(rows: Any) -> Any:
        with torch.no_grad(), gpytorch.settings.skip_posterior_variances():
            found = model(torch.as_tensor(rows, dtype=torch.float32)).mean.numpy()
        return found > 0 if labels else found

    predict(table.X[:1])
    return Fitted(predict, facts={"cv error": None} if labels else {})
