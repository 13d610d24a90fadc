"""How to get a report's numbers again: on the command line, and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.digits import exact
from bayesdice_ppl.errors import BeliefError
from bayesdice_ppl.fitting.again import call_again
from bayesdice_ppl.plain import listed_word, shell_word
from bayesdice_ppl.risk import Mean
from bayesdice_ppl.scores import Score
from bayesdice_ppl.scores.catalog import options_of

if TYPE_CHECKING:
    from xarray import DataTree

FIT_OPTIONS = (
    "on_termination",
    "inference",
    "penalty",
    "surrogate",
    "link",
    "statistic",
    "cluster",
    "joint",
    "small_sample",
    "rewards",
    "value_law",
    "preset",
    "include_logged",
    "draws",
)
"""Settings of a fit that the command line has, by their flat names."""
LOGS, CANDIDATES, PAGE = "logs.parquet", "candidates.parquet", "report.html"
_LONGEST = 88
"""Characters of a line of Python."""


@final
class Rerun(NamedTuple):
    """How to get the numbers again.

    Attributes
    ----------
    command
        Lines for a shell; empty where something cannot be said there.
    python
        The same in Python; empty where something cannot be said in it.
    remarks
        What has to be filled in, and what cannot be said.
    """

    command: tuple[str, ...]
    python: str
    remarks: tuple[str, ...]


def run_again(belief: DataTree, score: Score, options: Mapping[str, Any], source: str) -> Rerun:
    """Say how to get a report again.

    Parameters
    ----------
    belief
        The belief.
    score
        What a ranking is judged by.
    options
        What else `bayesdice_ppl.select` was given.
    source
        Name of the belief's file.
    """
    given = {name: value for name, value in options.items() if _is_given(name, value)}
    remarks: list[str] = []
    command, python = _fit(BeliefView(belief), source, remarks)
    found = options_of(score)
    words = None if found is None else _report_words(*found, given, source)
    if words is None:
        what = "A score of one's own"
        if found is not None:
            mute = [name for name, value in given.items() if _option_words(name, value) is None]
            what = f"What was given as {', '.join(mute)}"
        remarks.append(f"{what} has no words on a command line.")
    called = "score" if found is None else _score_call(*found)
    if found is None:
        remarks.append(f"In Python, score is the score {score.name!r} that was given.")
    extra = "".join(f",\n    {name}={_literal(value)}" for name, value in given.items())
    calls = f"page = bd.report(\n    belief,\n    {called}{extra},\n)"
    if len(calls) <= _LONGEST or not extra:
        calls = f"page = bd.report(belief, {called})" if not extra else calls
    lines = ["import jax" if "jax." in python else "", "import bayesdice_ppl as bd", ""]
    lines += [python, calls, f"page.save({PAGE!r})"]
    return Rerun(
        command=() if words is None else (*command, " ".join(words)),
        python="\n".join(lines).strip(),
        remarks=tuple(remarks),
    )


def _is_given(name: str, value: Any) -> bool:
    usual = {"statistic": "value", "unseen": "pooled", "abstain": True}
    return value is not None and value != usual.get(name) and value not in ([], (), {})


def _fit(view: BeliefView, source: str, remarks: list[str]) -> tuple[list[str], str]:
    """Lines that make the belief; where it does not say how, one that reads it."""
    read = f"belief = bd.load_belief({source!r})"
    try:
        settings, method = view.settings, view.method
        known = bool(settings) and "gamma" in settings and bool(view.versions)
    except BeliefError:
        known = False
    if not known:
        remarks.append("The belief does not say how it was made.")
        return [], read
    remarks.append(
        f"{LOGS} and {CANDIDATES} stand for the log and the candidates. Read the log as it was "
        "read then: which columns were taken as what (--columns, --reward, --ignore) and which "
        "actions were declared (--actions), the belief does not keep."
    )
    known_seed = _seed(view)
    seed = [] if known_seed is None else ["--seed", str(known_seed)]
    data = ["bayesdice", "fit", LOGS, "-p", CANDIDATES, "--gamma", exact(settings["gamma"])]
    if method:
        data[1] = "select"
        words = [*data, "--method", method, *seed, "-o", "out"]
        remarks.append(
            "The method's settings are those above: each is --set name=value. The belief is then "
            "out/belief.nc."
        )
        return [" ".join(map(shell_word, words))], read
    again = call_again(view)
    for name, text in again.kept_as_text.items():
        remarks.append(f"{name}: {text}. Give it as it was given, where it is not the default.")
    if view.rewards:
        remarks.append(f"The log was read with the rewards {', '.join(view.rewards)}.")
        data += ["--reward", ",".join(map(listed_word, view.rewards))]
    several = f", reward={view.rewards!r}" if view.rewards else ""
    arguments = ",\n    ".join([*again.arguments, f"rng_key={_key(view)}"])
    python = (
        f"logs = bd.read_logs({LOGS!r}{several})\n"
        f"policies = bd.read_policies({CANDIDATES!r})\n"
        f"belief = bd.fit(\n    logs,\n    policies,\n    {arguments},\n)"
    )
    if set(again.changed) - set(FIT_OPTIONS):
        remarks.append(
            "Some settings of the belief have no option on the command line: fit it in Python."
        )
        return [], python
    words = [*data, *_fit_words(again.changed), *seed, "-o", source]
    return [" ".join(map(shell_word, words))], python


def _seed(view: BeliefView) -> int | None:
    """The seed, said by the belief or seen in its key; None where there is none."""
    words = view.rng_key
    seen = words[1] if len(words) == 2 and words[0] == 0 else None
    return seen if view.seed is None else view.seed


def _key(view: BeliefView) -> str:
    seed = _seed(view)
    if seed is not None:
        return f"jax.random.key({seed})"
    return f"jax.random.wrap_key_data(jax.numpy.array({view.rng_key}, 'uint32'))"


def _fit_words(changed: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in changed.items():
        option = f"--{name.replace('_', '-')}"
        if name == "joint":
            words.append("--joint" if value else "--independent")
        elif isinstance(value, bool):
            words.append(option if value else f"--no-{name.replace('_', '-')}")
        elif isinstance(value, list | tuple):
            words += [option, ",".join(f"{each}" for each in value)]
        else:
            words += [option, str(value)]
    return words


def _score_call(name: str, options: Mapping[str, Any]) -> str:
    inside = []
    for key, value in options.items():
        if key == "risk":
            if not isinstance(value, Mean):
                inside.append(f"risk=bd.risk.{value.name}")
        else:
            inside.append(f"{key}={value!r}")
    return f"bd.scores.{name}({', '.join(inside)})"


def _literal(value: Any) -> str:
    """A value as Python writes it; what is a collection of names as a list."""
    if isinstance(value, Mapping):
        return repr(dict(value))
    return repr(value) if isinstance(value, str | int | float | tuple) else repr(list(value))


def _report_words(
    name: str, options: Mapping[str, Any], given: Mapping[str, Any], source: str
) -> list[str] | None:
    """Words of `bayesdice report`; None where a name or an option cannot be said in them."""
    words = ["bayesdice", "report", source, "--score", name]
    for key, value in options.items():
        if key == "k":
            words += ["-k", str(value)]
        elif key == "risk":
            words += [] if isinstance(value, Mean) else ["--risk", value.name]
        else:
            words += [f"--{key}", value if isinstance(value, str) else f"{value!r}"]
    for key, value in given.items():
        more = _option_words(key, value)
        if more is None:
            return None
        words += more
    return [*map(shell_word, words), "-o", PAGE]


def _option_words(key: str, value: Any) -> list[str] | None:
    """Words of one option of the selection."""
    option = f"--{key.replace('_', '-')}"
    match key:
        case "statistic" if isinstance(value, Mapping):
            return _paired("--weights", value)
        case "statistic":
            return [option, str(value)]
        case "limits":
            sides = [
                f"{listed_word(name)}{sign}{limit!r}"
                for name, (low, high) in value.items()
                for sign, limit in ((">=", low), ("<=", high))
                if limit is not None
            ]
            return None if _torn(value) else [option, ",".join(sides)]
        case "costs":
            return _paired(option, value)
        case "must_include" | "must_exclude":
            return None if _torn(value) else [option, ",".join(map(listed_word, value))]
        case "bounds":
            low, high = value
            return ["--unseen-bounds", f"{low!r},{high!r}"]
        case "unseen":
            return []
        case "budget" | "confidence":
            return [option, f"{value!r}"]
    return None


def _paired(option: str, value: Mapping[str, float]) -> list[str] | None:
    if _torn(value):
        return None
    return [option, ",".join(f"{listed_word(name)}={number!r}" for name, number in value.items())]


def _torn(names: Any) -> bool:
    """Whether a name would not be read again from a command line."""
    return not all(name.isprintable() for name in names)
