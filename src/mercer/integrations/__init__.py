"""Mercer inside other libraries; each module needs its library, which Mercer itself does without."""
