"""What a failure tells the user, and the exit code: 2 for what the user can mend, 1 for a bug, 130 for Ctrl-C."""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from mercer.cli.terminal import write
from mercer.errors import MercerError, NumericalError

USER, BUG, INTERRUPTED = 2, 1, 130
REPORT_AT = "the project's issue tracker"


@dataclass(frozen=True)
class Failure:
    """A sentence or two, the kind of error, and the exit code."""

    message: str
    kind: str
    code: int


def explain_failure(error: BaseException) -> Failure:
    """Turn an exception into a message for the user."""
    if isinstance(error, KeyboardInterrupt):
        return Failure("stopped before there was a result; nothing was written", "Interrupted", INTERRUPTED)
    if isinstance(error, NumericalError):
        return Failure(f"{error}{_numerical_advice(str(error))}", type(error).__name__, USER)
    if isinstance(error, MercerError):
        return Failure(str(error), type(error).__name__, USER)
    if isinstance(error, MemoryError):
        return Failure("There is not enough memory for this. Use fewer rows or columns.", "TooLargeError", USER)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # typer's own, whichever click it carries
        return Failure(f"{error.format_message()}{_usage(error)}", "UsageError", USER)
    return Failure(_bug(error), "Bug", BUG)


def report_failure(failure: Failure, as_json: bool, notes: list[str]) -> int:
    """Write the failure where it belongs, and return the exit code."""
    if as_json:
        write(json.dumps({"error": failure.message, "kind": failure.kind}))
    elif failure.code == INTERRUPTED:
        print(failure.message, file=sys.stderr)
    else:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        print(f"error: {failure.message}", file=sys.stderr)
    return failure.code


def _numerical_advice(message: str) -> str:
    return "" if "try" in message else "; try another kernel, or look for rows that are (almost) copies of each other"


def _usage(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f"\nSee '{context.command_path} --help'."


def _bug(error: BaseException) -> str:
    text = "".join(traceback.format_exception(error))
    summary = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mercer-crash-", suffix=".txt", delete=False) as file:
            file.write(f"arguments: {sys.argv}\n\n{text}")
            kept = f"The details are in {Path(file.name)}"
    except OSError:
        kept = "The details could not be written to a file"
    return f"This is a bug in Mercer ({summary}). {kept}; please send them to {REPORT_AT}."
