"""The page as a plain parser reads it: what it holds, and that no name gets out of its place."""

import re
from itertools import pairwise

import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import SupportWarning
from bayesdice_ppl.reporting.names import shown
from tests.marks import slow
from tests.reporting.reported import HOSTILE, Reader, belief_of

PLAIN = [f"policy {i}" for i in range(len(HOSTILE))]
LOADS = (
    "src",
    "href",
    "action",
    "formaction",
    "data",
    "poster",
    "srcset",
    "background",
    "xlink:href",
)


@pytest.fixture(scope="module")
def hostile():
    return bd.report(belief_of(HOSTILE), bd.scores.precision(k=2), source="b's & <c>.nc").html


def of_many(n):
    return [f"policy {i}" for i in range(n)]


def test_hostile_names_change_no_element_of_the_page(hostile):
    plain = Reader(bd.report(belief_of(PLAIN), bd.scores.precision(k=2)).html)
    read = Reader(hostile)
    kept = [[tag for tag in each.elements if tag != "bdi"] for each in (plain, read)]
    assert kept[0] == kept[1]
    assert {a[:2] for a in plain.attributes} == {a[:2] for a in read.attributes}
    assert not read.open


def test_hostile_names_are_read_as_they_are(hostile):
    read = set(Reader(hostile).names)
    assert {shown(name) for name in HOSTILE} <= read


def test_what_steers_text_is_written_out(hostile):
    assert "turned \\u202egnp.exe" in hostile
    assert "bell \\x07 and \\x1b[31m red" in hostile
    assert not any(letter in hostile for letter in "\u202e\x07\x1b")
    assert "👩\u200d👩\u200d👧" in hostile


def test_names_that_turn_their_neighbors_or_are_long_stand_alone_in_sentences():
    long = "a long name, " * 20 + "<b>"
    names = ["שלום", "שלום עולם", long, "short & <plain>"]
    page = bd.report(belief_of(names), bd.scores.precision(k=4))
    answer = re.search(r'<p class="sentence">(.*?)</p>', page.html, re.DOTALL).group(1)
    assert answer.count("<bdi") == 3
    for name in names[:2]:
        assert f"<bdi>{name}</bdi>" in answer
    assert '<bdi class="cut" title="a long name, a long' in answer
    assert "short &amp; &lt;plain&gt;" in answer
    read = Reader(f"<p>{answer}</p>")
    assert "".join(read.texts) == page.selection.answer


@pytest.mark.parametrize("n", [1, 3, slow(31)])
def test_a_page_loads_nothing_and_runs_nothing(n):
    read = Reader(bd.report(belief_of(of_many(n)), bd.scores.precision(k=1)).html)
    assert not {"script", "iframe", "object", "embed", "form", "base", "img"} & set(read.elements)
    for tag, key, value in read.attributes:
        assert not key.startswith("on"), (tag, key)
        if key in LOADS:
            assert value == "data:," or value.startswith("#"), (tag, key, value)
        if key == "style":
            assert re.fullmatch(r"(--\w+: \d+|text-align: center)", value)
    (style,) = read.styles
    assert "url(" not in style
    assert "@import" not in style
    policy = next(v for t, k, v in read.attributes if (t, k) == ("meta", "content") and "src" in v)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_every_link_leads_to_a_place_of_the_page(hostile):
    read = Reader(hostile)
    targets = [v[1:] for t, k, v in read.attributes if (t, k) == ("a", "href")]
    ids = [v for _, k, v in read.attributes if k == "id"]
    assert targets
    assert set(targets) <= set(ids)
    assert len(ids) == len(set(ids))


def test_figures_stay_within_their_width(hostile):
    read = Reader(hostile)
    places = [
        float(v[:-1]) for _, k, v in read.attributes if k in ("x", "x1", "x2", "cx") and "%" in v
    ]
    assert len(places) > 100
    assert all(0.0 <= place <= 100.0 for place in places)


def test_the_whole_ranking_is_there_and_figures_say_what_they_leave_out():
    names = of_many(31)
    page = bd.report(belief_of(names), bd.scores.precision(k=2))
    read = Reader(page.html)
    ranked = [
        re.match(r"\s*(\d+)\.\s*(policy \d+)", row[0]).groups()
        for row in read.rows
        if re.match(r"\s*\d+\.\s*policy", row[0])
    ]
    assert [name for _, name in ranked] == page.selection.order
    assert [int(place) for place, _ in ranked] == list(range(1, 32))
    assert "The other 11 candidates" in read.text
    assert read.text.count("The first 25 of 31 candidates, in the order of the ranking.") == 2
    assert read.text.count("The first 20 of 31 candidates, in the order of the ranking.") == 2


def test_numbers_of_the_table_are_those_of_select():
    belief = belief_of(of_many(5))
    page = bd.report(belief, bd.scores.precision(k=2))
    choice = bd.select(belief, bd.scores.precision(k=2))
    read = Reader(page.html)
    assert choice.answer in read.text
    assert choice.certificate.statement in read.text
    rows = [row for row in read.rows if re.match(r"\s*\d+\.\s*policy", row[0])]
    for cells, row in zip(rows, choice.table.iter_rows(named=True), strict=True):
        assert row["policy"] in cells[0]
        assert ("goes live" in cells[0]) == row["launched"]
        mean, sd, interval, best, top, place = cells[1:]
        np.testing.assert_allclose(float(mean), row["mean"], atol=0.051)
        np.testing.assert_allclose(float(sd), row["sd"], atol=0.051)
        ends = [float(end) for end in interval.split(" to ")]
        np.testing.assert_allclose(ends, [row["hdi90_lower"], row["hdi90_upper"]], atol=0.051)
        assert (best, top) == (f"{row['p_best']:.3f}", f"{row['p_top_k']:.3f}")
        assert place == f"{row['expected_rank']:.2f}"


def test_an_answer_that_is_none_says_why():
    warning = SupportWarning("b", "goes where the log has not been.", True, "lost mass", 0.5, 1e-3)
    belief = belief_of(["a", "b", "c"], support_warnings=[warning])
    page = bd.report(belief, bd.scores.regret(k=1))
    read = Reader(page.html)
    assert not page.selection.recommended
    assert "No recommendation: the logs cannot tell" in read.text
    assert "b: goes where the log has not been." in read.text
    assert "would go live" in read.text
    assert "goes live" not in read.text
    otherwise = page.selection.otherwise
    assert otherwise in read.text
    assert page.selection.answer.endswith(otherwise)
    kept = bd.report(belief, bd.scores.regret(k=1), abstain=False)
    assert "b: goes where the log has not been." in Reader(kept.html).text
    assert "Warning:" in Reader(kept.html).text


def test_headings_go_down_one_step_at_a_time(hostile):
    levels = [int(tag[1]) for tag in Reader(hostile).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    page = bd.report(belief_of(["a", "b"]), bd.scores.regret(k=1))
    path = page.save(tmp_path / "r.html")
    assert path.read_text(encoding="utf-8") == page.html
    with pytest.raises(bd.errors.OutputError, match="the file exists"):
        page.save(path)
    path.write_text("before")
    monkeypatch.setattr(
        "pathlib.Path.write_text", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space"))
    )
    with pytest.raises(bd.errors.OutputError, match="No space"):
        page.save(path, overwrite=True)
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_a_notebook_shows_the_page_in_a_frame():
    page = bd.report(belief_of(["a", "<b>"]), bd.scores.regret(k=1))
    read = Reader(page._repr_html_())
    assert read.elements == ["iframe"]
    assert next(v for _, k, v in read.attributes if k == "srcdoc") == page.html


def test_templates_mark_nothing_as_safe():
    from pathlib import Path

    from bayesdice_ppl import reporting

    for path in sorted((Path(reporting.__file__).parent / "templates").iterdir()):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape", text), path.name
