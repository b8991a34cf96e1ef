"""Benchmarks and scripts still fit the package: every name of Mercer that they import exists."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FILES = sorted(file for folder in ("benchmarks", "examples", "scripts") for file in (ROOT / folder).glob("*.py"))


def imports_of(file: Path) -> list[tuple[str, str | None]]:
    """Modules of Mercer and of the benchmarks that a file imports, wherever in it, with the names taken from them."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] in ("mercer", "benchmarks")]


def exists(module: str, name: str | None) -> bool:
    if name is None or hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_import_exists(file: Path) -> None:
    missing = [(module, name) for module, name in imports_of(file) if not exists(module, name)]
    assert not missing
