"""Which engine, and why; and a clear word where the matrices would not fit in memory."""

from __future__ import annotations

import pytest

from mercer.errors import InputError, TooLargeError
from mercer.inference.choose import DEFAULT, ChoicePolicy, available_memory, choose
from mercer.inference.exact import Exact
from mercer.inference.vfe import VFE

GB = 10**9


def test_exact_where_it_fits_with_the_reason() -> None:
    choice = choose(1000, policy=ChoicePolicy(memory=GB))
    assert isinstance(choice.engine, Exact)
    assert "exact" in choice.reason
    assert "1,000 rows" in choice.reason
    assert "20 MB of 1 GB" in choice.reason


def test_too_many_rows_say_how_much_memory_and_how_many_rows_would_do() -> None:
    with pytest.raises(TooLargeError) as caught:
        choose(100_000, Exact(), policy=ChoicePolicy(memory=8 * GB))
    message = str(caught.value)
    assert "100,000 rows" in message
    assert "200 GB" in message
    assert "8 GB" in message
    assert "20,000 rows" in message
    assert "subset" in message
    assert issubclass(TooLargeError, InputError)


def test_the_number_of_rows_named_in_the_message_does_fit() -> None:
    memory = 3 * GB
    most = int((memory / (8 * DEFAULT.matrices)) ** 0.5)
    assert choose(most, Exact(), policy=ChoicePolicy(memory=memory)).engine.name == "exact"
    with pytest.raises(TooLargeError):
        choose(most + 1, Exact(), policy=ChoicePolicy(memory=memory))


def test_where_memory_is_short_the_choice_is_sparse_inference_unless_exact_was_asked_for() -> None:
    choice = choose(2500, policy=ChoicePolicy(memory=10**8))
    assert choice.engine == VFE()
    assert "50 MB for a matrix of all pairs of 2,500 rows, more than once, and so much memory is not" in choice.reason
    with pytest.raises(TooLargeError):
        choose(2500, Exact(), policy=ChoicePolicy(memory=10**8))


def test_the_memory_of_this_machine_is_known() -> None:
    assert 10**8 < available_memory() < 10**14
    assert choose(10).engine.name == "exact"


@pytest.mark.parametrize(("rows", "unit"), [(1, "bytes"), (30, "kB"), (3000, "MB"), (30_000, "GB"), (10**6, "TB")])
def test_sizes_are_readable(rows: int, unit: str) -> None:
    assert unit in choose(rows, Exact(), policy=ChoicePolicy(memory=10**15)).reason
