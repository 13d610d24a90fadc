"""What Vowpal Wabbit, OBP and the Open Bandit Dataset mean by their columns, by hand."""

import json

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import Logs, RowPolicy, read_logs
from bayesdice_ppl.errors import LogsError, PoliciesError
from tests.logs.sources import layouts
from tests.logs.sources.world import differences, play

PLAYED = play()


def line(action=2, cost=-1.0, segment="new", chance=0.8, **changes):
    """The middle one of three actions, ranked first, at a cost."""
    ranked = [action, *(a for a in (1, 2, 3) if a != action)]
    return {
        "_label_cost": cost,
        "_label_probability": chance,
        "_label_Action": action,
        "_labelIndex": action - 1,
        "a": ranked,
        "p": [chance, 0.15, 1.0 - chance - 0.15],
        "c": {
            "User": {"segment": segment, "_id": "u1"},
            "_multi": [{"item": {"name": name}} for name in ("tea", "milk", "rum")],
        },
        **changes,
    }


def two(**changes):
    return Logs.from_vw([line(), line(cost=0.25, segment="old", **changes)])


def refused(read, *given, **options):
    with pytest.raises(LogsError) as caught:
        read(*given, **options)
    return str(caught.value)


def test_a_reward_is_a_cost_with_the_other_sign_and_zero_has_none():
    logs = Logs.from_vw([line(), line(cost=0.25), line(cost=0.0), line(cost=-0.0)])
    assert logs.reward.tolist() == [1.0, -0.25, 0.0, 0.0]
    assert not np.signbit(logs.reward[2:]).any()


def test_the_propensity_is_that_of_the_logged_action_wherever_it_is_ranked():
    logs = two(a=[3, 1, 2], p=[0.1, 0.7, 0.2], _label_probability=0.2)
    assert logs.propensity.tolist() == [0.8, 0.2]


def chances_of(logs):
    policy = RowPolicy.of_logging(logs)
    return policy.action_labels.tolist(), policy.probabilities


def test_the_logging_policy_itself_is_a_candidate_where_all_probabilities_are_logged():
    states = np.concatenate([one.states[:-1] for one in PLAYED])
    labels, table = chances_of(Logs.from_vw(layouts.decisions(PLAYED)))
    assert labels == ["left", "right"]
    np.testing.assert_allclose(table, layouts.CHANCES[states], atol=1e-12)
    labels, table = chances_of(Logs.from_obp(layouts.feedback(PLAYED)))
    assert labels == [0, 1]
    np.testing.assert_allclose(table, layouts.CHANCES[states], atol=1e-12)


def test_propensities_come_from_all_probabilities_where_no_others_are_given():
    given = layouts.feedback(PLAYED)
    logs = Logs.from_obp({**given, "pscore": None})
    np.testing.assert_array_equal(logs.propensity, given["pscore"])


def test_what_a_row_did_not_offer_had_no_probability():
    other = [{"_tag": "milk"}, {"_tag": "rum"}]
    first = line(c={"User": {"segment": "new"}, "_multi": [{"_tag": "tea"}, *other]})
    second = line(a=[2, 1], p=[0.8, 0.2], c={"User": {"segment": "new"}, "_multi": other})
    labels, table = chances_of(Logs.from_vw([first, second]))
    assert labels == ["milk", "rum", "tea"]
    np.testing.assert_allclose(table, [[0.8, 0.05, 0.15], [0.2, 0.8, 0.0]], atol=1e-12)


def test_a_log_without_all_probabilities_has_no_logging_policy():
    logs = Logs.from_vw([line(a=None, p=None), line(a=None, p=None, cost=0.25)])
    with pytest.raises(PoliciesError, match="include_logged=True"):
        RowPolicy.of_logging(logs)
    # Another column of actions has other labels.
    mapped = Logs.from_vw([line(), line(cost=0.25)], columns={"action": "a.item.name"})
    with pytest.raises(PoliciesError, match="probabilities of all actions"):
        RowPolicy.of_logging(mapped)


def test_actions_without_tags_are_numbers_where_they_are_the_same_everywhere():
    logs = two()
    assert logs.action_labels.tolist() == [2]
    assert logs.declared_actions.tolist() == [1, 2, 3]


def test_a_number_that_stands_for_different_actions_gives_way_to_their_features():
    other = {"User": {"segment": "old"}, "_multi": [{"item": {"name": n}} for n in "xyz"]}
    logs = Logs.from_vw([line(), line(c=other)])
    assert logs.action_labels.tolist() == ["item.name=milk", "item.name=y"]
    assert len(logs.declared_actions) == 6
    assert "different" in logs.source.taken["action"]


def test_the_state_is_what_the_policy_saw_and_other_entries_can_be_chosen():
    logs = two()
    assert logs.state_labels.tolist() == ["new", "old"]
    assert "c.User._id" in logs.groups
    chosen = Logs.from_vw(
        [line(), line(cost=0.5)], columns={"state": "c.User._id", "action": "a.item.name"}
    )
    assert chosen.state_labels.tolist() == ["u1"]
    assert chosen.action_labels.tolist() == ["milk"]
    assert chosen.source.taken["state"] == "c.User._id (as mapped)"
    assert chosen.unused_columns == ()


def test_what_is_left_out_is_said():
    skipped = line(_skipLearn=True)
    logs = Logs.from_vw([line(), skipped, line(), {"EventId": "x", "RewardValue": 1.0}])
    assert logs.n_transitions == 2
    said = " ".join(logs.source.notes)
    assert "1 line with _skipLearn left out" in said
    assert "1 line without a decision left out" in said


def test_dropped_events_count_alike_only_at_one_share():
    one = line(pdrop=0.5, _label_probability=0.4)
    logs = Logs.from_vw([one, one])
    assert logs.propensity.tolist() == [0.8, 0.8]
    assert "0.5" in logs.source.notes[0]
    assert "pdrop" in refused(Logs.from_vw, [one, line()])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"_label_cost": None}, "expected _label_cost, found none"),
        ({"_label_cost": "free"}, "found 'free'"),
        ({"_label_cost": float("nan")}, "found nan"),
        ({"_label_Action": 4, "_labelIndex": 3}, "from 1 to 3"),
        ({"_labelIndex": 2}, "to be _label_Action minus 1"),
        ({"_label_Action": None, "_labelIndex": None, "a": []}, "found neither"),
        ({"_label_probability": 0.3}, "One of the two is wrong"),
        ({"p": [0.8, 0.15, 0.3]}, "sum to 1"),
        ({"p": [0.8, 0.2]}, "as many probabilities"),
        ({"a": [1, 3, 3]}, "different numbers"),
        ({"_outcomes": []}, "several slots"),
        ({"c": []}, "'c' as an object"),
        ({"p": [1.1, -0.05, -0.05], "_label_probability": 1.1}, "as probabilities"),
    ],
)
def test_a_line_that_contradicts_itself_is_refused_with_its_number(change, words):
    found = refused(Logs.from_vw, [line(), line(**change)])
    assert words in found
    assert "line 2" in found


@pytest.mark.parametrize("tail", ['{"_label_cost": 0.5, "_la', "[1, 2]", "\x00", "[" * 100_000])
def test_a_line_that_is_no_object_is_refused_with_its_number(tail, tmp_path):
    path = tmp_path / "cut.dsjson"
    path.write_text(json.dumps(line()) + "\n\n" + tail)
    assert "line 3" in refused(read_logs, path)


def test_a_probability_of_zero_is_told_by_its_line():
    none = line(p=[0.0, 0.5, 0.5], _label_probability=0.0)
    found = refused(Logs.from_vw, [line(), line(_skipLearn=True), none])
    assert "probability in (0, 1]" in found
    assert found.endswith("Row 2 is line 3.")


def test_slots_of_obp_are_decisions_whose_position_is_part_of_the_state():
    given = layouts.feedback(PLAYED)
    n = given["n_rounds"]
    position = np.arange(n) % 3
    logs = Logs.from_obp({**given, "position": position, "pi_b": None})
    assert (logs.observation[:, :2] == given["context"]).all()
    assert (logs.observation[:, 2:].argmax(axis=1) == position).all()
    assert (logs.observation[:, 2:].sum(axis=1) == 1.0).all()
    alone = Logs.from_obp(
        {**given, "position": position, "pi_b": None}, columns={"state": "position"}
    )
    assert alone.state_labels.tolist() == [0, 1, 2]
    assert (alone.state == position).all()


def test_lists_of_a_round_are_rows_of_one_impression():
    action = np.array([[0, 1], [1, 2]])
    given = {
        "n_rounds": 2,
        "n_actions": 3,
        "context": np.array([[0.5], [1.5]]),
        "action": action,
        "reward": np.array([[1.0, 0.0], [0.0, 2.0]]),
        "pscore": np.array([[0.5, 0.25], [0.4, 0.2]]),
    }
    logs = Logs.from_obp(given)
    assert logs.action.tolist() == [0, 1, 1, 2]
    assert logs.reward.tolist() == [1.0, 0.0, 0.0, 2.0]
    assert logs.propensity.tolist() == [0.5, 0.25, 0.4, 0.2]
    assert logs.observation.tolist() == [[0.5, 1, 0], [0.5, 0, 1], [1.5, 1, 0], [1.5, 0, 1]]
    assert logs.groups["impression_id"].to_list() == [0, 0, 1, 1]
    assert "a reward for each position" in refused(
        Logs.from_obp, {**given, "reward": np.array([1.0, 2.0])}
    )


def test_a_slate_has_the_probability_of_its_position_and_not_of_the_whole():
    given = {
        "n_rounds": 2,
        "n_unique_action": 3,
        "slate_id": np.array([0, 0, 1, 1]),
        "context": np.array([[0.5], [1.5]]),
        "action": np.array([0, 1, 1, 2]),
        "position": np.array([0, 1, 0, 1]),
        "reward": np.array([1.0, 0.0, 0.0, 2.0]),
        "pscore": np.array([0.1, 0.1, 0.2, 0.2]),
        "pscore_item_position": np.array([0.5, 0.25, 0.4, 0.3]),
    }
    logs = Logs.from_obp(given)
    assert logs.propensity.tolist() == [0.5, 0.25, 0.4, 0.3]
    assert logs.observation[:, 0].tolist() == [0.5, 0.5, 1.5, 1.5]
    del given["pscore_item_position"]
    assert Logs.from_obp(given).propensity is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": np.ones(3)}, "expected 48 reward"),
        ({"n_rounds": 7}, "expected 7 actions"),
        ({"context": np.ones((48, 2, 2))}, "images"),
        ({"context": {"a": 1}}, "a dict"),
        ({"action": np.full(48, 0.5)}, "continuous actions"),
        ({"pscore": np.full(48, 0.9)}, "pi_b"),
        ({"pi_b": np.ones((3, 2, 1))}, "expected pi_b of shape"),
        ({"pi_b": 2 * layouts.feedback(PLAYED)["pi_b"], "pscore": None}, "sum to 1"),
        ({"reward": np.full(48, np.nan)}, "finite number"),
        ({"action": np.full(48, 7), "pi_b": None}, "declared action space"),
    ],
)
def test_feedback_that_does_not_fit_is_refused(change, words):
    given = layouts.feedback(PLAYED)
    assert given["n_rounds"] == 48
    assert words in refused(Logs.from_obp, {**given, **change})


FEATURES = "user_feature_0,user-item_affinity_0"
OPEN_BANDIT = f""",timestamp,item_id,position,click,propensity_score,{FEATURES}
0,2019-11-24 00:00:00+00:00,7,1,0,0.025,aa,0.0
1,2019-11-24 00:00:01+00:00,3,2,1,0.05,bb,1.0
2,2019-11-24 00:00:02+00:00,7,3,0,0.0125,aa,0.0
"""


def test_files_of_the_open_bandit_dataset_are_known_by_their_columns(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text(OPEN_BANDIT)
    logs = read_logs(path)
    own = Logs.from_dataframe(
        pl.DataFrame(
            {
                "state": [1, 2, 3],
                "action": [7, 3, 7],
                "reward": [0.0, 1.0, 0.0],
                "propensity": [0.025, 0.05, 0.0125],
            }
        )
    )
    for name in ("state_labels", "action_labels", "state", "action", "reward", "propensity"):
        assert np.array_equal(getattr(logs, name), getattr(own, name))
    assert "2 columns" in logs.source.notes[1]
    # A mapping of the user's decides: the table is one as any other.
    mapped = {"state": "user_feature_0", "action": "item_id", "reward": "click"}
    assert read_logs(path, columns=mapped).state_labels.tolist() == ["aa", "bb"]
    assert read_logs(path, columns=mapped).source is None
    assert "missing column" in refused(read_logs, path, layout="table")


def test_actions_that_rows_offer_are_those_that_are_allowed():
    """Three rows offer three items, one row two of them: its candidates share what is left."""

    def offers(tags, chosen):
        share = 1.0 / len(tags)
        items = [{"_tag": tag, "price": 1.0} for tag in tags]
        context = {"segment": "new", "_multi": items}
        number = tags.index(chosen) + 1
        ranking = [number, *(k + 1 for k in range(len(tags)) if k + 1 != number)]
        return {
            "_label_cost": -1.0,
            "_label_probability": share,
            "_label_Action": number,
            "a": ranking,
            "p": [share] * len(tags),
            "c": context,
        }

    rows = [("abc", "a"), ("abc", "b"), ("cb", "b"), ("abc", "c")]
    logs = Logs.from_vw([offers(list(tags), chosen) for tags, chosen in rows])
    own = Logs.from_dataframe(
        pl.DataFrame(
            {
                "state": ["new"] * 4,
                "action": [chosen for _, chosen in rows],
                "reward": [1.0] * 4,
                "propensity": [1.0 / len(tags) for tags, _ in rows],
                "allowed_actions": [list(tags) for tags, _ in rows],
            }
        ),
        actions=["a", "b", "c"],
    )
    np.testing.assert_array_equal(logs.state, own.state)
    np.testing.assert_array_equal(logs.allowed.mask, own.allowed.mask)
    assert logs.source.taken["allowed_actions"] == "_multi"
    assert Logs.from_vw([offers(list("abc"), c) for c in "aab"]).allowed is None


# Several slots a line: (slot, action) -> reward.
PAID = {
    (1, "tea"): 0.25,
    (1, "milk"): 0.5,
    (1, "rum"): 0.75,
    (2, "tea"): 0.0,
    (2, "milk"): 0.75,
    (2, "rum"): 0.25,
}
NAMES = ["tea", "milk", "rum"]


def slots(rng, *, tags=True):
    """A line that fills two slots from three actions, the second from what is left."""
    free, outcomes = [0, 1, 2], []
    for k in (1, 2):
        chances = np.arange(1.0, len(free) + 1.0) / sum(range(1, len(free) + 1))
        taken = int(rng.choice(free, p=chances))
        ranked = [taken, *(a for a in free if a != taken)]
        outcomes.append(
            {
                "_label_cost": -PAID[k, NAMES[taken]],
                "_id": f"s{k}",
                "_a": ranked,
                "_p": [float(chances[free.index(a)]) for a in ranked],
                "_o": [{"v": 0.0}],
            }
        )
        free.remove(taken)
    multi = [{"item": {"name": name}, **({"_tag": name} if tags else {})} for name in NAMES]
    context = {"_multi": multi, "_slots": [{"_id": "s1"}, {"_id": "s2"}]}
    return {"c": context, "_outcomes": outcomes, "VWState": {"m": "N/A"}}


def test_each_slot_is_a_step_among_the_actions_that_are_free(tmp_path):
    rng = np.random.default_rng(0)
    lines = [slots(rng) for _ in range(300)]
    rows = []
    for episode, one in enumerate(lines):
        for k, outcome in enumerate(one["_outcomes"], start=1):
            rows.append(
                {
                    "episode_id": episode,
                    "step": k,
                    "state": f"slot={k}",
                    "action": NAMES[outcome["_a"][0]],
                    "reward": -outcome["_label_cost"],
                    "terminated": k == 2,
                    "propensity": outcome["_p"][0],
                    "allowed_actions": [NAMES[a] for a in sorted(outcome["_a"])],
                }
            )
    own = Logs.from_dataframe(pl.DataFrame(rows), actions=sorted(NAMES))
    path = tmp_path / "log.json"
    path.write_text("\n".join(json.dumps(one) for one in lines))
    for logs in (Logs.from_vw(lines), read_logs(path)):
        assert differences(logs, own) == []
        assert "its slots are the steps" in " ".join(logs.source.sentences)
    # The logging policy is that of the line, over what was free.
    logged = RowPolicy.of_logging(logs)
    taken = logged.probabilities[np.arange(600), logs.action]
    np.testing.assert_allclose(taken, own.propensity)
    # Or each slot by itself, as the sentence says.
    alone = Logs.from_vw(lines, ignore=["episode_id", "step", "terminated"])
    assert alone.n_episodes == alone.n_transitions == 600


def test_untagged_actions_of_slots_have_the_number_that_they_have_in_the_line():
    rng = np.random.default_rng(1)
    lines = [slots(rng, tags=False) for _ in range(5)]
    logs = Logs.from_vw(lines)
    taken = [each["_a"][0] + 1 for one in lines for each in one["_outcomes"]]
    assert logs.action_labels[logs.action].tolist() == taken


def changed(**outcome):
    one = slots(np.random.default_rng(2))
    one["_outcomes"][1].update(outcome)
    return one


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (changed(_label_cost=None), "line 1, slot 2: expected _label_cost"),
        (changed(_a=[0, 7], _p=[0.5, 0.5]), "expected '_a' from 0 to 2"),
        (changed(_a=["x"]), "expected '_a' as different numbers"),
        (changed(_p=[0.9, 0.9]), "probabilities 'p' that sum to 1"),
        ({**changed(), "_outcomes": None}, "expected _outcomes"),
        ({**changed(), "_outcomes": changed()["_outcomes"][:1]}, "as many _slots as _outcomes"),
        (
            {
                "_label_cost": 1.0,
                "c": {"_multi": [{"_slot_id": 0}], "_slots": [{}]},
                "_outcomes": [{"_a": 0, "_p": 1.0}],
            },
            "found slates: one cost for all slots",
        ),
    ],
    ids=["cost", "range", "text", "sum", "none", "fewer", "slates"],
)
def test_slots_that_say_too_little_are_refused(one, words):
    assert words in refused(Logs.from_vw, [one])


def test_lines_with_and_without_slots_are_read_apart():
    for lines in ([line(), changed()], [changed(), line()]):
        assert "line 2: expected lines of one kind" in refused(Logs.from_vw, lines)
