"""The file of a study: one JSON text. Reading one can never run code."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from mercer.errors import MercerError, ModelFileError
from mercer.kernels.domains import Array
from mercer.kernels.expression import Expression
from mercer.learners.contract import Learner
from mercer.model.archive import kernel_to_plain, read_kernel_setting
from mercer.optimise.acquisition import find_acquisition
from mercer.optimise.space import Space
from mercer.optimise.trials import Pending, Purpose, Suggestion, Trial
from mercer.writing import write_text

FORMAT, VERSION = "mercer study", 1
WORDS = ("auto", "nkn", "search")  # kernels of an optimiser that are no kernels of a regressor, or not the same


@dataclass(frozen=True, eq=False)
class SavedStudy:
    """Everything that a study needs to go on."""

    space: Space
    kernel: str | Expression | Learner
    minimize: bool
    random_state: int | None
    trials: tuple[Trial, ...]
    pending: tuple[Pending, ...]
    generator: dict[str, Any]  # state of the random numbers
    belief: dict[str, Any] | None = None  # what was learned, as numbers; None: it is learned again
    current: bool = False  # whether that was learned from all trials
    acquisition: str = "auto"


def write_study(study: SavedStudy, path: str | Path) -> None:
    """Write the file: it is whole or not there, whenever it is cut short."""
    seed = study.random_state
    document = {
        "format": FORMAT,
        "version": VERSION,
        "space": study.space.to_plain(),
        "kernel": kernel_to_plain(study.kernel),
        "minimize": study.minimize,
        "random_state": int(seed) if isinstance(seed, Integral) else None,
        "trials": [[trial.row.tolist(), trial.value, trial.note] for trial in study.trials],
        "pending": [
            [each.row.tolist(), each.suggestion.mean, each.suggestion.spread, each.suggestion.purpose,
             each.suggestion.way, each.suggestion.why]
            for each in study.pending
        ],
        "generator": study.generator,
        "belief": study.belief,
        "current": study.current,
        "acquisition": study.acquisition,
    }  # fmt: skip
    write_text(json.dumps(document), path)


def read_study(path: str | Path) -> SavedStudy:
    """Read a file that `write_study` wrote, refusing what is none."""
    file = Path(path)
    document = _read_document(file)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"'{file}' is not a study that Mercer saved")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise ModelFileError(
            f"'{file}' was written by a newer Mercer (version {version}, this one reads up to {VERSION}): update it"
        )
    try:
        if version != VERSION:
            raise ValueError(f"its version is {version!r:.20}")
        return _read_parts(document)
    except MercerError as error:
        raise ModelFileError(f"'{file}' is damaged: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"'{file}' is damaged: {type(error).__name__}: {error}") from None


def _read_document(file: Path) -> Any:
    try:
        return json.loads(file.expanduser().read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"there is no file '{file}'") from None
    except IsADirectoryError:
        raise ModelFileError(f"'{file}' is a folder, not a study") from None
    except OSError as error:
        raise ModelFileError(f"'{file}' cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ModelFileError(f"'{file}' is not a study that Mercer saved, or it was cut off; save it again") from None


def _read_parts(document: dict[str, Any]) -> SavedStudy:
    space = Space.from_plain(document["space"])
    trials = tuple(
        Trial(_read_row(row, space), _read_number(value), str(note)) for row, value, note in document["trials"]
    )
    pending = tuple(_read_pending(entry, space) for entry in document["pending"])
    kernel = document["kernel"] if document["kernel"] in WORDS else read_kernel_setting(document["kernel"])
    if not isinstance(document["minimize"], bool):
        raise TypeError("whether to minimise is not said")
    np.random.default_rng(0).bit_generator.state = document["generator"]  # refuses what is no state
    belief, acquisition = document.get("belief"), document.get("acquisition", "auto")  # earlier versions have neither
    find_acquisition(acquisition)
    return SavedStudy(
        space, kernel, document["minimize"], document["random_state"], trials, pending, document["generator"],
        belief if isinstance(belief, dict) else None, document.get("current") is True, acquisition,
    )  # fmt: skip


def _read_row(row: Sequence[float], space: Space) -> Array:
    cells = np.array(row, dtype=np.float64)
    if cells.shape != (space.width,) or not np.isfinite(cells).all():
        raise ValueError(f"a trial does not have {space.width} finite numbers")
    return cells


def _read_number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError(f"the value of a trial is {value!r:.20}")
    return float(value)


def _read_pending(entry: Sequence[Any], space: Space) -> Pending:
    row, mean, spread, purpose, way, *rest = entry
    why = rest[0] if rest else None  # earlier versions have none
    if purpose not in get_args(Purpose) or not isinstance(way, str) or not (why is None or isinstance(why, str)):
        raise ValueError(f"a suggestion is for {purpose!r:.20}")
    cells, expected, width = _read_row(row, space), _read_number(mean), _read_number(spread)
    known, reason = cast(Any, way), cast(Any, why)  # these are only shown
    return Pending(cells, Suggestion(space.decode(cells), expected, width, purpose, known, reason))
