"""From a fitted kernel to plain data and words."""

from mercer.explain.explanation import ComponentExplanation, Explanation, Outcome, Provenance, Scores, explain
from mercer.explain.subject import Subject
from mercer.explain.wording import Column

__all__ = ["Column", "ComponentExplanation", "Explanation", "Outcome", "Provenance", "Scores", "Subject", "explain"]
