"""Candidates from tables: probabilities that add up, and refusals that name the place."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bayesdice_ppl import Policies, TabularPolicy, read_policies
from bayesdice_ppl.errors import PoliciesError

GOOD = {
    "policy": ["old", "old", "old", "new", "new"],
    "state": ["s", "s", "t", "s", "t"],
    "action": [0, 1, 0, 1, 1],
    "prob": [0.25, 0.75, 1.0, 1.0, 1.0],
}


def changed(column, row, value):
    values = list(GOOD[column])
    values[row - 1] = value
    return pl.DataFrame({**GOOD, column: values}, strict=False)


def refusal(frame, **options):
    with pytest.raises(PoliciesError) as caught:
        Policies.from_dataframe(frame, **options)
    return str(caught.value)


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_a_table_becomes_policies_in_their_order(make):
    policies = Policies.from_dataframe(make(GOOD))
    assert list(policies) == ["old", "new"]
    np.testing.assert_array_equal(policies["old"].probs(["t", "s"]), [[1.0, 0.0], [0.25, 0.75]])
    np.testing.assert_array_equal(policies["new"].probs(["s"]), [[0.0, 1.0]])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_hold_the_same_candidates(tmp_path, kind):
    path = tmp_path / f"candidates.{kind}"
    getattr(pl.DataFrame(GOOD), f"write_{kind}")(path)
    found = read_policies(path)
    assert found.to_dataframe().equals(Policies.from_dataframe(pl.DataFrame(GOOD)).to_dataframe())


def test_errors_of_a_file_name_it(tmp_path):
    path = tmp_path / "mine.csv"
    changed("prob", 2, 0.5).write_csv(path)
    with pytest.raises(PoliciesError, match=r"mine\.csv: policy 'old', state 's'"):
        read_policies(path)
    with pytest.raises(PoliciesError, match=r"nothing\.csv: no such file"):
        read_policies(tmp_path / "nothing.csv")


@pytest.mark.parametrize("column", GOOD)
def test_a_missing_column_is_named(column):
    assert f"missing column '{column}'" in refusal(pl.DataFrame(GOOD).drop(column))


@pytest.mark.parametrize("column", GOOD)
def test_a_missing_value_is_named(column):
    assert f"row 4, column '{column}': the value is missing" in refusal(changed(column, 4, None))


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), float("inf")])
def test_probabilities_out_of_range_are_named(value):
    message = refusal(changed("prob", 2, value))
    assert "row 2, column 'prob': expected a probability in [0, 1]" in message


@pytest.mark.parametrize("value", [0.5, 0.75 + 2e-6, 0.75 - 2e-6])
def test_sums_off_by_more_than_a_millionth_are_named(value):
    message = refusal(changed("prob", 2, value))
    assert "policy 'old', state 's': expected probabilities that sum to 1" in message


@pytest.mark.parametrize("value", [0.75 + 5e-7, 0.75 - 5e-7])
def test_sums_off_by_less_are_fine(value):
    assert "old" in Policies.from_dataframe(changed("prob", 2, value))


def test_rounded_probabilities_of_a_file_are_mended_and_told(tmp_path):
    path = tmp_path / "c.csv"
    rows = "".join(f"p,0,{a},0.333333\n" for a in range(3)) + "p,1,0,1\nq,0,0,1\nq,1,2,1\n"
    path.write_text("policy,state,action,prob\n" + rows)
    policies = read_policies(path)
    np.testing.assert_allclose(policies["p"].probs([0]), 1 / 3, rtol=1e-12)
    assert [note[:22] for note in policies.notes] == ["the probabilities of p"]
    # Pairs that were left out were not rounded: only what was written counts.
    path.write_text("policy,state,action,prob\np,0,0,0.33\np,0,1,0.66\np,1,2,1\n")
    with pytest.raises(PoliciesError, match=r"found a sum of 0\.99"):
        read_policies(path)


def test_duplicates_are_named_with_their_row():
    message = refusal(changed("action", 2, 0))
    assert "found policy 'old', state 's', action 0 a second time" in message


def test_text_is_no_probability():
    frame = pl.DataFrame({**GOOD, "prob": ["0.25", "much", "1", "1", "1"]})
    assert "row 2, column 'prob': expected a number, found the text 'much'" in refusal(frame)


@pytest.mark.parametrize(
    "values", [[True] * 5, [[1.0]] * 5, pl.Series([object()] * 5, dtype=pl.Object)], ids=type
)
def test_columns_of_another_kind_are_no_probabilities(values):
    assert "column 'prob': expected numbers" in refusal(pl.DataFrame({**GOOD, "prob": values}))


def test_mixed_labels_are_refused():
    frame = pd.DataFrame({**GOOD, "state": ["s", 1, "t", "s", "t"]})
    assert "column 'state': expected one type" in refusal(frame)


def test_an_empty_table_and_an_empty_name_are_refused():
    assert "with rows, found none" in refusal(pl.DataFrame(GOOD).head(0))
    nameless = pl.DataFrame({**GOOD, "policy": ["", "", "", "new", "new"]})
    assert "not blank" in refusal(nameless)


def test_integer_names_become_strings():
    frame = pl.DataFrame({"policy": [1, 2], "state": [0, 0], "action": [0, 0], "prob": [1, 1]})
    assert list(Policies.from_dataframe(frame)) == ["1", "2"]


def test_columns_are_mapped():
    frame = pl.DataFrame(GOOD).rename({"prob": "p", "state": "where"})
    found = Policies.from_dataframe(frame, columns={"prob": "p", "state": "where"})
    assert found.to_dataframe().equals(Policies.from_dataframe(pl.DataFrame(GOOD)).to_dataframe())


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, (2, 3, 2), elements=st.floats(0.01, 1.0)),
    st.sampled_from([[0, 1, 2], [-5, 7, 2**62], ["", "ä", "z"]]),
)
def test_candidates_survive_a_table(raw, states):
    tables = raw / raw.sum(axis=2, keepdims=True)
    policies = Policies({f"p{j}": TabularPolicy(table, states) for j, table in enumerate(tables)})
    again = Policies.from_dataframe(policies.to_dataframe())
    for name, policy in policies.items():
        np.testing.assert_array_equal(again[name].probs(states), policy.probs(states))
