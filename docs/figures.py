"""Draw the figures of the documentation: ``python docs/figures.py``.

Each is computed when it is drawn, from fixed seeds or from a table of `benchmarks/results`, and
written to `docs/images`.
"""

import io
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image

import bayesdice_ppl as bd
from bayesdice_ppl.belief import make_belief

IMAGES = Path(__file__).parent / "images"
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
MILLIMETER = 1 / 25.4
FONT, SMALL = 8, 7
# Told apart by color-blind readers too: Okabe and Ito.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GRAY, PALE = "#444444", "#dddddd"

# Two arms that paid in six and in five rounds of ten, from uniform priors.
FIRST, SECOND = (7, 5), (6, 6)
SHARES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
SEED, N_DRAWS, N_LINES = 0, 20_000, 24


def draw_values() -> tuple[
    Float[np.ndarray, "draws policies"], Float[np.ndarray, "draws policies"]
]:
    """Draw the candidates' values jointly, and the same draws with each column permuted."""
    rng = np.random.default_rng(SEED)
    first, second = rng.beta(*FIRST, size=(N_DRAWS, 1)), rng.beta(*SECOND, size=(N_DRAWS, 1))
    joint = second + SHARES * (first - second)
    return joint, rng.permuted(joint, axis=0)


def chosen_pair(values: Float[np.ndarray, "draws policies"], k: int) -> tuple[int, int]:
    """Give the first two candidates of the ranking for regret@k, as indices in rising order."""
    names = [f"{share:.1f}" for share in SHARES]
    belief = make_belief(values, names)
    low, high = sorted(names.index(n) for n in bd.select(belief, bd.scores.regret(k)).order[:2])
    return low, high


def draw_lines(axes: Axes, joint: Float[np.ndarray, "draws policies"]) -> None:
    """Show joint draws as lines over the candidates, each with its best one marked."""
    first_is_better = float(np.mean(joint[:, -1] > joint[:, 0]))
    shares = {BLUE: first_is_better, ORANGE: 1.0 - first_is_better}
    for values in joint[:N_LINES]:
        best = int(np.argmax(values))
        color = BLUE if best else ORANGE
        axes.plot(SHARES, values, color=color, linewidth=0.7, alpha=0.6)
        axes.plot(SHARES[best], values[best], "o", color=color, markersize=4)
    for color, arm in ((BLUE, "first"), (ORANGE, "second")):
        label = f"{arm} arm better: {100 * shares[color]:.0f} % of draws"
        axes.plot([], [], "o-", color=color, linewidth=0.7, markersize=4, label=label)
    axes.vlines(SHARES, 0.0, 1.0, color=PALE, linewidth=0.7, zorder=0)
    axes.set_xticks(SHARES)
    axes.set_xlim(0.03, 0.97)
    lowest, highest = joint[:N_LINES].min(), joint[:N_LINES].max()
    axes.set_ylim(lowest - 0.3 * (highest - lowest), highest + 0.03)
    axes.set_xlabel("candidate: share of pulls on the first arm")
    axes.set_ylabel("value (reward per round)")
    axes.set_title("Each joint draw is a line: its best is at an end", fontsize=FONT)
    axes.legend(fontsize=SMALL, loc="lower center", edgecolor="none", framealpha=1)


def draw_regrets(
    axes: Axes,
    joint: Float[np.ndarray, "draws policies"],
    independent: Float[np.ndarray, "draws policies"],
) -> None:
    """Show the expected regret of every pair under both beliefs, and which pairs are chosen."""
    pairs = list(combinations(range(len(SHARES)), 2))
    score = bd.scores.regret(2)
    together, apart = (
        score.losses(values, np.array(pairs)).mean(axis=1) for values in (joint, independent)
    )
    rows = np.argsort(together, kind="stable")
    places, labels = np.arange(len(pairs)), []
    for low, high in np.array(pairs)[rows]:
        labels.append(f"{SHARES[low]:.1f}, {SHARES[high]:.1f}")
    axes.hlines(places, together[rows], apart[rows], color=PALE, linewidth=1)
    axes.plot(together[rows], places, "o", color=GREEN, markersize=5, label="joint belief")
    axes.plot(
        apart[rows],
        places,
        "s",
        color=GRAY,
        fillstyle="none",
        markersize=5,
        label="independent belief",
    )
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    chosen: dict[tuple[int, int], list[str]] = {}
    # By the mean: regret of the first alone asks for the highest, and the rest follow by mean.
    for rule, pair in (
        ("joint belief", chosen_pair(joint, 2)),
        ("mean", chosen_pair(joint, 1)),
        ("independent", chosen_pair(independent, 2)),
    ):
        chosen.setdefault(pair, []).append(rule)
    for pair, rules in chosen.items():
        place = int(np.flatnonzero(rows == pairs.index(pair))[0])
        axes.axhspan(place - 0.45, place + 0.45, color="#eeeeee", zorder=0, linewidth=0)
        text = "chosen by\n" + ", ".join(rules)
        axes.text(0.098, place, text, fontsize=SMALL, va="center")
    axes.set_xlim(-0.004, 0.165)
    axes.set_xticks(np.linspace(0.0, 0.1, 6))
    axes.set_xlabel("expected regret of the pair (reward per round)")
    axes.set_ylabel("pair of candidates")
    axes.set_title("Only the joint belief sees that both ends are safe", fontsize=FONT)
    axes.legend(fontsize=SMALL, loc="center right", bbox_to_anchor=(1.02, 0.4), frameon=False)


def two_arms() -> Figure:
    """Draw why regret@2 asks for the extremes of candidates that mix two arms."""
    joint, independent = draw_values()
    figure = Figure(figsize=(170 * MILLIMETER, 80 * MILLIMETER), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_lines(left, joint)
    draw_regrets(right, joint, independent)
    for axes in (left, right):
        axes.tick_params(labelsize=SMALL)
        axes.xaxis.label.set_size(FONT)
        axes.yaxis.label.set_size(FONT)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


METHODS = {
    "belief": ("BayesDICE", BLUE, "o-"),
    "belief, abstentions last": ("BayesDICE, abstentions last", BLUE, "o:"),
    "dirichlet": ("Dirichlet model", GREEN, "s-"),
    "lstdq_bootstrap": ("LSTDQ, bootstrap", ORANGE, "^-"),
    "wdr:student:fitted": ("weighted doubly robust", PURPLE, "D-"),
    "wis:student:fitted": ("weighted importance sampling", GRAY, "v-"),
}


def risk_coverage() -> Figure:
    """Draw the regret of the surest recommendations against their share, method by method."""
    table = pl.read_csv(RESULTS / "risk_coverage.csv", comment_prefix="#")
    rows = {row["method"]: row for row in table.iter_rows(named=True)}
    figure = Figure(figsize=(170 * MILLIMETER, 80 * MILLIMETER), layout="constrained")
    axes = figure.subplots()
    columns = [name for name in table.columns if name.startswith("at_")]
    shares = [int(name.removeprefix("at_")) for name in columns]
    for place, (method, (name, color, style)) in enumerate(METHODS.items()):
        row = rows[method]
        regret = [row[column] for column in columns]
        axes.plot(
            shares,
            regret,
            style,
            color=color,
            linewidth=1,
            markersize=3,
            clip_on=False,
            zorder=9 - place,
            label=f"{name}\narea {row['aurcc']:.3f} ± {row['aurcc_se']:.3f}",
        )
    ruled = rows["belief, abstentions last"]
    axes.plot(
        100 * ruled["kept"],
        ruled["kept_regret"],
        "*",
        color=BLUE,
        markersize=11,
        zorder=10,
        label="where BayesDICE's\nrule of abstention stops",
    )
    axes.set_xlim(0, 103)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("share of recommendations kept, the surest first (%)", fontsize=FONT)
    axes.set_ylabel("mean regret over the range of true values", fontsize=FONT)
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=SMALL, loc="outside right center", frameon=False)
    return figure


def size() -> Figure:
    """Draw time and memory of a fit against rows, pairs and candidates."""
    table = pl.read_csv(RESULTS / "size.csv", comment_prefix="#")
    figure = Figure(figsize=(170 * MILLIMETER, 95 * MILLIMETER), layout="constrained")
    panels = figure.subplots(2, 3, sharex="col", sharey="row")
    columns = (("seconds", "with_weights"), ("peak_GiB", "with_weights_GiB"))
    for column, case in enumerate(("rows", "pairs", "candidates")):
        rows = table.filter(pl.col("case") == case)
        for axes, (alone, whole) in zip(panels[:, column], columns, strict=True):
            both = (
                (alone, BLUE, "o-", "as fit does it by default"),
                (whole, ORANGE, "s--", "with draws of all weights"),
            )
            for name, color, style, label in both:
                shown = rows.filter(pl.col(name).is_not_nan() & pl.col(name).is_not_null())
                axes.loglog(
                    shown[case], shown[name], style, color=color, label=label, markersize=4, lw=1
                )
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.10g}"))
                axis.set_minor_formatter(NullFormatter())
            low, high = np.log10(axes.get_ylim())
            axes.set_ylim(10 ** np.floor(low), 10 ** np.ceil(high))
            axes.tick_params(labelsize=SMALL)
            axes.grid(color=PALE, linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
        panels[1, column].set_xlabel(case, fontsize=FONT)
    panels[0, 0].set_ylabel("seconds of a later fit", fontsize=FONT)
    panels[1, 0].set_ylabel("peak memory (GiB)", fontsize=FONT)
    lines, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(lines, labels, fontsize=SMALL, loc="outside upper center", ncols=2, frameon=False)
    return figure


def first_example() -> Figure:
    """Draw what the first example of `docs/index.md` draws: its code, as it stands there."""
    page = (Path(__file__).parent / "index.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, object] = {}
    exec(block, names)
    return names["figure"].viz["figure"].item()  # type: ignore[attr-defined]


def write_png(figure: Figure, path: Path) -> None:
    """Write a figure with a palette of 128 colors, which makes a file a third as large."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=200)
    image = Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def main(folder: Path = IMAGES) -> None:
    """Draw all figures."""
    folder.mkdir(parents=True, exist_ok=True)
    write_png(first_example(), folder / "first_example.png")
    write_png(two_arms(), folder / "two_arms.png")
    write_png(risk_coverage(), folder / "risk_coverage.png")
    write_png(size(), folder / "size.png")


if __name__ == "__main__":
    main()
