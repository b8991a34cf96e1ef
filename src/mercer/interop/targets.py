"""The doors: one function for each target, which imports what it needs when it is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from mercer.interop.exporting import export_all, export_one
from mercer.kernels.expression import Expression
from mercer.model.fitted import Fitted


def to_sklearn(model: Fitted, fitted: bool = True, member: str | None = None) -> Any:
    """Return a fitted regressor of scikit-learn, or its kernel with the noise."""
    from mercer.interop.sklearn_model import make_kernel, make_sklearn

    exported = export_one(model, "a regressor of scikit-learn", member)
    return make_sklearn(exported) if fitted else make_kernel(exported)


def to_gpytorch(model: Fitted, member: str | None = None) -> Any:
    """Return a GPyTorch ExactGP in eval mode."""
    require("gpytorch", "to_gpytorch()")
    from mercer.interop.gpytorch_model import make_gpytorch

    return make_gpytorch(export_one(model, "a model of GPyTorch", member))


def to_botorch(model: Fitted) -> Any:
    """Return a BoTorch model with all members."""
    require("botorch", "to_botorch()")
    from mercer.interop.botorch_model import MercerModel

    return MercerModel(export_all(model, "a model of BoTorch"))


def to_onnx(model: Fitted, path: str | Path) -> None:
    """Write an ONNX file with all members."""
    require("onnx", "to_onnx()")
    from mercer.interop.onnx_graph import write_onnx

    write_onnx(export_all(model, "an ONNX graph"), path)


def from_sklearn(kernel: Any, columns: int | None = None) -> Expression:
    """Return a kernel of scikit-learn as a Mercer expression with its values.

    columns : how many columns the data have. Needed only where Mercer must know: ExpSineSquared is read for one column,
    and DotProduct says nothing of their number.
    """
    from mercer.interop.from_sklearn import read_kernel

    return read_kernel(kernel, columns)


def from_gpytorch(kernel: Any, columns: int | None = None) -> Expression:
    """Return a kernel of GPyTorch as a Mercer expression with its values.

    columns : how many columns the data have. Needed only where Mercer must know, and the kernel says neither
    `active_dims` nor `ard_num_dims`: CosineKernel, LinearKernel, PolynomialKernel, SpectralMixtureKernel.
    """
    require("gpytorch", "from_gpytorch()")
    from mercer.interop.from_gpytorch import read_kernel

    return read_kernel(kernel, columns)


def require(package: str, needed_by: str) -> None:
    """Import an optional library, or say what to install."""
    try:
        import_module(package)
    except ImportError as error:
        raise ImportError(f"{needed_by} needs the package {package}: pip install {package} ({error})") from None
