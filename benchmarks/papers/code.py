"""The commit of a state of the code: measurements are kept with a hash of the package's files (machine.hash_code).

What was found is in benchmarks/results/codes.json, so that the page can be written without git. A state that no commit
has, such as that of files which were not committed, keeps its hash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from benchmarks.machine import hash_code
from benchmarks.papers.files import read_json
from benchmarks.papers.history import ROOT, git

KEPT = ROOT / "benchmarks" / "results" / "codes.json"
HASH = re.compile(r"[0-9a-f]{8}")
RECORDED = "recorded by commit"  # stands for the state of the code of measurements that were made without keeping it


def read_commits(kept: Path = KEPT) -> dict[str, str]:
    """Return the commits that are known, by the hash of their state of the code."""
    return dict(read_json(kept) or {})


def keep_commits(codes: Iterable[str], kept: Path = KEPT, root: Path = ROOT) -> None:
    """Look for the commits of some states of the code, and add those that are found to the file."""
    known = read_commits(kept)
    found = find_commits({code for code in codes if HASH.fullmatch(code)} - set(known), root)
    if found:
        kept.write_text(json.dumps(dict(sorted((known | found).items())), indent=1) + "\n", encoding="utf-8")


def find_commits(codes: set[str], root: Path = ROOT) -> dict[str, str]:
    """Return the newest commit of each state of the code that git knows."""
    found = dict[str, str]()
    for commit in git(root, "log", "--format=%H", "HEAD", "--", "src/mercer").split():
        if not codes - set(found):
            break
        code = hash_commit(root, commit)
        if code in codes:
            found.setdefault(code, commit[:8])
    return found


def hash_commit(root: Path, commit: str) -> str:
    """Return the hash of the package as a commit has it."""
    files = dict[PurePosixPath, bytes]()
    for line in git(root, "ls-tree", "-r", commit, "src/mercer").splitlines():
        about, _, name = line.partition("\t")
        if name.endswith(".py"):
            path = PurePosixPath(name).relative_to("src/mercer")
            files[path] = git(root, "cat-file", "blob", about.split()[2]).encode()
    return hash_code(files)


def name_codes(codes: Iterable[str], commits: dict[str, str]) -> str:
    """Return states of the code as the page names them: by commits where these are known."""
    groups = dict[str, dict[str, None]]()  # in order, each once
    for code in codes:
        if code in commits:
            word, name = "code of commit", commits[code]
        elif code.startswith(RECORDED):
            word, name = RECORDED, code.removeprefix(RECORDED).strip()
        else:
            word, name = "code", code
        groups.setdefault(word, {})[name] = None
    return ", ".join(f"{word} {', '.join(names)}" for word, names in groups.items())
