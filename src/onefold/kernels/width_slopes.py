r"""Derivatives of a sum over a kernel matrix in the widths of the kernel.

    ∂/∂ log γ_j  Σ_ab W_ab k(x_a, x_b) = 2p Σ_a x_aj g_aj,     g_a = Σ_b W_ab ∇ₓ k(x_a, x_b)

for a symmetric W and a kernel in which feature j is multiplied by γ_j^p (`width_power`: 1/2 for squared
distances and inner products, 1 for absolute differences). A stationary kernel is a function of the
γ_j^p (x_j − z_j), so that ∂k/∂ log γ_j = p (x_j − z_j) ∂k/∂x_j, and for a symmetric W both rows of a
pair give the same half of it. A polynomial kernel is one of Σ_j γ_j x_j z_j: ∂k/∂ log γ_j = x_j ∂k/∂x_j.
The sum over j is the derivative in the logarithm of one γ, whatever the metric.

At a kink, where ∇ₓ k is left out, the pair has x_j = z_j and adds nothing.
"""

from __future__ import annotations

import numpy as np

from onefold.kernels.base import Kernel, Product, Sum
from onefold.kernels.tiles import common_origin, gradient_product, gram
from onefold.kernels.width import WidthKernel
from onefold.linalg import Array, double, is_sparse, namespace, ones, to_numpy


def has_width_slopes(kernel: Kernel) -> bool:
    """Whether all widths of a kernel have a derivative here; a user's own kernel has none."""
    if isinstance(kernel, Sum | Product):
        return has_width_slopes(kernel.left) and has_width_slopes(kernel.right)
    return isinstance(kernel, WidthKernel) or not kernel.has_width


def width_slopes(kernel: Kernel, X: Array, W: Array) -> Array:
    r"""The derivative in every log γ_j of Σ_ab W_ab k(x_a, x_b), W symmetric: a NumPy array (d,).

    O(n² d) time, one array of n × d, and for a product of kernels one of n × n.
    """
    if isinstance(kernel, Sum):
        parts = [part for part in (kernel.left, kernel.right) if part.has_width]
        return np.sum([width_slopes(part, X, W) for part in parts], axis=0)
    if isinstance(kernel, Product):
        pairs = [(kernel.left, kernel.right), (kernel.right, kernel.left)]
        slopes = [width_slopes(one, X, W * gram(other, X)) for one, other in pairs if one.has_width]
        return np.sum(slopes, axis=0)
    if not isinstance(kernel, WidthKernel):
        raise ValueError(f"{kernel!r:.80} has no derivative in its width; use one of onefold.kernels.")
    gradients = gradient_product(kernel, X, X, ones(X.shape[0], W[:, 0])[:, None], W)[:, :, 0]
    if is_sparse(X):
        products = np.asarray(double(X).multiply(gradients).sum(axis=0)).reshape(-1)
    else:
        origin = common_origin(kernel, X)  # the gradients of a stationary kernel add up to 0
        rows = double(X) if origin is None else double(X) - origin[None, :]
        products = to_numpy(namespace(X).sum(rows * gradients, axis=0))
    return 2.0 * kernel.width_power * products
