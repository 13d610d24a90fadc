"""Tables of any make: files with their quirks, dataframes of three libraries, column mapping."""

import gzip
from io import BytesIO

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesdice_ppl import Logs, Policies, read_logs, read_policies
from bayesdice_ppl.cli.texts import read_costs
from bayesdice_ppl.errors import LogsError
from bayesdice_ppl.logs.files import read_file

TEXT = "state,action,reward\na,0,1\nb,1,0.5\n"
# Without the time of day, which gzip writes into its header: it would be in the test's name.
GZIPPED = gzip.compress(TEXT.encode(), mtime=0)
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
        GZIPPED,
    ],
    ids=["plain", "no last newline", "bom", "windows", "quoted", "trailing comma", "gzip inside"],
)
def test_csv_in_its_many_spellings_is_one_log(written, content):
    assert same(read_logs(written(content)), expected())


LINES = "".join(
    f'{{"state": "{s}", "action": {a}, "reward": {r}}}\n'
    for s, a, r in zip(*COLUMNS.values(), strict=True)
)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be with a mark"])
@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("csv", TEXT),
        ("csv", TEXT.replace(",", ";")),
        ("csv", TEXT.replace(",", ";").replace(".", ",")),
        ("csv", TEXT.replace(",", "\t").replace(".", ",")),
        ("csv", TEXT.replace(",", "|")),
        ("csv", '"state";"action";"reward"\r\n"a";0;"1"\r\n"b";1;"0,5"\r\n'),
        ("csv", '"the state, before";state;action;reward\nx;a;0;1\n"y,z";b;1;0,5\n'),
        ("tsv", TEXT.replace(",", "\t")),
        ("jsonl", LINES),
        ("ndjson", LINES),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_every_separator_and_encoding_is_one_log(written, ending, content, encoding, zipped):
    codec = encoding.removesuffix(" with a mark")
    data = ("\ufeff" * (codec != encoding) + content).encode(codec)
    path = written(gzip.compress(data) if zipped else data, f"log.{ending}" + ".gz" * zipped)
    table = read_logs(path).to_dataframe().drop("the state, before", strict=False)
    assert table.equals(expected().to_dataframe())


def test_a_decimal_comma_is_read_in_numbers_alone(written):
    """In a file of semicolons "1,5" is a number where one must stand, and a label elsewhere."""
    content = "place;action;gain;propensity\n1,5;0;1,5;0,5\n1,50;1;-2,5e-1;1\n1,5;0;3;1\n"
    logs = read_logs(written(content), columns={"state": "place", "reward": "gain"})
    assert logs.state_labels.tolist() == ["1,5", "1,50"]
    assert logs.reward.tolist() == [1.5, -0.25, 3.0]
    assert logs.propensity.tolist() == [0.5, 1.0, 1.0]
    with pytest.raises(LogsError, match=r"row 2, column 'reward': expected a number.*'1\.234,5'"):
        read_logs(written("state;action;reward\n0;0;1,5\n0;1;1.234,5\n"))
    vectors = read_logs(
        written("x_0;x_1;action;reward\n0,5;1;0;1\n0,25;2;1;0\n"), columns={"obs": "x"}
    )
    assert vectors.observation.tolist() == [[0.5, 1.0], [0.25, 2.0]]


def test_candidates_and_costs_come_in_any_spelling_too(written):
    rows = "policy;state;action;prob\np;0;0;0,5\np;0;1;0,5\n"
    policies = read_policies(written(gzip.compress(rows.encode()), "c.csv.gz"))
    assert policies["p"].probs([0]).tolist() == [[0.5, 0.5]]
    costs = read_costs(str(written("policy;cost\n01;1,5\n1;2\n", "costs.csv")))
    assert costs == {"01": 1.5, "1": 2.0}


def test_lines_of_json_hold_vectors_and_lack_keys(written):
    lines = (
        '{"obs": [0.5, 1], "action": "l", "reward": 1, "next_obs": [1, 2]}\n'
        '{"obs": [1, 2], "action": "r", "reward": 0.5, "terminated": true}\n'
    )
    with pytest.raises(LogsError, match="row 1, column 'terminated': expected true or false"):
        read_logs(written(lines, "log.jsonl"))
    logs = read_logs(
        written(lines.replace('"next_obs"', '"terminated": false, "next_obs"'), "l.jsonl")
    )
    assert logs.terminated.tolist() == [False, True]
    assert logs.next_observation[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.csv.gz", "log.jsonl"])
def test_damaged_files_are_read_or_refused_without_noise(tmp_path, capfd, name):
    """Bytes changed at random, and files cut off: one kind of error, and nothing on stderr."""
    path = tmp_path / name
    frame = pl.DataFrame({**COLUMNS, "episode_id": pl.Series(["p", "q"], dtype=pl.Categorical)})
    frame = pl.concat([frame] * 20)
    whole = BytesIO()
    if "parquet" in name:
        frame.write_parquet(whole)
    elif "csv" in name:
        frame.write_csv(whole)
    else:
        frame.write_ndjson(whole)
    content = gzip.compress(whole.getvalue()) if "gz" in name else whole.getvalue()
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(120):
        data = np.frombuffer(content, dtype=np.uint8).copy()
        data[rng.integers(len(data), size=3)] = rng.integers(256, size=3)
        path.write_bytes(data[: rng.integers(len(data)) if rng.random() < 0.3 else None].tobytes())
        try:
            read_file(path, LogsError)
        except LogsError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(str(path) in message for message in refused)
    assert capfd.readouterr() == ("", "")


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
        (TEXT.replace(",", ":"), "missing column 'state'"),
        (TEXT.encode("utf-16")[:-3], "cannot be read as CSV"),
        (GZIPPED[:-9], "cannot be read as CSV"),
        ("state,action,reward\né,0,1\nb,1,0\n".encode("latin-1"), "Save it in UTF-8"),
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
        ("logs.txt", r"ending in \.csv, .*\.parquet or \.pq, found '\.txt'"),
        ("logs.gz", r"found '\.gz'"),
        ("logs.parquet.gz", r"found '\.gz'"),
        ("csv", "found 'no ending'"),
        ("logs.jsonl", "cannot be read as JSON lines"),
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
