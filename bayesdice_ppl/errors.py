"""Errors for people: which row, column or policy, what was expected, what to do next.

Every error that bad input can cause derives from `BayesDiceError`, so that a caller, and the
command line, can tell a mistake in the input (exit code 2) from a fault in the program.
"""


class BayesDiceError(ValueError):
    """Base of every error that the user's input or settings can cause."""


class LogsError(BayesDiceError):
    """The logged transitions cannot be used as they are."""


class PoliciesError(BayesDiceError):
    """The candidate policies cannot be used as they are."""


class SettingsError(BayesDiceError):
    """A setting is out of its range, or contradicts another."""


class BeliefError(BayesDiceError):
    """A belief (file or DataTree) lacks what is needed of it."""


class ScoreError(BayesDiceError):
    """A score cannot be computed for these candidates."""


class EnvironmentSpecError(BayesDiceError):
    """An environment or a reference policy was asked for with impossible arguments."""


class OutputError(BayesDiceError):
    """Results cannot be written where they were asked for."""
