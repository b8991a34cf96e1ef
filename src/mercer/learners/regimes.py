"""The forms of a change surface: the kernels of the regimes, what holds in all of them, and changes of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from mercer.compute.surfaces import shares, values_in
from mercer.fitting.periods import spread_rows, typical_gap
from mercer.kernels.algebra import structure
from mercer.kernels.blend import FEATURES, ONE_COLUMN, Blend, Surface, blend, surface
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression, Parameter, Sum, build_base, sum_of
from mercer.kernels.parameters import bind
from mercer.kernels.text import parse
from mercer.learners.contract import Candidate, Learner

TRANSITION = 4.4  # widths from a tenth to nine tenths of a sigmoid: 2 log 9


@dataclass(frozen=True)
class RegimeForm:
    """Kernels of the regimes (empty: to be found), what holds everywhere, and the surface."""

    kernels: tuple[Expression | Learner, ...]
    shared: Expression | None
    kind: str  # of the surface: "linear", "rks" or "gp"
    features: int | None
    on: tuple[int | str, ...]
    columns: tuple[int, ...]
    dimensions: int

    @property
    def open(self) -> bool:
        """Whether the kernels of the regimes are to be found."""
        return not self.kernels

    @property
    def learners(self) -> tuple[Learner | None, ...]:
        """The learner of each regime that has one."""
        return tuple(None if isinstance(k, Expression) else k for k in self.kernels) or (None,)

    def expressions(self, regimes: int, alone: Expression | None, tried: Sequence[str] = ()) -> list[Expression]:
        """Return the kernels to fit: those `tried` for one regime; for more, `alone` is the best of them, fitted."""
        if not self.open:
            parts = [k if isinstance(k, Expression) else parse("SE") for k in self.kernels]
            return [self._bound(self._with_shared(parts[0] if regimes == 1 else self._blend(parts[:regimes])))]
        if regimes == 1:
            return [self._bound(self._with_shared(parse(text))) for text in tried]
        found = [self._bound(self._with_shared(self._blend([parse(text)] * regimes))) for text in ("SE", "C")]
        if alone is not None and self.shared is None:  # what holds everywhere, with a change of level on it
            levels = self._bound(self._blend([parse("C")] * regimes))
            found.append(sum_of([alone, levels]))
            repeats = [term for term in _terms(alone) if any(leaf.spec.has("period") for leaf in term.leaves())]
            if repeats:
                smooth = self._bound(self._blend([parse("SE")] * regimes))
                found.append(sum_of([*repeats, smooth]))
        return found

    def _blend(self, parts: Sequence[Expression]) -> Blend:
        along_one = self.kind == "linear" and len(self.on or self.columns) == 1
        features = self.features if self.kind in FEATURES else None
        return blend(parts, "CP" if along_one else self.kind, features=features, on=self.on or self.columns)

    def _with_shared(self, expression: Expression) -> Expression:
        return expression if self.shared is None else sum_of([self.shared, expression])

    def _bound(self, expression: Expression) -> Expression:
        return bind(expression, self.dimensions, default=self.columns)


def weigh_regimes(candidates: Iterable[Candidate]) -> dict[int, float]:
    """Return the score of each number of regimes, averaged over the kernels that were tried with it.

        -2 log sum_k exp(-score_k / 2)

    In the scores of a learner that looks for kernels is the price of one among M of them, 2 log M: so this is the mean
    over the kernels, all as likely before. Where many are tried, the best of them says too much for its number.
    """
    best: dict[int, dict[Expression, float]] = {}
    for candidate in candidates:
        step = candidate.step
        if step.kind == "regimes" and step.rows is None and np.isfinite(candidate.score):
            own, kernel = best.setdefault(step.number, {}), structure(candidate.expression)
            own[kernel] = min(candidate.score, own.get(kernel, np.inf))
    return {count: -2.0 * float(logsumexp([-0.5 * score for score in own.values()])) for count, own in best.items()}


def sharp_changes(own: Blend | None, X: Array) -> int:
    """Count the change points that take place between two neighbouring rows, so that their width says nothing."""
    if own is None or own.surface.kind != "CP":
        return 0
    widths = np.array(own.surface.parameter("width").values)
    return int(np.sum(TRANSITION * widths <= typical_gap(X[:, own.surface.columns[0]])))


def hold_centres(own: Blend, X: Array) -> Blend:
    """Return the change surface with the centres of a GP held at rows that lie far from each other."""
    if own.surface.kind != "gp" or own.surface.parameter("centres").values is not None:
        return own
    rows = spread_rows(X[:, list(own.surface.columns)], own.surface.features)
    held = Parameter("centres", tuple(map(float, np.tile(rows.ravel(), own.surface.regimes - 1))), fixed=True)
    return replace(own, surface=own.surface.with_parameter(held))


def _terms(expression: Expression) -> tuple[Expression, ...]:
    return expression.terms if isinstance(expression, Sum) else (expression,)


def find_blend(expression: Expression) -> Blend | None:
    """Return the change surface of a kernel: the kernel itself or one of its summands."""
    return next((term for term in _terms(expression) if isinstance(term, Blend)), None)


def blend_in(expression: Expression) -> Blend:
    """Return the change surface of a kernel that has one."""
    own = find_blend(expression)
    assert own is not None
    return own


def with_blend(expression: Expression, new: Expression | None) -> Expression:
    """Return the kernel with its change surface replaced, or taken out."""
    terms = [new if isinstance(term, Blend) else term for term in _terms(expression)]
    return sum_of([term for term in terms if term is not None])


def regime_shares(own: Blend, X: Array) -> Array:
    """Return how much each regime holds at the rows, (regimes, rows)."""
    return shares(own.surface, values_in(own.surface), X)


def join_surfaces(before: Surface, added: Surface) -> Array:
    """Return the values of a surface with the functions of both; what belongs to no function is that of the first."""
    values: list[float] = []
    for spec in before.specs:
        values += before.parameter(spec.name).values or ()
        if "component" in spec.shape:
            values += added.parameter(spec.name).values or ()
    return np.array(values)


def simplify_regimes(expression: Expression) -> Expression:
    """Return the simple model of Algorithm 2: RBF kernels in the regimes; constants stay constants."""
    own = blend_in(expression)
    rbf = build_base("SE", *sorted({c for leaf in own.leaves() for c in leaf.columns} | set(own.surface.columns)))
    parts = tuple(part if part in (None, rbf, build_base("C")) else rbf for part in own.parts)
    return with_blend(expression, replace(own, parts=parts))


def replace_regime(
    expression: Expression, regime: int, columns: Sequence[int], kernels: Sequence[str]
) -> Iterator[Expression]:
    """Yield the kernel with other kernels in one regime; the change surface has no values, as its place may move."""
    own = blend_in(expression)
    for text in kernels:
        new, part = bind(parse(text), 1 + max(columns), default=columns), own.parts[regime]
        if part is None or structure(part) != new:
            parts = tuple(new if i == regime else part for i, part in enumerate(own.parts))
            yield with_blend(expression, structure(replace(own, parts=parts)))


def remove_regime(expression: Expression, regime: int) -> Expression:
    """Return the kernel with one regime taken out; the change points or functions of the others stay."""
    own = blend_in(expression)
    parts = [part for i, part in enumerate(own.parts) if i != regime]
    if len(parts) == 1:
        return with_blend(expression, parts[0])
    gone = max(0, regime - 1)  # its function w_i; that of the first regime is zero, so the second's goes
    if own.surface.kind == "CP":
        gone = min(regime, len(parts) - 1)  # the change point after it, the last for the last
    per = own.surface.components // (own.surface.regimes - 1)
    kept: dict[str, tuple[float, ...] | None] = {}
    for parameter, spec in zip(own.surface.parameters, own.surface.specs, strict=True):
        values = parameter.values
        if values is not None and "component" in spec.shape:
            rows = np.array(values).reshape(own.surface.regimes - 1, per, -1)
            values = tuple(float(v) for v in np.delete(rows, gone, axis=0).ravel())
        kept[parameter.name] = values
    features = own.surface.features if own.surface.kind in FEATURES else None
    fewer = surface(own.surface.kind, len(parts), features=features, on=own.surface.dims or (), **kept)
    return with_blend(expression, Blend(tuple(parts), fewer))


def order_regimes(expression: Expression, X: Array) -> Expression:
    """Return the kernel with its two regimes in the order of the first column; change points are in order anyway.

    Which regime is the first is not determined: with w -> -w they change places.
    """
    own = find_blend(expression)
    if own is None or own.surface.regimes != 2 or own.surface.kind in ONE_COLUMN:
        return expression
    s = regime_shares(own, X)
    first, second = s @ X[:, own.surface.columns[0]] / np.maximum(s.sum(axis=1), 1e-12)
    return expression if first <= second else with_blend(expression, reverse_regimes(own))


def reverse_regimes(own: Blend) -> Blend:
    """Return the same change surface with its two regimes in the other order."""
    turned = own.surface
    for name in {"linear": ("slope", "bias"), "rks": ("amplitude",), "gp": ("weights",)}[turned.kind]:
        parameter = turned.parameter(name)
        turned = turned.with_parameter(replace(parameter, values=tuple(-v for v in parameter.values or ())))
    return Blend(own.parts[::-1], turned)
