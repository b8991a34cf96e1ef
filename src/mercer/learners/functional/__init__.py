"""Kernel functional optimisation (KFO, Arun Kumar et al. 2021): kernels found by Bayesian optimisation."""
