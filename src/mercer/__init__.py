"""Mercer learns the kernel of a Gaussian process from data, and explains what it learned."""
