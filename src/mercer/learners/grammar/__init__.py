"""Compositional kernel search (CKS) and the Automatic Statistician's grammar (METHODS 3)."""
