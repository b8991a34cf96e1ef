"""Builds the site: gathers the pages, draws the base kernels, runs Sphinx with warnings as errors, checks the result.

python docs/site/build.py
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from pathlib import Path

from base_kernels import write_base_kernels
from check import check_site
from stage import ROOT, SITE, stage, write_if_new

BUILD = ROOT / "build" / "docs"


def forget_old_runs(gallery: Path) -> None:
    """Let every script of the gallery run again where the package has changed since they last did."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    known = gallery / "package.sha256"
    if not known.exists() or known.read_text() != digest.hexdigest():
        for path in gallery.rglob("*.md5"):
            path.unlink()
        write_if_new(known, digest.hexdigest().encode())


def main() -> int:
    """Build, and return 0 where all is well."""
    began = time.perf_counter()
    pages = stage(BUILD / "source")
    forget_old_runs(BUILD / "source" / "gallery")
    write_base_kernels(BUILD / "source")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", str(SITE)]
    done = subprocess.run([*command, "-d", str(BUILD / "doctrees"), str(BUILD / "source"), str(BUILD / "html")])
    faults = check_site(BUILD / "html") if done.returncode == 0 else ["Sphinx did not finish"]
    for fault in faults:
        print(f"fault   {fault}")
    print(f"pages   {len(pages)} written by hand, in {time.perf_counter() - began:.0f} s")
    print(f"open    {BUILD / 'html' / 'index.html'}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
