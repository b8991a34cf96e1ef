"""How the pictures of the gallery and of the base kernels look: one style, set anew before every script."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

# Colours that people with any colour vision can tell apart (Okabe and Ito 2008), blue first as in the reports.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def set_style(gallery: dict[str, Any] | None = None, script: str | None = None) -> None:
    """Set the style, as sphinx-gallery asks before each script."""
    mpl.rcdefaults()
    mpl.use("agg")
    mpl.rcParams |= {
        "figure.figsize": (7.0, 3.8),
        "figure.constrained_layout.use": True,
        "figure.dpi": 100,
        "savefig.dpi": 100,
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "axes.prop_cycle": mpl.cycler(color=COLOURS),
        "legend.frameon": False,
        "lines.linewidth": 1.6,
    }
