"""From a fitted kernel to plain data and words."""

from mercer.explain.explaining import Provenance, explain
from mercer.explain.explanation import ComponentExplanation, Explanation, Outcome, Scores
from mercer.explain.subject import Subject
from mercer.explain.wording import Column

__all__ = ["Column", "ComponentExplanation", "Explanation", "Outcome", "Provenance", "Scores", "Subject", "explain"]
