"""Figures, by what they hold and where it stands; never by pixels."""

import warnings

import arviz as az
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from bayesdice_ppl import plots, risk, scores
from bayesdice_ppl.errors import BeliefError, OutputError, ScoreError, SettingsError
from bayesdice_ppl.selection.by_k import loss_by_k
from bayesdice_ppl.selection.ranks import rank_probabilities


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


def test_every_name_is_a_function_and_not_its_module():
    import bayesdice_ppl.plots.rank_probabilities  # noqa: F401 (which sets the package's attribute)

    names = set(plots.__all__) - {"X_LABEL"}
    assert all(callable(getattr(plots, name)) for name in names)


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
    [
        (["a", "z"], "found 'z'"),
        (["a", "a"], "twice"),
        ([], "best first"),
        ("a", "names of policies"),
    ],
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


def test_save_takes_figures_of_matplotlib_too(tmp_path):
    figure = Figure()
    figure.subplots().plot([0, 1])
    plots.save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OutputError, match=r"figure\.nonsense"):
        plots.save(figure, tmp_path / "figure.nonsense")


def map_parts(collection):
    """The figure, the axes of the map, its image, and the axes of the colors."""
    figure, axes = collection.get_viz("figure"), collection.get_viz("plot")
    (image,) = axes.images
    (bar,) = (other for other in figure.axes if other is not axes)
    return figure, axes, image, bar


def spread_belief(names):
    """Policies that are told apart by a little less than their sd."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(1, 400, len(names))) - 0.8 * np.arange(len(names))
    return az.from_dict(
        {"posterior": {"value": values}}, coords={"policy": names}, dims={"value": ["policy"]}
    )


def test_a_cell_is_the_probability_of_a_place():
    belief = spread_belief(["a", "b", "c"])
    _, axes, image, bar = map_parts(plots.rank_probabilities(belief, order=["c", "a"]))
    expected = rank_probabilities(belief).sel(policy=["c", "a"])
    assert np.array_equal(image.get_array(), expected.values)
    # Rows from the top, columns from 1: what is under a point is what its ticks say.
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["c", "a"]
    assert axes.get_yticks().tolist() == [0, 1]
    assert axes.get_xticks().tolist() == [1, 2, 3]
    assert image.get_extent() == [0.5, 3.5, 1.5, -0.5]
    written = {text.get_position(): text.get_text() for text in axes.texts}
    for row, name in enumerate(["c", "a"]):
        for place in (1, 2, 3):
            assert written[place, row] == f"{expected.sel(policy=name, place=place).item():.2f}"
    assert axes.get_xlabel() == "true place (1 is best)"
    assert bar.get_ylabel() == "probability"
    assert image.norm.vmin == 0.0


def test_the_best_on_top_unless_told_and_zeros_left_blank():
    names = ["worst", "best"]
    values = np.tile([0.0, 1.0], (1, 1_000, 1))
    values[0, 0] = [1.0, 0.0]
    belief = az.from_dict(
        {"posterior": {"value": values}}, coords={"policy": names}, dims={"value": ["policy"]}
    )
    _, axes, _, _ = map_parts(plots.rank_probabilities(belief))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["best", "worst"]
    assert sorted(text.get_text() for text in axes.texts) == ["1.00", "1.00", "<.01", "<.01"]
    belief["posterior/value"][0, 0] = [0.0, 1.0]
    _, axes, _, _ = map_parts(plots.rank_probabilities(belief))
    assert sorted(text.get_text() for text in axes.texts) == ["1.00", "1.00"]


def luminance(color):
    linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


def test_numbers_stand_out_from_their_cells():
    """By a contrast of 3 at least (WCAG 2.1)."""
    _, axes, image, _ = map_parts(plots.rank_probabilities(spread_belief(list("abcdefgh"))))
    contrasts = []
    for text in axes.texts:
        place, row = text.get_position()
        cell = image.to_rgba(image.get_array())[row, place - 1][:3]
        lighter, darker = sorted([luminance(cell), luminance(text.get_color())], reverse=True)
        contrasts.append((lighter + 0.05) / (darker + 0.05))
    assert len(contrasts) > 20
    assert min(contrasts) > 3.0


@pytest.mark.parametrize(
    ("n_policies", "numbers", "named"),
    [(12, True, 12), (13, False, 13), (40, False, 40), (60, False, 30)],
)
def test_many_policies_have_fewer_words(n_policies, numbers, named):
    belief = spread_belief([f"p{i}" for i in range(n_policies)])
    _, axes, image, _ = map_parts(plots.rank_probabilities(belief))
    assert bool(axes.texts) == numbers
    assert image.get_array().shape == (n_policies, n_policies)
    assert len(axes.get_yticklabels()) == named
    shown = axes.get_xticks()
    shown = shown[(shown > 0.5) & (shown < n_policies + 0.5)]
    assert (shown == np.round(shown)).all()
    assert len(shown) == (n_policies if n_policies <= 40 else len(shown))
    assert len(shown) <= 40


MANY_KINDS_OF_NAMES = pytest.mark.parametrize(
    "names",
    [
        ["x"],
        ["uniform", "bts"],
        [f"p{i}" for i in range(12)],
        [f"a policy with a rather long name, number {i}" for i in range(40)],
        [f"p{i}" for i in range(100)],
        ["costs $5 or $6", "under_score", "<b>"],
    ],
    ids=["one", "two", "twelve", "long", "hundred", "odd"],
)


def seen(axes):
    """Labels of an axis that lie in its view, and the texts inside."""
    (left, right), (bottom, top) = sorted(axes.get_xlim()), sorted(axes.get_ylim())
    x = [tick for tick in axes.xaxis.get_major_ticks() if left <= tick.get_loc() <= right]
    y = [tick for tick in axes.yaxis.get_major_ticks() if bottom <= tick.get_loc() <= top]
    labels = [[label for tick in ticks for label in (tick.label1, tick.label2)] for ticks in (x, y)]
    shown = [[text for text in group if text.get_visible() and text.get_text()] for group in labels]
    return [*shown, list(axes.texts)]


def assert_legible(figure, *all_axes):
    """No text leaves the page, or covers another of its kind."""
    figure.canvas.draw()
    page = figure.bbox
    for axes in all_axes:
        groups = seen(axes)
        alone = [axes.xaxis.label, axes.yaxis.label, axes._left_title]
        for text in [*(t for group in groups for t in group), *alone]:
            box = text.get_window_extent()
            assert page.x0 <= box.x0
            assert box.x1 <= page.x1
            assert page.y0 <= box.y0
            assert box.y1 <= page.y1
        for group in groups:
            boxes = [text.get_window_extent() for text in group]
            for i, box in enumerate(boxes):
                assert not any(box.overlaps(other) for other in boxes[i + 1 :])


@MANY_KINDS_OF_NAMES
def test_the_map_is_legible(names, tmp_path):
    collection = plots.rank_probabilities(spread_belief(names))
    figure, axes, _, bar = map_parts(collection)
    assert_legible(figure, axes, bar)
    assert max(t.get_window_extent().x1 for t in axes.get_yticklabels()) <= axes.bbox.x0
    if len(names) == 12:
        cells = [t.get_window_extent() for t in axes.texts]
        assert max(box.width for box in cells) < axes.bbox.width / 12
    plots.save(collection, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "draw", [plots.rank_probabilities, lambda b, **o: plots.loss_by_k(b, scores.regret, **o)]
)
def test_other_figures_leave_settings_and_styles_alone(draw):
    before = dict(mpl.rcParams)
    with mpl.rc_context({"figure.constrained_layout.use": True}):
        figure = draw(spread_belief(["a", "b"])).get_viz("figure")
        assert figure.get_layout_engine() is None
    assert dict(mpl.rcParams) == before
    with pytest.raises(BeliefError, match="no posterior/other"):
        draw(spread_belief(["a", "b"]), statistic="other")


def curve_parts(collection):
    """The axes, the points, and the error bars as (k, low, high)."""
    axes = collection.get_viz("plot")
    (container,) = axes.containers
    line, _, (bars,) = container
    ends = [(segment[0][0], segment[0][1], segment[1][1]) for segment in bars.get_segments()]
    return axes, line, np.array(ends)


def test_losses_with_two_standard_errors():
    belief = spread_belief(["a", "b", "c"])
    table = loss_by_k(belief, scores.regret)
    axes, line, bars = curve_parts(plots.loss_by_k(belief, scores.regret))
    loss, error = table["expected_loss"].to_numpy(), table["standard_error"].to_numpy()
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert np.array_equal(line.get_ydata(), loss)
    assert np.allclose(bars, np.stack([[1, 2, 3], loss - 2 * error, loss + 2 * error], axis=1))
    assert axes.get_xticks().tolist() == [1, 2, 3]
    assert axes.get_xlabel() == "k, how many go live"
    assert axes.get_ylabel() == "expected regret@k (reward per step)"
    assert axes.get_title(loc="left") == "error bars: 2 Monte Carlo standard errors"
    assert [text.get_text().split("\n") for text in axes.texts] == table["launch"].to_list()


@pytest.mark.parametrize(
    ("make_score", "label"),
    [
        (scores.precision, "expected precision@k loss"),
        (
            lambda k: scores.regret(k, risk=risk.cvar(0.5)),
            "cvar(0.5) of regret@k (reward per step)",
        ),
        (
            lambda k: scores.custom(lambda v, r: v[:, r[0]], name="mine", depth=k),
            "expected mine loss",
        ),
    ],
)
def test_the_loss_is_named_with_its_unit(make_score, label):
    axes, *_ = curve_parts(plots.loss_by_k(spread_belief(["a", "b"]), make_score, [1, 2]))
    assert axes.get_ylabel() == label


def test_ks_in_order_and_rules():
    belief = spread_belief([f"p{i}" for i in range(6)])
    axes, line, _ = curve_parts(
        plots.loss_by_k(belief, scores.precision, [4, 1, 4], must_exclude=["p0"])
    )
    assert line.get_xdata().tolist() == [1, 4]
    assert axes.get_xticks().tolist() == [1, 4]
    assert "p0" not in {name for text in axes.texts for name in text.get_text().split("\n")}
    with pytest.raises(ScoreError, match="expected a function of k"):
        plots.loss_by_k(belief, scores.precision(2))


@pytest.mark.parametrize(
    ("names", "ks", "written"),
    [
        (["a", "b"], None, True),
        ([f"policy {i}" for i in range(5)], None, True),
        ([f"policy {i}" for i in range(6)], None, False),
        (["a name that nobody could read here", "b"], None, False),
        (["costs $5, $6", "_", "<b>"], [2], True),
        ([f"p{i}" for i in range(30)], range(1, 30), False),
    ],
)
def test_the_curve_is_legible(names, ks, written, tmp_path):
    collection = plots.loss_by_k(spread_belief(names), scores.precision, ks)
    figure, axes = collection.get_viz("figure"), collection.get_viz("plot")
    assert bool(axes.texts) == written
    assert_legible(figure, axes)
    for text in axes.texts:
        box = text.get_window_extent()
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        assert box.y1 <= axes.bbox.y1
    plots.save(collection, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_names_on_the_curve_as_asked():
    belief = spread_belief(["a name that is too long", "b"])
    assert len(curve_parts(plots.loss_by_k(belief, scores.regret, names=True))[0].texts) == 2
    assert not curve_parts(plots.loss_by_k(belief, scores.regret, names=False))[0].texts


def test_the_method_of_a_belief_that_is_not_bayesdice_s_is_named():
    belief = belief_of(["a", "b"], logged=-0.012345)
    own = {
        "forest": plots.forest(belief).get_target(None, {"column": "forest"}),
        "loss": plots.loss_by_k(belief, scores.regret).get_viz("plot"),
        "ranks": plots.rank_probabilities(belief).get_viz("plot"),
    }
    belief.attrs["method"] = "lstdq_$x$_$y$"
    other = {
        "forest": plots.forest(belief).get_target(None, {"column": "forest"}),
        "loss": plots.loss_by_k(belief, scores.regret).get_viz("plot"),
        "ranks": plots.rank_probabilities(belief).get_viz("plot"),
    }
    for name, axes in own.items():
        title = other[name].get_title(loc="left")
        assert title.startswith("lstdq_$x$_$y$")
        assert title.endswith(axes.get_title(loc="left"))
        assert "lstdq" not in axes.get_title(loc="left")
    assert other["forest"].get_title(loc="left").startswith("lstdq_$x$_$y$: mean with")
    for axes in other.values():
        figure = axes.get_figure()
        figure.canvas.draw()
        (written,) = [t for t in axes.findobj(mpl.text.Text) if t.get_text().startswith("lstdq_")]
        box = written.get_window_extent()
        assert box.y1 <= figure.bbox.y1
        assert box.x1 <= figure.bbox.x1


def test_true_values_are_crosses_in_their_rows():
    truth = {"a": 0.0005, "c": 0.003}
    _, _, intervals = parts(plots.forest(belief_of(["a", "b", "c"]), truth=truth))
    (marks,) = [line for line in intervals.lines if line.get_marker() == "X"]
    # The best on top: c in row 2, a in row 0; b has no truth.
    assert dict(zip(marks.get_ydata(), marks.get_xdata(), strict=True)) == {2: 0.003, 0: 0.0005}
    assert intervals.get_title(loc="left").endswith("; cross: true value")


@pytest.mark.parametrize(
    ("truth", "backend", "message"),
    [
        ({"d": 1.0}, "matplotlib", "truth: expected names in the belief"),
        ({"a": float("nan")}, "matplotlib", "truth: expected a finite number for 'a'"),
        ({"a": 1.0}, "bokeh", "truth: only matplotlib draws it"),
    ],
    ids=["unknown", "nan", "bokeh"],
)
def test_true_values_are_checked(truth, backend, message):
    with pytest.raises(SettingsError, match=message):
        plots.forest(belief_of(["a", "b"]), truth=truth, backend=backend)
