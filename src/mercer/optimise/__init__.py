"""Bayesian optimisation: the space that is searched, what to try next, and what was learned on the way."""
