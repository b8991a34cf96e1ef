"""Bayesian optimisation: the space that is searched, the surrogate, and where to try next."""

from mercer.optimise.progress import print_progress

__all__ = ["print_progress"]
