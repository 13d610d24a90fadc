"""Round trips: nothing of what was logged is lost; and what a log is."""

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesdice_ppl import Logs, read_logs
from bayesdice_ppl.errors import LogsError
from tests.logs.good_log import GOOD, build

texts = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x00"), max_size=6
).filter(str.strip)
integers = st.integers(-(2**63), 2**63 - 1)


@st.composite
def tables(draw):
    """A valid table: whole episodes, labels of either kind, every optional column or not."""
    labels = st.lists(draw(st.sampled_from([texts, integers])), min_size=1, max_size=4, unique=True)
    states, actions = draw(labels), draw(labels)
    lengths = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    names = draw(st.lists(integers, min_size=len(lengths), max_size=len(lengths), unique=True))
    rows = []
    for name, length in zip(names, lengths, strict=True):
        ended = draw(st.booleans())
        path = [draw(st.sampled_from(states)) for _ in range(length + 1)]
        for step in range(length):
            last = step == length - 1
            rows.append(
                {
                    "episode_id": name,
                    "step": step,
                    "state": path[step],
                    "action": draw(st.sampled_from(actions)),
                    "reward": draw(
                        st.floats(-1e90, 1e90).filter(lambda r: r == 0.0 or abs(r) > 1e-90)
                    ),
                    "next_state": path[step + 1],
                    "terminated": ended and last,
                    "truncated": last and not ended,
                    "propensity": draw(st.floats(1e-6, 1.0)),
                }
            )
    return pl.DataFrame(rows)


@settings(max_examples=60, deadline=None)
@given(tables())
def test_a_log_gives_back_the_table_it_was_built_from(frame):
    assert Logs.from_dataframe(frame).to_dataframe().equals(frame)


@settings(max_examples=30, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_episodes_may_be_interleaved_in_any_way(frame, random):
    """Only the order within each episode matters."""
    names = frame["episode_id"].to_list()
    order = sorted(range(len(names)), key=lambda _: random.random())
    places = {name: [i for i in range(len(names)) if names[i] == name] for name in names}
    shuffled = [places[names[i]].pop(0) for i in order]
    logs = Logs.from_dataframe(frame[shuffled])
    found = {n: g.to_dicts() for (n,), g in logs.to_dataframe().group_by("episode_id")}
    assert found == {n: g.to_dicts() for (n,), g in frame.group_by("episode_id")}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tables(), st.sampled_from(["csv", "parquet"]))
def test_a_log_survives_a_file(tmp_path, frame, kind):
    logs = Logs.from_dataframe(frame)
    path = tmp_path / f"logs.{kind}"
    getattr(logs.to_dataframe(), f"write_{kind}")(path)
    again = read_logs(path).to_dataframe()
    if kind == "parquet":
        assert again.equals(frame)
        return
    # A CSV keeps no types: labels such as "7" come back as integers, one name for one name still.
    for column in frame.columns:
        if frame[column].dtype == pl.String:
            assert len(set(zip(again[column], frame[column], strict=True))) == len(
                set(frame[column])
            )
        else:
            assert again[column].equals(frame[column])


@pytest.mark.parametrize("labels", [["b", "a"], [2, 1]], ids=["strings", "integers"])
def test_labels_keep_their_kind(labels):
    frame = pl.DataFrame({"state": labels, "action": labels, "reward": [0.0, 1.0]})
    logs = Logs.from_dataframe(frame)
    assert logs.to_dataframe()["state"].to_list() == labels
    assert logs.state_labels.tolist() == sorted(labels)
    assert logs.action_labels[logs.action].tolist() == labels


def test_a_log_says_what_it_holds():
    frame = pl.DataFrame({"state": [0, 1], "action": [0, 0], "reward": [0.0, 1.0]})
    assert repr(Logs.from_dataframe(frame)) == (
        "Logs(2 transitions in 2 episodes, 2 states, 1 actions)"
    )


def test_the_good_log_is_good():
    logs = build()
    assert (logs.n_transitions, logs.n_episodes) == (5, 2)
    assert logs.state_labels.tolist() == ["a", "b", "c"]
    assert logs.action_labels.tolist() == ["x", "y"]
    assert logs.next_state.tolist() == [1, 0, 2, 1, 2]
    assert logs.terminated.tolist() == [False, False, True, False, False]
    assert logs.propensity.tolist() == GOOD["propensity"]


@pytest.mark.parametrize(("rows", "words"), [(0, "none"), (1, "one")])
def test_logs_too_short_to_show_a_spread_are_refused(rows, words):
    frame = pl.DataFrame(GOOD).head(rows)
    with pytest.raises(LogsError, match=f"expected at least two rows, found {words}"):
        Logs.from_dataframe(frame)


def test_absent_columns_have_stated_defaults():
    frame = pl.DataFrame({"state": [0, 1, 0], "action": [1, 1, 0], "reward": [1, 0, 2]})
    logs = Logs.from_dataframe(frame)
    assert logs.episode.tolist() == [0, 1, 2]
    assert logs.step.tolist() == [0, 0, 0]
    assert not logs.terminated.any()
    assert logs.truncated.all()
    assert logs.next_state.tolist() == [-1, -1, -1]
    assert logs.propensity is None
    assert logs.declared_actions is None
