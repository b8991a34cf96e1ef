"""Ways of holding rows out: what a refusal tells to do."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.splits import pca_split

from mercer.errors import InputError


def test_a_row_of_numbers_is_no_table_to_split() -> None:
    column = np.arange(45.0)
    with pytest.raises(InputError, match=r"a table with columns.*shape \(45,\): .*X\[:, None\]") as said:
        pca_split(column)
    assert "missing" not in str(said.value)
    assert pca_split(column[:, None]).sum() == 6
    with pytest.raises(InputError, match=r"shape \(3, 15, 1\): give rows and columns"):
        pca_split(column.reshape(3, 15, 1))
    with pytest.raises(InputError, match=r"with 1 that are missing or infinite"):
        pca_split(np.append(column, np.nan)[:, None])
