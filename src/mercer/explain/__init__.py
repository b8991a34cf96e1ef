"""From a fitted kernel to plain data and words."""

from mercer.explain.claims import Claim, ClaimEvidence
from mercer.explain.components import ComponentExplanation
from mercer.explain.explanation import Explanation, Outcome, Scores, explain
from mercer.explain.subject import Subject, subject_of
from mercer.explain.wording import Column
from mercer.explain.words import say, words_for

__all__ = [
    "Claim", "ClaimEvidence", "Column", "ComponentExplanation", "Explanation", "Outcome", "Scores", "Subject",
    "explain", "say", "subject_of", "words_for",
]  # fmt: skip
