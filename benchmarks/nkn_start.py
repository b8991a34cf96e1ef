"""Where the authors of neural kernel networks began, and which rows their PCA split tested.

    python -m benchmarks.nkn_start --data FOLDER

Their code (exp/regression.py of their repository) sets NumPy's seed to 123, draws nothing but the split and the
weights from it, and logs minus the log evidence of the training rows before the first step. So the logs tell which
rows were trained on: of the rows of `pca_split` that number is the logged one to seven digits on all five tables that
are fitted exactly, with Mercer's own evidence. It is another number where the component points the other way, which
tests two other rows, and where rows of energy, wine and yacht that tie at a border fall as other sorts leave them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mercer
from benchmarks.splits import PART, component, pca_split
from mercer.kernels.network import Network, network
from mercer.learners.nkn import typical_distances

Array = np.ndarray[Any, Any]

# "Epoch 0: Loss" of results/regression/uci_woval_pca, 24 and 25 June 2018
FIRST_LOSSES = {
    "yacht": 443.14682102012955,
    "boston": 1537.5027191641857,
    "energy": 1673.144406215385,
    "concrete": 2009.6519783021768,
    "wine": 3465.1288585275006,
}
SEED = 123
NOISE = 0.1  # the variance that their GPflow begins with
BIAS = 0.01
WIDTHS = ((6, 8), (4, 4), (2, 1))  # inputs and units of the Linear layers
RANDOM_PCA = 500  # rows above which scikit-learn's PCA of 2018 draws its first directions
DIRECTIONS = 11  # of them: one component and ten more
# lengthscales of the components of their spectral mixtures, in typical distances
MIXTURES = {1: (1.0,), 2: (1.0, 0.5), 3: (2.0, 0.5, 1.0), 4: (0.25, 0.5, 1.0, 2.0)}


def draw_weights(rows: int, tested: int, columns: int) -> list[Array]:
    """Return the weights of the Linear layers, after the split took its numbers from the generator."""
    draw = np.random.RandomState(SEED)  # the generator that they used
    if rows > RANDOM_PCA:
        draw.normal(size=(columns, DIRECTIONS))
    draw.permutation(tested)
    draw.permutation(rows - tested)
    return [draw.uniform(1 / (2 * inputs), 3 / (2 * inputs), (units, inputs)) for inputs, units in WIDTHS]


def lengths(X: Array) -> Array:
    """Return the typical distances of two rows in each column, in its own units."""
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return typical_distances((X - X.mean(axis=0)) / spread) * spread


def authors_mixture(X: Array, y: Array, components: int, seed: int) -> str:
    """Return an SM kernel with the values that theirs begins with, but for the directions of its waves.

    Component q is SE with lengthscales c_q l times a cosine of w.x / (c_q l), w normal; l are the typical distances.
    """
    scales = np.outer(MIXTURES[components], lengths(X))
    bandwidth = 1.0 / (2.0 * np.pi * scales)
    frequency = np.random.default_rng(seed).normal(size=scales.shape) * bandwidth
    shares = [1.0 / components] * components
    values = f"frequency={frequency.ravel().tolist()}, bandwidth={bandwidth.ravel().tolist()}"
    return f"SM{components}(variance={float(y.var())}, weights={shares}, {values})"


def authors_primitives(X: Array) -> str:
    """Return the network's primitives with the lengthscales and alphas that theirs begin with, in units of the data.

    LIN has a weight for each column and goes through the mean, as theirs.
    """
    typical = lengths(X)
    smooth = " + ".join(f"SE(lengthscale={(part * typical).tolist()})" for part in (1 / 6, 2 / 3))
    broad = f"lengthscale={(typical / 3).tolist()}"
    line = f"LIN(offset=fixed({X.mean(axis=0).tolist()}))"
    return f"{line} + {line} + {smooth} + RQ({broad}, alpha=0.1) + RQ({broad}, alpha=1.0)"


def authors_network(X: Array, weights: list[Array]) -> Network:
    """Return the network as it stood before the first step, on standardised inputs: two LIN, two SE and two RQ."""
    columns, typical = X.shape[1], typical_distances(X).astype(np.float32)  # as theirs

    def leaf(symbol: str, part: float, extra: str = "") -> str:
        return f"{symbol}(variance=1, lengthscale={(part * typical).tolist()}{extra})"

    flat = [1.0 / columns] * columns
    line = f"LIN(variance={columns}, offset={[0.0] * columns}, weights={flat})"
    parts = [line, line, leaf("SE", 1 / 6), leaf("SE", 2 / 3)]
    parts += [leaf("RQ", 1 / 3, f", alpha={alpha}") for alpha in (0.1, 1.0)]
    built = network(parts, "Linear8-Product4-Linear4-Product2-Linear1", variances=True)
    layers = zip(built.linears, weights, strict=True)
    return built.with_linears([layer.with_values(w.ravel().tolist(), [BIAS] * len(w)) for layer, w in layers])


def loss_of(table: Array, tested: Array) -> float:
    """Return minus the log evidence of the rows that are not tested, before the first step."""
    train = table[~tested]
    spread = train.std(axis=0)
    X, y = np.hsplit((train - train.mean(axis=0)) / np.where(spread > 0, spread, 1.0), [-1])
    weights = draw_weights(len(table), int(tested.sum()), X.shape[1])
    return -mercer.log_evidence(authors_network(X, weights), X, y[:, 0], noise=NOISE)


def other_splits(X: Array) -> list[Array]:
    """Return the PCA split as other sorts leave it, along the component and against it, where it is another."""
    along, low, high = component(X), len(X) // PART, -(-len(X) // PART)
    found = []
    for values in (along, -along):
        for order in (np.argsort(values), np.argsort(values, kind="stable"), np.argsort(values, kind="heapsort")):
            tested = np.zeros(len(X), dtype=bool)
            tested[order[:low]] = tested[order[len(X) - high :]] = True
            found.append(tested)
    return [tested for tested in found if (tested != pca_split(X)).any()]


def first_loss(folder: Path, name: str) -> dict[str, Any]:
    """Return the loss before the first step beside the logged one, and how near other splits come to that."""
    table = pd.read_csv(folder / "regression" / f"{name}.csv").to_numpy(dtype=float)
    loss, logged = loss_of(table, pca_split(table[:, :-1])), FIRST_LOSSES[name]
    others = [abs(loss_of(table, tested) - logged) for tested in other_splits(table[:, :-1])]
    nearest = min(others, default=None)
    return {"loss": loss, "logged": logged, "difference": abs(loss - logged), "nearest_other": nearest}


def line_of(name: str, found: dict[str, Any]) -> str:
    """Say how far a table's loss is from the logged one, and other orders of its rows."""
    line = f"{name:9}{found['loss']:14.6f}, logged {found['logged']:14.6f}, difference {found['difference']:.1e}"
    return line + (f"; nearest of other orders {found['nearest_other']:.1e}" if found["nearest_other"] else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    missing = [name for name in FIRST_LOSSES if not (folder / "regression" / f"{name}.csv").is_file()]
    if missing:
        parser.error(f"regression/ of {folder} lacks {', '.join(missing)}: benchmarks/README.md, The data folder")
    for name in FIRST_LOSSES:
        print(line_of(name, first_loss(folder, name)))


if __name__ == "__main__":
    main()
