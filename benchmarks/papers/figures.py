"""What the papers print as formulas and small figures: kernels, Figure 6, Example 1, random features, I.1 and I.3."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mercer
from mercer.compute.evaluate import unit_patterns
from mercer.compute.spectral import draw_features
from mercer.kernels import parse
from mercer.kernels.network import network

Array = np.ndarray[Any, Any]

SEEN = (np.linspace(-12.0, 0.0, 60), np.linspace(6.0, 14.0, 40))  # NKN I.1: 100 points of [-12, 0] and [6, 14]
TOY_KERNEL = "SE(variance=1, lengthscale=4) + PER(variance=1, period=3, lengthscale=1)"
UNIT_KERNEL = "LIN(variance=0.05, offset=0) + SE(variance=1, lengthscale=4) * PER(variance=1, period=2, lengthscale=1)"
TURN = 2.0 * np.pi
NOISE = 1e-3  # of the toy functions, in units of their variance: the paper names none


# ------------------------------------------------------------------------------------------------- kernels as printed


def printed_kernels(rows: int = 40, seed: int = 0) -> dict[str, Any]:
    """Every named kernel as printed against Mercer's: the largest difference, and the lowest eigenvalue as printed.

    The eigenvalue is that of the printed Gram matrix over its largest; far below zero: the formula is no kernel.
    """
    x = np.sort(np.random.default_rng(seed).uniform(-3.0, 3.0, rows))
    d, both = x[:, None] - x[None, :], np.outer(x, x)
    root = np.sqrt(3.0) * np.abs(d) / 0.8
    rate = 0.6
    matern = (1.0 + root) * np.exp(-root)
    pairs = matern[np.triu_indices(rows)][::7]
    cases: dict[str, tuple[Array, str | None]] = {
        "nkn RBF": (1.3 * np.exp(-(d**2) / (2 * 0.8**2)), "SE(0, variance=1.3, lengthscale=0.8)"),
        "nkn PER": (
            1.3 * np.exp(-2 * np.sin(np.pi * np.abs(d) / 1.7) ** 2 / 0.8**2),
            "PER(0, variance=1.3, period=1.7, lengthscale=0.8)",
        ),
        "nkn PER of two columns": (
            np.exp(-2 * np.sin(np.pi * np.hypot(d, x[::-1, None] - x[None, ::-1]) / 1.7) ** 2 / 0.8**2),
            None,
        ),
        "nkn LIN": (1.3 * both, "LIN(0, variance=1.3, offset=0)"),
        "nkn RQ": (
            1.3 * (1 + d**2 / (2 * 1.5 * 0.8**2)) ** (1 / 1.5),
            "RQ(0, variance=1.3, lengthscale=0.8, alpha=1.5)",
        ),
        "nkn WN": (1.3 * (d == 0), "WN(0, variance=1.3)"),
        "nkn C": (np.full_like(d, 1.3), "C(variance=1.3)"),
        "nkn SM": (
            1.3 * (0.3 * np.exp(-(d**2) * 0.4 / 2) * np.cos(1.9 * d) + 0.7 * np.exp(-(d**2) * 0.1 / 2) * np.cos(5 * d)),
            "SM2(0, variance=1.3, weights=[0.3, 0.7], "
            f"frequency=[{1.9 / TURN!r}, {5 / TURN!r}], bandwidth=[{0.4**0.5 / TURN!r}, {0.1**0.5 / TURN!r}])",
        ),
        "nkn COS": (1.3 * np.cos(2 * np.pi * 0.4 * d), "COS(0, variance=1.3, frequency=0.4)"),
        "skc LIN": (1.3 * np.outer(x - 0.4, x - 0.4), "LIN(0, variance=1.3, offset=0.4)"),
        "skc RQ": (1.3 * (1 + d**2 / (2 * 1.5 * 0.8**2)) ** -1.5, "RQ(0, variance=1.3, lengthscale=0.8, alpha=1.5)"),
        "kfo Matern 3/2": (matern, "M32(0, variance=1, lengthscale=0.8)"),
        "kfo hyperkernel": ((1 - rate) / (1 - rate * np.outer(pairs, pairs)), None),
    }
    found: dict[str, Any] = {}
    for name, (printed, text) in cases.items():
        values = np.linalg.eigvalsh(printed)
        found[name] = {"lowest": float(values[0] / np.abs(values).max())}
        if text is not None:
            found[name]["difference"] = float(np.abs(parse(text)(x[:, None]) - printed).max())
    return found


def printed_features(count: int = 20_000, seed: int = 0) -> dict[str, float]:
    """SKC, appendix C: features cos(v.x + b) / sqrt(m) as printed, and Mercer's, each over the kernel at x = x'."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-1.0, 1.0, 9)[:, None]
    features = np.cos(x * rng.standard_normal(count) / 0.7 + rng.uniform(0, 2 * np.pi, count)) / np.sqrt(count)
    kernel = parse("SE(0, variance=1, lengthscale=0.7)")
    own = draw_features(kernel, count, 1, rng).phi(x)
    truth = kernel(x)
    return {
        "printed_share": float(np.diagonal(features @ features.T).mean()),
        "share": float(np.diagonal(own @ own.T).mean()),
        "difference": float(np.abs(own @ own.T - truth).max()),
    }


# --------------------------------------------------------------------------------------------- networks, by hand


def figure_6(rows: int = 30, seed: int = 0) -> dict[str, Any]:
    """NKN Theorem 3 and Figure 6: 0.3 k1 k2^2 by a network of width 2 B + 6, B = 3, and how far off it is.

    Six units are carried from module to module: k1, k2, k3, 1, the term so far and the output. A Linear layer of twelve
    units has two for each of them, which the Product layer multiplies: itself and 1, but for the term, which is
    multiplied by the next primitive.
    """
    width, carried = 2 * 3 + 6, 6
    ONE, TERM, OUT = 3, 4, 5
    primitives = ["SE(0, variance=1, lengthscale=0.8)", "PER(0, variance=1, period=1.7, lengthscale=1)",
                  "LIN(0, variance=1, offset=0)"]  # fmt: skip

    def module(units: int, factor: int | None) -> tuple[list[list[float]], list[float]]:
        weights, bias = np.zeros((width, units)), np.zeros(width)
        for unit in range(carried):
            first, second = 2 * unit, 2 * unit + 1
            if unit == ONE or (units == 3 and unit == TERM):  # made anew from the bias
                bias[first] = 1.0
            elif unit < units:
                weights[first, unit] = 1.0
            bias[second] = 1.0
        if factor is None:  # the term is added to the output
            weights[2 * OUT, TERM] = 0.3
        else:
            bias[2 * TERM + 1], weights[2 * TERM + 1, factor] = 0.0, 1.0
        return weights.tolist(), bias.tolist()

    modules = [module(3, 0), module(carried, 1), module(carried, 1), module(carried, None)]
    layers = "-".join([f"Linear{width}-Product{carried}"] * len(modules) + ["Linear1"])
    built = network(primitives, layers, variances=True)
    last = np.zeros((1, carried))
    last[0, OUT] = 1.0
    given = [*modules, (last.tolist(), [0.0])]
    linears = [layer.with_values(np.ravel(w).tolist(), b) for layer, (w, b) in zip(built.linears, given, strict=True)]
    kernel = built.with_linears(linears)
    x = np.random.default_rng(seed).uniform(-2.0, 2.0, (rows, 1))
    first, second = parse(primitives[0])(x), parse(primitives[1])(x)
    off = float(np.abs(kernel(x) - 0.3 * first * second**2).max())
    return {"width": width, "modules": len(modules), "difference": off, "architecture": kernel.architecture}


def example_1(rows: int = 40) -> dict[str, Any]:
    """NKN Example 1, n = 3: tones of 4, 16 and 64 times a frequency, as one network on one complex primitive.

    Each module has two units: the fourth power of the first, and the second with a part of the first added to it, the
    output so far. Weights (n choose 2)^2t, t = 1, 2, 3; the real part is taken once, at the end.
    """
    frequency, weights = 0.1, [9.0**t for t in (1, 2, 3)]

    def module(units: int, weight: float) -> tuple[list[float], list[float]]:
        table, bias = np.zeros((8, units)), np.zeros(8)
        table[:4, 0] = 1.0  # four times the first unit
        table[4, 0], bias[5:] = weight, 1.0
        if units > 1:
            table[4, 1] = 1.0
        return table.ravel().tolist(), bias.tolist()

    built = network(f"EXPI(0, variance=1, frequency={frequency})", "-".join(["Linear8-Product2"] * 3 + ["Linear1"]))
    given = [module(1, 0.0), module(2, weights[0]), module(2, weights[1]), ([weights[2], 1.0], [0.0])]
    kernel = built.with_linears([layer.with_values(*w) for layer, w in zip(built.linears, given, strict=True)])
    x = np.linspace(-1.0, 1.0, rows)[:, None]
    tones = [w * np.cos(2 * np.pi * frequency * 4**t * (x - x.T)) for t, w in zip((1, 2, 3), weights, strict=True)]
    truth = np.sum(tones, axis=0)
    return {"difference": float(np.abs(kernel(x) - truth).max() / np.abs(truth).max()), "primitives": 1}


# -------------------------------------------------------------------------------------------------- toy functions


def draw_function(kernel: str, x: Array, seed: int) -> Array:
    """Return one draw of a Gaussian process at the points, as smooth as its kernel."""
    values, vectors = np.linalg.eigh(parse(kernel)(x[:, None]))
    drawn = np.random.default_rng(seed).standard_normal(len(x))
    return np.asarray(vectors @ (np.sqrt(np.maximum(values, 0.0)) * drawn))


class Line(NamedTuple):
    """A function drawn on a line, the rows of it that were seen, and the network fitted to those."""

    x: Array
    truth: Array
    seen: Array
    y: Array  # with noise, of the rows seen
    model: mercer.GPRegressor


def synthetic_line(seed: int) -> Line:
    """NKN I.1, Figure 7: 100 rows of [-12, 0] and [6, 14] of a draw from RBF + PER; gap and both ends are tested."""
    rows = np.concatenate(SEEN)
    new = np.concatenate([np.linspace(-16.0, -12.2, 20), np.linspace(0.2, 5.8, 30), np.linspace(14.2, 18.0, 20)])
    x = np.concatenate([rows, new])
    truth, seen = draw_function(TOY_KERNEL, x, seed), np.arange(len(x)) < len(rows)
    y = truth[seen] + np.sqrt(NOISE) * np.random.default_rng([seed, 1]).standard_normal(len(rows))
    return Line(x, truth, seen, y, mercer.GPRegressor("nkn", random_state=seed).fit(rows[:, None], y))


def judge_line(seed: int) -> dict[str, Any]:
    """How far the network is off where it saw nothing, and what it says about that."""
    line = synthetic_line(seed)
    mean, std = line.model.predict(line.x[:, None], return_std=True)
    off, new = mean - line.truth, ~line.seen
    return {
        "rmse": float(np.sqrt(np.mean(off[new] ** 2)) / line.truth.std()),
        "inside_95": float(np.mean(np.abs(off[new]) < 1.959964 * std[new])),
        "std_ratio": float(std[new].mean() / std[line.seen].mean()),
    }


def unit_line(seed: int) -> Line:
    """NKN I.3, Figure 10: a draw of LIN + RBF * PER, and a network of LIN, PER and RBF fitted to three quarters."""
    x = np.linspace(0.0, 12.0, 121)
    truth, seen = draw_function(UNIT_KERNEL, x, seed), x <= 9.0
    y = (truth + np.sqrt(NOISE) * np.random.default_rng([seed, 1]).standard_normal(len(x)))[seen]
    learner = mercer.NeuralKernelNetwork("LIN + PER + SE", layers="Linear4-Product2-Linear1")
    return Line(x, truth, seen, y, mercer.GPRegressor(learner, random_state=seed).fit(x[seen, None], y))


def patterns_of_units(line: Line, alone: bool = False) -> Array:
    """Return the pattern of each unit of the first layer, k_u(x, X) w.

    The weights w are those of the whole network, (K + noise I)^-1 y: a unit's part in them. `alone`: those that the
    unit would have by itself, (k_u + noise I)^-1 y: what it would predict.
    """
    units = unit_patterns(line.model.kernel_, line.x[:, None])[1].values
    noise, y, seen = line.model.noise_ * np.eye(len(line.y)), line.y - line.y.mean(), line.seen
    whole = line.model.kernel_(line.x[seen, None])
    return np.array(
        [k[:, seen] @ np.linalg.solve((k[np.ix_(seen, seen)] if alone else whole) + noise, y) for k in units]
    )


def compare_patterns(patterns: Array, x: Array) -> dict[str, Any]:
    """Return how much the patterns of four units differ.

    The frequency of a pattern is where its spectrum, less a straight line, is largest, in cycles over the line.
    """
    flat = patterns - np.array([np.polyval(np.polyfit(x, each, 1), x) for each in patterns])
    correlation = np.abs(np.corrcoef(flat))[np.triu_indices(4, 1)]
    frequencies = [int(place) for place in np.abs(np.fft.rfft(flat, axis=1)).argmax(axis=1)]
    return {
        "frequencies": frequencies,
        "different": len(set(frequencies)),
        "lowest_correlation": float(correlation.min()),
        "median_correlation": float(np.median(correlation)),
    }


def judge_units(seed: int) -> dict[str, Any]:
    """How well the network predicts, and how much the patterns of its first four units differ (Figure 11)."""
    line = unit_line(seed)
    off, spread = line.model.predict(line.x[:, None]) - line.truth, line.truth.std()
    return {
        "rmse_seen": float(np.sqrt(np.mean(off[line.seen] ** 2)) / spread),
        "rmse_beyond": float(np.sqrt(np.mean(off[~line.seen] ** 2)) / spread),
        "parts": compare_patterns(patterns_of_units(line), line.x),
        "alone": compare_patterns(patterns_of_units(line, alone=True), line.x),
    }


def draw_lines(path: Path, seed: int = 0) -> None:
    """Draw Figures 7, 10 and 11 for one draw."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(12, 3.6), layout="constrained")
    axes = picture.subplots(1, 3)
    for place, line in zip(axes, (synthetic_line(seed), unit_line(seed)), strict=False):
        order = np.argsort(line.x)
        mean, std = line.model.predict(line.x[order, None], return_std=True)
        place.plot(line.x[order], line.truth[order], color="black", linewidth=1, label="truth")
        place.plot(line.x[order], mean, color="tab:blue", label="network")
        place.fill_between(line.x[order], mean - std, mean + std, color="tab:blue", alpha=0.2)
        place.plot(line.x[line.seen], line.y, ".", color="tab:red", markersize=3, label="rows seen")
        place.legend(fontsize=7)
    axes[0].set_title("Figure 7: RBF + PER")
    axes[1].set_title("Figure 10: LIN + RBF * PER")
    for number, pattern in enumerate(patterns_of_units(line), start=1):
        axes[2].plot(line.x, pattern - pattern.mean(), label=f"unit {number}")
    axes[2].set_title("Figure 11: the units, less their means")
    axes[2].legend(fontsize=7)
    picture.savefig(path, dpi=80)


if __name__ == "__main__":
    draw_lines(Path(__file__).parents[1] / "results" / "paper-figures.png")
