r"""f(x) = b + Σ_i w_i f_i(x) as tables and functions of C in float32, and the same values in NumPy.

Tables hold centres about o, their mean in float32, in units 2^e of their extent: rows that lie far from
the origin keep their digits, and distances are sums of squared differences. With

    u = 2^−e S (x − o),   z_j = 2^−e S (x_j − o),   s = 2^−e S o                        (1)

for a row x and the centres x_j, the kernels are functions of

    γ ‖S x − S x_j‖²    = γ 4^e Σ_k (u_k − z_jk)²                                       (2)
    γ Σ_k w_k |x_k − x_jk| = γ 2^e Σ_k |u_k − z_jk|,   S = diag(w)                      (3)
    γ S x · S x_j + c   = γ 4^e Σ_k u_k (z_jk + s_k) + a_j,   a_j = γ S o · S x_j + c   (4)

and linear kernels, on their own or added to others, need no centres:

    Σ_j c_j x · x_j = Σ_k v_k (x_k − o_k) + v · o,   v = Σ_j c_j x_j                     (5)

A kernel that is wide is nearly 1 everywhere, and its coefficients are large and cancel. Then

    Σ_j c_j k(x, x_j) = Σ_j c_j + Σ_j c_j (k(x, x_j) − 1)                                 (6)

has the smaller terms; the first sum is a part of b. Sums over centres carry their rounding error along
(Kahan's summation).

What is made from o and 2^−e S is made from their float32 values, so that a row that equals a centre has
the distance 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from onefold import kernels
from onefold.expansions import FittedFunction, GridExpansion
from onefold.export.exportable import check_kernel
from onefold.kernels import Kernel
from onefold.linalg import HostArray, is_sparse

Single: TypeAlias = npt.NDArray[np.float32]

_PAIRS = (kernels.Sum, kernels.Product)
# The largest power that is written as a product.
_MOST_FACTORS = 8
# The s beyond which (1 + s + s²/3) exp(−s) is less than the smallest normal float32 number.
_NO_KERNEL = 100.0
# Constants in a line of the file.
_NUMBERS_PER_LINE = 8
# Centres at which values in float32 and float64 are compared.
_PLACES = 100


def check_function(f: FittedFunction) -> None:
    """Raise if a fitted function cannot be written in C."""
    for _, part in f.parts:
        if isinstance(part, GridExpansion):
            raise ValueError(
                "a model on a grid cannot be written in C, because its tables are too large for a small "
                'device; fit with approximation="nystroem", use SparseLSSVC or SparseLSSVR, or export '
                "it by to_onnx()."
            )
        check_kernel(part.kernel, "written in C")


def single(values: Any, content: str) -> Single:
    """Numbers in float32; raise if float32 cannot hold one of them."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.asarray(values, dtype=np.float64).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(
            f"{content} of the model contain numbers that float32 cannot hold (up to 3.4e38); scale the "
            "features or the targets before fitting, or export the model by to_onnx()."
        )
    return rounded


def number(value: Any) -> str:
    """A float32 number as a constant of C."""
    text = f"{float(value):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def require_room(needed: int, max_bytes: int) -> None:
    """Raise if so many bytes of constants are too many."""
    if needed > max_bytes:
        raise ValueError(
            f"the model needs at least {needed:,} bytes of constants in C, more than max_bytes="
            f"{max_bytes:,}; use fewer centres (SparseLSSVC, SparseLSSVR, or few landmarks of "
            "approximation=Nystroem()), or a larger max_bytes."
        )


@dataclass
class Source:
    """The tables and functions of one file, under construction."""

    name: str
    max_bytes: int
    tables: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    size: int = 0  # bytes of the tables

    @property
    def features(self) -> str:
        """The macro for the number of features."""
        return f"{self.name.upper()}_FEATURES"

    @property
    def outputs(self) -> str:
        """The macro for the number of values of f."""
        return f"{self.name.upper()}_OUTPUTS"

    def table(self, label: str, values: Single) -> str:
        """Add float32 constants (n,) or (n, d); return their name."""
        self.size += values.nbytes
        require_room(self.size, self.max_bytes)
        table = f"{self.name}_{label}"
        shape = "".join(f"[{length}]" for length in values.shape)
        self.tables.append(f"static const float {table}{shape} = {_braced(values)};")
        return table

    def function(self, head: str, body: Sequence[str]) -> None:
        """Add a function; the lines of its body are indented by one step."""
        self.functions.append("\n".join([head, "{", *(f"    {line}" for line in body), "}"]))


def _braced(values: Single) -> str:
    """An initialiser of C."""
    if values.ndim == 2:
        rows = ",\n".join(f"    {_braced(row)}" for row in values)
        return f"{{\n{rows}\n}}"
    texts = [number(value) for value in values]
    starts = range(0, len(texts), _NUMBERS_PER_LINE)
    return "{" + ",\n     ".join(", ".join(texts[i : i + _NUMBERS_PER_LINE]) for i in starts) + "}"


@dataclass(frozen=True)
class Space:
    """Rows u and centres z of equation (1)."""

    label: str
    origin: Single  # (d,): o
    unit: float  # 2^e
    scale: Single  # 2^−e S, one number where S = I, (d,) or (d, d)
    centres: Single  # (m, d): z
    shift: HostArray  # (d,), float64: s

    @classmethod
    def of(cls, label: str, origin: Single, metric: Any, centres: HostArray) -> Space:
        """From centres (m, d) in float64, which need not be about the origin."""
        single(centres, "the features")
        S = np.ones(()) if metric is None else np.asarray(metric.values)
        exact = np.asarray(origin, dtype=np.float64)
        extent = float(np.abs(_mapped(S, centres - exact)).max(initial=0.0))
        unit = math.ldexp(1.0, math.frexp(extent)[1]) if extent > 0 else 1.0
        scale = single(S / unit, "the widths")
        rounded = scale.astype(np.float64)
        moved = single(_mapped(rounded, centres - exact), "the centres")
        return cls(label, origin, unit, scale, moved, _mapped(rounded, exact[None, :])[0])

    def write(self, source: Source) -> None:
        """Add the tables, and the function that moves a row."""
        source.table(f"centres_{self.label}", self.centres)
        name = source.name
        features = source.features
        difference = f"(x[k] - {name}_origin[k])"
        if self.scale.ndim == 2:
            table = source.table(f"scale_{self.label}", self.scale)
            body = [
                f"for (int i = 0; i < {features}; i++) {{",
                "    float sum = 0.0f;",
                f"    for (int k = 0; k < {features}; k++) {{",
                f"        sum += {table}[i][k] * {difference};",
                "    }",
                "    u[i] = sum;",
                "}",
            ]
        else:
            factor = number(self.scale) if self.scale.ndim == 0 else None
            if factor is None:
                factor = source.table(f"scale_{self.label}", self.scale) + "[k]"
            body = [
                f"for (int k = 0; k < {features}; k++) {{",
                f"    u[k] = {factor} * {difference};",
                "}",
            ]
        source.function(f"static void {name}_move_{self.label}(const float *x, float *u)", body)

    def moved(self, x: Single) -> Single:
        """The row u (d,) of a float32 row x (d,)."""
        return _mapped(self.scale, (x - self.origin)[None, :])[0]


def _mapped(S: Any, rows: Any) -> Any:
    """The rows S x, of S = 1, a diagonal or a matrix."""
    return rows @ S.T if S.ndim == 2 else rows * S


class Value(ABC):
    """Kernel values of one row and all centres: an expression of C, and the numbers."""

    @property
    @abstractmethod
    def leaves(self) -> tuple[Leaf, ...]:
        """The kernels that are neither sums nor products."""

    @abstractmethod
    def expression(self, source: Source) -> str:
        """The value at centre j, from the rows u_LABEL."""

    @abstractmethod
    def values(self, x: Single) -> Single:
        """All values, float32 (m,), at a float32 row x (d,)."""


@dataclass(frozen=True)
class Combined(Value):
    """A sum or a product of two kernels."""

    sign: str
    left: Value
    right: Value

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return self.left.leaves + self.right.leaves

    def expression(self, source: Source) -> str:
        return f"({self.left.expression(source)} {self.sign} {self.right.expression(source)})"

    def values(self, x: Single) -> Single:
        left = self.left.values(x)
        right = self.right.values(x)
        return left + right if self.sign == "+" else left * right


@dataclass(frozen=True)
class Leaf(Value):
    """A named kernel: a function of a sum over the features."""

    label: str
    kernel: Any
    space: Space

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return (self,)

    def expression(self, source: Source) -> str:
        return f"{source.name}_kernel_{self.label}(u_{self.space.label}, j)"

    @abstractmethod
    def write(self, source: Source) -> None:
        """Add the function kernel_LABEL(u, j) and its tables."""

    def _write(self, source: Source, summand: Sequence[str], result: Sequence[str]) -> None:
        """Add a function that adds up `summand` over the features k."""
        body = [
            f"const float *z = {source.name}_centres_{self.space.label}[j];",
            "float sum = 0.0f;",
            f"for (int k = 0; k < {source.features}; k++) {{",
            *(f"    {line}" for line in summand),
            "}",
            *result,
        ]
        source.function(f"static float {source.name}_kernel_{self.label}(const float *u, int j)", body)


@dataclass(frozen=True)
class DistanceLeaf(Leaf):
    """A kernel of equations (2) or (3): k = (1 + p) exp(−s), or k − 1 = p + (1 + p) (exp(−s) − 1)."""

    less_one: bool = False  # whether its values are k − 1

    @property
    def _factor(self) -> Single:
        """The factor of the sum over the features."""
        power = 1 if isinstance(self.kernel, kernels.Laplacian) else 2
        factor = self.kernel.gamma * self.space.unit**power
        return single(factor * abs(getattr(self.kernel, "unit", 1.0)), "the widths")

    def write(self, source: Source) -> None:
        kernel = self.kernel
        summand = ["const float difference = u[k] - z[k];", "sum += difference * difference;"]
        s = f"{number(self._factor)} * sum"
        if isinstance(kernel, kernels.Laplacian):
            summand = ["sum += fabsf(u[k] - z[k]);"]
        elif isinstance(kernel, kernels.PowerExponential):
            s = f"powf({s}, {number(np.float32(kernel.power / 2))})"
        elif isinstance(kernel, kernels.Matern):
            s = f"sqrtf({s})"
        result = [f"const float s = {s};"]
        exponential = "expm1f(-s)" if self.less_one else "expf(-s)"
        if getattr(kernel, "nu", 0.5) == 0.5:
            result.append(f"return {exponential};")
        else:
            result.append(f"const float p = {'s' if kernel.nu == 1.5 else 's + s * s / 3.0f'};")
            value = f"{'p + ' if self.less_one else ''}(1.0f + p) * {exponential}"
            limit = "-1.0f" if self.less_one else "0.0f"
            # Beyond it, infinity times 0 may occur. A NaN is not greater, and is kept.
            result.append(f"return s > {number(_NO_KERNEL)} ? {limit} : {value};")
        self._write(source, summand, result)

    def values(self, x: Single) -> Single:
        kernel = self.kernel
        s = self.space.moved(x) - self.space.centres
        if isinstance(kernel, kernels.Laplacian):
            s = self._factor * np.sum(np.abs(s), axis=1)
        else:
            s = self._factor * np.sum(s * s, axis=1)
        if isinstance(kernel, kernels.PowerExponential):
            s = s ** np.float32(kernel.power / 2)
        elif isinstance(kernel, kernels.Matern):
            s = np.sqrt(s)
        p = {0.5: 0 * s, 1.5: s, 2.5: s + s * s / 3}[getattr(kernel, "nu", 0.5)]
        return p + (1 + p) * np.expm1(-s) if self.less_one else (1 + p) * np.exp(-s)


class InnerLeaf(Leaf):
    """A kernel of equation (4); the linear kernel has γ = 1, c = 0 and the power 1."""

    @property
    def _power(self) -> float:
        return float(getattr(self.kernel, "degree", 1.0))

    @property
    def _gamma(self) -> float:
        return float(getattr(self.kernel, "gamma", 1.0)) * self.space.unit**2

    @property
    def _factor(self) -> Single:
        return single(self._gamma, "the widths")

    @property
    def _offsets(self) -> Single:
        """The a_j."""
        shift = self.space.shift
        coef0 = float(getattr(self.kernel, "coef0", 0.0))
        return single(self._gamma * ((self.space.centres + shift) @ shift) + coef0, "the centres")

    def write(self, source: Source) -> None:
        shift = source.table(f"shift_{self.label}", single(self.space.shift, "the centres"))
        offsets = source.table(f"offsets_{self.label}", self._offsets)
        power = self._power
        base = f"{number(self._factor)} * sum + {offsets}[j]"
        if power.is_integer() and power <= _MOST_FACTORS:
            product = " * ".join(["base"] * int(power))
            result = [f"const float base = {base};", f"return {product};"]
        else:
            result = [f"return powf({base}, {number(single(power, ''))});"]
        self._write(source, [f"sum += u[k] * (z[k] + {shift}[k]);"], result)

    def values(self, x: Single) -> Single:
        centres = self.space.centres + single(self.space.shift, "the centres")
        base = self._factor * (centres @ self.space.moved(x)) + self._offsets
        return np.power(base, np.float32(self._power))


@dataclass(frozen=True)
class Term:
    """Σ_j c_j k(x, x_j)."""

    label: str
    value: Value
    coef: Single  # (m, targets)

    @property
    def spaces(self) -> tuple[Space, ...]:
        """Every space that its kernels use, once."""
        return tuple({leaf.space.label: leaf.space for leaf in self.value.leaves}.values())

    def write(self, source: Source) -> None:
        """Add the function term_LABEL(x, out), which adds the term to `out`."""
        name = source.name
        coef = source.table(f"coef_{self.label}", self.coef)
        for leaf in self.value.leaves:
            leaf.write(source)
        body = [
            f"float error[{source.outputs}] = {{0.0f}};",
            *(f"float u_{space.label}[{source.features}];" for space in self.spaces),
            *(f"{name}_move_{space.label}(x, u_{space.label});" for space in self.spaces),
            f"for (int j = 0; j < {len(self.coef)}; j++) {{",
            f"    const float value = {self.value.expression(source)};",
            f"    for (int t = 0; t < {source.outputs}; t++) {{",
            f"        const float summand = {coef}[j][t] * value - error[t];",
            "        const float sum = out[t] + summand;",
            "        error[t] = (sum - out[t]) - summand;",
            "        out[t] = sum;",
            "    }",
            "}",
        ]
        source.function(f"static void {name}_term_{self.label}(const float *x, float *out)", body)

    def values(self, x: Single) -> Single:
        """The term, float32 (targets,), at a float32 row x (d,)."""
        summands = self.value.values(x)[:, None] * self.coef
        return np.asarray(np.sum(summands, axis=0, dtype=np.float64), dtype=np.float32)


@dataclass(frozen=True)
class SingleFunction:
    """f in float32."""

    origin: Single  # (d,)
    intercept: Single  # (targets,), v · o included
    slopes: Single | None  # (targets, d): v of equation (5)
    terms: tuple[Term, ...]

    @property
    def n_centres(self) -> int:
        """Number of kernel terms in the sums."""
        return sum(len(term.coef) for term in self.terms)

    @property
    def stack_bytes(self) -> int:
        """Bytes of the arrays on the stack at once."""
        spaces = max((len(term.spaces) for term in self.terms), default=0)
        return 4 * (spaces * self.origin.size + 2 * self.intercept.size)

    def write(self, source: Source) -> None:
        """Add all tables, and the function values(x, out)."""
        name = source.name
        body = [f"out[t] = {source.table('intercept', self.intercept)}[t];"]
        if self.slopes is not None or self.terms:
            source.table("origin", self.origin)
        if self.slopes is not None:
            slopes = source.table("slopes", self.slopes)
            body += [
                f"for (int k = 0; k < {source.features}; k++) {{",
                f"    out[t] += {slopes}[t][k] * (x[k] - {name}_origin[k]);",
                "}",
            ]
        spaces = {space.label: space for term in self.terms for space in term.spaces}
        for space in spaces.values():
            space.write(source)
        for term in self.terms:
            term.write(source)
        lines = [
            f"for (int t = 0; t < {source.outputs}; t++) {{",
            *(f"    {line}" for line in body),
            "}",
        ]
        lines += [f"{name}_term_{term.label}(x, out);" for term in self.terms]
        if self.slopes is None and not self.terms:
            lines.append("(void)x;")
        source.function(f"static void {name}_values(const float *x, float *out)", lines)

    def values(self, X: Single) -> Single:
        """f at float32 rows X (rows, d), as the functions of C compute it but for the order of sums."""
        out = np.repeat(self.intercept[None, :], len(X), axis=0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for row, x in zip(out, X, strict=True):
                if self.slopes is not None:
                    row += self.slopes @ (x - self.origin)
                for term in self.terms:
                    row += term.values(x)
        return out


class _Builder:
    """Kernel values from kernels; spaces of the same centres and metric are shared."""

    def __init__(self, origin: Single) -> None:
        self._origin = origin
        self._spaces: dict[Any, Space] = {}
        self._leaves = 0

    def value(self, kernel: Any, key: Any, centres: HostArray) -> Value:
        """The values of a kernel at centres (m, d) in float64, which `key` stands for."""
        if isinstance(kernel, _PAIRS):
            sign = "+" if isinstance(kernel, kernels.Sum) else "*"
            left = self.value(kernel.left, key, centres)
            return Combined(sign, left, self.value(kernel.right, key, centres))
        metric = getattr(kernel, "metric", None)
        space = self._spaces.get((key, metric))
        if space is None:
            space = Space.of(str(len(self._spaces)), self._origin, metric, centres)
            self._spaces[key, metric] = space
        label = str(self._leaves)
        self._leaves += 1
        if isinstance(kernel, kernels.Polynomial | kernels.Linear):
            return InnerLeaf(label, kernel, space)
        return DistanceLeaf(label, kernel, space)


def single_function(f: FittedFunction, max_bytes: int) -> SingleFunction:
    """A fitted function with NumPy arrays in float32; raise if it has too many centres."""
    origin = single(_mean_centre(f), "the centres")
    slopes = np.zeros((f.n_targets, origin.size))
    builder = _Builder(origin)
    constant = np.array(f.intercept, dtype=np.float64)
    linear = False
    terms: list[Term] = []
    for weight, part in f.parts:
        coef = weight * np.asarray(part.coef, dtype=np.float64)
        summands = list(_summands(part.kernel))
        curved = [kernel for kernel in summands if not isinstance(kernel, kernels.Linear)]
        n_linear = len(summands) - len(curved)
        if n_linear:
            linear = True
            slopes += n_linear * np.asarray(part.centres.T @ coef).T
        used = np.any(coef != 0, axis=1)
        if not curved or not used.any():
            continue
        require_room(4 * int(used.sum()) * origin.size, max_bytes)
        centres = part.centres[used]
        centres = np.asarray(centres.toarray() if is_sparse(centres) else centres, dtype=np.float64)
        key = id(part.centres), used.tobytes()  # members of a blend may share their centres
        value = builder.value(reduce(kernels.Sum, curved), key, centres)
        if isinstance(value, DistanceLeaf) and _nearly_one(value, centres, coef[used]):
            value = replace(value, less_one=True)
            constant += coef.sum(axis=0)
        terms.append(Term(str(len(terms)), value, single(coef[used], "the coefficients")))
    return SingleFunction(
        origin,
        single(constant + slopes @ origin.astype(np.float64), "the intercepts"),
        single(slopes, "the coefficients") if linear else None,
        tuple(terms),
    )


def _nearly_one(leaf: DistanceLeaf, centres: HostArray, coef: HostArray) -> bool:
    """Whether the terms of equation (6) are smaller than those of the sum itself at some centres."""
    rows = centres[some_places(len(centres))].astype(np.float32)
    weight = np.abs(coef).sum(axis=1)
    mean = np.mean([np.dot(leaf.values(x), weight) for x in rows])
    return bool(mean > 0.5 * weight.sum())


def some_places(count: int) -> Any:
    """Some of the numbers from 0 to `count`, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, _PLACES)).astype(int))


def _mean_centre(f: FittedFunction) -> HostArray:
    """The mean (d,) of all centres; the origin where there is none."""
    count = 0
    total = np.zeros(f.n_features or 0)
    for _, part in f.parts:
        count += part.centres.shape[0]
        total += np.asarray(part.centres.sum(axis=0), dtype=np.float64).reshape(-1)
    return total / max(count, 1)


def _summands(kernel: Kernel) -> Iterator[Kernel]:
    """The kernels that add up to a kernel."""
    if isinstance(kernel, kernels.Sum):
        yield from _summands(kernel.left)
        yield from _summands(kernel.right)
    else:
        yield kernel
