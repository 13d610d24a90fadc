"""Marks of cases: a few run in `make test`, all of them in `make test-slow`."""

import pytest


def slow(*values, id=None):
    """A case of a parametrized test that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow, id=id)


def first_few(cases, number):
    """Cases of one argument, of which those after the first few are slow."""
    return [*cases[:number], *map(slow, cases[number:])]


every_fifth = pytest.mark.parametrize("every", [5, slow(1)])
"""For a test of many random cases: every fifth of them, or all."""
