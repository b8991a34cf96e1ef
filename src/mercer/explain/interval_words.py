"""Words for a search by intervals: what an interval is, and what the intervals of this search say."""

from __future__ import annotations

from mercer.explain.wording import counted


def meaning_sentence(rows: int, score: str) -> str:
    """Say what an interval means."""
    return (
        f"{rows:,} rows are too many to compute the {score} of a kernel exactly. Each kernel has an interval instead, "
        f"worked out from all rows: its exact {score}, with the numbers it was given, is certain to lie in it (smaller "
        "is better). If the whole of one interval is better than another, so is the kernel; if they overlap, either "
        "may be better."
    )


def winner_sentence(score: str, ends: tuple[float, float], undecided: int) -> str:
    """Say where the winner lies, and whether anything could be better."""
    told = f"The winner's {score} {between(ends)}."
    if not undecided:
        return f"{told} No other kernel that was fitted to all rows may have a better {score}."
    others = "One other kernel" if undecided == 1 else f"{undecided} other kernels"
    overlap = "has an interval that overlaps it, and may be as good" if undecided == 1 else (
        "have intervals that overlap it, and may be as good"
    )  # fmt: skip
    return f"{told} {others} {overlap}; the winner is the one that is certain of most."


def left_behind_sentence(separated: int, set_aside: int) -> str:
    """Say how many kernels were given up, and why."""
    told = []
    if separated:
        were = "was" if separated == 1 else "were"
        whole = "its whole interval was worse" if separated == 1 else "their whole intervals were worse"
        told.append(f"{counted(separated, 'kernel')} {were} left behind because {whole} than that of another kernel")
    if set_aside:
        were = "was" if set_aside == 1 else "were"
        start = f"{set_aside} {were}" if separated else f"{counted(set_aside, 'kernel')} {were}"
        told.append(f"{start} set aside undecided, because others were certain of more")
    return "; ".join(told) + "." if told else ""


def between(ends: tuple[float, float]) -> str:
    """Write where a score lies."""
    low, high = (f"{end:,.1f}" for end in ends)
    return f"is {low}, to the digit shown" if low == high else f"lies between {low} and {high}"
