"""Grids in files: NumPy arrays, pictures and NetCDF, with holes marked as each of them can.

    .npy   NaN, or a mask file
    .png   transparent pixels (alpha 0), or a mask file; gray, or colours as three channels that share their holes
    .nc    missing values of one variable, or a mask file

A mask file is .npy or .png: cells that are not zero are holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.errors import InputError
from mercer.kernels.domains import Array

ENDINGS = (".npy", ".png", ".nc")
GRAY = (0.299, 0.587, 0.114)  # of red, green and blue
NEEDS_XARRAY = "NetCDF files need the package xarray: install it, or give the array as .npy"


@dataclass(frozen=True, eq=False)
class Source:
    """What a file holds: one channel, or several with the same holes (NaN); `dataset` where it is NetCDF."""

    channels: list[Array]
    notes: tuple[str, ...] = ()
    dataset: Any = None
    variable: str | None = None

    @property
    def learned_from(self) -> Any:
        """The array to learn the kernel from: the only channel, or how light a colour is."""
        if self.dataset is not None:
            return self.dataset[self.variable].copy(data=self.channels[0])
        if len(self.channels) == 1:
            return self.channels[0]
        return sum(share * channel for share, channel in zip(GRAY, self.channels, strict=True))


def read_grid(file: Path, mask: Path | None, variable: str | None) -> Source:
    """Read a grid with its holes."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"'{file}' must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}.")
    if not file.is_file():
        raise InputError(f"There is no file '{file}'.")
    if variable is not None and ending != ".nc":
        raise InputError(f"--variable is for NetCDF files; '{file.name}' holds only one array.")
    source = {".npy": _read_array, ".png": _read_picture, ".nc": lambda f: _read_netcdf(f, variable)}[ending](file)
    if mask is not None:
        holes = _read_mask(mask)
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


def _read_array(file: Path) -> Source:
    array = _loaded(file)
    if array.dtype.kind not in "biuf":
        raise InputError(f"'{file.name}' must hold numbers; its type is {array.dtype}.")
    if not array.size:
        raise InputError(f"'{file.name}' holds no cells: its shape is {array.shape}.")
    return Source([array.astype(np.float64)])


def _loaded(file: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        # NumPy takes whatever is not its own format for pickled data, and says so of both
        reason = "it holds Python objects" if "Object arrays" in str(error) else "it is damaged or of another kind"
        raise InputError(f"'{file}' cannot be read as a NumPy array: {reason}.") from None


def _read_picture(file: Path) -> Source:
    image = _opened(file)
    gray = image.mode in ("1", "L", "LA", "I", "I;16", "F")
    if image.mode in ("I", "I;16", "F"):
        return Source([np.asarray(image, dtype=np.float64)])
    pixels = np.asarray(image.convert("RGBA"), dtype=np.float64)
    alpha, colours = pixels[..., 3], pixels[..., :3]
    notes = []
    if ((alpha > 0) & (alpha < 255)).any():
        count = int(((alpha > 0) & (alpha < 255)).sum())
        notes.append(f"{count:,} pixels are partly transparent; they are taken as they are and become opaque")
    channels = [colours[..., 0].copy()] if gray else [colours[..., c].copy() for c in range(3)]
    for channel in channels:
        channel[alpha == 0] = np.nan
    return Source(channels, tuple(notes))


def _opened(file: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            image.load()
            return image
    except FileNotFoundError:
        raise InputError(f"There is no file '{file}'.") from None
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"'{file}' cannot be read as a picture ({str(error).splitlines()[0]:.80}).") from None


def _read_netcdf(file: Path, variable: str | None) -> Source:
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
            f"'{file}' cannot be read as NetCDF ({reason:.120}). NetCDF 4 files need the package h5netcdf or netCDF4."
        ) from None
    numeric = [str(name) for name, array in dataset.data_vars.items() if array.ndim and array.dtype.kind in "iuf"]
    if variable is None and len(numeric) == 1:
        variable = numeric[0]
    if variable not in numeric:
        wrong = f"has no array of numbers '{variable}'" if variable else "does not hold one array of numbers"
        raise InputError(f"'{file.name}' {wrong}; there are {', '.join(numeric) or 'none'}. Choose with --variable.")
    return Source([dataset[variable].values.astype(np.float64)], (), dataset, variable)


def _read_mask(file: Path) -> NDArray[np.bool_]:
    if file.suffix.lower() == ".png":
        return np.asarray(_opened(file).convert("L")) > 0
    if file.suffix.lower() != ".npy":
        raise InputError(f"The mask '{file}' must end in .npy or .png.")
    if not file.is_file():
        raise InputError(f"There is no file '{file}'.")
    return np.asarray(_loaded(file) != 0)


def write_grid(source: Source, filled: list[Array], std: list[Array] | None, file: Path) -> dict[str, str]:
    """Write the filled grid, and the bands beside it (.npy) or in it (.nc); return the files by what they hold."""
    try:
        if file.suffix.lower() == ".nc":
            return _write_netcdf(source, filled[0], None if std is None else std[0], file)
        if file.suffix.lower() == ".png":
            _write_picture(_together(filled), file)
        else:
            np.save(file, _together(filled))
        files = {"filled": str(file)}
        if std is not None:
            beside = file.with_name(f"{file.stem}-std.npy")
            np.save(beside, _together(std))
            files["std"] = str(beside)
        return files
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror or error}.") from None


def _together(channels: list[Array]) -> Array:
    return channels[0] if len(channels) == 1 else np.stack(channels, axis=-1)


def _write_picture(pixels: Array, file: Path) -> None:
    from PIL import Image

    wide = np.nanmax(pixels) > 255  # sixteen bits
    kind, top = (np.uint16, 65535) if wide else (np.uint8, 255)
    Image.fromarray(np.clip(np.round(pixels), 0, top).astype(kind)).save(file)


def _write_netcdf(source: Source, filled: Array, std: Array | None, file: Path) -> dict[str, str]:
    old = source.dataset[source.variable]
    dataset = source.dataset.assign({source.variable: old.copy(data=filled)})
    files = {"filled": f"{file}: {source.variable}"}
    if std is not None:
        name = f"{source.variable}_std"
        dataset = dataset.assign({name: old.copy(data=std).assign_attrs(long_name="standard deviation, 0 if observed")})
        files["std"] = f"{file}: {name}"
    for each in dataset.variables.values():  # packing and chunks of the old file would not fit the new one
        each.encoding = {}
    dataset.to_netcdf(file, engine="scipy")
    return files
