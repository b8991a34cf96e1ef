"""The work of `fill`: a grid with holes in, the grid with its holes filled and their bands out.

Grids are NumPy arrays, pictures and NetCDF files, with holes marked as each of them can:

    .npy   NaN, or a mask file
    .png   transparent pixels (alpha 0), or a mask file; gray, or colours as three channels that share their holes
    .nc    missing values of one variable, or a mask file

A mask file is .npy or .png: cells that are not zero are holes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mercer.cli.files import prepare_file
from mercer.cli.terminal import Terminal, interrupt_once
from mercer.errors import InputError
from mercer.kernels.domains import Array
from mercer.writing import whole_file

if TYPE_CHECKING:
    from mercer.estimators import GridRegressor

ENDINGS = (".npy", ".png", ".nc")
GRAY = (0.299, 0.587, 0.114)  # of red, green and blue
NEEDS_XARRAY = "NetCDF files need the package xarray: pip install xarray h5netcdf, or give the array as .npy"


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
    """Do the whole command; kernels and the output are tried before the long work."""
    started = time.perf_counter()
    with terminal.starting():
        from mercer.estimators import GridRegressor
        from mercer.kernels import parse

    ending = request.source.suffix.lower()
    if request.out.suffix.lower() not in {ending, ".npy"} & set(ENDINGS):
        allowed = ending if ending == ".npy" else f"{ending} or .npy"
        raise InputError(f"The output '{request.out}' must end in {allowed}, as '{request.source.name}' does.")
    file = prepare_file(request.out, request.source)
    kernels = [part.strip() for part in request.kernel.split(";")]  # one for all axes, or one for each
    for part in kernels:
        if part != "nkn":
            parse(part)
    with terminal.working("reading the grid"):
        source = read_grid(request.source.expanduser(), request.mask, request.variable)
    for note in source.notes:
        terminal.note(note)
    terminal.prepare_core()
    model = GridRegressor(kernels[0] if len(kernels) == 1 else kernels, random_state=request.seed)
    with interrupt_once():
        with terminal.stepping("fitting") as progress:
            model.fit(source.training_array, progress=progress)
        if model.status_ == "interrupted":
            terminal.aside("stopped at your request; going on with the best so far")
        for note in model.notes_:
            terminal.note(note)
        with terminal.working("filling"):
            filled, std = _fill_channels(source, model, request.bands)
            files = write_grid(source, filled, std, file)
            if request.model is not None:
                model.save(request.model)
                files["model"] = str(request.model)
    _report(model, files, time.perf_counter() - started, terminal)


def _fill_channels(source: GridFile, model: GridRegressor, bands: bool) -> tuple[list[Array], list[Array] | None]:
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


def _report(model: GridRegressor, files: dict[str, str], elapsed: float, terminal: Terminal) -> None:
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


@dataclass(frozen=True, eq=False)
class GridFile:
    """What a file holds: one channel, or several with the same holes (NaN); `dataset` where it is NetCDF."""

    channels: list[Array]
    notes: tuple[str, ...] = ()
    dataset: Any = None
    variable: str | None = None
    depth: type[np.unsignedinteger[Any]] = np.uint8  # of the pixels of a picture

    @property
    def training_array(self) -> Any:
        """The array to learn the kernel from: the only channel, or how light a colour is."""
        if self.dataset is not None:
            return self.dataset[self.variable].copy(data=self.channels[0])
        if len(self.channels) == 1:
            return self.channels[0]
        return sum(share * channel for share, channel in zip(GRAY, self.channels, strict=True))


def read_grid(file: Path, mask: Path | None, variable: str | None) -> GridFile:
    """Read a grid with its holes."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"'{file}' must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}.")
    if not file.is_file():
        raise InputError(f"There is no file '{file}'.")
    if variable is not None and ending != ".nc":
        raise InputError(f"--variable is for NetCDF files; '{file.name}' holds only one array.")
    readers: dict[str, Callable[[Path], GridFile]] = {
        ".nc": partial(_read_netcdf, variable=variable),
        ".npy": _read_array,
        ".png": _read_picture,
    }
    source = readers[ending](file)
    if mask is not None:
        if mask.suffix.lower() not in (".npy", ".png"):
            raise InputError(f"The mask '{mask}' must end in .npy or .png.")
        if not mask.is_file():
            raise InputError(f"There is no file '{mask}'.")
        picture = mask.suffix.lower() == ".png"
        holes = np.asarray(_open_picture(mask).convert("L") if picture else _load_array(mask)) != 0
        shape = source.channels[0].shape
        if holes.shape != shape:
            raise InputError(f"The mask '{mask}' has the shape {holes.shape}, '{file.name}' has {shape}.")
        for channel in source.channels:
            channel[holes] = np.nan
    if not np.isnan(source.channels[0]).any():
        raise InputError(
            f"Nothing is missing in '{file.name}'. Mark holes by NaN (.npy, .nc) or transparent pixels (.png), or "
            "give a mask file with --mask (.npy or .png, not zero where a cell is to be filled)."
        )
    return source


def _read_array(file: Path) -> GridFile:
    array = _load_array(file)
    if array.dtype.kind not in "biuf":
        raise InputError(f"'{file.name}' must hold numbers; its type is {array.dtype}.")
    if not array.size:
        raise InputError(f"'{file.name}' holds no cells: its shape is {array.shape}.")
    return GridFile([array.astype(np.float64)])


def _load_array(file: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        # NumPy takes whatever is not its own format for pickled data, and says so of both
        reason = "it holds Python objects" if "Object arrays" in str(error) else "it is damaged or of another kind"
        raise InputError(f"'{file}' cannot be read as a NumPy array: {reason}.") from None


def _read_picture(file: Path) -> GridFile:
    image = _open_picture(file)
    gray = image.mode in ("1", "L", "LA", "I", "I;16", "F")
    if image.mode in ("I", "I;16", "F"):
        return GridFile([np.asarray(image, dtype=np.float64)], depth=np.uint16)
    pixels = np.asarray(image.convert("RGBA"), dtype=np.float64)
    alpha, colours = pixels[..., 3], pixels[..., :3]
    notes = []
    if ((alpha > 0) & (alpha < 255)).any():
        count = int(((alpha > 0) & (alpha < 255)).sum())
        notes.append(f"{count:,} pixels are partly transparent; they are taken as they are and become opaque")
    channels = [colours[..., 0].copy()] if gray else [colours[..., c].copy() for c in range(3)]
    for channel in channels:
        channel[alpha == 0] = np.nan
    return GridFile(channels, tuple(notes))


def _open_picture(file: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            image.load()
            return image
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"'{file}' cannot be read as a picture ({str(error).splitlines()[0]:.80}).") from None


def _read_netcdf(file: Path, variable: str | None) -> GridFile:
    try:
        import xarray
    except ImportError:
        raise InputError(f"{NEEDS_XARRAY}.") from None
    try:
        with xarray.open_dataset(file) as opened:
            dataset = opened.load()
    except (OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"'{file}' cannot be read as NetCDF ({reason:.120}). NetCDF 4 files need the package h5netcdf: "
            "pip install h5netcdf"
        ) from None
    numeric = [str(name) for name, array in dataset.data_vars.items() if array.ndim and array.dtype.kind in "iuf"]
    if variable is None and len(numeric) == 1:
        variable = numeric[0]
    if variable not in numeric:
        wrong = f"has no array of numbers '{variable}'" if variable else "does not hold one array of numbers"
        raise InputError(f"'{file.name}' {wrong}; there are {', '.join(numeric) or 'none'}. Choose with --variable.")
    return GridFile([dataset[variable].values.astype(np.float64)], (), dataset, variable)


def write_grid(source: GridFile, filled: list[Array], std: list[Array] | None, file: Path) -> dict[str, str]:
    """Write the filled grid, and the bands beside it (.npy) or in it (.nc); return the files by what they hold."""
    if file.suffix.lower() == ".nc":
        return _write_netcdf(source, filled[0], None if std is None else std[0], file)
    pixels = _stack(filled)
    with whole_file(file) as place:
        if file.suffix.lower() == ".png":
            from PIL import Image

            top = np.iinfo(source.depth).max  # a filled value may lie beyond what the picture can show
            Image.fromarray(np.clip(np.round(pixels), 0, top).astype(source.depth)).save(place)
        else:
            np.save(place, pixels)
    files = {"filled": str(file)}
    if std is not None:
        beside = file.with_name(f"{file.stem}-std.npy")
        with whole_file(beside) as place:
            np.save(place, _stack(std))
        files["std"] = str(beside)
    return files


def _stack(channels: list[Array]) -> Array:
    return channels[0] if len(channels) == 1 else np.stack(channels, axis=-1)


def _write_netcdf(source: GridFile, filled: Array, std: Array | None, file: Path) -> dict[str, str]:
    old = source.dataset[source.variable]
    dataset = source.dataset.assign({source.variable: old.copy(data=filled)})
    files = {"filled": f"{file}: {source.variable}"}
    if std is not None:
        name = f"{source.variable}_std"
        dataset = dataset.assign({name: old.copy(data=std).assign_attrs(long_name="standard deviation, 0 if observed")})
        files["std"] = f"{file}: {name}"
    for each in dataset.variables.values():  # packing and chunks of the old file would not fit the new one
        each.encoding = {}
    with whole_file(file) as place:
        dataset.to_netcdf(place, engine="scipy")
    return files
