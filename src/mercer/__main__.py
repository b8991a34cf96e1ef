"""`python -m mercer`: the command line."""

from mercer.cli.main import run

run()
