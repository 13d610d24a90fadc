"""Belief files that are damaged or edited: a clear error or the same answer, and nothing else."""

import itertools

import h5py
import numpy as np
import pytest

import bayesdice_ppl as bd
from bayesdice_ppl.belief import BeliefView
from bayesdice_ppl.errors import BayesDiceError, BeliefError
from tests.marks import first_few

DEEP = "[" * 50_000 + "]" * 50_000
ATTRIBUTES = ("settings", "versions", "support_warnings", "unit", "seed", "notes", "n_episodes")
CONTENTS = (
    "{",
    "null",
    "\N{SUPERSCRIPT TWO}",
    "",
    DEEP,
    "1e999",
    '[{"policy": "gut", "reason": "b", "abstain": true, "number": [1]}]',
    b"\xff\xfe",
    np.array([1, 2]),
    1e300,
    "9" * 5000,
    h5py.Empty("f"),
)


@pytest.fixture(scope="module")
def saved(belief, tmp_path_factory):
    path = tmp_path_factory.mktemp("beliefs") / "belief.nc"
    bd.save_belief(belief, path)
    return path.read_bytes()


def judged(path):
    """What is said of a belief: its order, or an error of ours."""
    try:
        belief = bd.load_belief(path)
        choice = bd.select(belief, bd.scores.precision(k=1))
        str(choice)
        choice.to_dict()
    except BayesDiceError as error:
        return str(error)
    return choice.order


def test_attributes_of_any_content_are_read_or_refused(belief):
    for name, content in itertools.product(ATTRIBUTES, CONTENTS):
        changed = belief.copy()
        changed.attrs[name] = content
        try:
            getattr(BeliefView(changed), name)
        except BeliefError as error:
            said = str(error)
        else:
            said = f"attribute {name}: read."
        assert said.startswith(f"attribute {name}")
        assert len(said) < 600


@pytest.mark.parametrize("content", first_few(CONTENTS, 6), ids=range(len(CONTENTS)))
def test_files_with_attributes_of_any_content_are_ranked_or_refused(content, saved, tmp_path):
    path = tmp_path / "belief.nc"
    path.write_bytes(saved)
    with h5py.File(path, "a") as file:
        for name in ("settings", "support_warnings", "notes"):
            file.attrs.pop(name, None)
            file.attrs[name] = content
    said = judged(path)
    assert isinstance(said, list) or "Was the file edited?" in said or "damaged" in said


def replace(file, name, data):
    old = file[name]
    scales = [list(dim.values()) for dim in old.dims]
    del file[name]
    new = file.create_dataset(name, data=data)
    for dim, each in zip(new.dims, scales, strict=True):
        for scale in each:
            dim.attach_scale(scale)


def texts(old):
    return np.full(old.shape, "text", dtype=h5py.string_dtype())


def records(old):
    return np.zeros(old.shape, dtype=[("a", "i4"), ("b", "f8")])


VARIABLES = ("posterior/value", "constant_data/moved_mass", "constant_data/guide_mean")


@pytest.mark.parametrize(
    "change",
    [
        lambda file, name: replace(file, name, texts(file[name])),
        lambda file, name: replace(file, name, records(file[name])),
        lambda file, name: file[name].attrs.update(scale_factor="half"),
        lambda file, name: file[name].attrs.update(add_offset=np.array([1, 2])),
        lambda file, name: file[name].attrs.update(units="days since yesterday"),
        lambda file, name: file[name].attrs.update(_FillValue="none"),
        lambda file, name: file[name].write_direct(np.full(file[name].shape, 1e300)),
        lambda file, name: file[name].write_direct(np.full(file[name].shape, np.nan)),
        lambda file, name: file.pop(name),
    ],
    ids=["text", "records", "scale", "offset", "calendar", "fill", "large", "nan", "gone"],
)
@pytest.mark.parametrize("name", first_few(VARIABLES, 1))
def test_variables_of_any_content_are_read_or_refused(name, change, saved, tmp_path):
    path = tmp_path / "belief.nc"
    path.write_bytes(saved)
    with h5py.File(path, "a") as file:
        change(file, name)
    said = judged(path)
    assert isinstance(said, str | list)


def test_large_values_are_refused_and_not_shown(saved, tmp_path):
    path = tmp_path / "belief.nc"
    path.write_bytes(saved)
    with h5py.File(path, "a") as file:
        values = file["posterior/value"][()]
        values[0, 0, 0] = 1e300
        file["posterior/value"][...] = values
    with pytest.raises(BeliefError, match=r"to 1e\+300 are too far apart for double precision"):
        bd.select(bd.load_belief(path), bd.scores.regret(k=1))


def add(file, name, what):
    file[name] = what


LOOPS = {
    "a group within itself": lambda file: add(file, "posterior/x", file["posterior"]),
    "the root in a group": lambda file: add(file, "posterior/x", file["/"]),
    "a link to itself": lambda file: add(file, "x", h5py.SoftLink("/x")),
    "a link to what is not there": lambda file: add(file, "x", h5py.SoftLink("/no/where")),
    "a link to another file": lambda file: add(file, "x", h5py.ExternalLink("no.h5", "/")),
    "deep": lambda file: file.create_group("/".join("g" * 300)),
    "many": lambda file: [file.create_group(f"group {k}") for k in range(200)],
}


@pytest.mark.parametrize("loop", LOOPS)
def test_links_that_lead_nowhere_or_around_end(loop, saved, tmp_path):
    path = tmp_path / "belief.nc"
    path.write_bytes(saved)
    with h5py.File(path, "a") as file:
        LOOPS[loop](file)
    said = judged(path)
    assert isinstance(said, list) or "damaged" in said
    if loop in ("a group within itself", "the root in a group", "many"):
        assert "leads back to itself, or is one too many" in said


def test_bytes_changed_at_random_change_no_kind_of_error(saved, tmp_path):
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(10):
        data = np.frombuffer(saved, dtype=np.uint8).copy()
        # The first part holds the structure; the rest is mostly draws.
        places = rng.integers(min(len(data), 40_000), size=20)
        data[places] = rng.integers(256, size=20)
        path = tmp_path / f"{number}.nc"
        path.write_bytes(data.tobytes())
        refused += isinstance(judged(path), str)
    assert refused > 2


def test_the_text_of_an_error_is_one_line(saved, tmp_path):
    path = tmp_path / "belief.nc"
    for cut in itertools.islice(range(100, len(saved), len(saved) // 8), 8):
        path.write_bytes(saved[:cut])
        with pytest.raises(BeliefError, match=r"\A[^\n]*expected a belief in netCDF[^\n]*\Z"):
            bd.load_belief(path)
