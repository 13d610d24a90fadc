"""The command line: a log file and a table of candidates in, a ranking with its belief out.

Every command is a few calls into the library, and each module adds its own to the application.
"""

from bayesdice_ppl.cli import checking, methods, reproducing, selecting, simulating
from bayesdice_ppl.cli.app import app, main

__all__ = ["app", "checking", "main", "methods", "reproducing", "selecting", "simulating"]
