"""From a fitted kernel to plain data and words."""

from mercer.explain.narrate import Column
from mercer.explain.summary import ComponentSummary, Outcome, Scores, Summary, summarise

__all__ = ["Column", "ComponentSummary", "Outcome", "Scores", "Summary", "summarise"]
