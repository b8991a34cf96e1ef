"""Learners find the structure of a kernel. Siblings never import each other; all return the same value."""
