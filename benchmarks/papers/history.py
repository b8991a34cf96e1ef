"""What git says of a measurement: whether what it measured has changed since, and which commit has its code.

When a part of the package last changed what it does: what was measured before that is old. By git, but for what changes
nothing: comments, docstrings, imports, and code that a commit moves from one file to another as it is. Everything else
counts, also a new name: what is not surely the same is a change, unless a cell that was measured before and after it
found the same (unchanged.py). A change on a branch counts from when it was merged: what was measured in between may
have been measured without it. Where git has not all commits nothing is old: the first one that it has brings the whole
package, and says nothing of when that changed.

The commit of a state of the code: measurements are kept with a hash of the package's files (machine.hash_code). What
was found is in benchmarks/results/codes.json, so that the page can be written without git. A state that no commit has,
such as that of files which were not committed, keeps its hash.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from benchmarks.machine import hash_code
from benchmarks.papers.files import HERE, ROOT, read_json

NOT_KNOWN = "git has not the whole history here: the age of measurements is not known"
HASH = re.compile(r"[0-9a-f]{8}")
RECORDED = "recorded by commit"  # stands for the state of the code of measurements that were made without keeping it
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


# ------------------------------------------------------------------------------------------------------------------ git


@functools.cache
def git(root: Path, *command: str) -> str:
    """Return what git says; "" where there is no git, no history or no such file."""
    environment = {**os.environ, "TZ": "UTC"}
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


# -------------------------------------------------------------------------------------------------------- how old it is


@functools.cache
def last_change(parts: tuple[str, ...], root: Path = ROOT, same: frozenset[str] = frozenset()) -> str:
    """Return when some files last changed what they do, as UTC; "" where git does not know.

    `same`: commits that are known to change nothing.
    """
    if is_shallow(root):
        return ""
    paths, commit = set(parts), "HEAD"
    newest = ("log", "-1", "--first-parent", "--date=format-local:%Y-%m-%d %H:%M", "--format=%H %ad")
    while line := git(root, *newest, commit, "--", *paths):
        found, _, date = line.strip().partition(" ")
        before = f"{found}^"
        if not git(root, "rev-parse", "--verify", "--quiet", before):  # the first commit of all
            return date
        touched = {path for path in git(root, "diff", "--name-only", before, found).splitlines() if path[-3:] == ".py"}
        ours, others = paths & touched, touched - paths
        was, now = read(root, before, ours), read(root, found, ours)
        gone, came = was - now, now - was
        changed = gone - read(root, found, others) or came - read(root, before, others)
        if changed and not is_known(root, before, found, paths, same):
            return date
        paths |= {path for path in others if came & read(root, before, [path])}  # where the code was before
        commit = before
    return ""


def knows_age(root: Path = ROOT) -> bool:
    """Tell whether git has all commits of the package; in an archive, or in a shallow clone, it has not."""
    return not is_shallow(root) and bool(git(root, "log", "-1", "--format=%H", "--", "src/mercer"))


def is_shallow(root: Path) -> bool:
    """Tell whether git has the newest commits only."""
    return git(root, "rev-parse", "--is-shallow-repository").strip() == "true"


def date_of_head(root: Path = ROOT) -> str:
    """Return when the newest commit was made, as UTC; "" where there is none."""
    return git(root, "log", "-1", "--date=format-local:%Y-%m-%d %H:%M", "--format=%cd").strip()


def is_known(root: Path, before: str, found: str, paths: set[str], same: frozenset[str]) -> bool:
    """Tell whether all that a commit brings to some files is known to change nothing; of a merge all its commits."""
    if found in same:
        return True
    brought = set(git(root, "log", "--no-merges", "--format=%H", f"{before}..{found}", "--", *sorted(paths)).split())
    return bool(brought) and brought <= same


def read(root: Path, commit: str, paths: Iterable[str]) -> set[str]:
    """Return what some files say at a commit: their statements, without what changes nothing."""
    return {each for path in paths for each in statements(git(root, "show", f"{commit}:{path}"))}


@functools.cache
def statements(text: str) -> frozenset[str]:
    """Return the statements of a file, imports and docstrings left out."""
    whole = ast.parse(text)
    for node in ast.walk(whole):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return frozenset(ast.dump(each) for each in whole.body if not isinstance(each, ast.Import | ast.ImportFrom))


# ---------------------------------------------------------------------------------------------------- which code it was


def read_commits(kept: Path = HERE.codes) -> dict[str, str]:
    """Return the commits that are known, by the hash of their state of the code."""
    return dict(read_json(kept) or {})


def keep_commits(codes: Iterable[str], kept: Path = HERE.codes, root: Path = ROOT) -> None:
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
