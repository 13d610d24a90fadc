"""The grammar of choices, and the checks of numbers, against what they must refuse."""

import math

import numpy as np
import pytest

from bayesdice_ppl import checks
from bayesdice_ppl.choices import read_choice
from bayesdice_ppl.errors import SettingsError


def plain():
    return "plain"


def needed(p):
    return ("needed", p)


def optional(t=None):
    return ("optional", t)


MAKERS = {"plain": plain, "needed": needed, "optional": optional}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain", "plain"),
        (" needed(2) ", ("needed", 2.0)),
        ("needed( 1e-3 )", ("needed", 0.001)),
        ("optional", ("optional", None)),
        ("optional()", ("optional", None)),
        ("optional(0.5)", ("optional", 0.5)),
    ],
)
def test_a_text_makes_what_its_call_makes(text, made):
    assert read_choice("setting", text, MAKERS) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("other", r"^setting: expected one of plain, needed\(p\), optional\(t\), found 'other'\.$"),
        (3, r"found 3\.$"),
        ("plain(1)", "plain takes no number"),
        ("needed", r"needed needs a number: write needed\(p\)"),
        ("needed(x)", "expected a number in brackets"),
        ("needed(inf)", "expected a number in brackets"),
        ("needed(1)(2)", "expected one of"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text, message):
    with pytest.raises(SettingsError, match=message):
        read_choice("setting", text, MAKERS)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.positive, [1, 0.5, np.float32(2)], [0, -1.0, math.nan, math.inf, True, "1", None]),
        (checks.nonnegative, [0, 0.5], [-1e-9, math.nan, False, "0"]),
        (checks.whole, [1, np.int64(3)], [0, 1.0, True, "1"]),
        (checks.even, [2, np.int32(4)], [0, 3, 2.0]),
        (checks.flag, [True, False], [1, "yes", None]),
    ],
)
def test_checks_return_the_good_and_refuse_the_bad(check, good, bad):
    for value in good:
        assert check("setting", value) == value
    for value in bad:
        with pytest.raises(SettingsError, match=r"^setting: expected .*, found "):
            check("setting", value)


def test_discounts_intervals_and_words():
    assert checks.discount(1) == 1.0
    assert checks.between("xi", 0.5, 0.0, 1.0) == 0.5
    assert checks.one_of("link", "identity", ("identity", "softplus")) == "identity"
    for call in (
        lambda: checks.discount(1.01),
        lambda: checks.between("xi", 1.0, 0.0, 1.0),
        lambda: checks.one_of("link", "log", ("identity", "softplus")),
        lambda: checks.one_of("link", ["identity"], ("identity", "softplus")),
    ):
        with pytest.raises(SettingsError, match="expected"):
            call()


def test_long_lists_are_counted():
    assert checks.listed("abc") == "'a', 'b', 'c'"
    assert checks.listed(range(10), most=2) == "'0', '1' and 8 more"
