"""The true kernel where its matrix does not fit: preconditioned conjugate gradients."""

from onefold.approximations.iterative.model import ConjugateGradients

__all__ = ["ConjugateGradients"]
