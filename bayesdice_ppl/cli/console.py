"""What the terminal shows: tables and sentences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape as without_markup
from rich.table import Table

from bayesdice_ppl.digits import written_alike
from bayesdice_ppl.plain import plain_text

if TYPE_CHECKING:
    import polars as pl
    from xarray import DataTree

    from bayesdice_ppl.baselines import Estimates
    from bayesdice_ppl.logs import Logs
    from bayesdice_ppl.logs.logged_value import LoggedValue
    from bayesdice_ppl.selection import InformationValue, Selection, TryingValue
    from bayesdice_ppl.simulation import TrueValue, World


_THIN = "? Do not trust the numbers of this candidate. The reason is below."


_EDGES = 2
"""What a table adds to the width of its columns and the spaces between them."""


class _PlainConsole(Console):
    """A console of whose text nothing steers the terminal, wherever it is from."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print text with its control characters written out."""
        super().print(
            *(plain_text(each) if isinstance(each, str) else each for each in objects), **options
        )


def make_console(*, stderr: bool = False) -> Console:
    """A console that leaves numbers uncolored."""
    return _PlainConsole(stderr=stderr, highlight=False, soft_wrap=False)


def escape(text: str) -> str:
    """Text from elsewhere, of which nothing is markup and nothing steers the terminal."""
    return without_markup(plain_text(text))


def show_selection(console: Console, selection: Selection) -> None:
    """Print the table, the warnings, and one sentence that answers the question."""
    what = "Value of each candidate (reward per step)"
    if selection.reward is not None:
        what = f"{selection.reward} of each candidate (per step), higher is better"
    elif selection.statistic != "mean":
        what = f"{selection.statistic} of each candidate's reward in a step, higher is better"
    table = selection.table
    ends = [*table["hdi90_lower"].to_list(), *table["hdi90_upper"].to_list()]
    numbers = written_alike([*table["mean"].to_list(), *ends], table["sd"].to_list())
    title = escape(f"{what}{numbers.words}, ranked by {selection.score}")
    names = table["policy"].to_list()
    thin = {name for name in names if any(r.startswith(f"{name}: ") for r in selection.reasons)}
    medians = ["median"] if "median" in table.columns else []
    values: dict[str, list[str]] = {name: [] for name in ("mean", "sd", *medians, "90 % interval")}
    chances: dict[str, list[str]] = {"P(best)": [], f"P(top {selection.k})": [], "E(rank)": []}
    for row in table.iter_rows(named=True):
        interval = f"{numbers.cell(row['hdi90_lower'])} to {numbers.cell(row['hdi90_upper'])}"
        middle = [numbers.cell(row[name]) for name in medians]
        worth = (numbers.cell(row["mean"]), numbers.width(row["sd"]), *middle, interval)
        odds = (f"{row['p_best']:.3f}", f"{row['p_top_k']:.3f}", f"{row['expected_rank']:.2f}")
        for group, cells in ((values, worth), (chances, odds)):
            for column, cell in zip(group.values(), cells, strict=True):
                column.append(cell)
    written = [escape(name) + (" ?" if name in thin else "") for name in names]
    room = min(max(map(len, written)), 26)
    needed = len(str(len(names))) + room + sum(1 + _widest(c) for c in (values | chances).items())
    # Names come first: where the numbers leave them no room, the chances follow in a second table.
    parts = [values | chances] if needed + _EDGES <= console.width else [values, chances]
    for columns in parts:
        page = _compact(title if columns is parts[0] else "Chances of each candidate")
        page.add_column("#", justify="right")
        page.add_column("policy", min_width=room, overflow="fold")
        for label in columns:
            page.add_column(label, justify="right", no_wrap=True)
        for place, (name, launched) in enumerate(zip(written, table["launched"], strict=True)):
            row_cells = (column[place] for column in columns.values())
            page.add_row(str(place + 1), name, *row_cells, style="bold" if launched else "")
        console.print(page)
    _show_rewards(console, selection)
    if thin:
        console.print(_THIN)
    console.print(escape(selection.certificate.statement))
    show_answer(console, selection)


def show_answer(console: Console, selection: Selection) -> None:
    """Print reasons, warnings and notes, and the sentence that answers the question."""
    for remark in selection.remarks:
        kind, _, said = remark.partition(": ")
        shown = f"{kind}:" if kind == "Note" else f"[yellow]{kind}:[/yellow]"
        console.print(f"{shown} {escape(said)}")
    console.print()
    console.print(f"[bold]{escape(selection.answer)}[/bold]")


def _show_rewards(console: Console, selection: Selection) -> None:
    """Print every reward of each candidate, where the belief has several."""
    table = selection.rewards
    if table is None:
        return
    headings, columns = ["policy"], [table["policy"].to_list()]
    for name in table.columns:
        if f"{name}_sd" in table.columns:
            means, sds = table[name].to_list(), table[f"{name}_sd"].to_list()
            numbers = written_alike(means, sds)
            headings.append(f"{name}{numbers.words}")
            columns.append(
                [
                    f"{numbers.cell(mean)} ± {numbers.width(sd)}"
                    for mean, sd in zip(means, sds, strict=True)
                ]
            )
    if "p_within_limits" in table.columns:
        headings.append("P(within limits)")
        columns.append([f"{chance:.3f}" for chance in table["p_within_limits"]])
    rows = [list(row) for row in zip(*columns, strict=True)]
    show_rows(console, "Rewards per step, mean ± sd", headings, rows)


def show_information(console: Console, worth: InformationValue) -> None:
    """Print how much loss is saved by knowing a candidate's value."""
    rows = [
        [row["policy"], f"{row['value_of_information']:.3g}", f"{row['standard_error']:.1g}"]
        for row in worth.table.iter_rows(named=True)
    ]
    title = "Loss saved by knowing one value"
    show_rows(console, title, ["policy", "saves", "standard error"], rows)
    console.print(escape(worth.answer))


def show_trying(console: Console, worth: TryingValue) -> None:
    """Print how much loss is saved by knowing a pair that was never logged."""
    saving = worth.table.filter(worth.table["value_of_trying"] > 0.0)
    rows = [
        [
            row["state"],
            row["action"],
            f"{row['highest_mass']:.1%} by {row['taken_by']}",
            f"{row['value_of_trying']:.3g}",
            f"{row['standard_error']:.1g}",
        ]
        for row in saving.iter_rows(named=True)
    ]
    if rows:
        title = "Loss saved by knowing one pair that was never logged"
        headings = ["state", "action", "taken most", "saves", "standard error"]
        show_rows(console, title, headings, rows)
    console.print(escape(worth.answer))
    others = len(worth.table) + worth.left_out - len(rows)
    if others and rows:
        console.print(f"{others:,} others save nothing that these draws show, or move less.")


def show_logs(console: Console, logs: Logs) -> None:
    """Print what was read."""
    states, actions = logs.state_labels, logs.action_labels
    seen = (
        f"{states.shape[1]}-dimensional observations"
        if logs.vector_states
        else f"{len(states):,} states"
    )
    done = (
        f"{actions.shape[1]}-dimensional actions"
        if logs.vector_actions
        else f"{len(actions):,} logged actions"
    )
    line = (
        f"Logs: {logs.n_transitions:,} transitions, {logs.n_episodes:,} episodes, {seen}, {done}; "
        f"{logs.n_terminated:,} terminated, {logs.n_truncated:,} truncated; "
        f"mean reward {logs.mean_reward:.4g}."
    )
    console.print(escape(line))
    for sentence in logs.source.sentences if logs.source is not None else ():
        console.print(escape(sentence))
    if logs.allowed is not None:
        from bayesdice_ppl.logs.action_sets import RENORMALIZED

        console.print(escape(f"{RENORMALIZED[0].upper()}{RENORMALIZED[1:]}."))
    together = logs.looked_at
    if together:
        console.print(escape(f"Columns that may group rows: {', '.join(together)}."))
    alike = {name: key for key, name in logs.lookalikes.items() if key != "step"}
    unused = [
        f"{name} (looks like {alike[name]})" if name in alike else name
        for name in logs.unused_columns
        if name not in together
    ]
    if unused:
        console.print(escape(f"Columns not used: {', '.join(unused)}."))


def show_fit(console: Console, belief: DataTree) -> None:
    """Print how the belief was made: rows left out, actions, the value of the logging policy."""
    from bayesdice_ppl.belief import BeliefView, how_made

    for line in how_made(BeliefView(belief)):
        console.print(escape(line))


def show_estimates(
    console: Console,
    found: Estimates,
    order: list[str],
    by: str,
    logged: LoggedValue,
    thin: Collection[str] = (),
) -> None:
    """Print the estimates of a method in order, and the value of the logging policy.

    The candidates in `thin` are marked: the logs say too little about them.
    """
    by_name = {row["policy"]: row for row in found.table.iter_rows(named=True)}
    has_interval = found.table["lower"].null_count() == 0
    columns = ["value", "lower", "upper"] if has_interval else ["value"]
    spread = [row["upper"] - row["lower"] for row in by_name.values()] if has_interval else []
    if not any(width > 0.0 for width in spread):
        spread = [abs(row["value"]) / 100.0 for row in by_name.values()]
    numbers = written_alike([row[c] for row in by_name.values() for c in columns], spread)
    headings = ["policy", *columns]
    weighed = found.table.get_column("effective_episodes", default=None) is not None
    if weighed:
        headings.append("effective rows" if found.gamma == 0.0 else "effective episodes")
    rows = []
    for name in order:
        row = by_name[name]
        cells = [numbers.cell(row[column]) for column in columns]
        if weighed:
            resting = row["effective_episodes"]
            cells.append("" if resting is None else f"{resting:.1f}")
        rows.append([f"{name} ?" if name in thin else name, *cells])
    ends = f", with {100 * found.level:g} % intervals" if has_interval else ""
    title = (
        f"Value of each candidate (reward per step){numbers.words}, by {found.method.name}{ends}"
    )
    console.print(f"[italic]{escape(title)}[/italic]")  # wider than the table, which would fold it
    show_rows(console, "", headings, rows)
    if thin:
        console.print(_THIN)
    from bayesdice_ppl.belief import earned_words
    from bayesdice_ppl.selection.certificate import listing

    console.print(earned_words(logged.value, logged.standard_error))

    what = {"value": "estimate", "lower": "lower end", "upper": "upper end"}[by]
    best = [name for name in order if by_name[name][by] == by_name[order[0]][by]]
    overlapping = [
        name
        for name in order
        if has_interval
        and name not in best
        and by_name[name]["upper"] >= by_name[order[0]]["lower"]
        and by_name[name]["lower"] <= by_name[order[0]]["upper"]
    ]
    have = "has" if len(best) == 1 else "all have" if len(best) > 2 else "both have"
    console.print(
        f"[bold]{escape(listing(best))} {have} the highest {what}.[/bold] "
        f"{escape(found.method.short)} "
        "gives no belief: how certain this order is, and what it may lose, is not known."
    )
    if overlapping:
        console.print(
            f"The intervals of {len(overlapping)} of {len(order) - len(best)} others overlap with "
            "that one: they may be better."
        )


def show_methods(console: Console, catalog: pl.DataFrame) -> None:
    """Print the methods, what they need and give, and the words that may follow their names."""
    table = _compact("Methods for bayesdice select --method")
    table.padding = (0, 1, 0, 0)
    table.add_column("method", no_wrap=True)
    for heading in ("needs", "gives", "what it does"):
        table.add_column(heading, overflow="fold")
    table.add_row("bayesdice", "", "draws", "The default: bayesdice select --help.")
    options: dict[str, list[str]] = {}
    for row in catalog.iter_rows(named=True):
        table.add_row(*(escape(row[key]) for key in ("name", "needs", "gives", "description")))
        if row["options"]:
            options.setdefault(row["options"], []).append(row["name"])
    console.print(table)
    console.print(
        "rng_key: the method draws, from --seed. Words that may follow the name, as in wpdis:bca:"
    )
    for words, names in options.items():
        console.print(f"  {', '.join(names)}: {words}", markup=False)
    console.print(
        "fitted estimates the logging policy by counts, without the log's propensities. The words "
        "before it give an interval. Settings: --set key=value."
    )


def show_rows(console: Console, title: str, headings: list[str], rows: list[list[str]]) -> None:
    """Print a plain table: names to the left, everything else to the right."""
    table = _compact(title)
    for place, heading in enumerate(headings):
        heading = plain_text(heading)
        table.add_column(heading, justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def show_true_values(console: Console, world: World, values: Mapping[str, TrueValue]) -> None:
    """Print the true values of a world's policies, and standard errors of simulated ones."""
    title = f"True values at gamma = {world.gamma_hint:g}"
    unknown = len(world.candidates) + 1 - len(values)
    if not values:
        console.print(f"{title}: none is stored for these policies; simulating them takes minutes.")
        return
    if all(value.exact for value in values.values()):
        rows = [[name, f"{value:.5g}"] for name, value in values.items()]
        show_rows(console, title, ["policy", "value"], rows)
        return
    rows = [[name, f"{value:.5f}", _error(value)] for name, value in values.items()]
    show_rows(console, title, ["policy", "value", "standard error"], rows)
    if unknown:
        console.print(f"No value is stored for {unknown} of these policies.")


def _error(value: TrueValue) -> str:
    # Where no reward varied, a simulation has no standard error.
    return f"{value.standard_error:.2g}" if value.standard_error else "unknown"


def _widest(column: tuple[str, list[str]]) -> int:
    return max(len(column[0]), *map(len, column[1]))


def _compact(title: str) -> Table:
    """A table that leaves most of 80 columns to its cells."""
    return Table(
        title=plain_text(title), title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False
    )
