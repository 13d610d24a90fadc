"""The figure of methods without a belief."""

import pytest

from bayesdice_ppl import plots
from bayesdice_ppl.errors import SettingsError


@pytest.mark.parametrize("with_intervals", [True, False])
def test_the_figure_holds_every_name_with_its_numbers(with_intervals, tmp_path):
    names, values = ["first $x$", "second"], [0.3, 0.1]
    intervals = [(0.2, 0.5), (0.0, 0.15)] if with_intervals else None
    figure = plots.estimates(names, values, intervals, caption="lstdq", logged=0.25)
    (axes,) = figure.axes
    written = {label.get_text(): label.get_position()[1] for label in axes.get_yticklabels()}
    assert written["first $x$"] > written["second"]
    points = next(line for line in axes.lines if line.get_marker() == "o")
    found = dict(zip(points.get_ydata(), points.get_xdata(), strict=True))
    assert found == {written["first $x$"]: 0.3, written["second"]: 0.1}
    drawn = [path[:, 0].tolist() for lines in axes.collections for path in lines.get_segments()]
    assert drawn == ([[0.2, 0.5], [0.0, 0.15]] if with_intervals else [])
    assert axes.get_title(loc="left") == "lstdq; dashed: logged value, 0.25"
    plots.save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize(("names", "intervals"), [([], None), (["a"], []), (["a", "b"], None)])
def test_a_figure_of_what_does_not_match_is_refused(names, intervals):
    with pytest.raises(SettingsError, match="expected a value for each of"):
        plots.estimates(names, [0.5], intervals)
