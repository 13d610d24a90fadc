"""A dataclass becomes options: one for each field, with its default and its docstring."""

import re
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from bayesdice_ppl.cli import app
from bayesdice_ppl.cli.groups import ModelOptions, ScoreOptions, ValueOptions
from bayesdice_ppl.cli.options import field_help, field_names, typed_options, with_options
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.fitting.defaults import AUTO
from bayesdice_ppl.scores.catalog import CATALOG


@dataclass(frozen=True, kw_only=True)
class Base:
    """Not shown.

    Attributes
    ----------
    first
        A number of the ``base``.
    """

    first: float


@dataclass(frozen=True, kw_only=True)
class Constraint(Base):
    """The chance constraint.

    Attributes
    ----------
    penalty
        A name, or a call
        on two lines.
    lam
        No default.
    small
        A flag.
    """

    penalty: str = "squared"
    lam: Annotated[float | None, typer.Option("-l", "--lam", min=0.0)] = None
    small: Annotated[bool, typer.Option("--small/--large")] = True


def called(*words):
    """What a command was called with, and how it ended."""
    found = {}
    application = typer.Typer()

    @application.command()
    @with_options
    def command(context: typer.Context, constraint: Constraint, other: int = 3) -> None:
        typed = typed_options(context, ("penalty", "lam", "other"))
        found.update(constraint=constraint, other=other, typed=typed)

    result = CliRunner().invoke(application, list(words), env={"COLUMNS": "200"})
    return found, result


def test_each_field_is_an_option_with_its_default():
    found, result = called("--first", "2")
    assert result.exit_code == 0, result.output
    assert found == {"constraint": Constraint(first=2.0), "other": 3, "typed": []}
    words = ["--first", "1", "--penalty", "squared", "-l", "0.1", "--large", "--other", "4"]
    assert called(*words)[0] == {
        "constraint": Constraint(first=1.0, lam=0.1, small=False),
        "other": 4,
        "typed": ["--penalty", "--lam", "--other"],
    }


def test_a_field_without_a_default_must_be_given_and_limits_hold():
    for words in ([], ["--first", "1", "--lam", "-1"]):
        found, result = called(*words)
        assert result.exit_code == 2
        assert not found


def test_help_is_the_docstring_under_its_first_line():
    assert field_help(Constraint) == {
        "first": "A number of the base.",
        "penalty": "A name, or a call on two lines.",
        "lam": "No default.",
        "small": "A flag.",
    }
    assert field_names(Constraint) == ("first", "penalty", "lam", "small")
    _, result = called("--help")
    assert re.search(r"─ The chance constraint ─", result.output)
    assert "A name, or a call on two lines. [default: squared]" in " ".join(result.output.split())
    assert "[default: small]" in result.output
    assert "Not shown" not in result.output


def test_the_defaults_in_the_help_are_those_of_the_library():
    known = flat_settings(gamma=0.5).flat
    texts = {**field_help(ModelOptions), **field_help(ValueOptions)}
    named = {name: re.search(r"(\w+) \(default", text) for name, text in texts.items()}
    found = {name: match[1] for name, match in named.items() if match}
    assert found.pop("inference") == AUTO
    assert {"penalty", "surrogate", "link", "on_termination"} <= set(found)
    for name, word in found.items():
        assert word == (known[name][0] if isinstance(known[name], list) else known[name]), name
    assert known["joint"]
    assert known["draws"] == 4000


def test_the_help_names_every_score():
    for name in CATALOG:
        assert name in field_help(ScoreOptions)["score"]


@pytest.mark.parametrize(
    "command", ["select", "fit", "rank", "check", "simulate", "demo", "reproduce", "methods"]
)
def test_every_option_has_a_help(command):
    commands = {each.name or each.callback.__name__: each for each in app.registered_commands}
    parameters = typer.main.get_command_from_info(
        commands[command], pretty_exceptions_short=False, rich_markup_mode=None
    ).params
    assert all(parameter.help for parameter in parameters), command


def test_a_kind_of_rewards_is_a_word_or_two_numbers():
    for text, kind in (("binary", "binary"), ("0,5", [0.0, 5.0])):
        asked = ModelOptions(rewards=text, value_law="student")
        settings = asked.settings(ValueOptions(gamma=0.5), None)
        flat = flat_settings(**{k: v for k, v in settings.items() if k != "include_logged"}).flat
        assert flat["rewards"] == kind
        assert flat["value_law"] == "student"
