"""The command line: a log and a table of candidates in, a ranking and its belief out.

Every command is a few calls into the library, in the module of its name.
"""

from bayesdice_ppl.cli import check, explore, methods, report, reproduce, select, simulate
from bayesdice_ppl.cli.app import app, main

__all__ = [
    "app",
    "check",
    "explore",
    "main",
    "methods",
    "report",
    "reproduce",
    "select",
    "simulate",
]
