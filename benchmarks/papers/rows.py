"""The rows of docs/papers.md: every algorithm, table, figure and named kernel of the papers.

Those of searches and change surfaces are here, those of networks and functionals in files of their own.
"""

from __future__ import annotations

from benchmarks.known_kernels import KERNELS as TRUTHS
from benchmarks.known_kernels import OF_THE_PAPER
from benchmarks.papers import published
from benchmarks.papers.row import (
    BARE,
    CELLS,
    GRAMMAR,
    KERNELS,
    SURFACES,
    Figure,
    Reading,
    Row,
    Source,
    cell,
    cells,
    described,
)
from benchmarks.papers.rows_kfo import KFO
from benchmarks.papers.rows_nkn import NKN

# ---------------------------------------------------------------------------------------------------- CKS and AS


def series_figures(split: str) -> tuple[Figure, ...]:
    found = []
    for name, (best, method, _) in published.SERIES[split].items():
        reading = Reading("discovery.json", f"results|{split}/{name}|average|rmse", "mean", 3)
        found.append(Figure(f"{name}, RMSE", f"{best} ({method}, the best of nine)", reading))
    return tuple(found)


def printed_search_figures() -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{name}, RMSE", "" if cks is None else f"{cks} (GPSS)", cell(f"cks/{name}", "rmse", digits=3))
        for name, (_, _, cks) in published.SERIES["extrapolation"].items()
    )


def draws_of(kernel: str) -> str:
    """Return the pattern of what was drawn from a kernel, in whose name a star is no pattern."""
    return f"recovery/{kernel.replace('*', '[*]')}"


def recovery_figures() -> tuple[Figure, ...]:
    """The seven kernels of CKS table 1, five draws each."""
    return tuple(
        Figure(
            f"{kernel}, signal-to-noise {ratio}: found in its canonical form, %",
            "",
            Reading("recovery.json", f"results|{draws_of(kernel)}/{ratio}/*|same_form", "percent", 0, 5),
        )
        for ratio in (10, 1)
        for kernel in TRUTHS[:OF_THE_PAPER]
    )


def discovery(part: str) -> Source:
    return cells(f"{part}/*", file="discovery.json")


CKS = (
    Row(
        "cks-algorithm-1",
        "CKS",
        "SKC appendix A, Algorithm 1",
        "the search as printed, `GrammarSearch.paper()`: 13 series, the last tenth of x forecast",
        printed_search_figures(),
        (cells("cks/*"),),
        (f"{CELLS} 'cks/*'",),
        "ten minutes on one core, half of them internet",
        GRAMMAR,
        "GPSS: the results of that name in the authors' repository, on the same rows; it is none of the nine methods "
        "of cks-extrapolation. Mercer's default (`GrammarSearch()`) goes on from the four best base kernels, races, "
        "and averages the finalists: see cks-extrapolation. Call-centre: in March 1974 the series fell from 549 to "
        "162. None of SE, PER, LIN and RQ stays where it is after a jump: the winner's RQ has a lengthscale of .28 "
        "years, and the forecast climbs back to 500 within a year. With M12, which the default also tries, it stays.",
        compared=((", RMSE", "lower"),),
    ),
    Row(
        "cks-kernels",
        "CKS",
        "SKC appendix B",
        "the base kernels SE, PER, LIN and RQ",
        (
            Figure("SE, largest difference from the formula", "0", cell("kernels", "nkn RBF|difference", digits=1)),
            Figure("PER, largest difference", "0", cell("kernels", "nkn PER|difference", digits=1)),
            Figure("LIN, largest difference", "0", cell("kernels", "skc LIN|difference", digits=1)),
            Figure("RQ, largest difference", "0", cell("kernels", "skc RQ|difference", digits=1)),
        ),
        (cells("kernels"),),
        (f"{BARE} kernels",),
        "seconds",
        KERNELS,
    ),
    Row(
        "cks-operators",
        "CKS",
        "NKN section 2.3",
        "S + B, S * B on every subexpression, B to B'",
        library='`GrammarSearch(grammar="full")`, the default; [tutorial](tutorial.md)',
    ),
    Row(
        "cks-report",
        "CKS",
        "Lloyd et al. 2014",
        "components in words, their share of the variance, checks",
        library="`GPRegressor.explain()` and `report()`; [tutorial](tutorial.md)",
        remark="Components are ordered by what they explain; every sentence is data first, see "
        "[design](design.md#contracts).",
    ),
    Row(
        "cks-changes",
        "CKS",
        "Lloyd et al. 2014, base kernels and operators",
        "change points and windows, constants, white noise and periods around zero",
        library='CP and CW with `GrammarSearch(operators="+*r|")`, C, WN and CPER; '
        "[design](design.md#methods-3-starts-search-averages-words)",
        remark="By default the search tries CP only where the level of a series seems to jump. A constant and noise "
        "are fitted with every kernel.",
    ),
    Row(
        "cks-table-1",
        "CKS",
        "Table 1",
        "kernels found in 300 rows drawn from known ones",
        recovery_figures(),
        tuple(
            cells(f"{draws_of(kernel)}/*", file="recovery.json", alike="recovery/*") for kernel in TRUTHS[:OF_THE_PAPER]
        ),
        (
            "python -m benchmarks.discovery --data {data} --part recovery --jobs 1 --workers {jobs} "
            "--out benchmarks/results/recovery.json",
        ),
        "15 minutes on 16 cores",
        GRAMMAR,
        "The main text is not among our sources: the truths were taken down before, and the paper prints a kernel for "
        "each, also at a signal-to-noise ratio of 0.1, which is not measured here. Its comparison with other methods "
        "(bach, concrete, pumadyn, servo, housing) is not here either: three of the tables are not among our data. By "
        "default settings. Where another form is found, it has the better BIC as a rule: "
        "[recovery.md](../benchmarks/results/recovery.md), with five truths more.",
    ),
    Row(
        "cks-extrapolation",
        "CKS",
        "Lloyd et al. 2014, extrapolation",
        "13 series, the last tenth of x forecast",
        series_figures("extrapolation"),
        (discovery("extrapolation"),),
        ("python -m benchmarks.discovery --data {data} --part extrapolation --jobs {jobs}",),
        "25 minutes on 16 cores",
        GRAMMAR,
        "The paper prints ratios to the best method; these are the RMSEs behind them.",
        compared=((", RMSE", "lower"),),
    ),
    Row(
        "cks-interpolation",
        "CKS",
        "Lloyd et al. 2014, interpolation",
        "13 series, a random half filled in",
        series_figures("interpolation"),
        (discovery("interpolation"),),
        ("python -m benchmarks.discovery --data {data} --part interpolation --jobs {jobs}",),
        "18 minutes on 16 cores",
        GRAMMAR,
        compared=((", RMSE", "lower"),),
    ),
)


# ----------------------------------------------------------------------------------------------------------- SKC


def bracket(name: str, end: int) -> Reading:
    return Reading("scale.json", f"brackets|{name}|bic|[{end}]", "mean", 1)


SKC = (
    Row(
        "skc-brackets",
        "SKC",
        "main text",
        "lower and upper end of BIC (log p - p/2 log N)",
        tuple(
            figure
            for name, low, high in (
                ("solar", "-101.3", "-100.1"),
                ("power_plant", "59.9", "301.2"),
                ("concrete", "-688.6", "-668.6"),
                ("mauna", "", ""),
            )
            for figure in (
                Figure(f"{name}, lower", low, bracket(name, 0)),
                Figure(f"{name}, upper", high, bracket(name, 1)),
                Figure(
                    f"{name}, from end to end with 320 inducing points, % of the log evidence",
                    "",
                    Reading("scale.json", f"brackets|{name}|gap_with_the_engines_points", "percent", 2),
                ),
            )
        ),
        (described("scale.json", "brackets|*"),),
        ("python -m benchmarks.scale --data {data} --part brackets --jobs {jobs}",),
        "20 minutes on two cores",
        ("src/mercer/inference/bounds.py", "src/mercer/inference/vfe.py"),
        "The main text is not among our sources: its numbers were taken down before. Larger is better here. The "
        "kernels are not the paper's: Mercer's search found its own of the same four base kernels, with a BIC at least "
        "as high, so that both of its ends may lie above both of the paper's; what can be compared is how far apart "
        "they are. The paper has 320 inducing points; with those Mercer's ends are as far apart as the third lines "
        "say, and `evidence_interval`, whose ends the first two show, takes more where that is far. Columns and target "
        "are standardised.",
    ),
    Row(
        "skc-search",
        "SKC",
        "main text",
        "three steps on power plant, 9,568 rows",
        (
            Figure(
                "seconds",
                "78,384 to 127,225 (ten workers)",
                Reading("scale.json", "search|cpu, one job|cpu_seconds", "mean", 0),
            ),
        ),
        (described("scale.json", "search|cpu, one job"),),
        ("python -m benchmarks.scale --data {data} --part search --jobs 1",),
        "45 minutes of one core",
        ("src/mercer/learners/intervals.py", *GRAMMAR),
        "The processor's time, on one core. Two cores and a GPU, with an older state of the code: "
        "[scale.md](../benchmarks/results/scale.md).",
    ),
    Row(
        "skc-features",
        "SKC",
        "appendices C and D",
        "random features of sums and products",
        (
            Figure("k(x, x) by the printed features, over the kernel", "1", cell("features", "printed_share")),
            Figure("the same by Mercer's", "1", cell("features", "share")),
        ),
        (cells("features"),),
        (f"{BARE} features",),
        "seconds",
        ("src/mercer/compute/spectral.py", "src/mercer/compute/spectral_draws.py"),
        "The printed sqrt(1/m) cos(v.x + b) gives half the kernel: Mercer has pairs of cosine and sine. Unbiased for "
        "every sum and product: tests/laws/test_features.py.",
    ),
    Row(
        "skc-densities",
        "SKC",
        "appendix E",
        "spectral densities of RQ and PER",
        library="[spectral_draws.py](../src/mercer/compute/spectral_draws.py), tested in "
        "[test_spectral.py](../tests/unit/test_spectral.py)",
        remark="RQ is drawn as a gamma mixture of normals, which is the same density.",
    ),
    Row(
        "skc-identities",
        "SKC",
        "appendix F",
        "Woodbury and Sylvester",
        library="[operators.py](../src/mercer/linalg/operators.py)",
    ),
)


# -------------------------------------------------------------------------------------------------- change surfaces

CHANGES = (
    Row(
        "cs-algorithm-2",
        "CS",
        "supplement, Algorithm 2",
        "the initialisation as printed, `ChangeSurface.paper()`",
        (
            Figure(
                "surface over two columns (400 rows), mean error of s, as printed, five seeds",
                "",
                cell("surface/printed/*", "error", "mean ± sd"),
            ),
            Figure("the same by default", "", cell("surface/default/*", "error", "mean ± sd")),
            Figure("log evidence, as printed", "", cell("surface/printed/*", "log_evidence", "mean ± sd", digits=1)),
            Figure("log evidence by default", "", cell("surface/default/*", "log_evidence", "mean ± sd", digits=1)),
        ),
        (cells("surface/*"),),
        (f"{CELLS} 'surface/*'",),
        "5 minutes on one core",
        SURFACES,
        "The paper's data are not among ours: the truth is known here. The default begins some surfaces from a line "
        "and from levels of the target, and holds them smooth by weak priors.",
    ),
    Row(
        "cs-priors",
        "CS",
        "supplement, (1) to (3)",
        "a, omega and b; Lambda, sigma_0 and sigma_n",
        library="[starts.py](../src/mercer/fitting/starts.py), [surface.py](../src/mercer/learners/surface.py)",
    ),
    Row(
        "cs-known",
        "CS",
        "main text",
        "changes that are known",
        (
            Figure(
                "change point (300 rows), off by % of the range",
                "",
                Reading("surfaces.json", "synthetic|results|line|off_percent_of_range", "mean", 2),
            ),
            Figure(
                "surface over two columns (1,600 rows), mean error of s",
                "",
                Reading("surfaces.json", "synthetic|results|plane|mean_absolute_error_of_s", "mean", 3),
            ),
        ),
        (described("surfaces.json", "synthetic"),),
        ("python -m benchmarks.surfaces --data {data} --part synthetic",),
        "4 minutes on one core",
        SURFACES,
        "The main text is not among our sources.",
    ),
    Row(
        "cs-coal",
        "CS",
        "main text",
        "coal mining disasters",
        (
            *(
                Figure(words, "", Reading("surfaces.json", f"real|results|coal|crossings|[0]|{key}", "year", 1))
                for words, key in (
                    ("year of the change (laws of 1887 and 1896)", "at"),
                    ("its 95 % interval, from", "low"),
                    ("its 95 % interval, to", "high"),
                )
            ),
            *(
                Figure(words, "", Reading("surfaces.json", f"real|results|coal|bic|{count}", "mean", 1))
                for words, count in (("BIC of one regime", 1), ("BIC of two regimes", 2))
            ),
        ),
        (described("surfaces.json", "real"),),
        ("python -m benchmarks.surfaces --data {data} --part real",),
        "one minute on one core",
        SURFACES,
        "By BIC, of which less is better, one regime is preferred: a slow decline describes the counts of 112 years as "
        "well as a change does, and `notes_` says so. Where the change would be is said all the same.",
    ),
    Row(
        "cs-measles",
        "CS",
        "main text",
        "measles in the United States",
        (
            Figure(
                "year of the national change (vaccine: 1963)",
                "",
                Reading("surfaces.json", "measles|results|national|crossings|[0]|at", "year", 1),
            ),
            *(
                Figure(words, "", Reading("surfaces.json", f"measles|results|national|bic|{count}", "mean", 1))
                for words, count in (("BIC of one regime", 1), ("BIC of two regimes", 2))
            ),
        ),
        (described("surfaces.json", "measles"),),
        ("python -m benchmarks.surfaces --data {data} --part measles",),
        "8 minutes on one core",
        SURFACES,
        "The picture is a map of the states.",
        picture="surfaces-measles.png",
    ),
    Row(
        "cs-scale",
        "CS",
        "main text",
        "grids: Weyl's inequalities for the log-determinant",
        library='`Grid(log_determinant="weyl")`, [grids.md](grids.md#how-exact-it-is); '
        "[test_grid_sum.py](../tests/agree/test_grid_sum.py)",
    ),
)

ROWS: tuple[Row, ...] = (*CKS, *SKC, *NKN, *KFO, *CHANGES)
