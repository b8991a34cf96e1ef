"""The report in a real browser: on a desk, on a phone, in the dark and on paper. Skipped where there is no Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: scripts/install-chromium installs it on Debian")

QUIET = [
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
]  # fmt: skip
DARK = "--blink-settings=preferredColorScheme=0"
BLUE, BLUE_IN_THE_DARK = (0, 114, 178), (90, 180, 238)
# Written into the page by a script of the test, so that the browser itself tells its measures.
MEASURE = """<script>
const seen = [...document.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().width > 0);
const small = seen.flatMap(svg => [...svg.querySelectorAll("text")]).map(text => text.getBoundingClientRect().height);
document.documentElement.dataset.measured = JSON.stringify({
  overflow: document.documentElement.scrollWidth - innerWidth,
  sizes: [...new Set(seen.map(svg => svg.getAttribute("class")))].filter(size => size !== "moving"),
  pictures: seen.length, text: Math.min(...small)});
</script>"""


def browse(page: Path, folder: Path, *options: str) -> str:
    assert CHROMIUM is not None
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    command = [CHROMIUM, *QUIET, *sandbox, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def shot(page: Path, folder: Path, width: int, *options: str) -> np.ndarray:
    file = folder / "shot.png"
    browse(page, folder, f"--window-size={width},1400", f"--screenshot={file}", *options)
    return np.asarray(Image.open(file).convert("RGB")).astype(int)


def share_of(picture: np.ndarray, colour: tuple[int, int, int]) -> float:
    return float((np.abs(picture - colour).max(axis=2) < 25).mean())


@pytest.mark.parametrize("report", ["page", "network_page", "study_page", "forecast_page"])
@pytest.mark.parametrize(("width", "size"), [(1200, "wide"), (390, "narrow")])
def test_everything_fits_and_can_be_read(
    request: pytest.FixtureRequest, report: str, tmp_path: Path, width: int, size: str
) -> None:
    page: Path = request.getfixturevalue(report)
    measured_page = tmp_path / "measured.html"
    measured_page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    told = browse(measured_page, tmp_path, f"--window-size={width},1400", "--dump-dom")
    found = re.search(r'data-measured="([^"]+)"', told)
    assert found is not None
    measured = found[1].replace("&quot;", '"')
    assert '"overflow":0' in measured, measured
    assert f'"sizes":["{size}"]' in measured, measured
    smallest = re.search(r'"text":([\d.]+)', measured)
    assert smallest is not None
    assert float(smallest[1]) >= 9.5, measured  # pixels, the box of a line of text


@pytest.mark.parametrize("width", [1200, 390])
def test_light_and_dark(page: Path, tmp_path: Path, width: int) -> None:
    light, dark = shot(page, tmp_path, width), shot(page, tmp_path, width, DARK)
    assert light.shape[1] == dark.shape[1] == width
    assert share_of(light, (255, 255, 255)) > 0.6
    assert share_of(dark, (20, 23, 28)) > 0.6
    assert share_of(light, BLUE) > 0.001  # bars of the summary and the fitted line
    assert share_of(dark, BLUE_IN_THE_DARK) > 0.001
    assert share_of(light, (34, 34, 34)) > 0.003  # text


def test_on_paper(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.pdf"
    browse(page, tmp_path, f"--print-to-pdf={file}", "--no-pdf-header-footer")
    content = file.read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
