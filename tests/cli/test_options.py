"""A dataclass becomes options: one for each field, with its default and its docstring."""

import re
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from bayesdice_ppl.cli import app
from bayesdice_ppl.cli.groups import Judge, score_makers
from bayesdice_ppl.cli.options import Only, field_help, field_names, typed_options, with_options


@dataclass(frozen=True)
class Base:
    """Not shown.

    Attributes
    ----------
    first : float
        A number of the ``base``.
    """

    first: float


@dataclass(frozen=True)
class Constraint(Base):
    """The chance constraint.

    Parameters
    ----------
    penalty
        A name, or an object
        of two lines.
    lam, epsilon
        Shared by two fields.

    Notes
    -----
    Not shown either.
    """

    penalty: str | Base = "squared"
    lam: float | None = None
    epsilon: float = 0.5
    small: bool = True


def called(command, *words):
    """What a command was called with, or how it failed."""
    found = {}

    application = typer.Typer()
    application.command()(with_options(command(found)))
    result = CliRunner().invoke(application, list(words), env={"COLUMNS": "200"})
    return found, result


def take(found):
    def command(constraint: Constraint, other: int = 3) -> None:
        found.update(constraint=constraint, other=other)

    return command


def test_each_field_is_an_option_with_its_default():
    found, result = called(take, "--first", "2")
    assert result.exit_code == 0, result.output
    assert found == {"constraint": Constraint(2.0), "other": 3}
    typed = ["--first", "1", "--penalty", "huber(1)", "--lam", "0.1", "--no-small", "--other", "4"]
    found, _ = called(take, *typed)
    assert found == {"constraint": Constraint(1.0, "huber(1)", 0.1, small=False), "other": 4}


def test_a_field_without_a_default_must_be_given():
    _, result = called(take)
    assert result.exit_code == 2
    assert "--first" in result.output


def test_help_is_the_docstring_under_its_first_line():
    assert field_help(Constraint) == {
        "first": "A number of the base.",
        "penalty": "A name, or an object of two lines.",
        "lam": "Shared by two fields.",
        "epsilon": "Shared by two fields.",
    }
    assert field_names(Constraint) == ("first", "penalty", "lam", "epsilon", "small")
    _, result = called(take, "--help")
    assert re.search(r"─ The chance constraint ─", result.output)
    assert "A name, or an object of two lines. [default: squared]" in result.output
    assert "[default: small]" in result.output
    assert "Not shown" not in result.output


def test_some_fields_alone_can_be_offered():
    def offer(found):
        def command(constraint: Annotated[Constraint, Only("first", "lam")]) -> None:
            found["constraint"] = constraint

        return command

    found, _ = called(offer, "--first", "1", "--lam", "2")
    assert found["constraint"] == Constraint(1.0, lam=2.0)
    _, result = called(offer, "--first", "1", "--epsilon", "2")
    assert result.exit_code == 2


def test_an_optional_group_is_none_unless_an_option_is_typed():
    def offer(found):
        def command(context: typer.Context, judge: Judge | None = None, level: float = 0.9) -> None:
            found.update(judge=judge, level=typed_options(context, ("level", "top")))

        return command

    assert called(offer)[0] == {"judge": None, "level": {}}
    found, _ = called(offer, "-k", "1", "--level", "0.9")
    assert found == {"judge": Judge(top=1), "level": {"level": "--level", "top": "--top"}}


def test_the_help_names_every_score():
    for name in score_makers():
        assert name in field_help(Judge)["score"]


@pytest.mark.parametrize(
    "command", ["select", "fit", "rank", "check", "simulate", "demo", "reproduce", "methods"]
)
def test_every_option_has_a_help(command):
    commands = {each.name or each.callback.__name__: each for each in app.registered_commands}
    parameters = typer.main.get_command_from_info(
        commands[command], pretty_exceptions_short=False, rich_markup_mode=None
    ).params
    assert all(parameter.help for parameter in parameters), command
