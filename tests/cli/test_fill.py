"""`mercer fill`: arrays, pictures and NetCDF with holes; bad input is a message and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image

from tests.cli.conftest import Mercer

SHAPE = (20, 16)


def smooth() -> np.ndarray:
    return 120 + 60 * np.sin(np.arange(SHAPE[0]) / 3)[:, None] * np.cos(np.arange(SHAPE[1]) / 4)


def hole() -> np.ndarray:
    holes = np.zeros(SHAPE, dtype=bool)
    holes[6:9, 5:9] = True
    return holes


def holed() -> np.ndarray:
    return np.where(hole(), np.nan, smooth() + np.random.default_rng(0).normal(size=SHAPE))


def test_arrays(mercer: Mercer, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", holed())
    result = mercer("fill", "in.npy", "--out", "new/out.npy", "--kernel", "SE", "--model", "m.mercer")
    assert result.code == 0, result.err
    filled, std = np.load("new/out.npy"), np.load("new/out-std.npy")
    assert_allclose(filled[~hole()], holed()[~hole()])
    assert np.abs(filled - smooth())[hole()].max() < 5
    assert (std[hole()] > 0).all()
    assert "filled  12 of 320 cells" in result.out
    for command in (["predict", "m.mercer", "in.npy", "--out", "x.csv"], ["explain", "m.mercer"]):
        refused = mercer(*command)
        assert refused.code == 2
        assert "model of a grid" in refused.err


def test_json_and_a_kernel_for_each_axis(mercer: Mercer, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", (10 * smooth()).astype(int))
    np.save(tmp_path / "mask.npy", hole())
    files = ["in.npy", "--mask", "mask.npy", "--out", "out.npy"]
    result = mercer("fill", *files, "--kernel", "SE; PER", "--no-bands", "--json")
    document = result.document
    assert document["missing"] == 12
    assert document["kernels"][0].startswith("SE(0")
    assert document["kernels"][1].startswith("PER(1")
    assert list(document["files"]) == ["filled"]
    assert not Path("out-std.npy").exists()


@pytest.mark.parametrize("mode", ["LA", "RGBA", "P"])
def test_transparent_pixels_are_holes(mercer: Mercer, tmp_path: Path, mode: str) -> None:
    gray = np.round(smooth()).astype(np.uint8)
    alpha = np.where(hole(), 0, 255).astype(np.uint8)
    alpha[0, 0] = 100
    if mode == "LA":
        Image.fromarray(np.stack([gray, alpha], -1)).save(tmp_path / "in.png")
    else:
        colours = np.stack([gray, 255 - gray, np.full_like(gray, 30), alpha], -1)
        image = Image.fromarray(colours)
        if mode == "P":
            image = image.quantize(64)
        image.save(tmp_path / "in.png")
    result = mercer("fill", "in.png", "--out", "out.png", "--kernel", "SE")
    assert result.code == 0, result.err
    with Image.open("out.png") as written:
        assert written.mode == ("L" if mode == "LA" else "RGB")
        pixels = np.asarray(written, dtype=float)
    red = pixels if mode == "LA" else pixels[..., 0]
    rough = 12 if mode == "P" else 4
    assert np.abs(red - gray)[hole()].max() < rough
    if mode != "LA":
        assert np.abs(pixels[..., 2] - 30).max() <= rough
    assert "partly transparent" in result.out or mode == "P"


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "I;16"])
def test_what_a_picture_cannot_show_is_cut_off(mercer: Mercer, tmp_path: Path, mode: str) -> None:
    """A hill whose top, beyond the brightest there is, lies in the hole."""
    across = np.arange(20.0) - 9.5
    top = 65535.0 if mode == "I;16" else 255.0
    hill = 1.15 * top * np.exp(-np.add.outer(across**2, across**2) / 200.0)
    holes = hill > top
    gray = np.round(np.minimum(hill, top)).astype(np.uint16 if mode == "I;16" else np.uint8)
    layers = [gray] * 3 if mode in ("RGB", "RGBA") else [gray]
    if mode == "RGBA":
        layers.append(np.where(holes, 0, 255).astype(np.uint8))
    Image.fromarray(np.stack(layers, -1) if len(layers) > 1 else gray).save(tmp_path / "in.png")
    Image.fromarray((255 * holes).astype(np.uint8)).save(tmp_path / "mask.png")
    result = mercer("fill", "in.png", "--mask", "mask.png", "--out", "out.png", "--kernel", "SE", "--no-bands")
    assert result.code == 0, result.err
    with Image.open("out.png") as written:
        assert written.mode == ("RGB" if mode == "RGBA" else mode)
        pixels = np.asarray(written, dtype=float)
    assert pixels[holes].min() >= 0.99 * top
    seen = np.stack([gray] * 3, -1) if "RGB" in mode else gray
    assert np.array_equal(pixels[~holes], seen[~holes])


def test_a_picture_without_holes_needs_a_mask(mercer: Mercer, tmp_path: Path) -> None:
    opaque = np.stack([np.round(smooth()).astype(np.uint8), np.full(SHAPE, 255, np.uint8)], -1)
    Image.fromarray(opaque).save(tmp_path / "in.png")
    refused = mercer("fill", "in.png", "--out", "out.png")
    assert refused.code == 2
    assert "Nothing is missing" in refused.err
    assert "--mask" in refused.err
    Image.fromarray((255 * hole()).astype(np.uint8)).save(tmp_path / "mask.png")
    assert mercer("fill", "in.png", "--out", "out.png", "--mask", "mask.png", "--kernel", "SE").code == 0


def test_netcdf(mercer: Mercer, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    coords = {"time": np.arange(SHAPE[0]) * 2.0, "x": np.arange(SHAPE[1])}
    array = xarray.DataArray(holed(), dims=("time", "x"), coords=coords, attrs={"units": "K"})
    xarray.Dataset({"t": array, "other": array + 1}).to_netcdf(tmp_path / "in.nc", engine="scipy")
    refused = mercer("fill", "in.nc", "--out", "out.nc")
    assert refused.code == 2
    assert "t, other" in refused.err
    assert mercer("fill", "in.nc", "--out", "out.nc", "--variable", "t", "--kernel", "SE").code == 0
    with xarray.open_dataset("out.nc") as written:
        assert not bool(written["t"].isnull().any())
        assert written["t"].attrs["units"] == "K"
        assert float(written["t_std"].max()) > 0
        assert_allclose(written["time"], coords["time"])
        assert bool(written["other"].isnull().any())


def test_netcdf_without_xarray_says_what_to_install(
    mercer: Mercer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.nc").write_bytes(b"CDF")
    monkeypatch.setitem(sys.modules, "xarray", None)
    refused = mercer("fill", "in.nc", "--out", "out.nc")
    assert refused.code == 2
    assert "need the package xarray" in refused.err


BAD = {
    "no file": (["none.npy", "--out", "o.npy"], "no file"),
    "another ending": (["in.txt", "--out", "o.npy"], "must end in"),
    "an output of another kind": (["in.npy", "--out", "o.png"], "must end in .npy"),
    "the input itself": (["in.npy", "--out", "in.npy"], "would be lost"),
    "a folder": (["in.npy", "--out", "folder.npy"], "is a folder"),
    "a damaged array": (["bad.npy", "--out", "o.npy"], "it is damaged or of another kind"),
    "no cells": (["nothing.npy", "--out", "o.npy"], "holds no cells: its shape is (0, 3)"),
    "objects": (["objects.npy", "--out", "o.npy"], "Python objects"),
    "texts": (["texts.npy", "--out", "o.npy"], "must hold numbers"),
    "a damaged picture": (["bad.png", "--out", "o.png"], "cannot be read as a picture"),
    "damaged NetCDF": (["bad.nc", "--out", "o.nc"], "cannot be read as NetCDF"),
    "all missing": (["empty.npy", "--out", "o.npy"], "0 of the 12 cells"),
    "constant": (["constant.npy", "--out", "o.npy"], "the same value"),
    "infinite": (["infinite.npy", "--out", "o.npy"], "cell (1, 2) is infinite"),
    "a mask of another shape": (["in.npy", "--out", "o.npy", "--mask", "empty.npy"], "has the shape (3, 4)"),
    "a mask of another kind": (["in.npy", "--out", "o.npy", "--mask", "in.txt"], "must end in .npy or .png"),
    "a kernel that does not parse": (["in.npy", "--out", "o.npy", "--kernel", "SE*"], "^"),
    "too many kernels": (["in.npy", "--out", "o.npy", "--kernel", "SE;SE;SE"], "3 kernels were given for 2 axes"),
    "a variable of an array": (["in.npy", "--out", "o.npy", "--variable", "t"], "for NetCDF files"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(mercer: Mercer, tmp_path: Path, case: str) -> None:
    np.save(tmp_path / "in.npy", holed())
    np.save(tmp_path / "empty.npy", np.full((3, 4), np.nan))
    np.save(tmp_path / "nothing.npy", np.zeros((0, 3)))
    np.save(tmp_path / "constant.npy", np.array([[1.0, 1.0], [1.0, np.nan]]))
    infinite = np.arange(12.0).reshape(3, 4)
    infinite[1, 2], infinite[0, 0] = np.inf, np.nan
    np.save(tmp_path / "infinite.npy", infinite)
    np.save(tmp_path / "objects.npy", np.array([{}, None], dtype=object), allow_pickle=True)
    np.save(tmp_path / "texts.npy", np.array(["a", "b"]))
    for name in ("bad.npy", "bad.png", "bad.nc", "in.txt"):
        (tmp_path / name).write_bytes(b"not what it says")
    (tmp_path / "folder.npy").mkdir()
    if case == "damaged NetCDF":
        pytest.importorskip("xarray")
    arguments, message = BAD[case]
    result = mercer("fill", *arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
