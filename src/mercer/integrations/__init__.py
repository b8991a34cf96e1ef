"""Mercer inside other libraries; each module needs its library, which Mercer itself does without."""

from importlib import import_module
from typing import Any

_MODULES = ("optuna", "sktime", "statsforecast")


def __getattr__(name: str) -> Any:
    """Load a module when it is first asked for: its library may not be there."""
    if name not in _MODULES:
        raise AttributeError(f"module 'mercer.integrations' has no attribute '{name}'")
    return import_module(f"mercer.integrations.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
