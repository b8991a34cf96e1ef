"""Bad input at random: `make fuzz`, or `python -m tests.fuzz --only models --count 500`.

Each part makes a number of cases from a seed and judges each: a result whose numbers are numbers, or an error of
Mercer's own that is a sentence for the user; never another exception, a NaN without a word, more than 2 GB of memory,
or a file that is half written. `python -m pytest tests/fuzz` runs a few of each.
"""
