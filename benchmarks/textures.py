"""Two textures with a hole, filled by five kernels (NKN paper, section 5.4 and figure 5).

    python -m benchmarks.textures --data FOLDER [--jobs 1] [--threads 2] [--kernels PER,NKN] [--seeds 5] [--minutes 60]
    python -m benchmarks.textures --data FOLDER --table        # only the table and the picture, from the runs there are
    python -m benchmarks.textures --data FOLDER --periodic     # how well strictly periodic functions can do, at best

224 x 224 pixels, gray = 0.299 R + 0.587 G + 0.114 B, rows 60:120 and columns 80:160 removed (4,800 pixels); SMSE is the
mean squared error in the hole by the variance there. The hole is cut out before anything else sees the picture. The
same settings for both pictures, seeds 0 to 4, all printed; the seconds are those of `fit` and of `fill` with bands.

Every run is a process of its own with `--threads` threads and one file in the folder `--runs`; one that is there is not
run again. `--jobs` of them run at a time. Results: benchmarks/results/textures.json, .md, .png; runs that are there but
have no file are kept in the table, and the picture is drawn where seed 0 of all kernels has one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import machine

RESULTS = Path(__file__).parent / "results"
HOLE = (slice(60, 120), slice(80, 160))
PICTURES = ("plate", "pave")
KERNELS = {"SE": "SE", "PER": "PER", "SE-PER": "SE*PER", "SM": "SM10", "NKN": "nkn"}
SEEDS = 5
ASKED = {("plate", "NKN"): 0.16, ("pave", "NKN"): 0.80, ("plate", "PER"): 0.35}
AUTHORS = {"plate": 0.217, "pave": 0.841}  # SMSE of the NKN pictures in the authors' repository
MOST_SECONDS = 180
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class TextureRun(NamedTuple):
    """One kernel fitted to one picture with one seed."""

    picture: str
    kernel: str
    seed: int

    @property
    def file(self) -> str:
        return f"{self.picture}--{self.kernel}--{self.seed}.npz"


def read_picture(data: Path, name: str) -> np.ndarray:
    """Return a picture as numbers from 0 to 1."""
    from PIL import Image

    with Image.open(data / "textures" / f"{name}.png") as image:
        colours = np.asarray(image, dtype=np.float64)[..., :3] / 255.0
    return np.asarray(colours @ [0.299, 0.587, 0.114])


def carry_out(run: TextureRun, data: Path, folder: Path, device: str) -> None:
    """Fill the hole of one picture, compare, and write the file."""
    from mercer import GridRegressor

    truth = read_picture(data, run.picture)
    seen = truth.copy()
    seen[HOLE] = np.nan
    started, working = time.perf_counter(), time.process_time()
    model = GridRegressor(KERNELS[run.kernel], random_state=run.seed, device=device).fit(seen)
    filled, std = model.fill(return_std=True)
    seconds, work = time.perf_counter() - started, time.process_time() - working
    error, spread = (filled - truth)[HOLE], std[HOLE]
    record = {
        "picture": run.picture, "kernel": run.kernel, "seed": run.seed,
        "smse": float(np.mean(error**2) / truth[HOLE].var()), "seconds": seconds, "fit seconds": model.fit_seconds_,
        "processor seconds": work,
        "threads": os.environ.get(THREADS[0]), "log evidence": model.log_evidence_,
        "inside 95 %": float(np.mean(np.abs(error) < 1.96 * spread)), "device": device,
        "found": model.kernel_.text(digits=4), "status": model.status_, "notes": list(model.notes_),
        "machine": machine.describe(),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{run.file}.{os.getpid()}.part"
    with part.open("wb") as file:  # a file is there as a whole or not at all
        np.savez_compressed(file, filled=filled[HOLE], record=json.dumps(record))
    os.replace(part, folder / run.file)


def choose(wanted: list[TextureRun], kept: list[dict[str, Any]], options: argparse.Namespace) -> list[TextureRun]:
    """Return the runs that are not kept, or are older than they may be; files as old give way to new ones."""
    young = {
        TextureRun(each["picture"], each["kernel"], each["seed"])
        for each in kept
        if machine.is_kept(each["machine"], options.older)
    }
    for run, (record, _) in read_runs(options.runs).items():
        if not machine.is_kept(record["machine"], options.older):
            (options.runs / run.file).unlink()
    return [run for run in wanted if run not in young]


def carry_out_all(runs: list[TextureRun], options: argparse.Namespace) -> None:
    """Run what is not there yet, each in a process of its own."""
    until = time.time() + 60.0 * options.minutes
    threads = dict.fromkeys(THREADS, str(options.threads))

    def start(run: TextureRun) -> None:
        if time.time() > until or (options.runs / run.file).exists():
            return
        command = [sys.executable, "-m", "benchmarks.textures", "--one", *map(str, run), "--device", options.device]
        command += ["--data", str(options.data), "--runs", str(options.runs)]
        ended = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True)
        print(f"{run.file}: {'done' if ended.returncode == 0 else ended.stderr[-500:]}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(start, runs))


def fit_periodic(truth: np.ndarray) -> dict[str, float]:
    """Return the least SMSE of all products of two strictly periodic functions, fitted to what is seen.

    Waves of a period and its overtones along each axis, down to a wavelength of five pixels, their products fitted by
    least squares (a twentieth shrunk); 1.5 to 21 cycles over the picture in steps of a quarter. The hole chooses the
    periods here, which no fit may do: a product of two PER kernels cannot do better by more than this is coarse.
    """
    seen = np.ones(truth.shape, dtype=bool)
    seen[HOLE] = False
    level = float(truth[seen].mean())
    bases = []
    cycles = np.arange(1.5, 21.1, 0.25)
    for count in cycles:
        t = 2 * np.pi * count * np.arange(len(truth)) / len(truth)
        waves = [wave(k * t) for k in range(1, int(len(truth) / count / 5) + 1) for wave in (np.cos, np.sin)]
        left, sizes, _ = np.linalg.svd(np.column_stack([np.ones(len(t)), *waves]), full_matrices=False)
        bases.append(left[:, sizes > 1e-6 * sizes[0]])
    found = []
    for first, rows in zip(cycles, bases, strict=True):
        for second, columns in zip(cycles, bases, strict=True):
            filled = np.where(seen, truth, level)
            for _ in range(30):  # what is in the hole is replaced by its fit until it stays
                fitted = level + rows @ (rows.T @ (filled - level) @ columns) @ columns.T / 1.05
                filled = np.where(seen, truth, fitted)
            found.append((float(np.mean((fitted - truth)[HOLE] ** 2) / truth[HOLE].var()), first, second))
    smse, first, second = min(found)
    return {"smse": smse, "rows period": len(truth) / first, "columns period": len(truth) / second}


def read_runs(folder: Path) -> dict[TextureRun, tuple[dict[str, Any], np.ndarray]]:
    """Return what every run of the folder found, with the pixels in the hole."""
    found = {}
    for file in sorted(folder.glob("*.npz")):
        with np.load(file) as held:
            record = json.loads(str(held["record"]))
            found[TextureRun(record["picture"], record["kernel"], record["seed"])] = (record, held["filled"])
    return found


def markdown(records: list[dict[str, Any]], periodic: dict[str, dict[str, float]]) -> str:
    """Return the tables."""
    lines = [
        "# Textures", "",
        "`python -m benchmarks.textures --data FOLDER`: `GridRegressor(kernel, random_state=seed)` with kernel "
        + ", ".join(f'"{text}"' for text in KERNELS.values()) + "; all else default. 224 x 224 pixels less rows 60:120 "
        "and columns 80:160, which are cut out before anything else sees the picture. SMSE: mean squared error in the "
        "hole by the variance there. Seconds: `fit` and `fill` with bands.", "",
        f"Asked, with every seed: NKN at most {ASKED['plate', 'NKN']} (plate) and {ASKED['pave', 'NKN']:.2f} (pave), "
        f"PER at most {ASKED['plate', 'PER']} (plate), each within {MOST_SECONDS} s on two cores. The pictures of NKN "
        f"in its authors' repository have {AUTHORS['plate']} and {AUTHORS['pave']}.", "",
        "![Both pictures, the hole, and what each kernel makes of it with seed 0](textures.png)", "",
        f"| picture | kernel | {' | '.join(f'seed {seed}' for seed in range(SEEDS))} | asked | most seconds "
        "| of a processor |",
        "|---|---|" + "---|" * SEEDS + "---|---|---|",
    ]  # fmt: skip
    for picture in PICTURES:
        for kernel in KERNELS:
            rows = {r["seed"]: r for r in records if (r["picture"], r["kernel"]) == (picture, kernel)}
            errors = [f"{rows[seed]['smse']:.3f}" if seed in rows else "" for seed in range(SEEDS)]
            most, asked = max((r["seconds"] for r in rows.values()), default=0.0), ASKED.get((picture, kernel), "")
            work = max((r["processor seconds"] for r in rows.values()), default=0.0)
            lines.append(f"| {picture} | {kernel} | {' | '.join(errors)} | {asked} | {most:.0f} | {work:.0f} |")
    for picture, best in periodic.items():
        lines += [
            "", "Of all products of two strictly periodic functions (`--periodic`, least squares, the periods chosen "
            f"by what is in the hole) the best has SMSE {best['smse']:.3f} on {picture}, with periods of "
            f"{best['rows period']:.1f} and {best['columns period']:.1f} pixels: about that is what PER can reach.",
        ]  # fmt: skip
    lines += [
        "",
        "| picture | kernel | seed | measured | log evidence | seconds | of a processor | inside 95 % bands | remark |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in records:
        lines.append(
            f"| {r['picture']} | {r['kernel']} | {r['seed']} | {r['machine']['date'][:10]} "
            f"| {r['log evidence']:.0f} | {r['seconds']:.1f} "
            f"| {r['processor seconds']:.0f} | {r['inside 95 %']:.3f} | {'; '.join(r['notes'])} |"
        )
    if records:
        about = [r["machine"] for r in records]
        lines += ["", f"{records[0]['threads']} threads a run.", "", "```", *machine.lines(about[-1]), "```"]
        loads = [each["load average"] for each in about]
        lines += [
            "",
            f"Load average at the ends of the runs: {min(loads)} to {max(loads)}. Where it is above two, "
            "seconds say more of the others on the machine.",
        ]
    return "\n".join(lines) + "\n"


def draw(found: dict[TextureRun, tuple[dict[str, Any], np.ndarray]], data: Path, file: Path) -> None:
    """Draw what the paper's figure 5 shows: the hole, and what each kernel makes of it with seed 0."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.0 * (2 + len(KERNELS)), 4.3), layout="constrained")
    FigureCanvasAgg(figure)
    places = figure.subplots(len(PICTURES), 2 + len(KERNELS))
    for row, picture in enumerate(PICTURES):
        truth = read_picture(data, picture)
        seen = truth.copy()
        seen[HOLE] = np.nan
        shown: list[tuple[str, np.ndarray]] = [("picture", truth), ("seen", seen)]
        for kernel in KERNELS:
            record, pixels = found.get(TextureRun(picture, kernel, 0), (None, None))
            filled = seen.copy()
            if record is not None and pixels is not None:
                filled[HOLE] = pixels
            shown.append((kernel if record is None else f"{kernel}, SMSE {record['smse']:.2f}", filled))
        for place, (title, pixels) in zip(places[row], shown, strict=True):
            place.imshow(pixels, cmap="gray", vmin=truth.min(), vmax=truth.max(), interpolation="nearest")
            place.set_title(title, fontsize=9)
            place.set_axis_off()
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with textures/")
    parser.add_argument("--runs", type=Path, default=Path("build/textures"), help="folder for one file a run")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each run")
    parser.add_argument("--minutes", type=float, default=1e6, help="no run begins later")
    parser.add_argument("--older", default="", help="run only what textures.json has not, or has from before this date")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--periodic", action="store_true", help="fit strictly periodic functions, and no kernel")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        picture, kernel, seed = options.one
        carry_out(TextureRun(picture, kernel, int(seed)), options.data, options.runs, options.device)
        return
    file = RESULTS / "textures.json"
    before = json.loads(file.read_text()) if file.exists() else {"runs": [], "periodic": {}}
    periodic = before["periodic"]
    if options.periodic:
        periodic = {name: fit_periodic(read_picture(options.data, name)) for name in PICTURES}
    elif not options.table:
        kernels = options.kernels.split(",")
        wanted = [TextureRun(p, k, s) for s in range(options.seeds) for k in kernels for p in PICTURES]
        carry_out_all(choose(wanted, before["runs"], options) if options.older else wanted, options)
    found = read_runs(options.runs)
    order = {name: place for place, name in enumerate([*PICTURES, *KERNELS])}
    known = {TextureRun(each["picture"], each["kernel"], each["seed"]): each for each in before["runs"]}
    known |= {run: record for run, (record, _) in found.items()}  # what was not run again is kept, with its date
    runs = sorted(known, key=lambda run: (order[run.picture], order[run.kernel], run.seed))
    records = [known[run] for run in runs]
    file.write_text(json.dumps({"runs": records, "periodic": periodic}, indent=1))
    (RESULTS / "textures.md").write_text(markdown(records, periodic))
    if all(TextureRun(picture, kernel, 0) in found for picture in PICTURES for kernel in KERNELS):
        draw(found, options.data, RESULTS / "textures.png")
    print(markdown(records, periodic))


if __name__ == "__main__":
    main()
