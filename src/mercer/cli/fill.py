"""The work of `fill`: a grid with holes in, the grid with its holes filled and their bands out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.cli.files import prepared_folder
from mercer.cli.grids import ENDINGS, Source, read_grid, write_grid
from mercer.cli.interruption import heard_once
from mercer.cli.terminal import Terminal
from mercer.errors import InputError
from mercer.kernels.domains import Array

if TYPE_CHECKING:
    from mercer.estimators import GridRegressor


@dataclass(frozen=True)
class FillRequest:
    """What the user asked for."""

    source: Path
    out: Path
    kernel: str
    mask: Path | None = None
    variable: str | None = None
    bands: bool = True
    model: Path | None = None
    seed: int = 0


def fill_and_write(request: FillRequest, terminal: Terminal) -> None:
    """Do the whole command; the output is tried before the long work."""
    started = time.perf_counter()
    file = _prepared(request)
    kernel = _kernel(request.kernel)
    with terminal.working("reading the grid"):
        source = read_grid(request.source.expanduser(), request.mask, request.variable)
    for note in source.notes:
        terminal.note(note)
    terminal.prepare_core()
    with heard_once():
        model = _fitted(source, kernel, request, terminal)
        with terminal.working("filling"):
            filled, std = _filled(source, model, request.bands)
            files = write_grid(source, filled, std, file)
            if request.model is not None:
                model.save(request.model)
                files["model"] = str(request.model)
    _told(model, files, time.perf_counter() - started, terminal)


def _prepared(request: FillRequest) -> Path:
    file, ending = request.out.expanduser(), request.source.suffix.lower()
    if file.suffix.lower() not in {ending, ".npy"} or file.suffix.lower() not in ENDINGS:
        allowed = ending if ending == ".npy" else f"{ending} or .npy"
        raise InputError(f"The output '{request.out}' must end in {allowed}, as '{request.source.name}' does.")
    if file.is_dir():
        raise InputError(f"The output '{request.out}' is a folder. Give the name of a file with --out.")
    if file.resolve() == request.source.expanduser().resolve():
        raise InputError(f"The output '{request.out}' is the file that is read; it would be lost. Choose another name.")
    prepared_folder(file.parent)
    return file


def _kernel(text: str) -> Any:
    """One kernel for all axes, or one for each with semicolons between them."""
    from mercer.kernels import parse

    parts = [part.strip() for part in text.split(";")]
    for part in parts:
        if part != "nkn":
            parse(part)
    return parts[0] if len(parts) == 1 else parts


def _fitted(source: Source, kernel: Any, request: FillRequest, terminal: Terminal) -> GridRegressor:
    from mercer.estimators import GridRegressor

    model = GridRegressor(kernel, random_state=request.seed)
    with terminal.stepping("fitting") as progress:
        model.fit(source.learned_from, progress=progress)
    if model.status_ == "interrupted":
        terminal.aside("stopped at your request; going on with the best so far")
    for note in model.notes_:
        terminal.note(note)
    return model


def _filled(source: Source, model: GridRegressor, bands: bool) -> tuple[list[Array], list[Array] | None]:
    """Fill every channel by the kernel that was fitted."""
    filled, std = [], []
    for channel in source.channels:
        seen = channel[~np.isnan(channel)]
        if np.ptp(seen) == 0:  # a colour that does not occur
            filled.append(np.full(channel.shape, seen[0]))
            std.append(np.zeros(channel.shape))
            continue
        other = None if len(source.channels) == 1 else channel
        found = model.fill(other, return_std=bands)
        parts = found if bands else (found,)
        arrays = [np.asarray(getattr(part, "values", part)) for part in parts]
        filled.append(arrays[0])
        std += arrays[1:]
    return filled, std if bands else None


def _told(model: GridRegressor, files: dict[str, str], elapsed: float, terminal: Terminal) -> None:
    kernels = [None if k is None else k.text(digits=3) for k in model.kernels_]
    lines = [f"filled  {model.n_missing_:,} of {int(np.prod(model.shape_)):,} cells"]
    lines += [f"axis {d}  {text}" for d, text in enumerate(kernels) if text is not None]
    lines += [f"noise   {model.noise_**0.5:.3g} (standard deviation)", f"how     {model.inference_.reason}"]
    lines += [f"note    {note}" for note in terminal.notes]
    lines += [f"wrote   {file}" for file in files.values()]
    terminal.finish(
        "\n".join([*lines, f"done in {elapsed:.1f} s"]),
        {
            "command": "fill", "shape": list(model.shape_), "missing": model.n_missing_, "kernels": kernels,
            "noise_variance": model.noise_, "log_evidence": model.log_evidence_, "evidence": model.evidence_is_,
            "residual": model.residual_, "inference": model.inference_.reason, "notes": terminal.notes,
            "files": files, "elapsed_seconds": elapsed,
        },
    )  # fmt: skip
