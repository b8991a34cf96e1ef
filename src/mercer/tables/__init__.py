"""Tables: reading a user's file, and turning its named columns into numbers and back.

This room imports pandas; callers that want a quick `import mercer` import it inside functions.
"""

from mercer.tables.encoding import Encoding, Split, describe_gaps, split_classes, split_target
from mercer.tables.reading import LoadedTable, ReadOptions, read, read_table

__all__ = [
    "Encoding",
    "LoadedTable",
    "ReadOptions",
    "Split",
    "describe_gaps",
    "read",
    "read_table",
    "split_classes",
    "split_target",
]  # fmt: skip
