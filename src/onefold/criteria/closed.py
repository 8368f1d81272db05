r"""Criteria of the smoother as a whole: no splits, one number per μ.

With r = R_b y, n rows and t targets, weights v folded in and divided by their mean:

    press     −(1/nt) Σ v_i e_i²                  e the leave-one-out residuals
    gcv       −(1/nt) ‖r‖² / (tr R_b / n)²        generalised cross-validation
    cost      −(1/nt) [ yᵀR_b y + δ² tr R_b ]     equation 29 of [ding2011]_
    evidence  −½ Σ_targets [ m log(yᵀR_b y/(mμ)) + log det G + m (1 + log 2π) ]

The evidence is that of a Gaussian process with noise-to-signal ratio μ whose scale is set to its
best value; with an intercept it is the restricted likelihood, m = n − 1, otherwise m = n.

The cost is the expected minimum of the regularised least-squares functional. It falls to 0 with μ,
so that it compares kernels at one μ; a search over several μ always prefers the small ones. Its
noise variance δ² is not part of the model: here it is half the mean squared difference between the
target of a row and that of its nearest neighbour (up to 2000 rows, sampled), the same for every
kernel.

Span and radius-margin see the machine as one without errors in a larger space: squared errors with the
ridge μ are a hard margin in the space of K̃ = K + μV⁻¹, where every row has a direction of its own. What
they are worth: ``docs/manual/criteria.md``.

**Span.** The span S_i of row i is its distance in that space from the affine hull of all others (from
their linear hull without an intercept). With M the bordered matrix of K̃, R_b that of √V K √V and
α = √V R_b √V y / μ,

    S_i² = 1 / (M⁻¹)_ii = μ / (v_i (R_b)_ii)
    α_i S_i² = (R_b √V y)_i / (√v_i (R_b)_ii) = y_i − f₋ᵢ(x_i)

with f₋ᵢ trained without row i. For a support vector machine this holds while its support vectors stay
the same; for least squares, where every row is one, it always does. So the span rule costs what
leave-one-out predictions cost:

    classification   −Σ v_i Ψ(y_i α_i S_i² − 1) / Σ v_i,    Ψ(z) = 1/(1 + exp(−5z))
    regression       −Σ v_i |α_i| S_i² / Σ v_i              the mean absolute leave-one-out error

y_i α_i S_i² − 1 = −y_i f₋ᵢ(x_i) is positive where row i is misclassified. A step in place of Ψ would
count errors; Ψ with the slope of Chapelle, Vapnik, Bousquet and Mukherjee (2002) ties less. The rule for
regression is that of Chang and Lin (2005) without a tube. Several targets, and the one-vs-rest columns
of several classes, are averaged.

**Radius and margin.**

    −(1/nt) R̃² Σ_targets ‖w̃‖²,    ‖w̃‖² = αᵀK̃α = yᵀR_b y / μ,
    R̃² = max_β Σ β_i K̃_ii − βᵀK̃β    over β ≥ 0, Σ β_i = 1

‖w̃‖² is the inverse square of the margin, R̃ the radius of the smallest ball around the rows and β the
weights of its centre. For support vector machines R̃²‖w̃‖²/n bounds the expected error (Vapnik; Chapelle
et al. 2002). In least squares rows beyond the margin pull back, y_i α_i < 0, so that it is that formula
and no bound, and for regression it has no more behind it than S_i ≤ 2R̃. A row of little weight lies far
from all others, and alone makes the ball large: use it with weights of similar size.

With g_i = K̃_ii − 2(K̃β)_i, the squared distance of row i from the centre up to a constant, a step moves
weight to the farthest row i from the row j that gains most by it, (g_i − g_j)² / ‖φ_i − φ_j‖², in closed
form. The objective is a lower bound of R̃², the largest distance from the centre an upper one, and their
difference is max g − βᵀg: steps end where it is 1e-8 of the objective. Some n to 5 n steps from β = 1/n,
each of O(n) for a ridge: O(n²) in all. All ridges go side by side.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.neighbors import NearestNeighbors

from onefold.approximations import Model, Problem, WholeModel
from onefold.criteria.base import Criterion, Scored, Scoring, Task
from onefold.criteria.heldout import SumCriterion
from onefold.heldout import Splits, sample_rows
from onefold.linalg import Array, asarray_like, host_array, namespace
from onefold.machine.threads import check_stop
from onefold.rows import to_host

# Rows whose nearest neighbours give δ², at most; chosen, not measured.
_NOISE_ROWS = 2000
# Slope of Ψ: that of Chapelle, Vapnik, Bousquet and Mukherjee (2002).
_SLOPE = 5.0
# Share of R̃² that the bounds may differ by where steps end; chosen, not measured.
_TOLERANCE = 1e-8
# Maximum number of steps for each row; some 1 to 5 are usual.
_MAX_STEPS_PER_ROW = 200
# Maximum number of steps for few rows; chosen, not measured.
_MAX_STEPS_OF_FEW = 2000
# Steps from one comparison of the bounds to the next; chosen, not measured.
_STEPS_PER_CHECK = 20
# Relative rounding error of float64.
_EPS = float(np.finfo(np.float64).eps)


def known_costs(model: WholeModel, problem: Problem, alphas: Any) -> Any:
    """yᵀR_b y (μ, targets), NaN where only rounding is left; 0 where the intercept fits exactly."""
    fit = model.least_costs(alphas)
    size = np.sum(host_array(problem.scaled_targets()) ** 2, axis=0)
    lost = (fit <= problem.n * _EPS * size) & (size > 0)
    return np.where(lost, np.nan, np.where(size > 0, fit, 0.0))


class ModelCriterion(Criterion):
    """A score of the model as a whole, or of its R(μ), which not every model has; it needs no splits."""

    needs: ClassVar[Literal["model", "smoother", "matrix"]] = "smoother"

    @abstractmethod
    def score(self, model: Any, problem: Problem, alphas: Any) -> Any:
        """One score per μ, of a `WholeModel` unless the criterion needs no more than a model."""

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return _ModelScoring(self, problem, task, None)


class _ModelScoring(Scoring):
    def shortcut(self, model: Model, alphas: Any) -> Scored:
        scores = self.criterion.score(model, self.problem, alphas)
        return Scored.of(scores[:, None], np.isfinite(scores))


class LeaveOneOutMean(ModelCriterion):
    """A weighted mean over rows, each predicted from all others, in closed form."""

    needs = "model"

    def __init__(self, of_rows: SumCriterion) -> None:
        self._of_rows = of_rows

    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        splits = Splits.leave_each_out(problem.n)
        task = Task(None, None, None, problem.weight)
        return self._of_rows.start(problem, task, splits).scored(model, alphas).scores[:, 0]


class GeneralisedCV(ModelCriterion):
    """−(1/nt) ‖R_b y‖² / (tr R_b / n)²."""

    def score(self, model: WholeModel, problem: Problem, alphas: Any) -> Any:
        squares = model.residual_squares(alphas).mean(axis=1) / problem.n
        return -squares / (model.trace(alphas) / problem.n) ** 2


class Cost(ModelCriterion):
    """−(1/nt) [yᵀR_b y + δ² tr R_b], summed over targets; δ² is found once for a search."""

    reads_rows = True

    def __init__(self, noise: float = 0.0) -> None:
        self._noise = noise

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return _ModelScoring(Cost(float(np.sum(noise_variance(problem)))), problem, task, None)

    def score(self, model: WholeModel, problem: Problem, alphas: Any) -> Any:
        fit = model.least_costs(alphas).sum(axis=1)
        noise = self._noise * model.trace(alphas)
        cost = (fit + noise) / (problem.n * problem.Y.shape[1])
        # Of an indefinite system it is no minimum, and may be as small as one likes.
        return np.where(model.definite(alphas), -cost, np.nan)


def noise_variance(problem: Problem) -> Any:
    """δ² of each target, from differences between nearest neighbours.

    Neighbours agree in the function and differ in the noise: E (y_i − y_j)² → 2 δ² as rows fill
    the space. O(n d) for the distances of at most 2000 sampled rows to all others; with a precomputed
    kernel the distances are those in its feature space, k_ii + k_jj − 2 k_ij.
    """
    n = problem.n
    if n < 2:
        return np.zeros(problem.Y.shape[1])
    X = to_host(problem.X)
    Y = problem.targets
    rows = sample_rows(np.arange(n), _NOISE_ROWS, np.random.default_rng(0))
    if problem.precomputed:
        diagonal = np.diagonal(X)
        squares = diagonal[rows, None] + diagonal[None, :] - 2 * X[rows]
        nearest = np.argsort(squares, axis=1, kind="stable")[:, :2]
    else:
        nearest = NearestNeighbors(n_neighbors=2).fit(X).kneighbors(X[rows], return_distance=False)
    # Among duplicates a row need not come first in its own list.
    neighbours = np.where(nearest[:, 0] == rows, nearest[:, 1], nearest[:, 0])
    return np.mean((Y[rows] - Y[neighbours]) ** 2, axis=0) / 2


class Evidence(ModelCriterion):
    """The profiled log marginal likelihood, summed over targets."""

    def score(self, model: WholeModel, problem: Problem, alphas: Any) -> Any:
        # A target that the intercept fits exactly has no likelihood, and every kernel is as good there
        # as any other: it does not count.
        fit = known_costs(model, problem, alphas)
        constant = fit == 0
        fit = np.where(constant, 1.0, fit / np.asarray(alphas, dtype=float)[:, None])
        m = problem.n - int(problem.fit_intercept)
        logdet = model.logdet(alphas)[:, None]
        if problem.root_weight is not None:
            logdet = logdet - 2 * np.sum(np.log(host_array(problem.root_weight)))
        terms = -0.5 * (m * np.log(fit / m) + logdet + m * (1 + np.log(2 * np.pi)))
        return np.sum(np.where(constant, 0.0, terms), axis=1)


class SmoothStep(SumCriterion):
    """−mean Ψ(−y f) over rows and targets ±1."""

    def targets(self, problem: Problem, task: Task) -> Array:
        xp = namespace(problem.Y)
        Y = problem.Y
        offset = xp.zeros_like(Y) + asarray_like(problem.offset, Y)
        return xp.concat([xp.sign(Y + offset), offset], axis=1)

    def terms(self, predictions: Array, targets: Array) -> Array:
        xp = namespace(predictions)
        t = predictions.shape[2]
        margins = targets[None, :, :t] * (predictions + targets[None, :, t:])
        return (1.0 - xp.tanh(margins * (_SLOPE / 2))) / 2  # Ψ without an exponential that overflows


class AbsoluteError(SumCriterion):
    """−mean |y − f| over rows and targets."""

    def terms(self, predictions: Array, targets: Array) -> Array:
        return namespace(predictions).abs(predictions - targets[None, ...])


class RadiusMargin(ModelCriterion):
    """−(1/nt) R̃² ‖w̃‖², summed over targets."""

    needs = "matrix"

    def score(self, model: WholeModel, problem: Problem, alphas: Any) -> Any:
        mu = np.asarray(alphas, dtype=np.float64)
        norms = known_costs(model, problem, mu).sum(axis=1) / mu
        radii = model.squared_radii(mu)
        if radii is None:
            root = problem.root_weight
            share = np.ones(problem.n) if root is None else host_array(root) ** -2.0
            radii = squared_radii(host_array(model.kernel_matrix()), mu[:, None] * share[None, :])
            radii[~model.definite(mu)] = np.nan  # an indefinite matrix has no ball
        return -radii * norms / (problem.n * problem.Y.shape[1])


def squared_radii(K: Any, shifts: Any) -> Any:
    """R̃² of K + diag(shift) for each row of `shifts` (m, n): (m,); NaN where the steps run out.

    K is overwritten: it is centred, which leaves distances as they are and their digits larger.
    """
    n = len(K)
    converged = np.full(len(shifts), np.nan)  # R̃² of the balls that have converged
    numbers = np.arange(len(shifts))
    mean = K.mean(axis=0)
    K -= mean[None, :]
    K -= mean[:, None] - mean.mean()
    shifts = np.asarray(shifts, dtype=np.float64)
    diagonal = np.diagonal(K)[None, :] + shifts
    beta = np.full(shifts.shape, 1.0 / n)
    g = diagonal - 2.0 * (K.mean(axis=1)[None, :] + shifts / n)
    for step in range(max(_MAX_STEPS_PER_ROW * n, _MAX_STEPS_OF_FEW)):
        if step % _STEPS_PER_CHECK == 0:
            check_stop()
            inner = np.sum(beta * g, axis=1)
            radii = (np.sum(beta * diagonal, axis=1) + inner) / 2
            open_ = g.max(axis=1) - inner > _TOLERANCE * radii
            converged[numbers[~open_]] = radii[~open_]
            if not open_.any():
                break
            if not open_.all():
                numbers = numbers[open_]
                shifts = shifts[open_]
                diagonal = diagonal[open_]
                beta = beta[open_]
                g = g[open_]
        _move_weight(K, shifts, diagonal, beta, g)
    return converged


def _move_weight(K: Any, shifts: Any, diagonal: Any, beta: Any, g: Any) -> None:
    """One step of every ball: weight goes from one row to another, β and g are overwritten."""
    balls = np.arange(len(g))
    i = g.argmax(axis=1)
    above = g[balls, i][:, None] - g
    distances = diagonal[balls, i][:, None] + diagonal - 2.0 * K[i]
    distances[balls, i] = 1.0
    gains = above * (above / distances)  # squares leave the range of float64 long before
    j = np.where(beta > 0, gains, -1.0).argmax(axis=1)
    available = beta[balls, j]
    move = np.minimum(above[balls, j] / (2.0 * distances[balls, j]), available)
    beta[balls, i] += move
    beta[balls, j] = available - move  # exactly 0 where all of it moves
    g -= (2.0 * move)[:, None] * (K[i] - K[j])
    g[balls, i] -= 2.0 * move * shifts[balls, i]
    g[balls, j] += 2.0 * move * shifts[balls, j]
