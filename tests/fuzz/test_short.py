"""The short form of `make fuzz`: a few cases of each part, the same ones each time."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import COUNTS, run_part

FEW = {"kernels": 300, "models": 150, "arrays": 120, "tables": 12, "disks": 8, "kills": 4}


@pytest.mark.parametrize("part", COUNTS)
def test_bad_input_ends_in_a_result_or_a_sentence(part: str) -> None:
    record = run_part(part, FEW[part], seed=20)
    findings = [each for each in record.findings if each["case"] != "all"]  # the memory is that of all tests before
    assert not findings, findings
    assert record.count >= FEW[part]
