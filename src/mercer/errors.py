"""Errors and warnings. A message says what went wrong, what was given, and what to try.

`InputError` and its children are the user's to mend (the command line answers them with exit code 2);
anything else that escapes is a bug in Mercer (exit code 1).
"""

from __future__ import annotations

from typing import Literal

# What a message can be about: one thing that the user gave, by its name in the library. `mercer --json` names the
# option of it, the page in the browser shows the message beside its field.
Subject = Literal[
    "file", "sheet", "encoding", "separator", "header", "keep_rows", "decimal", "day_first", "kinds", "target",
    "inputs", "time_budget", "series", "time", "horizon",
]  # fmt: skip


class MercerError(Exception):
    """Root of every error that Mercer raises on purpose."""


class InputError(MercerError, ValueError):
    """The data, the options or a file given by the user cannot be used as they are; `about` says which of them."""

    def __init__(self, *message: object, about: Subject | None = None) -> None:
        self.about = about
        super().__init__(*message)


class InputTypeError(InputError, TypeError):
    """Something of a kind that cannot be used, such as a dictionary in place of a number."""


class KernelError(InputError):
    """A kernel expression that cannot be built or does not fit the data."""


class KernelSyntaxError(KernelError):
    """A kernel text that does not parse; the message points at the character."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem, self.text, self.position = problem, text, position
        super().__init__(f"{problem}\n  {text}\n  {' ' * position}^")

    def __reduce__(self) -> tuple[type, tuple[str, str, int]]:
        return type(self), (self.problem, self.text, self.position)  # so that it survives the way back from a worker


class ModelFileError(InputError):
    """A model file that is unreadable, damaged, or written by a newer version."""


class TooLargeError(InputError):
    """More rows than the chosen engine can hold in memory."""


class NumericalError(MercerError, ArithmeticError):
    """A computation broke down for numerical reasons after every remedy was tried."""


class MercerWarning(UserWarning):
    """Root of Mercer's warnings."""


class DataWarning(MercerWarning):
    """Something about the data was changed or ignored; the message says what and how much."""


class NumericalWarning(MercerWarning):
    """A number was changed to make a computation possible; the message says by how much."""


class FitWarning(MercerWarning):
    """The fit ended in a state the user should know about (at a bound, not converged)."""
