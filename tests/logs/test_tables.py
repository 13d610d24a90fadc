"""Tables of any make: files with their quirks, dataframes of three libraries, column mapping."""

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesdice_ppl import Logs, Policies, read_logs
from bayesdice_ppl.errors import LogsError

TEXT = "state,action,reward\na,0,1\nb,1,0.5\n"
COLUMNS = {"state": ["a", "b"], "action": [0, 1], "reward": [1.0, 0.5]}


def same(one, other):
    return one.to_dataframe().equals(other.to_dataframe())


@pytest.fixture
def written(tmp_path):
    def write(content, name="logs.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def expected():
    return Logs.from_dataframe(pl.DataFrame(COLUMNS))


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        TEXT.rstrip("\n"),
        "\ufeff" + TEXT,
        TEXT.replace("\n", "\r\n"),
        '"state","action","reward"\n"a","0","1"\n"b","1","0.5"\n',
        TEXT.replace("reward\n", "reward,\n").replace("1\n", "1,\n").replace("5\n", "5,\n"),
        gzip.compress(TEXT.encode()),
    ],
    ids=["plain", "no last newline", "bom", "windows", "quoted", "trailing comma", "gzip inside"],
)
def test_csv_in_its_many_spellings_is_one_log(written, content):
    assert same(read_logs(written(content)), expected())


def test_parquet_and_csv_are_one_log(tmp_path, written):
    path = tmp_path / "logs.parquet"
    pl.DataFrame(COLUMNS).write_parquet(path)
    assert same(read_logs(path), read_logs(written(TEXT)))
    assert same(read_logs(str(path)), read_logs(written(TEXT, "LOGS.CSV")))


def test_parquet_with_a_dictionary_column_is_read(tmp_path):
    path = tmp_path / "logs.pq"
    states = pa.array(["a", "b"]).dictionary_encode()
    pq.write_table(pa.table({**COLUMNS, "state": states}), path)
    assert same(read_logs(path), expected())


def test_a_quoted_comma_stays_in_its_label(written):
    logs = read_logs(written('state,action,reward\n"a,b",0,1\nc,1,0\n'))
    assert logs.state_labels.tolist() == ["a,b", "c"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "found an empty file"),
        ("\n\n", "cannot be read as CSV"),
        ("state,action,reward\n", "at least two rows, found none"),
        ("state,action,reward\na,0,1\n", "at least two rows, found one"),
        ("state,action,reward\na,0\nb,1,0\n", "row 1, column 'reward'"),
        ("state,action,reward\na,0,1,9\nb,1,0\n", "cannot be read as CSV"),
        ("state,action,reward\n\na,0,1\nb,1,0\n", "row 1, column 'state': the value is missing"),
        ("state,action,reward\na,0,1\nb,0,NA\n", "row 2, column 'reward'.*'NA'"),
        ("state,action,reward\na,0,1\nb,0,\n", "row 2, column 'reward'"),
        ("state,action,reward\na,0,1\nb,0,NaN\n", "row 2, column 'reward'.*nan"),
        ("state,action,reward\na,0,1e999\nb,0,1\n", "row 1, column 'reward'.*inf"),
        ('state,action,reward\na,0,"1,5"\nb,0,"0,5"\n', "row 1, column 'reward'.*'1,5'"),
        ("state,action,reward\n" + "9" * 30 + ",0,1\n1,0,1\n", "row 1, column 'state'"),
        ("state,action,reward\n1e30,0,1\n1,0,1\n", "row 1, column 'state'"),
        ("state,action,reward,state\na,0,1,b\nc,0,1,d\n", "'state' appears more than once"),
        (TEXT.replace(",", ";"), "missing column 'state'"),
        (TEXT.encode("utf-16"), "missing column|cannot be read"),
        ("state,action,reward\né,0,1\nb,1,0\n".encode("latin-1"), "cannot be read as CSV"),
        (bytes(range(256)) * 4, "cannot be read as CSV"),
        ('state,action,reward\n"a,0,1\nb,0,1\n', "cannot be read as CSV"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_broken_csv_is_refused_with_path_and_place(written, content, words):
    path = written(content)
    with pytest.raises(LogsError, match=rf"(?s)logs\.csv: .*({words})"):
        read_logs(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("logs.parquet", "cannot be read as Parquet"),
        ("logs.txt", r"ending in \.csv, \.parquet or \.pq, found '\.txt'"),
        ("logs.csv.gz", r"found '\.gz'"),
        ("logs", "found 'no ending'"),
    ],
)
def test_other_files_are_refused(written, name, words):
    with pytest.raises(LogsError, match=words):
        read_logs(written(TEXT, name))


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(LogsError, match="no such file"):
        read_logs(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(LogsError, match="found a folder"):
        read_logs(tmp_path / "folder.csv")


def test_a_parquet_with_vectors_is_refused(tmp_path):
    path = tmp_path / "logs.parquet"
    pl.DataFrame({**COLUMNS, "state": [[0.1, 0.2], [0.3, 0.4]]}).write_parquet(path)
    with pytest.raises(LogsError, match="column 'state': expected integer or string labels"):
        read_logs(path)


@pytest.mark.parametrize(
    "make",
    [pl.DataFrame, pd.DataFrame, pa.table, lambda data: pl.DataFrame(data).lazy()],
    ids=["polars", "pandas", "pyarrow", "lazy"],
)
def test_dataframes_of_any_library_are_one_log(make):
    data = {
        **COLUMNS,
        "episode_id": [4, 4],
        "next_state": ["b", None],
        "terminated": [False, True],
        "propensity": [0.25, 1.0],
    }
    logs = Logs.from_dataframe(make(data))
    assert same(logs, Logs.from_dataframe(pl.DataFrame(data)))
    assert logs.next_state.tolist() == [1, -1]


@pytest.mark.parametrize(
    "following",
    [[1, np.nan], pd.array([1, None], dtype="Int64"), pd.Series([1, None], dtype=object)],
    ids=["float", "nullable", "object"],
)
def test_integers_that_pandas_holds_as_something_else_are_integers(following):
    frame = pd.DataFrame({"state": [0, 1], "action": [0, 0], "reward": [1.0, 2.0]})
    logs = Logs.from_dataframe(frame.assign(next_state=following))
    assert logs.to_dataframe()["next_state"].to_list() == [1, None]


@pytest.mark.parametrize(
    "states",
    [
        pd.Categorical(["a", "b"]),
        pd.array(["a", "b"], dtype="string"),
        pd.Series(["a", "b"], dtype=object),
    ],
    ids=["categorical", "string", "object"],
)
def test_strings_that_pandas_holds_in_its_ways_are_strings(states):
    assert same(Logs.from_dataframe(pd.DataFrame(COLUMNS).assign(state=states)), expected())


def test_an_index_without_a_name_has_no_say():
    assert same(Logs.from_dataframe(pd.DataFrame(COLUMNS, index=[9, 9])), expected())


EPISODES = {
    "episode_id": ["p", "p", "q", "q"],
    "step": [0, 1, 0, 1],
    "state": ["a", "b", "b", "a"],
    "action": [0, 1, 1, 0],
    "reward": [1.0, 0.5, 0.0, 2.0],
}


@pytest.mark.parametrize(
    "levels",
    [["episode_id"], ["step"], ["episode_id", "step"], ["step", "episode_id", "state"]],
    ids=" ".join,
)
@pytest.mark.parametrize("keep", [False, True], ids=["moved", "kept as columns too"])
def test_a_named_index_is_read_as_columns(levels, keep):
    frame = pd.DataFrame(EPISODES)
    assert same(
        Logs.from_dataframe(frame.set_index(levels, drop=not keep)), Logs.from_dataframe(frame)
    )


def test_levels_of_an_index_are_mapped_as_columns_are():
    frame = pd.DataFrame(EPISODES).rename(columns={"episode_id": "who"}).set_index(["who", "step"])
    logs = Logs.from_dataframe(frame, columns={"episode_id": "who"})
    assert same(logs, Logs.from_dataframe(pd.DataFrame(EPISODES)))


def test_a_level_without_a_name_beside_one_with_a_name_numbers_the_rows():
    groups = dict(iter(pd.DataFrame(EPISODES).drop(columns="episode_id").groupby(lambda i: i // 2)))
    frame = pd.concat({"p": groups[0], "q": groups[1]}, names=["episode_id", None])
    assert same(Logs.from_dataframe(frame), Logs.from_dataframe(pd.DataFrame(EPISODES)))


def test_an_index_that_contradicts_a_column_or_has_no_names_at_all_is_refused():
    frame = pd.DataFrame(EPISODES)
    other = frame.set_index(pd.Index(list("ppqp"), name="episode_id"))
    with pytest.raises(LogsError, match="one meaning of 'episode_id', found a column and a level"):
        Logs.from_dataframe(other)
    bare = frame.drop(columns=["episode_id", "step"])
    bare.index = pd.MultiIndex.from_arrays([EPISODES["episode_id"], EPISODES["step"]])
    with pytest.raises(LogsError, match="names for the 2 levels of the table's index, found none"):
        Logs.from_dataframe(bare)


def test_candidates_may_have_an_index_too():
    frame = pd.DataFrame(
        {"policy": ["p"] * 2, "state": [0, 0], "action": [0, 1], "prob": [0.5] * 2}
    )
    indexed = Policies.from_dataframe(frame.set_index(["policy", "state", "action"]))
    assert indexed.to_dataframe().equals(Policies.from_dataframe(frame).to_dataframe())


def test_mixed_types_are_refused_with_a_row_of_each():
    frame = pd.DataFrame({**COLUMNS, "state": [0, "b"]})
    with pytest.raises(LogsError, match=r"'state': expected one type.* int at row 1, str at row 2"):
        Logs.from_dataframe(frame)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame([[0, 1, 2, 3]] * 2, columns=["state", "action", "reward", "state"]), "once"),
        (pd.DataFrame([[0, 1, 2]] * 2), "strings, found 0"),
        (COLUMNS, "expected a dataframe.*found dict"),
        (None, "expected a dataframe.*found NoneType"),
        (np.zeros((2, 3)), "expected a dataframe.*found ndarray"),
        (pl.Series([1, 2]), "expected a dataframe.*found Series"),
    ],
    ids=["repeated name", "no names", "dict", "none", "array", "series"],
)
def test_what_is_no_proper_dataframe_is_refused(frame, words):
    with pytest.raises(LogsError, match=words):
        Logs.from_dataframe(frame)


def test_columns_are_mapped_to_our_names():
    theirs = pl.DataFrame({"position": ["a", "b"], "item": [0, 1], "click": [1.0, 0.5]})
    logs = Logs.from_dataframe(
        theirs, columns={"state": "position", "action": "item", "reward": "click"}
    )
    assert same(logs, expected())


def test_a_mapped_column_wins_over_one_of_that_name():
    frame = pl.DataFrame({**COLUMNS, "profit": [7.0, 8.0]})
    logs = Logs.from_dataframe(frame, columns={"reward": "profit"})
    assert logs.reward.tolist() == [7.0, 8.0]
    assert logs.unused_columns == ("reward",)


def test_two_columns_can_swap_their_names():
    frame = pl.DataFrame({"state": [5, 6], "action": [0, 1], "reward": [0.0, 1.0]})
    logs = Logs.from_dataframe(frame, columns={"state": "action", "action": "state"})
    assert logs.state_labels.tolist() == [0, 1]
    assert logs.action_labels.tolist() == [5, 6]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"state": "nowhere"},
            "'nowhere', which the table does not have. It has 'state', 'action'",
        ),
        ({"colour": "state"}, "expected one of episode_id.*found 'colour'"),
        ({"state": "action"}, "missing column 'action'"),
        ({"state": "reward", "reward": "reward"}, "both mapped to 'reward'"),
    ],
    ids=str,
)
def test_mappings_that_make_no_sense_are_refused(columns, words):
    with pytest.raises(LogsError, match=words):
        Logs.from_dataframe(pl.DataFrame(COLUMNS), columns=columns)


def test_types_are_read_off_the_whole_file(written):
    """The first thousand rows look like numbers; the last one does not."""
    rows = ["state,action,reward", *["0,0,1"] * 5000, "0,0,oops"]
    with pytest.raises(LogsError, match=r"row 5001, column 'reward'.*'oops'"):
        read_logs(written("\n".join(rows)))
