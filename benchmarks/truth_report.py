"""Judge the records of `benchmarks.truth`, and write `results/truth.md`: counts, calibration, every false statement."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks import machine, truth_answers
from benchmarks.truth_case import ABSENCE, CHANCE, FALSE, INTERVAL, ITSELF, PLAIN, TEST, TRUE, UNJUDGED, Case, Verdict
from benchmarks.truth_checks import judge_all
from benchmarks.truth_data import Effect, KnownSet
from benchmarks.truth_power import find_unnamed
from benchmarks.truth_seen import judge_expectations
from benchmarks.truth_whole import cover, find_contradictions, judge_fields

RULES = (truth_answers.__name__, judge_all.__module__)  # both enter their rules when they are imported
BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.01)  # of probabilities
ASKED = {"false": 0.01, "low": 0.92, "high": 0.98, "named": 0.90}
PROTOCOL = """Each data set is given to `discover` with default settings, a time budget of {budget:g} s, one job and
one thread (by {ways}); the report is not drawn. Its truth is known because code makes it (`benchmarks/truth_data.py`);
every claim of the explanation, and the fields beside the claims, are judged by rules that know the truth and not
Mercer's code (`truth_checks.py`, `truth_whole.py`). Of real sets only what needs no truth is judged. Numbers are
compared with a tolerance and four standard errors of a regression on the true form; an absence may be claimed of what
has less than 5 % of the variance. What cannot be judged is counted below by kind."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One data set with everything that was found about its explanation."""

    known: KnownSet
    record: dict[str, Any]
    verdicts: tuple[Verdict, ...] = ()
    contradictions: tuple[str, ...] = ()
    there: tuple[Effect, ...] = ()
    unnamed: tuple[Effect, ...] = ()
    covered: tuple[int, int] | None = None


def judge_record(known: KnownSet, record: dict[str, Any]) -> Judged:
    """Judge one record; of a run that failed there is nothing to judge."""
    if "failed" in record:
        return Judged(known, record)
    case = Case(known, record)
    there, unnamed = find_unnamed(case)
    verdicts = (*judge_all(case), *judge_fields(case), *judge_expectations(case))
    contradictions = tuple(find_contradictions(case))
    return Judged(known, record, verdicts, contradictions, tuple(there), tuple(unnamed), cover(case))


# ------------------------------------------------------------------------------------------------------------- counting


def count(judged: list[Judged], *sorts: str) -> Counter[str]:
    return Counter(verdict.outcome for each in judged for verdict in each.verdicts if verdict.sort in sorts)


def rate(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "none"


def reached(holds: bool) -> str:
    return "yes" if holds else "**no**"


def table_of_numbers(judged: list[Judged]) -> list[str]:
    """The numbers asked, and what was reached."""
    plain, absence, interval = count(judged, PLAIN, ABSENCE), count(judged, ABSENCE), count(judged, INTERVAL)
    whole, held = plain[TRUE] + plain[FALSE], interval[TRUE] + interval[FALSE]
    itself = count(judged, ITSELF)
    bad = sum(len(each.contradictions) for each in judged)
    there, unnamed = sum(len(each.there) for each in judged), sum(len(each.unnamed) for each in judged)
    inside, rows = (sum((each.covered or (0, 0))[place] for each in judged) for place in (0, 1))
    tests = [v for each in judged for v in each.verdicts if v.sort == TEST or v.kind.endswith("of errors")]
    alarms = sum(verdict.sort == TEST and verdict.outcome == FALSE for verdict in tests)
    failed = [each for each in judged if {"failed", "prediction_failed"} & set(each.record)]
    low, high = ASKED["low"], ASKED["high"]
    return [
        "| what | asked | found | reached |",
        "|---|---|---|---|",
        f"| plain statements that are false | at most 1 % | {rate(plain[FALSE], whole)} | "
        f"{reached(plain[FALSE] <= ASKED['false'] * whole)} |",
        f"| claims of absence of something with 5 % of the variance or more | none | "
        f"{rate(absence[FALSE], absence[TRUE] + absence[FALSE])} | {reached(not absence[FALSE])} |",
        f"| 95 % statements that hold | 92 to 98 % | {rate(interval[TRUE], held)} | "
        f"{reached(bool(held) and low <= interval[TRUE] / held <= high)} |",
        f"| unseen rows inside their 95 % band | 92 to 98 % | {rate(inside, rows)} | "
        f"{reached(bool(rows) and low <= inside / rows <= high)} |",
        f"| contradictions in one explanation | none | {bad} in {sum(bool(e.contradictions) for e in judged)} sets | "
        f"{reached(not bad)} |",
        f"| effects found by a test of the true form (p < .001) that are named | 90 % | "
        f"{rate(there - unnamed, there)} | {reached(bool(there) and there - unnamed >= ASKED['named'] * there)} |",
        "| findings of residual checks that are false alarms (of all checks) | about 1 % | "
        f"{rate(alarms, len(tests))} | "
        f"{reached(alarms <= 0.02 * max(1, len(tests)))} |",
        "| statements about itself that are inconsistent | none | "
        f"{rate(itself[FALSE], itself[TRUE] + itself[FALSE])} | "
        f"{reached(not itself[FALSE])} |",
        f"| runs that failed | none | {len(failed)} | {reached(not failed)} |",
    ]


def table_of_kinds(judged: list[Judged]) -> list[str]:
    """How many of each kind are true, false, not judged."""
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for each in judged:
        for verdict in each.verdicts:
            kinds.setdefault((verdict.kind, verdict.sort), Counter())[verdict.outcome] += 1
    lines = ["| kind | sort | true | false | not judged |", "|---|---|---|---|---|"]
    for (kind, sort), counts in sorted(kinds.items(), key=lambda item: (-item[1][FALSE], item[0])):
        lines.append(f"| {kind} | {sort} | {counts[TRUE]} | {counts[FALSE]} | {counts[UNJUDGED]} |")
    return lines


def table_of_calibration(judged: list[Judged]) -> list[str]:
    """How often intervals hold, by family of data sets."""
    lines = ["| family | forecasts | unseen rows inside their band | effects named |", "|---|---|---|---|"]
    for family in dict.fromkeys(each.known.family for each in judged):
        own = [each for each in judged if each.known.family == family]
        interval = count(own, INTERVAL)
        inside, rows = (sum((each.covered or (0, 0))[place] for each in own) for place in (0, 1))
        there, unnamed = sum(len(each.there) for each in own), sum(len(each.unnamed) for each in own)
        forecasts = rate(interval[TRUE], interval[TRUE] + interval[FALSE])
        lines.append(f"| {family} | {forecasts} | {rate(inside, rows)} | {rate(there - unnamed, there)} |")
    return lines


def table_of_probabilities(judged: list[Judged]) -> list[str]:
    """How often what is said with a probability holds, by that probability."""
    said = [v for each in judged for v in each.verdicts if v.sort == CHANCE and v.outcome != UNJUDGED]
    lines = ["| said | times | holds | expected |", "|---|---|---|---|"]
    for low, high in pairwise(BINS):
        own = [v for v in said if low <= (v.level or 0.0) < high]
        if own:
            expected = sum(v.level or 0.0 for v in own) / len(own)
            holds = rate(sum(v.outcome == TRUE for v in own), len(own))
            lines.append(f"| {low:.0%} to {min(high, 1.0):.0%} | {len(own)} | {holds} | {expected:.0%} |")
    return lines


def list_false(judged: list[Judged]) -> list[str]:
    """Every false statement with its data set and the truth, the most frequent kind first."""
    found: dict[str, list[tuple[str, Verdict]]] = {}
    for each in judged:
        for verdict in each.verdicts:
            if verdict.outcome == FALSE:
                kind = f"{verdict.kind}, with a probability" if verdict.sort == CHANCE else verdict.kind
                found.setdefault(kind, []).append((each.known.name, verdict))
    lines = []
    for kind, entries in sorted(found.items(), key=lambda item: -len(item[1])):
        lines += ["", f"### {kind} ({len(entries)})", "", "| set | said | truth |", "|---|---|---|"]
        for name, verdict in entries:
            chance = f" (said with {verdict.level:.0%})" if verdict.sort == CHANCE and verdict.level else ""
            lines.append(f"| {name} | {cell(verdict.statement)} | {cell(verdict.why)}{chance} |")
    return lines


def list_others(judged: list[Judged]) -> list[str]:
    """Contradictions, effects that are not named, what was not judged and why, and runs that failed."""
    lines = ["", "## Contradictions", ""]
    lines += [f"- {each.known.name}: {text}" for each in judged for text in each.contradictions] or ["None."]
    lines += [
        "",
        "## Effects that are not named",
        "",
        "| set | effect | share of the variance | p |",
        "|---|---|---|---|",
    ]
    for each in judged:
        for one in each.unnamed:
            period = "" if one.period is None else f" of {one.period:g}"
            lines.append(
                f"| {each.known.name} | {one.kind} {one.subject}{period} | {one.share:.1%} | {one.p_value:.1g} |"
            )
    reasons = Counter((v.kind, v.why) for each in judged for v in each.verdicts if v.outcome == UNJUDGED)
    lines += ["", "## Not judged", "", "| kind | why | times |", "|---|---|---|"]
    lines += [f"| {kind} | {why} | {times} |" for (kind, why), times in reasons.most_common()]
    failed = [(each.known.name, each.record.get("failed") or each.record.get("prediction_failed")) for each in judged]
    failed = [f"- {name}: {problem}" for name, problem in failed if problem]
    return lines + (["", "## Runs that failed", "", *failed] if failed else [])


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")


def write_report(judged: list[Judged], path: Path, command: str) -> str:
    """Write everything; return the numbers for the terminal."""
    records = [each.record for each in judged if "failed" not in each.record]
    ways = sorted({record["way"] for record in records})
    budget = records[0]["budget"] if records else 0.0
    states = sorted({each.record["state"] for each in judged})
    seconds = sum(record["seconds"] for record in records)
    used = sum(record["processor_seconds"] for record in records)
    numbers = table_of_numbers(judged)
    described = judged[0].record["machine"] if judged else machine.describe()
    lines = [
        "# Is everything true that it says?",
        "",
        f"`{command}`: {len(judged)} data sets, {sum(len(each.verdicts) for each in judged)} statements.",
        "",
        PROTOCOL.format(budget=budget, ways=" and ".join(ways)),
        "",
        *numbers,
        "",
        f"The runs took {seconds / 60:.0f} minutes of wall time in all and {used / 60:.0f} of processor time: a share "
        f"of {used / max(seconds, 1e-9):.0%} (on a busy machine a budget of seconds buys less).",
        *([f"Records of several states of the code: {', '.join(states)}."] if len(states) > 1 else []),
        "",
        "```text",
        *machine.lines(described),
        "```",
        "",
        "## By kind",
        "",
        *table_of_kinds(judged),
        "",
        "## Calibration and power by family",
        "",
        *table_of_calibration(judged),
        "",
        "## Statements with a probability",
        "",
        *table_of_probabilities(judged),
        "",
        "## False statements",
        *list_false(judged),
        *list_others(judged),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "\n".join(numbers)
