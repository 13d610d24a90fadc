"""Rows of a score by hand, and files that are gone on with."""

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.belief.make import make_belief
from benchmarks.vectors import score
from benchmarks.vectors.play import Value
from benchmarks.vectors.truths import known_truths
from benchmarks.vectors.worlds import make_world


def row_of(draws, truth, warnings=()):
    return score.judge(
        "a", np.array(draws, float), Value(truth, 0.1), warnings, world="w", seed=4, seconds=1.234
    )


@pytest.mark.parametrize(
    ("truth", "held"),
    [(50.0, 5), (24.4, 4), (4.4, 1), (2.4, 0), (-1.0, 0), (95.9, 1), (100.0, 0), (76.4, 4)],
)
def test_intervals_hold_what_is_between_their_quantiles(truth, held):
    row = row_of(np.arange(100) + 0.5, truth)
    low = [np.quantile(np.arange(100), (1 - level) / 2) for level in score.LEVELS]
    expected = [bound + 0.5 <= truth <= 99.5 - bound for bound in low]
    assert [row.in_50, row.in_70, row.in_80, row.in_90, row.in_95] == expected
    assert sum(expected) == held


def test_a_row_by_hand():
    warnings = [
        SupportWarning("b", "is another", True),
        SupportWarning("a", "has P(ell <= epsilon) = 0.03: no ratio meets it.", False),
    ]
    row = row_of([1.0, 2.0, 3.0, 6.0], 2.5, warnings)
    assert row[:5] == ("w", 4, "a", 2.5, 0.1)
    assert (row.mean, row.below, row.seconds) == (3.0, 0.5, 1.23)
    assert row.sd == pytest.approx(np.sqrt(14 / 3))
    assert not row.abstained
    assert row.warnings == "has P(ell <= epsilon) = no ratio meets"
    assert row_of([1.0, 2.0], 1.5, [warnings[0]._replace(policy="a")]).abstained


def test_a_file_is_gone_on_with(tmp_path, capsys):
    path, fitted = tmp_path / "rows.csv", []

    def fit(world, log, policies, seed):
        fitted.append(seed)
        values = np.random.default_rng(seed).normal(size=(200, len(policies)))
        names = list(policies)[::-1]
        own = [SupportWarning(names[0], "rests on nothing.", True)]
        return make_belief(values + np.arange(len(names)), names, support_warnings=own)

    score.score_worlds(fit, ["bandit_500"], [3], path)
    score.score_worlds(fit, ["bandit_500"], [2, 3], path)
    assert fitted == [3, 2]
    rows = score.read_rows([path, path])
    world = make_world("bandit_500")
    assert rows["candidate"].to_list() == 2 * list(world.policies)
    assert rows["seed"].to_list() == [3] * 6 + [2] * 6
    np.testing.assert_allclose(rows["mean"], 2 * [5, 4, 3, 2, 1, 0], atol=0.4)
    truths = known_truths("bandit_500")
    assert rows["truth"].to_list() == 2 * [truths[name].value for name in world.policies]
    assert rows["abstained"].to_list() == 2 * [False, False, False, False, False, True]
    assert rows.schema["in_50"] == pl.Boolean
