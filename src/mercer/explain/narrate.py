"""The words of a component, by rule: what it is, what it is called, what it does beyond the data."""

from mercer.explain.onward import continuation
from mercer.explain.phrases import Joint, drifts, phrase, sentence
from mercer.explain.titles import distinct, title

__all__ = ["Joint", "continuation", "distinct", "drifts", "phrase", "sentence", "title"]
