"""What a row of docs/papers.md is made of: an item of a paper, its figures, and where their numbers lie.

A `Figure` is one line of a row: what it is, what the paper prints, and the reading of Mercer's number; None: not
measured yet. A row without figures has nothing to measure, and `library` says where it is in Mercer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Reading:
    """Where a number lies: a file of benchmarks/results, keys with * patterns and | between them, and a statistic.

    In lists `[key=value&...]` chooses entries, and `[-1]` the last. `of`: how many numbers a whole measurement has.
    """

    file: str
    path: str
    statistic: str = "mean"
    digits: int = 3
    of: int = 1


@dataclass(frozen=True)
class Figure:
    """One line of a row.

    `logged`: the number in the authors' logs, where the paper's decimals leave nothing of it.
    """

    what: str
    paper: str
    mercer: Reading | None = None
    logged: float | None = None


@dataclass(frozen=True)
class Source:
    """Where a row's circumstances lie: dates, machines, and the state of the code where that was kept.

    `parts`: the files whose change makes its measurements old, where they are others than the row's. `alike`: the
    pattern of cells of which one shows for all that a change does nothing to them, where it is not that of the cells.
    """

    file: str
    date: str
    machine: tuple[str, ...]
    code: str = ""
    parts: tuple[str, ...] = ()
    alike: str = ""

    @property
    def cells(self) -> str:
        """The pattern of the cells: what stands before the date; of entries of a list, the values that choose them."""
        before = self.date.split("|")[-2] if "|" in self.date else ""
        chosen = before[1:-1].split("&") if before.startswith("[") else []
        return "/".join([*(each.partition("=")[2] for each in chosen), "*"]) if chosen else before


@dataclass(frozen=True)
class Row:
    """One item of a paper."""

    item: str  # as in make paper ITEM=...
    paper: str  # CKS, NKN, KFO, CS or SKC
    where: str
    about: str
    figures: tuple[Figure, ...] = ()
    sources: tuple[Source, ...] = ()
    commands: tuple[str, ...] = ()  # with {data} and {jobs}
    time: str = ""  # that they take, from nothing
    parts: tuple[str, ...] = ()  # of the package that are measured
    remark: str = ""
    library: str = ""
    picture: str = ""  # a file of benchmarks/results
    compared: tuple[tuple[str, Literal["lower", "higher"]], ...] = ()  # figures that end so: how many are better


PAPERS = {
    "CKS": "Compositional kernel search and the Automatic Statistician (Duvenaud et al. 2013, Lloyd et al. 2014)",
    "SKC": "Scalable kernel composition (Kim and Teh 2018)",
    "NKN": "Neural kernel networks (Sun et al. 2018)",
    "KFO": "Kernel functional optimisation (Arun Kumar et al. 2021)",
    "CS": "Change surfaces (Herlands et al. 2016)",
}
GRAMMAR = (
    "src/mercer/learners/grammar.py",
    "src/mercer/learners/growth.py",
    "src/mercer/learners/racing.py",
    "src/mercer/learners/finalists.py",
    "src/mercer/learners/simplify.py",
    "src/mercer/learners/averaging.py",
    "src/mercer/learners/experience.py",
    "src/mercer/learners/judging.py",
    "src/mercer/learners/criteria.py",
    "src/mercer/fitting/starts.py",
    "src/mercer/fitting/minimise.py",
    "src/mercer/fitting/periods.py",
    "src/mercer/fitting/newton.py",
)
FITS = ("src/mercer/fitting/starts.py", "src/mercer/fitting/minimise.py")  # of a kernel that is given: no learner runs
NETWORKS = ("src/mercer/learners/nkn.py", "src/mercer/kernels/network.py", *FITS)
FUNCTIONALS = (
    "src/mercer/learners/kfo.py",
    "src/mercer/learners/kfo_fitter.py",
    "src/mercer/learners/kernel_space.py",
    "src/mercer/learners/bayesian.py",
)
MARGINS = ("src/mercer/learners/margin.py", "src/mercer/learners/classes.py")  # SVMs with kernels that are given
CLASSES = (*FUNCTIONALS, "src/mercer/learners/kfo_classes.py", *MARGINS)
SURFACES = ("src/mercer/learners/surface.py", "src/mercer/learners/regimes.py")
KERNELS = ("src/mercer/kernels/leaf.py", "src/mercer/compute/fused_leaves.py")
DESCRIBED = "machine"  # the key of a whole description of the machine
BARE = "python -m benchmarks.papers.cells --jobs {jobs} --cells"  # cells that need no data
CELLS = "python -m benchmarks.papers.cells --data {data} --jobs {jobs} --device {device} --cells"


def cells(pattern: str, *parts: str, file: str = "papers.json", alike: str = "") -> Source:
    """Return the circumstances of cells of `benchmarks.papers.cells`, or of another file that has them in each cell."""
    path = f"results|{pattern}|"
    return Source(file, f"{path}date", (f"{path}machine",), f"{path}code", parts, alike)


def described(file: str, path: str) -> Source:
    """Return the circumstances of what is kept with a whole description of the machine."""
    machine = f"{path}|{DESCRIBED}|"
    return Source(file, f"{machine}date", (f"{machine}processor",), f"{machine}code")


def cell(name: str, value: str, statistic: str = "mean", digits: int = 3) -> Reading:
    return Reading("papers.json", f"results|{name}|{value}", statistic, digits, of=5 if name.endswith("/*") else 1)
