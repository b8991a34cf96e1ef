"""The rows of neural kernel networks (Sun et al. 2018)."""

from __future__ import annotations

from typing import Literal

from benchmarks.nkn_start import FIRST_LOSSES
from benchmarks.papers import published
from benchmarks.papers.row import (
    BARE,
    CELLS,
    FITS,
    GRAMMAR,
    KERNELS,
    NETWORKS,
    Figure,
    Reading,
    Row,
    Source,
    cell,
    cells,
    described,
)

METHODS = (("NKN", "GP-NKN", "nkn"), ("RBF", "GP-RBF", "se"), ("SM4", "GP-SM4", "sm4"))
PRINTED = {"random": ("yacht", "boston"), "pca": ("yacht", "boston", "energy", "concrete")}
SMALL = ("boston", "concrete", "energy", "wine", "yacht")  # fitted exactly by the authors too
DISTANCES = "typical distances"
WAVY = ("boston", "concrete", "energy", "yacht")  # that spectral mixtures are fitted to from there
START = "the authors' start"  # the lengthscales that their code begins with, which the paper does not print
MEASURES = (("RMSE", "rmse", "rmse"), ("log density", "ll", "log_density"))
COMPARED: tuple[tuple[str, Literal["lower", "higher"]], ...] = (
    (", NKN, RMSE", "lower"),
    (", NKN, log density", "higher"),
    (f", NKN from {DISTANCES}, RMSE", "lower"),
    (f", NKN from {DISTANCES}, log density", "higher"),
)


def table_1() -> tuple[Figure, ...]:
    found = []
    for table, printed in published.NKN_TABLE_1.items():
        for word, key, value in MEASURES:
            digits = 8 if table == "naval" and value == "rmse" else 3
            for short, name, method in METHODS:
                reading = Reading("nkn.json", f"results|random/{table}/*/{method}|{value}", "mean ± se", digits, 10)
                logged = published.NAVAL_LOGS["random"] if digits == 8 and method == "nkn" else None
                found.append(Figure(f"{table}, {short}, {word}", printed[key][name], reading, logged))
                if method == "nkn" and table in SMALL:
                    path = f"results|random/{table}/*/distances|{value}"
                    reading = Reading("nkn.json", path, "mean ± se", digits, 10)
                    found.append(Figure(f"{table}, NKN from {DISTANCES}, {word}", printed[key][name], reading))
            if table in WAVY:
                reading = cell(f"sm4-start/{table}/*", value, "mean ± se", digits)
                found.append(Figure(f"{table}, SM4 from {START}, {word}", printed[key]["GP-SM4"], reading))
                found.append(
                    Figure(f"{table}, SM4 on the same five splits, {word}", "", first_five(table, "sm4", value))
                )
            reading = cell(f"bbb/{table}/*", value, "mean ± se", digits)
            found.append(Figure(f"{table}, BBB, {word}", printed[key]["BBB"], reading))
    return tuple(found)


def first_five(table: str, method: str, value: str) -> Reading:
    """Return the reading of random splits 1 to 5, which variants are measured on; on most tables the easier half."""
    return Reading("nkn.json", f"results|random/{table}/[12345]/{method}|{value}", "mean ± se", 3, 5)


def as_printed() -> tuple[Figure, ...]:
    found = []
    for split, paper in (("random", published.NKN_TABLE_1), ("pca", published.NKN_TABLE_2)):
        for table in PRINTED[split]:
            for word, key, value in MEASURES:
                name = f"nkn-printed/{table}/*" if split == "random" else f"nkn-printed-pca/{table}"
                what = f"{table}, {'random splits' if split == 'random' else 'PCA split'}, {word}"
                found.append(Figure(what, paper[table][key]["GP-NKN"], cell(name, value, "mean ± se")))
                if split == "random":
                    what = f"{table}, Mercer's default on the same five splits, {word}"
                    found.append(Figure(what, "", first_five(table, "nkn", value)))
                if split == "pca" and table in published.PCA_LOGS:
                    logged = f"{paper[table][key]['GP-NKN']} ({published.PCA_LOGS[table][key]} in the authors' logs)"
                    reading = cell(f"nkn-start-pca/{table}", value)
                    found.append(Figure(f"{table}, PCA split, from {START}, {word}", logged, reading))
    return tuple(found)


def table_2() -> tuple[Figure, ...]:
    found = []
    for table, printed in published.NKN_TABLE_2.items():
        for word, key, value in MEASURES:
            digits = 8 if table == "naval" and value == "rmse" else 3
            for short, name, method in METHODS[:2]:
                reading = Reading("nkn.json", f"results|pca/{table}/{method}|{value}", "mean", digits)
                logged = published.NAVAL_LOGS["pca"] if digits == 8 and method == "nkn" else None
                found.append(Figure(f"{table}, {short}, {word}", printed[key][name], reading, logged))
                if method == "nkn" and table in SMALL:
                    reading = Reading("nkn.json", f"results|pca/{table}/distances|{value}", "mean", digits)
                    found.append(Figure(f"{table}, NKN from {DISTANCES}, {word}", printed[key][name], reading))
            for start, kind in (("", "sm"), (f" from {START}", "sm-start")):
                if kind == "sm" or table in WAVY:
                    reading = cell(f"{kind}/{table}", value, digits=digits)
                    found.append(Figure(f"{table}, SM{start}, {word}", printed[key]["GP-SM"], reading))
    return tuple(found)


def start_figures() -> tuple[Figure, ...]:
    found = []
    for table in SMALL:
        what = f"{table}, log evidence before the first step: difference from the logged {-FIRST_LOSSES[table]:.6f}"
        found.append(Figure(what, "0", cell(f"first-loss/{table}", "difference", digits=1)))
    for table in SMALL:
        for word, value in (("RMSE", "rmse"), ("log density", "log_density"), ("leave-one-out score", "loo")):
            for suffix, way in (("", "range"), (f" from {DISTANCES}", "distances")):
                what = f"{table}, split again: NKN{suffix}, {word}"
                found.append(Figure(what, "", cell(f"nkn-nested/{table}/{way}", value)))
    return tuple(found)


NAMES_4 = (
    ("Styblinski-Tang", "styblinski", "sty"),
    ("transformed", "rotated", "sty_t"),
    ("Michalewicz", "michalewicz", "mich"),
)
OPTIMISER = ("src/mercer/optimise/optimizer.py", "src/mercer/optimise/proposal.py", "src/mercer/optimise/models.py")
# the paper's methods fit kernels that are given, and run nothing of Mercer's optimiser
PAPER_METHODS = ("benchmarks/optimise_paper.py", "src/mercer/fitting/minimise.py", "src/mercer/kernels/network.py")


def nkn(pattern: str, *parts: str) -> Source:
    path = f"results|{pattern}|"
    return Source("nkn.json", f"{path}date", (f"{path}device", f"{path}cores"), f"{path}code", parts)


def optimised(function: str, method: str, digits: int = 2) -> Reading:
    return Reading("optimise.json", f"[function={function}&method={method}]|best|[-1]", "mean ± sd", digits, of=5)


def optimise(method: str, *parts: str) -> tuple[Source, ...]:
    """Return the circumstances of a method on the paper's three functions; others have rows elsewhere."""
    paths = [f"[function={function}&method={method}]|machine" for _, function, _ in NAMES_4]
    return tuple(Source("optimise.json", path, (path,), path, parts) for path in paths)


FIGURE_4 = tuple(
    Figure(f"{word}, {short}", f"{published.NKN_FIGURE_4[key][name]} (from the picture)", optimised(function, method))
    for word, function, key in NAMES_4
    for short, name, method in (
        ("RBF, a lengthscale for each input", "rbf", "paper-ard"),
        ("RBF, one lengthscale", "rbf", "paper-rbf"),
        ("NKN", "nkn", "paper-nkn"),
        ("oracle", "oracle", "paper-oracle"),
    )
) + tuple(Figure(f"{word}, Mercer's own optimiser", "", optimised(function, "mercer")) for word, function, _ in NAMES_4)

HALVES_12 = {
    ", fully dependent": ("paper-rbf", "paper-2rbf", "paper-small-nkn"),
    ", Model MCMC": ("paper-mcmc-rbf", "paper-mcmc-2rbf", "paper-mcmc-nkn"),
}

NKN = (
    Row(
        "nkn-kernels",
        "NKN",
        "sections 2.3 and 3.1, equation (25)",
        "primitive kernels RBF, PER, LIN, RQ, WN, C, COS, and the spectral mixture",
        (
            *(
                Figure(f"{name}, largest difference", "0", cell("kernels", f"nkn {name}|difference", digits=1))
                for name in ("RBF", "PER", "LIN", "WN", "C", "COS", "SM")
            ),
            *(
                Figure(
                    f"{words} as printed, lowest eigenvalue over the largest",
                    "not below 0",
                    cell("kernels", f"nkn {name}|lowest"),
                )
                for words, name in (("RQ", "RQ"), ("PER of two columns", "PER of two columns"))
            ),
        ),
        (cells("kernels"),),
        (f"{BARE} kernels",),
        "seconds",
        KERNELS,
        "The printed RQ has the exponent 1 / alpha, and is not positive definite: Mercer has -alpha. The printed PER, "
        "of |x - x'|, is no kernel of several columns: Mercer's is a product with a period for each column, which has "
        "the 2d + 1 parameters of Table 4.",
    ),
    Row(
        "nkn-figure-2",
        "NKN",
        "Figure 2, section 3.1, J.1, J.2 and Table 4",
        "the network: Linear, Product, activations",
        library="`NeuralKernelNetwork.paper()`: 111 parameters for one column, 4d + 85 for d, as printed; "
        "[test_neural.py](../tests/unit/test_neural.py)",
        remark="Table 4's counts hold with alpha and offset held fixed, as the paper counts. Mercer's default leaves "
        "out the primitives' own variances, which the weights carry, and trains by L-BFGS-B from eight starts.",
    ),
    Row(
        "nkn-figure-1",
        "NKN",
        "Figure 1",
        "(cos 2 x1 + cos 2 x2) sqrt|x1 x2| from 100 rows, five draws",
        (
            Figure(
                "NKN, RMSE over the square", "a picture", Reading("nkn.json", "results|figure1/*/nkn|rmse", "median")
            ),
            Figure("RBF, RMSE over the square", "", Reading("nkn.json", "results|figure1/*/se|rmse", "median")),
        ),
        (nkn("figure1/*/nkn"), nkn("figure1/*/se", *FITS)),
        ("python -m benchmarks.nkn --data {data} --part figure1 --jobs {jobs}",),
        "10 minutes on one core",
        NETWORKS,
        "The paper leaves out the bars, without which half the square has no value.",
    ),
    Row(
        "nkn-figure-3",
        "NKN",
        "Figures 3, 8 and 9",
        "airline, Mauna Loa and solar, extrapolated",
        tuple(
            Figure(
                f"{name}, {short}, RMSE of the last tenth",
                "a picture",
                Reading("nkn.json", f"results|series/{stem}/{method}|rmse", "mean", 3),
            )
            for name, stem in (("airline", "01-airline"), ("Mauna Loa", "03-mauna"), ("solar", "02-solar"))
            for short, method in (("NKN", "nkn"), ("heuristic", "heuristic"))
        ),
        (nkn("series/0[123]*/nkn"), nkn("series/0[123]*/heuristic", *FITS)),
        ("python -m benchmarks.nkn --data {data} --part series --only 01,02,03 --methods nkn,heuristic --jobs {jobs}",),
        "20 minutes on one core",
        NETWORKS,
        "The third curve, the Automatic Statistician's, is in cks-extrapolation.",
    ),
    Row(
        "nkn-figure-6",
        "NKN",
        "Theorem 3 and Figure 6",
        "0.3 k1 k2^2 by a network of width 2B + 6, B = 3",
        (
            Figure("width", "12", cell("figure-6", "width", digits=0)),
            Figure("largest difference from the polynomial", "0", cell("figure-6", "difference", digits=1)),
        ),
        (cells("figure-6"),),
        (f"{BARE} figure-6",),
        "seconds",
        ("src/mercer/kernels/network.py",),
        "The theorem's other half, width 2^(Bp + 1) and p modules, says that a network exists: nothing to run.",
    ),
    Row(
        "nkn-example-1",
        "NKN",
        "Example 1",
        "a spectral mixture by one complex primitive",
        (Figure("largest relative difference, n = 3", "0", cell("example-1", "difference", digits=1)),),
        (cells("example-1"),),
        (f"{BARE} example-1",),
        "seconds",
        ("src/mercer/kernels/network.py",),
        "Equation (9) sums up to n, where the kernel is defined with n + 1 components: here as in (9), t = 1 to 3.",
    ),
    Row(
        "nkn-theorem-4",
        "NKN",
        "Theorems 4, 5, 7 and 9, appendices A to C and F to H",
        "complex and non-stationary primitives",
        library="EXPI (real part at the root) and SUMI; [test_network_laws.py](../tests/laws/test_network_laws.py)",
        remark="Appendix G multiplies by exp(i (x + x').nu), whose real part is no kernel: SUMI adds the term that "
        "makes it one.",
    ),
    Row(
        "nkn-table-1",
        "NKN",
        "Table 1",
        "eight tables, ten random splits: mean ± standard error",
        table_1(),
        (
            nkn("random/*/nkn"),
            nkn("random/*/distances"),
            nkn("random/*/se", *FITS),
            nkn("random/*/sm4", *FITS),
            cells("sm4-start/*", *FITS),
            cells("bbb/*", "benchmarks/bayes_by_backprop.py"),
        ),
        (
            "python -m benchmarks.nkn --data {data} --part random --only yacht,boston,energy,concrete,wine "
            "--methods nkn,distances,se,sm4 --jobs {jobs}",
            "python -m benchmarks.nkn --data {data} --part random --only kin8nm,naval,power_plant --methods nkn,se,sm4 "
            "--device {device} --jobs {jobs}",
            f"{CELLS} 'bbb/*' " + " ".join(f"'sm4-start/{table}/*'" for table in WAVY),
        ),
        "five small tables 3 hours on one core; the three large ones 3 hours with a GPU (days without); BBB 25 minutes",
        NETWORKS,
        "The paper fits tables of more than 2,000 rows by VFE (J.2): here, as in Table 2, the three large ones are "
        "exact, on a GPU. Three splits of each of these, by sparse and by exact inference: "
        "[scale-networks.md](../benchmarks/results/scale-networks.md) and [cuda.md](../benchmarks/results/cuda.md). "
        "BBB: the first five splits, on most tables the easier half, with a standard normal prior on the weights where "
        "Blundell et al. have a mixture, and a gradient that is written out, in NumPy "
        "([bayes_by_backprop.py](../benchmarks/bayes_by_backprop.py)). Of three starts, which differ by the noise that "
        "they begin with, the one of the highest bound on the training rows is trained on: of those with most noise "
        "four of five end in a poor maximum on energy (`bounds` in the file). SM4 is fitted by L-BFGS-B from the "
        "regressor's default starts, and by RMSE is weaker than printed on six of eight tables. From the lengthscales "
        "that the authors' code begins with, which the paper does not print, it is better on the same five splits of "
        "boston, concrete and energy, and worse on yacht. "
        '`NeuralKernelNetwork(lengthscales="distances")` begins the network there too: no clear difference on random '
        "splits. The authors' own logs have 2.880 for the network on boston, where the table prints 2.506.",
        compared=COMPARED,
    ),
    Row(
        "nkn-table-2",
        "NKN",
        "Table 2",
        "eight tables, the PCA split",
        table_2(),
        (
            nkn("pca/*/nkn"),
            nkn("pca/*/distances"),
            nkn("pca/*/se", *FITS),
            cells("sm/*", *FITS),
            cells("sm-start/*", *FITS),
        ),
        (
            "python -m benchmarks.nkn --data {data} --part pca --only yacht,boston,energy,concrete,wine "
            "--methods nkn,distances,se --jobs {jobs}",
            "python -m benchmarks.nkn --data {data} --part pca --only kin8nm,naval,power_plant --methods nkn,se "
            "--device {device} --jobs {jobs}",
            f"{CELLS} 'sm/*' " + " ".join(f"sm-start/{table}" for table in WAVY),
        ),
        "small tables 25 minutes on one core; large ones 20 minutes with a GPU; SM 40 minutes, with the "
        "large ones days",
        NETWORKS,
        "Rows of energy, wine and yacht tie at the borders of the split: they fall as in the authors' run, which "
        "nkn-start confirms. Errors beyond the data depend on the seed, and yacht's on the machine: "
        "[nkn.md](../benchmarks/results/nkn.md) has five seeds. The default is worse than printed on boston, where "
        "the authors' own logs have 5.367, on energy, and on naval by their logs. What was tried inside the training "
        "rows to come nearer: [nkn-pca.md](../benchmarks/results/nkn-pca.md), and nkn-start. From typical distances "
        '(`lengthscales="distances"`) the three large tables are not measured. There energy\'s 0.423 is the lowest of '
        "five seeds (median 0.599), so that this one is luck; boston's is below the authors' logs with all five. RBF "
        "and SM are fitted as the regressor does by default, by L-BFGS-B. By RMSE RBF is worse than printed on "
        "concrete, naval, power plant and yacht, SM on all but boston and yacht; from the lengthscales that "
        "the authors' code begins with, and with waves in directions drawn anew, SM is better on energy and worse on "
        "boston, concrete and yacht. Concrete has 1,030 rows, not 1,031.",
        compared=COMPARED,
    ),
    Row(
        "nkn-printed",
        "NKN",
        "section 5.2, J.2",
        "the network with its settings as printed: one start, 20,000 steps of Adam",
        as_printed(),
        (cells("nkn-printed*"), cells("nkn-start-pca/*", alike="nkn-printed*"), nkn("random/[by]*/[12345]/nkn")),
        (
            " ".join(
                [
                    CELLS,
                    *(f"'nkn-printed/{table}/*'" for table in PRINTED["random"]),
                    *(f"nkn-printed-pca/{table}" for table in PRINTED["pca"]),
                    *(f"nkn-start-pca/{table}" for table in published.PCA_LOGS),
                ]
            ),
            "python -m benchmarks.nkn --data {data} --part random --only yacht,boston --splits 1-5 --methods nkn "
            "--jobs {jobs}",
        ),
        "80 minutes of one core",
        NETWORKS,
        "`NeuralKernelNetwork.paper()`. Tables 1 and 2 above are of Mercer's defaults: eight starts by L-BFGS-B with "
        "weak priors, averaged. This is the same network without them, on the smaller tables: 20,000 steps take two "
        "minutes on yacht, four on boston and nine on energy. The paper does not print where it begins. Lines "
        "from the authors' start have the lengthscales and alphas of their code (nkn-start), where alpha and a weight "
        "of LIN for each column are fitted too; the weights of the layers are drawn anew.",
    ),
    Row(
        "nkn-start",
        "NKN",
        "section 5.2, the authors' code and logs",
        "where training begins, on the training rows of the PCA split",
        start_figures(),
        (
            cells("first-loss/*", "src/mercer/kernels/network.py", "src/mercer/inference/exact.py"),
            cells("nkn-nested/*"),
        ),
        (f"{CELLS} 'first-loss/*' 'nkn-nested/*'",),
        "5 minutes of one core",
        NETWORKS,
        "Not in the paper. The authors' code draws all that it draws before the first step from one seed, and their "
        "logs have the log evidence there: with the rows of our PCA split and their first weights and lengthscales "
        "Mercer computes the same ([nkn_start.py](../benchmarks/nkn_start.py)). Along the component the other way, or "
        "with rows that tie as other sorts leave them, it is another number (`nearest_other` in the file), so that the "
        "rows that they tested are known on these five tables. The three large ones, which they fit by VFE from random "
        "points, cannot be checked so: by the same rule one row each of kin8nm and power plant would be another. The "
        'network of `lengthscales="distances"` begins near theirs. The split again inside the training rows is in '
        "their code too: no test row has a part in it.",
    ),
    Row(
        "nkn-table-3",
        "NKN",
        "Table 3",
        "seconds of a fit to a whole series",
        tuple(
            figure
            for name, stem in (("airline", "01-airline"), ("mauna", "03-mauna"), ("solar", "02-solar"))
            for figure in (
                Figure(
                    f"{name}, NKN",
                    str(published.NKN_TABLE_3["NKN"][name]),
                    Reading("nkn.json", f"results|seconds/{name}|cpu_seconds", "mean", 1),
                ),
                Figure(
                    f"{name}, AS (Mercer: cks-algorithm-1, nine tenths of it)",
                    str(published.NKN_TABLE_3["AS"][name]),
                    cell(f"cks/{stem}", "cpu", digits=0),
                ),
            )
        ),
        (nkn("seconds/*"), cells("cks/0[123]*", *GRAMMAR)),
        (
            "python -m benchmarks.nkn --data {data} --part seconds --jobs 1",
            f"{CELLS} cks/01-airline cks/02-solar cks/03-mauna",
        ),
        "one minute on one core; AS some minutes",
        NETWORKS,
        "Seconds of one core. Eight starts by L-BFGS-B against one by Adam, on another machine: a remark about speed, "
        "not a race.",
    ),
    Row(
        "nkn-figure-4",
        "NKN",
        "Figure 4",
        "Bayesian optimisation: the best value found",
        FIGURE_4,
        (
            *optimise("mercer", *OPTIMISER),
            *(source for name in ("ard", "rbf", "nkn", "oracle") for source in optimise(f"paper-{name}")),
        ),
        (
            "python -m benchmarks.optimise --functions styblinski,rotated,michalewicz --jobs {jobs} --methods "
            "mercer,paper-ard,paper-rbf,paper-nkn,paper-oracle",
        ),
        "2 hours of one core",
        PAPER_METHODS,
        "After 200 steps in the paper, read off the authors' vector graphics; 200 evaluations here, ten random ones "
        "among them. J.3 prints one lengthscale for all inputs; the authors' code has one for each. The authors' box "
        "for the transformed function is centred on its optimum, so that its centre wins at once; Mercer's is not. "
        "Their acquisition is maximised over 10,000 uniform points, which caps even the oracle.",
    ),
    Row(
        "nkn-figure-5",
        "NKN",
        "Figure 5, section 5.4",
        "two textures, a hole of 60 x 80 pixels: error over variance",
        tuple(
            Figure(
                f"{picture}, {kernel}",
                paper,
                Reading("textures.json", f"runs|[picture={picture}&kernel={kernel}]|smse", "median"),
            )
            for picture, printed in (("plate", "0.217 (from the authors' picture)"), ("pave", "0.841 (the same)"))
            for kernel, paper in (("NKN", printed), ("SM", "a picture"), ("PER", "a picture"), ("SE", "a picture"))
        ),
        (described("textures.json", "runs|[kernel=*]"),),
        ("python -m benchmarks.textures --data {data} --jobs {jobs}",),
        "20 minutes on one core",
        ("src/mercer/fitting/grid.py", "src/mercer/inference/grid_product.py"),
        "Which of several fits predicts is chosen by hiding boxes of the pixels that are seen, for every kernel alike, "
        "which the paper does not do. On the plate SM is then better than the network, in the paper it is blurrier. "
        "The numbers of the paper's networks are those of the pictures in the authors' repository.",
        picture="textures.png",
    ),
    Row(
        "nkn-figure-7",
        "NKN",
        "I.1 and Figure 7",
        "100 rows of [-12, 0] and [6, 14] of RBF + PER, five draws",
        (
            Figure("RMSE in the gap and beyond, over the spread", "a picture", cell("i1/*", "rmse", "median")),
            Figure("truth inside 95 % bands", "a picture", cell("i1/*", "inside_95", "mean", 2)),
            Figure("standard deviation there over that at the rows", "larger", cell("i1/*", "std_ratio", "median", 1)),
        ),
        (cells("i1/*"),),
        (f"{BARE} 'i1/*'", "python -m benchmarks.papers.figures"),
        "2 minutes on one core",
        NETWORKS,
        "The paper names no lengthscales, period or noise: 4, 3 and a thousandth.",
        picture="paper-figures.png",
    ),
    Row(
        "nkn-figure-10",
        "NKN",
        "I.3, Figures 10 and 11",
        "LIN + RBF * PER, patterns of the first four units, five draws",
        (
            Figure("RMSE at the rows, over the spread", "a picture", cell("i3/*", "rmse_seen", "median")),
            Figure("RMSE of the last quarter, over the spread", "a picture", cell("i3/*", "rmse_beyond", "median")),
            *(
                figure
                for word, key in (("patterns by the network's weights", "parts"), ("each unit alone", "alone"))
                for figure in (
                    Figure(
                        f"{word}: correlation of two, less a line, median",
                        "low",
                        cell("i3/*", f"{key}|median_correlation", "median", 2),
                    ),
                    Figure(f"{word}: the lowest", "low", cell("i3/*", f"{key}|lowest_correlation", "median", 2)),
                    Figure(
                        f"{word}: different frequencies that lead a unit",
                        "4",
                        cell("i3/*", f"{key}|different", "mean", 1),
                    ),
                )
            ),
        ),
        (cells("i3/*"),),
        (f"{BARE} 'i3/*'", "python -m benchmarks.papers.figures"),
        "2 minutes on one core",
        NETWORKS,
        "The paper names no lengthscales, period or noise, and says neither how a unit's pattern is computed nor how "
        "large the correlations are, only that the four patterns differ in frequency. With the network's weights, "
        "k_u(x, X) (K + noise I)^-1 y, a pattern is the unit's part; a unit alone, k_u(x, X) (k_u + noise I)^-1 y, "
        "goes through the rows whatever its kernel, so that all patterns are alike there. `report()` draws every unit.",
        picture="paper-figures.png",
    ),
    Row(
        "nkn-recovery",
        "NKN",
        "I.4",
        "the largest terms of a network fitted to known functions, five draws",
        (
            Figure(
                "Styblinski-Tang: of ten largest terms, single columns",
                "10",
                Reading("nkn.json", "results|recovery/additive/*|single", "mean", 1),
            ),
            *(
                Figure(
                    f"transformed, {rows} rows: of twenty largest terms, within a group",
                    paper,
                    Reading("nkn.json", f"results|recovery/{draws}/*|within", "mean", 1),
                )
                for rows, draws, paper in (
                    (100, "grouped-100", "8; 17 without k7, which is in most"),
                    (200, "grouped", ""),
                )
            ),
            *(
                Figure(
                    f"transformed, {rows} rows: of ten sets that vary most together, within a group (by chance 4.4)",
                    "",
                    Reading("nkn.json", f"results|recovery/{draws}/*|anova|sets_within", "mean", 1),
                )
                for rows, draws in ((100, "grouped-100"), (200, "grouped"))
            ),
            Figure(
                "Michalewicz: of ten largest terms, single columns",
                "1",
                Reading("nkn.json", "results|recovery/michalewicz/*|single", "mean", 1),
            ),
        ),
        (nkn("recovery/*"),),
        ("python -m benchmarks.nkn --data {data} --part recovery --jobs {jobs}",),
        "10 minutes on one core",
        NETWORKS,
        "100 rows, as printed, do not tell the groups: [nkn.md](../benchmarks/results/nkn.md). The paper's numbers are "
        "counted in the terms it prints, of one run; Michalewicz has 500 rows, Styblinski-Tang 100, in both.",
    ),
    Row(
        "nkn-figure-12",
        "NKN",
        "I.5 and Figure 12",
        "RBF, 2RBF and a small network, fully dependent or by Model MCMC",
        tuple(
            Figure(f"{word}, {short}{half}", "a picture", optimised(function, method))
            for half, methods in HALVES_12.items()
            for word, function, _ in NAMES_4
            for short, method in zip(("RBF", "2RBF", "NKN"), methods, strict=True)
        ),
        tuple(source for methods in HALVES_12.values() for method in methods for source in optimise(method)),
        (
            "python -m benchmarks.optimise --functions styblinski,rotated,michalewicz --jobs {jobs} --methods "
            + ",".join(method for methods in HALVES_12.values() for method in methods),
        ),
        "4 hours of one core",
        PAPER_METHODS,
        "The best of 200 evaluations, ten random ones among them. Model MCMC is Gardner et al. 2017 with the printed "
        "numbers of steps, from one group; how many partitions the paper averages over is not printed: three. On "
        "Styblinski-Tang the three kernels end at the same number: all are given the same 10,000 candidates at every "
        "step, and end at the same of them. Mercer's own optimiser samples partitions by `PartitionSampler` "
        "(nkn-figure-4).",
    ),
    Row(
        "nkn-grids",
        "NKN",
        "J.4",
        "Kronecker inference with imaginary observations",
        library="`GridRegressor`, [grids.md](grids.md); [test_grid.py](../tests/agree/test_grid.py)",
        remark="How exact it is, with holes and without: [grids.md](grids.md#how-exact-it-is).",
    ),
)
