"""Figures, by what they hold and where it stands; never by pixels."""

import warnings

import arviz as az
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from bayesdice_ppl import plots
from bayesdice_ppl.errors import BeliefError, OutputError, SettingsError


@pytest.fixture(autouse=True)
def _no_figure_left_open(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("plt.show was called"))
    yield
    plt.close("all")


def belief_of(names, logged=None):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1, 300, len(names))) * 0.001 + 0.002 * np.arange(len(names))
    belief = az.from_dict(
        {"posterior": {"value": values, "beta": np.zeros((1, 300, 3))}},
        coords={"policy": names},
        dims={"value": ["policy"]},
    )
    if logged is not None:
        belief.attrs["logged_value"] = logged
    return belief


def parts(collection):
    """The figure, and the axes of names and of intervals."""
    return (
        collection.get_viz("figure"),
        collection.get_target(None, {"column": "labels"}),
        collection.get_target(None, {"column": "forest"}),
    )


def listed(names_axes):
    return [
        text.get_text() for text in sorted(names_axes.texts, key=lambda t: -t.get_position()[1])
    ]


def test_policies_by_mean_best_on_top():
    collection = plots.forest(belief_of(["a", "b", "c"]))
    assert type(collection) is az.PlotCollection
    _, names, intervals = parts(collection)
    assert listed(names) == ["c", "b", "a"]
    assert intervals.get_xlabel() == "value (reward per step)"
    assert not any("dashed" in t for t in (intervals.get_title(loc="left"),))


def test_order_and_a_selection_of_policies():
    _, names, _ = parts(plots.forest(belief_of(["a", "b", "c"]), order=["b", "a"]))
    assert listed(names) == ["b", "a"]


def test_intervals_are_arviz_s():
    belief = belief_of(["a", "b"])
    _, _, intervals = parts(plots.forest(belief, order=["b", "a"]))
    values = belief["posterior/value"]
    drawn = {
        tuple(np.round(line.get_xdata(), 12))
        for line in intervals.lines
        if len(line.get_xdata()) == 2
    }
    for prob in (0.5, 0.9):
        for policy in ("a", "b"):
            interval = az.hdi(values.sel(policy=policy), prob=prob).values
            assert tuple(np.round(interval, 12)) in drawn


def test_line_at_the_logged_value_even_outside_the_intervals():
    _, _, intervals = parts(plots.forest(belief_of(["a", "b"], logged=0.02)))
    assert any(np.allclose(line.get_xdata(), 0.02) for line in intervals.lines)
    assert intervals.get_xlim()[1] > 0.02
    assert "dashed: logged value, 0.02" in intervals.get_title(loc="left")


@pytest.mark.parametrize("logged", [np.nan, "much", [1, 2]])
def test_a_logged_value_that_is_no_number_is_refused(logged):
    with pytest.raises(BeliefError, match="logged_value"):
        plots.forest(belief_of(["a", "b"], logged=logged))


@pytest.mark.parametrize(
    "names",
    [
        ["x"],
        ["uniform", "bts"],
        [f"policy number {i}" for i in range(34)],
        ["a name that goes on for very much longer than anybody should wish for a policy", "b"],
        ["costs $5 or $6", "under_score", "<b>"],
    ],
    ids=["one", "two", "many", "long", "odd"],
)
def test_nothing_overlaps_or_leaves_the_figure(names, tmp_path):
    collection = plots.forest(belief_of(names, logged=0.001))
    figure, names_axes, intervals = parts(collection)
    figure.canvas.draw()
    page = figure.bbox
    boxes = [text.get_window_extent() for text in names_axes.texts]
    ticks = [t.get_window_extent() for t in intervals.get_xticklabels() if t.get_text()]
    shown = [
        t for t in ticks if intervals.bbox.x0 - 1 <= (t.x0 + t.x1) / 2 <= intervals.bbox.x1 + 1
    ]
    for box in [*boxes, *shown, intervals.xaxis.label.get_window_extent()]:
        assert box.x0 >= page.x0 - 1
        assert box.x1 <= page.x1 + 1
        assert box.y0 >= page.y0 - 1
        assert box.y1 <= page.y1 + 1
    for group in (boxes, shown):
        for i, box in enumerate(group):
            assert not any(box.overlaps(other) for other in group[i + 1 :])
    assert max(box.x1 for box in boxes) <= intervals.bbox.x0
    assert sorted(listed(names_axes)) == sorted(names)
    plots.save(collection, tmp_path / "forest.png")
    assert (tmp_path / "forest.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("order", "message"),
    [(["a", "z"], "order names 'z'"), (["a", "a"], "twice"), ([], "best first"), ("a", "by name")],
)
def test_bad_orders(order, message):
    with pytest.raises(SettingsError, match=message):
        plots.forest(belief_of(["a", "b"]), order=order)


def test_global_settings_are_left_alone():
    before, backend = dict(mpl.rcParams), mpl.get_backend()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.forest(belief_of(["a", "b"]))
    assert dict(mpl.rcParams) == before
    assert mpl.get_backend() == backend


def test_a_constrained_style_does_not_undo_the_layout():
    with mpl.rc_context({"figure.constrained_layout.use": True}):
        figure, names, intervals = parts(plots.forest(belief_of(["a", "b"])))
        figure.canvas.draw()
    assert max(t.get_window_extent().x1 for t in names.texts) <= intervals.bbox.x0


def test_save_replaces_and_leaves_nothing_else(tmp_path):
    collection = plots.forest(belief_of(["a", "b"]))
    path = tmp_path / "forest.svg"
    path.write_text("old")
    plots.save(collection, str(path))
    assert "<svg" in path.read_text()
    with pytest.raises(OutputError, match=r"forest\.nonsense"):
        plots.save(collection, tmp_path / "forest.nonsense")
    with pytest.raises(OutputError, match="missing"):
        plots.save(collection, tmp_path / "missing" / "forest.png")
    assert [p.name for p in tmp_path.iterdir()] == ["forest.svg"]
