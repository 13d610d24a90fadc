"""How to get a report again: the words are read by the command, the code by Python."""

import shlex
from dataclasses import fields
from itertools import pairwise

import jax
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView, annotate, make_belief
from bayesdice_ppl.cli.groups import ModelOptions
from bayesdice_ppl.fitting import flat_settings
from bayesdice_ppl.fitting.again import call_again
from bayesdice_ppl.reporting.rerun import FIT_OPTIONS, run_again
from bayesdice_ppl.scores.catalog import CATALOG, by_name, options_of
from tests.reporting.reported import belief_of

SCORES = [
    bd.scores.regret(k=2),
    bd.scores.normalized_regret(k=1, risk=bd.risk.cvar(0.1)),
    bd.scores.precision(k=3),
    bd.scores.accuracy(k=2),
    bd.scores.ndcg(k=2),
    bd.scores.correlation(k=2),
    bd.scores.spearman(),
    bd.scores.kendall(risk=bd.risk.cvar(0.25)),
    bd.scores.safe_improvement("a", xi=0.1, k=2),
]


def fitted_as(**settings):
    """A belief that says it was fitted so, without a fit."""
    belief = make_belief(belief_of("abc")["posterior/value"].values, list("abc"))
    annotate(belief, settings=flat_settings(**settings).flat, versions={"jax": "1"}, seed=7)
    return belief


def test_every_score_of_the_catalog_is_tried():
    assert {options_of(score)[0] for score in SCORES} == set(CATALOG)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.label)
def test_a_score_is_made_again_from_its_options(score):
    name, options = options_of(score)
    others = {key: each for key, each in options.items() if key not in ("k", "risk")}
    assert by_name(name, options.get("k", 1), risk=options["risk"], **others) == score


def test_a_score_of_ones_own_has_no_options():
    score = bd.scores.custom(lambda values, ranking: values[:, 0], name="mine")
    assert options_of(score) is None
    found = run_again(belief_of("abc"), score, {}, "b.nc")
    assert found.command == ()
    assert "bd.report(belief, score)" in found.python


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.label)
def test_python_makes_the_score_again(score):
    code = run_again(belief_of("abc"), score, {}, "b.nc").python
    (call,) = [line for line in code.splitlines() if "bd.report(" in line]
    made = call.removeprefix("page = bd.report(belief, ").removesuffix(")")
    assert made.startswith("bd.scores.")
    compiled = compile(made, "call", "eval")
    assert eval(compiled, {"bd": bd}) == score


SETTINGS = [
    {"gamma": 0.9, "inference": "exact"},
    {"gamma": 0.0, "inference": "exact", "draws": 100, "include_logged": True},
    {"gamma": 1.0, "inference": "svi", "joint": False, "statistic": ["mean", "cvar(0.1)"]},
    {"gamma": 0.5, "inference": "svi", "preset": "paper"},
    {"gamma": 0.5, "inference": "nuts", "penalty": "huber(2)", "surrogate": "cvar(0.5)"},
    {"gamma": 0.9, "inference": "exact", "cluster": ["user_id", "day"], "small_sample": False},
    {"gamma": 0.9, "inference": "svi", "link": "softplus", "on_termination": "absorb"},
    {"gamma": 0.9, "inference": "exact", "rewards": (0.0, 5.0), "value_law": "student"},
    {"gamma": 0.9, "inference": "exact", "xi": 0.9, "prior_sd": 5.0, "jackknife": 0},
    {"gamma": 0.9, "inference": bd.inference.Svi(windows=8)},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings))
def test_arguments_of_fit_give_the_settings_again(settings):
    belief = fitted_as(**settings)
    again = call_again(BeliefView(belief))
    compiled = compile(f"dict({', '.join(again.arguments)})", "call", "eval")
    given = eval(compiled, {"bd": bd, "dict": dict})
    from bayesdice_ppl.fitting.settings import FitSettings, with_preset

    preset = given.pop("preset", None)
    made = FitSettings(given.pop("gamma"), **with_preset(preset, given))
    assert made.flat == flat_settings(**settings).flat
    assert again.kept_as_text == {}


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings))
def test_words_of_fit_give_the_settings_again(settings, run, monkeypatch):
    belief = fitted_as(**settings)
    found = run_again(belief, bd.scores.regret(k=1), {}, "b.nc")
    no_words = "xi" in settings or not isinstance(settings["inference"], str)
    assert ("Some settings of the belief have no option" in " ".join(found.remarks)) == no_words
    if no_words:
        assert len(found.command) == 1
        return
    seen = {}

    def instead(logs, policies, seed, **chosen):
        seen.update(chosen, seed=seed)
        raise bd.errors.SettingsError("seen")

    monkeypatch.setattr("bayesdice_ppl.cli.select.fit_belief", instead)
    monkeypatch.setattr("bayesdice_ppl.cli.groups.DataOptions.read", lambda self: (None, None))
    monkeypatch.setattr("bayesdice_ppl.cli.console.show_logs", lambda *a: None)
    words = shlex.split(found.command[0])
    assert words[0] == "bayesdice"
    _, out = run(*words[1:])
    assert out.err == "Error: seen\n"
    assert seen.pop("seed") == 7
    assert flat_settings(**seen).flat == flat_settings(**settings).flat


def test_options_of_a_fit_are_those_of_the_command():
    ours = {each.name for each in fields(ModelOptions)} | {"on_termination", "draws"}
    assert set(FIT_OPTIONS) == ours


def test_a_key_is_given_again():
    belief = fitted_as(gamma=0.9, inference="exact")
    del belief.attrs["seed"]
    for key in (
        jax.random.key(3),
        jax.random.key(2**40 + 5),
        jax.random.split(jax.random.key(1))[0],
    ):
        annotate(belief, rng_key=jax.random.key_data(key).tolist())
        code = run_again(belief, bd.scores.regret(k=1), {}, "b.nc").python
        text = next(line for line in code.splitlines() if "rng_key=" in line)
        text = text.strip().removeprefix("rng_key=").removesuffix(",")
        again = eval(compile(text, "key", "eval"), {"jax": jax})
        assert jax.random.key_data(again).tolist() == jax.random.key_data(key).tolist()
    annotate(belief, rng_key=jax.random.key_data(jax.random.key(3)).tolist())
    assert "--seed 3 " in run_again(belief, bd.scores.regret(k=1), {}, "b.nc").command[0]


def test_words_of_a_report_say_what_select_was_given(run, tmp_path):
    belief = belief_of(["a", "b c", 'd, "x"=1<=2'])
    path = tmp_path / "b.nc"
    bd.save_belief(belief, path)
    options = {
        "limits": {"value": (-9.0, 9.5)},
        "confidence": 0.5,
        "costs": {"a": 1.0, "b c": 2.5, 'd, "x"=1<=2': 1.0},
        "budget": 3.0,
        "must_exclude": ['d, "x"=1<=2'],
    }
    score = bd.scores.regret(k=2)
    found = run_again(belief, score, options, "b.nc")
    words = shlex.split(found.command[-1])
    assert words[:3] == ["bayesdice", "report", "b.nc"]
    from bayesdice_ppl.cli.texts import read_costs, read_limits, read_list

    after = dict(pairwise(words))
    assert read_limits("--limits", after["--limits"]) == options["limits"]
    assert read_costs(after["--costs"]) == options["costs"]
    assert read_list("--must-exclude", after["--must-exclude"]) == options["must_exclude"]
    assert (after["--budget"], after["--confidence"], after["-k"]) == ("3.0", "0.5", "2")


def test_a_name_that_no_list_can_hold_has_no_words():
    belief = belief_of(["a\tb", "c"])
    found = run_again(belief, bd.scores.regret(k=1), {"must_include": ["a\tb"]}, "b.nc")
    assert found.command == ()
    assert "must_include=['a\\tb']" in found.python


def test_a_file_with_a_name_for_a_shell_stays_a_word():
    found = run_again(belief_of("ab"), bd.scores.regret(k=1), {}, "b; rm -rf $(x).nc")
    assert shlex.split(found.command[-1])[2] == "b; rm -rf $(x).nc"
