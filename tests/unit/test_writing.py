"""Files that are written whole or not at all."""

from __future__ import annotations

import os

import pytest

from mercer.errors import InputError
from mercer.writing import write_text


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="a device or a pipe, not a file"):
        write_text("words", pipe)
    assert pipe.is_fifo()


@pytest.mark.parametrize("path", ["null\0byte", 3])
def test_what_is_no_path_is_a_sentence(path):
    with pytest.raises(InputError, match="cannot write"):
        write_text("words", path)
