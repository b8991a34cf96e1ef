"""Explanations and models as they show themselves in a notebook: plain HTML without scripts, all text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from mercer.explain.classes import ClassExplanation
from mercer.explain.explanation import Explanation, name_bounds
from mercer.explain.wording import number, percent
from mercer.explain.words import scores_phrase
from mercer.kernels.mathml import kernel_to_html
from mercer.model.classes import FittedClasses
from mercer.model.fitted import Fitted
from mercer.model.grid import FittedGrid

MOST_KERNEL = 1500  # characters


def explanation_to_html(explanation: Explanation) -> str:
    """Return what is asked first, the components with their shares, and, folded, the rest."""
    answers = "".join(f"<li>{escape(answer.sentence)}</li>" for answer in explanation.answers)
    parts = [(component.share, component.sentence) for component in explanation.main_components]
    parts.append((explanation.noise_share, explanation.noise_sentence))
    rows = [(percent(share), sentence) for share, sentence in parts]
    more = [*(effect.sentence for effect in explanation.effects), *explanation.interactions]
    beyond = "" if explanation.extrapolation is None else explanation.extrapolation.sentence
    more += [beyond] if beyond else []
    more += [explanation.residual_sentence, *explanation.not_found_sentences]
    chosen = [] if explanation.chosen is None else [explanation.chosen.sentence]
    details = [*chosen, f"{explanation.outcome.found_by} {explanation.outcome.sentence}"]
    details += [scores_phrase(explanation.scores), *explanation.notes]
    body = f"<ul>{answers}</ul><p>{escape(explanation.structure.sentence)}</p>{_table(rows)}{_paragraphs(more)}"
    kernel = f"<p><code>{escape(explanation.kernel[:MOST_KERNEL])}</code></p>"
    return _card(explanation.headline, body, _fold("How it was found", kernel + _paragraphs(details)))


def class_explanation_to_html(explanation: ClassExplanation) -> str:
    """Return how good a classifier is, what is mixed up and which columns count, and, folded, the rest."""
    said = [explanation.error_sentence, explanation.confusion_sentence, explanation.relevance_sentence]
    counts = [(name, f"{count:,} rows") for name, count in zip(explanation.classes, explanation.counts, strict=True)]
    chosen = [] if explanation.chosen is None else [explanation.chosen.sentence]
    kernel = f"<p><code>{escape(explanation.kernel[:MOST_KERNEL])}</code></p>"
    folded = _fold("How it was found", kernel + _paragraphs([*chosen, explanation.found_by, *explanation.notes]))
    return _card(explanation.headline, _paragraphs(filter(None, said)) + _table(counts), folded)


def fitted_to_html(name: str, fitted: Fitted) -> str:
    """Return a fitted regression: its kernel as mathematics, noise, scores, and how the fit ended."""
    scores, target = fitted.scores, fitted.training.target_name or "the target"
    members = len(fitted.mixture.members)
    rows = [
        ("learned from", f"{fitted.training.count:,} rows, {_write_columns(fitted.columns.names)}"),
        ("noise", f"standard deviation {number(fitted.noise**0.5)}"),
        ("log evidence", f"{scores.log_evidence:.2f} (BIC {scores.bic:.2f}, {scores.parameters} parameters)"),
        ("predicts with", "this kernel" if members == 1 else f"an average of {members} kernels, this one first"),
        ("fit", _write_end(fitted)),
        ("inference", fitted.choice.reason),
    ]
    names = fitted.columns.names if fitted.columns.has_names else None
    folded = _fold("Notes", _paragraphs(fitted.notes)) if fitted.notes else ""
    return _card(f"{name} of {target}", kernel_to_html(fitted.kernel, names) + _table(rows), folded)


def fitted_classes_to_html(name: str, fitted: FittedClasses) -> str:
    """Return a fitted classifier."""
    left_out, labels = fitted.machine.left_out, fitted.training.labels
    wrong = left_out[left_out >= 0] != labels[left_out >= 0]  # as in the explanation
    strength = f"cost C = {fitted.cost:g}" if fitted.nu is None else f"nu = {fitted.nu:g}"
    rows = [
        ("learned from", f"{len(fitted.training.X):,} rows, {_write_columns(fitted.columns.names)}"),
        ("classes", ", ".join(map(str, fitted.training.classes))),
        ("misclassified", f"{percent(float(wrong.mean()) if len(wrong) else fitted.error)} of rows left out"),
        ("machine", strength),
    ]
    names = fitted.columns.names if fitted.columns.has_names else None
    kernel = "" if fitted.kernel is None else kernel_to_html(fitted.kernel, names)
    folded = _fold("Notes", _paragraphs(fitted.notes)) if fitted.notes else ""
    return _card(f"{name} of {fitted.training.target_name or 'the target'}", kernel + _table(rows), folded)


def fitted_grid_to_html(name: str, fitted: FittedGrid) -> str:
    """Return a fitted grid."""
    shape = " x ".join(f"{side:,}" for side in fitted.grid.values.shape)
    rows = [
        ("cells", shape),
        ("noise", f"standard deviation {number(fitted.noise**0.5)}"),
        ("log evidence", f"{fitted.log_evidence:.2f} ({fitted.evidence_is})"),
        ("fit", _write_end(fitted)),
        ("inference", fitted.choice.reason),
    ]
    names = None if fitted.grid.names is None else list(fitted.grid.names)
    return _card(name, kernel_to_html(fitted.kernel, names) + _table(rows), "")


def _write_end(fitted: Fitted | FittedGrid) -> str:
    """Say how a fit ended."""
    if isinstance(fitted, Fitted) and fitted.at_bounds:
        names, reached = fitted.columns.names, []
        for bound in name_bounds(fitted.kernel, fitted.at_bounds):
            of = "" if bound.symbol is None else f" of {bound.symbol}({', '.join(names[d] for d in bound.columns[:3])})"
            reached.append(f"{bound.parameter}{of} at its {bound.side} bound")
        return f"converged at the edge of the search: {', '.join(dict.fromkeys(reached))}"
    return fitted.status if fitted.message in ("", fitted.status) else f"{fitted.status}: {fitted.message}"


def _write_columns(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return f"inputs {shown}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _card(title: str, body: str, folded: str) -> str:
    return f'<div class="mercer"><h4>{escape(title)}</h4>{body}{folded}</div>'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td style="text-align:right;white-space:nowrap;vertical-align:top">{escape(label)}</td>'
        f'<td style="text-align:left">{escape(text)}</td></tr>'
        for label, text in rows
    )
    return f"<table>{cells}</table>"


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def _fold(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"
