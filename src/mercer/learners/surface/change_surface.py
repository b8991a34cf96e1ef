"""`ChangeSurface`: the settings of a change surface to learn, and what learning returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

from mercer.errors import InputError
from mercer.kernels.blend import MOST_REGIMES
from mercer.kernels.expression import Expression
from mercer.kernels.parameters import bind
from mercer.kernels.text import parse
from mercer.kernels.units import Units, to_scaled_units
from mercer.learners.contract import Context, Learned, Learner
from mercer.learners.surface.forms import Form
from mercer.learners.surface.regimes import Plan, Regimes

ROWS = 10  # for each regime: with fewer nothing can be said about what holds there
AUTO = "auto"
KINDS = (AUTO, "linear", "rks", "gp")

Kernel = str | Expression | Learner


@dataclass(frozen=True)
class ChangeSurface(Learner):
    """Regimes with kernels of their own, and a surface that says where each holds (Herlands et al. 2016).

    Parameters
    ----------
    regimes : how many. All smaller numbers are fitted too, and the evidence for each is told (`model.change_`).
    kernel : of every regime: a text such as "SE" or "SM4", an expression, or a learner such as `GrammarSearch()`, which
        then searches a kernel for the rows of each regime. A list gives each regime its own. "auto": SE; where there is
        one column, also constants, straight lines and waves are tried in each regime, and changes of the level of what
        holds everywhere.
    shared : a kernel that is the same everywhere, added to the change surface: a season that stays, say.
    surface : "linear": along one column a change point between each two regimes (`CP`), along several a direction;
        "rks": random kitchen sinks; "gp": a Gaussian process. "auto": "linear" for one column, "rks" for several.
    features : of "rks" (10) and "gp" (16), for each regime but the first.
    columns : numbers of the columns (from 0) that the surface looks at, or one such number; None: all.
    draws, kernel_draws : g and h of Algorithm 2: surfaces drawn from the prior, and sets of kernel parameters drawn for
        each, the best of which is optimised a little; the best of the surfaces is then optimised to the end.
    restarts : starts of the last optimisation where the kernel is not SE.
    max_iterations : of the last optimisation.
    """

    regimes: int = 2
    kernel: Kernel | Sequence[Kernel] = "auto"
    shared: str | Expression | None = None
    surface: Literal["auto", "linear", "rks", "gp"] = "auto"
    features: int | None = None
    columns: int | Sequence[int] | None = None
    draws: int = 10
    kernel_draws: int = 10
    restarts: int = 3
    max_iterations: int = 200

    def learn(self, context: Context) -> Learned:
        """Learn from scaled data."""
        self._check()
        self._check_rows(context.data.count)
        plan = Plan(
            regimes=self.regimes,
            form=self._form(context.columns, context.data.X.shape[1]),
            draws=self.draws,
            kernel_draws=self.kernel_draws,
            restarts=self.restarts,
            max_iterations=self.max_iterations,
            seed=context.seed,
        )
        return Regimes(plan, context).learned()

    def scale_kernels(self, columns: list[int], names: list[str], units: Units) -> Learner:
        """Return the settings with kernels on column numbers and their values in scaled units."""
        self._check()

        def scaled(kernel: Any) -> Any:
            if isinstance(kernel, Learner):
                return kernel.scale_kernels(columns, names, units)
            given = parse(kernel) if isinstance(kernel, str) and kernel != AUTO else kernel
            if not isinstance(given, Expression):
                return given
            return to_scaled_units(bind(given, len(units.scale), names, default=columns), units)

        return replace(self, kernel=tuple(map(scaled, self._kernels())), shared=scaled(self.shared))

    def foresee(self, columns: list[int], dimensions: int) -> Expression | None:
        """Return the change surface that will be fitted; None where kernels of regimes are to be found."""
        self._check()
        form = self._form(columns, dimensions)
        return None if form.open or any(form.learners) else form.expressions(self.regimes, None)[0]

    def _form(self, columns: Sequence[int], dimensions: int) -> Form:
        on = tuple(columns) if self.columns is None else _numbers(self.columns)
        kernels = [parse(k) if isinstance(k, str) and k != AUTO else k for k in self._kernels()]
        if kernels == [AUTO] * self.regimes:
            kernels = [] if len(columns) == 1 else [parse("SE")] * self.regimes
        kind = self.surface
        if kind == "auto":
            kind = "linear" if len(on) == 1 else "rks"
        shared = parse(self.shared) if isinstance(self.shared, str) else self.shared
        return Form(tuple(kernels), shared, kind, self.features, on, tuple(columns), dimensions)

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        settings = {name: getattr(self, name) for name in self.__dataclass_fields__}
        settings["kernel"] = [_plain(kernel) for kernel in self._kernels()]
        if len(set(map(str, settings["kernel"]))) == 1:
            settings["kernel"] = settings["kernel"][0]
        settings["shared"] = None if self.shared is None else str(self.shared)
        settings["columns"] = None if self.columns is None else list(_numbers(self.columns))
        return settings

    def _kernels(self) -> list[Any]:
        """The kernel of each regime."""
        given = self.kernel
        if isinstance(given, str | Expression) or not isinstance(given, Sequence):
            return [given] * max(1, self.regimes)
        return list(given)

    def _check_rows(self, rows: int) -> None:
        if rows < ROWS * self.regimes:
            enough = rows // ROWS
            advice = f"ask for at most {enough}, or give more rows" if enough > 1 else "give more rows, or 'SE' alone"
            raise InputError(f"{rows} rows are too few for {self.regimes} regimes, {ROWS} for each: {advice}")

    def _check(self) -> None:
        counts = {"draws": 1, "kernel_draws": 1, "restarts": 1, "max_iterations": 1, "regimes": 2}
        for name, least in counts.items():
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
        if self.regimes > MOST_REGIMES:
            raise InputError(f"regimes must be at most {MOST_REGIMES}, not {self.regimes}")
        if self.surface not in KINDS:
            raise InputError(f"surface must be one of {', '.join(map(repr, KINDS))}, not {self.surface!r}")
        if self.columns is not None:
            _numbers(self.columns)
        if not (self.shared is None or isinstance(self.shared, str | Expression)):
            raise InputError(f"shared is a kernel that holds everywhere, such as 'PER', not {self.shared!r:.80}")
        kernels = self._kernels()
        if len(kernels) != self.regimes:
            raise InputError(f"there are {self.regimes} regimes and {len(kernels)} kernels: give one, or one for each")
        if AUTO in kernels and kernels != [AUTO] * self.regimes:
            raise InputError("kernel='auto' is for all regimes at once: name a kernel for each regime, or none")
        for kernel in kernels:
            if not isinstance(kernel, str | Expression | Learner):
                raise InputError(f"the kernel of a regime is a text, an expression or a learner, not {kernel!r:.80}")


def _numbers(columns: Any) -> tuple[int, ...]:
    """Return numbers of columns as a tuple, or say what they must be."""
    given = (columns,) if isinstance(columns, Integral) else columns
    fits = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    if not fits or not all(isinstance(c, Integral) and not isinstance(c, bool) and int(c) >= 0 for c in given):
        raise InputError(f"columns are numbers of columns, counted from 0, such as [0, 2], not {columns!r:.80}")
    return tuple(int(c) for c in given)


def _plain(kernel: Any) -> Any:
    """A kernel as plain data: text, or the name of a learner (its settings are not kept)."""
    if isinstance(kernel, str | Expression):
        return str(kernel)
    return type(kernel).__name__
