"""Candidates from files: networks by hand, folders, imports, and what is damaged."""

import io
import sys
import types
import zipfile

import numpy as np
import polars as pl
import pytest

from bayesdice_ppl import read_policies
from bayesdice_ppl.errors import PoliciesError
from bayesdice_ppl.policies import read_network, read_onnx, softmax

RNG = np.random.default_rng(0)
LAYERS = {
    "weight_0": RNG.normal(size=(3, 4)),
    "bias_0": RNG.normal(size=4),
    "weight_1": RNG.normal(size=(4, 2)),
    "bias_1": RNG.normal(size=2),
}
OBS = RNG.normal(size=(5, 3))


def by_hand(activation, obs=OBS):
    """One number at a time."""
    out = np.zeros((len(obs), 2))
    for i, row in enumerate(obs):
        hidden = [
            activation(
                sum(row[p] * LAYERS["weight_0"][p, h] for p in range(3)) + LAYERS["bias_0"][h]
            )
            for h in range(4)
        ]
        for q in range(2):
            out[i, q] = LAYERS["bias_1"][q] + sum(
                hidden[h] * LAYERS["weight_1"][h, q] for h in range(4)
            )
    return out


SHAPES = {
    "tanh": np.tanh,
    "relu": lambda x: max(x, 0.0),
    "elu": lambda x: x if x > 0 else np.exp(x) - 1,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.fixture
def saved(tmp_path):
    def save(name="net.npz", **arrays):
        path = tmp_path / name
        np.savez(path, **{**LAYERS, "activation": "tanh", **arrays})
        return path

    return save


@pytest.mark.parametrize("activation", SHAPES)
def test_a_gaussian_network_by_hand(saved, activation):
    policy = read_network(saved(activation=activation, sd=[0.5, 2.0]))
    mean, sd = policy.normal_moments(OBS)
    np.testing.assert_allclose(mean, by_hand(SHAPES[activation]), rtol=1e-10)
    np.testing.assert_array_equal(sd, [0.5, 2.0])


def test_log_sd_and_normalized_observations(saved):
    policy = read_network(saved(log_sd=np.log(0.3), center=[1.0, 0, 0], scale=[2.0, 1, 1]))
    mean, sd = policy.normal_moments(OBS)
    moved = (OBS - [1.0, 0, 0]) / [2.0, 1, 1]
    np.testing.assert_allclose(mean, by_hand(np.tanh, moved), rtol=1e-10)
    assert sd == pytest.approx(0.3)


def test_a_softmax_network_with_labels(saved):
    policies = read_policies(saved("first.npz", actions=["buy", "sell"], temperature=2.0))
    scores = np.exp(by_hand(np.tanh) / 2.0)
    found = policies["first"].probs(OBS)
    np.testing.assert_allclose(found, scores / scores.sum(axis=1, keepdims=True), rtol=1e-10)
    assert policies["first"].action_labels.tolist() == ["buy", "sell"]


def test_a_folder_holds_candidates_of_all_kinds(saved, tmp_path):
    saved("b.npz", sd=1.0)
    table = {"policy": ["x", "y"], "state": [0, 0], "action": [0, 1], "prob": [1.0, 1.0]}
    pl.DataFrame(table).write_csv(tmp_path / "a.csv")
    (tmp_path / ".hidden").write_text("")
    assert list(read_policies(tmp_path)) == ["x", "y", "b"]
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(PoliciesError, match=r"found notes\.txt"):
        read_policies(tmp_path)
    (tmp_path / "notes.txt").unlink()
    saved("x.npz", sd=1.0)
    with pytest.raises(PoliciesError, match="another candidate 'x'"):
        read_policies(tmp_path)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(PoliciesError, match="found no files"):
        read_policies(tmp_path)


def test_an_object_that_the_user_names(tmp_path, monkeypatch):
    (tmp_path / "candidates_of_mine.py").write_text(
        "both = {'a': {0: 'l'}, 'b': {0: 'r'}}\n"
        "def half(states):\n    return [[0.5, 0.5] for _ in states]\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert list(read_policies("candidates_of_mine:both")) == ["a", "b"]
    assert list(read_policies("candidates_of_mine:half")) == ["half"]
    for text, words in {
        "candidates_of_mine:number": "policy 'number'",
        "candidates_of_mine:none": "AttributeError",
        "no_such_module_at_all:x": "ModuleNotFoundError",
    }.items():
        with pytest.raises(PoliciesError, match=words):
            read_policies(text)
    assert sys.path == before
    del sys.modules["candidates_of_mine"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"activation": "gelu"}, "activation: expected one of"),
        ({"activation": ["tanh", "relu"]}, "activation: expected one, found an array"),
        ({"temperature": [1.0, 2.0]}, "temperature: expected one, found an array"),
        ({"weight_1": np.ones((4, 0)), "bias_1": []}, r"weight_1: expected shape \(4, h\)"),
        ({"bias_1": [1.0]}, "weight_1: expected shape"),
        ({"weight_1": np.ones((3, 2))}, r"weight_1: expected shape \(4, h\)"),
        ({"weight_2": np.ones((2, 2))}, "bias_2: expected it"),
        ({"weight_0": np.full((3, 4), np.nan)}, "finite numbers"),
        ({"sd": [1.0, 2.0, 3.0]}, "one number or 2"),
        ({"sd": -1.0}, "positive number"),
        ({"sd": 1.0, "log_sd": 0.0}, "found both"),
        ({"sd": 1.0, "actions": ["a", "b"]}, "belong to a softmax"),
        ({"actions": ["a"]}, "actions: expected 2"),
        ({"scale": [0.0, 1, 1]}, "above 0"),
        ({"center": [0.0]}, "3 numbers"),
        ({"gain": 1.0}, "found 'gain'"),
        ({"weight_0": np.array([{"a": 1}], dtype=object)}, "Objects and pickles are not read"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_arrays_that_are_no_network_are_refused(saved, arrays, words):
    with pytest.raises(PoliciesError, match=words):
        read_network(saved(**arrays))


def test_observations_of_another_length_are_refused(saved):
    policy = read_network(saved(sd=1.0))
    with pytest.raises((PoliciesError, ValueError)):
        policy.normal_moments(OBS[:, :2])


def test_files_that_are_damaged_are_refused(saved, tmp_path):
    path = saved()
    whole = path.read_bytes()
    for damaged in (
        b"",
        b"no zip",
        whole[: len(whole) // 2],
        whole[:100] + b"x" * 50 + whole[150:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(PoliciesError, match=r"net\.npz"):
            read_network(path)
    with pytest.raises(PoliciesError, match="no such file"):
        read_network(tmp_path / "none.npz")


def test_whatever_byte_is_damaged_it_is_read_or_refused(tmp_path):
    path, rng = tmp_path / "net.npz", np.random.default_rng(0)
    np.savez_compressed(path, weight_0=rng.random((2, 3)), bias_0=np.zeros(3))
    whole, refused = path.read_bytes(), 0
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=2):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_network(path)
        except PoliciesError:
            refused += 1
    assert refused > 100


def test_a_shape_that_no_memory_holds_is_refused(tmp_path):
    header = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(header, about)
    with zipfile.ZipFile(tmp_path / "net.npz", "w") as archive:
        archive.writestr("weight_0.npy", header.getvalue())
    with pytest.raises(PoliciesError, match="damaged file"):
        read_network(tmp_path / "net.npz")


def test_a_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("bayesdice_ppl.policies.networks.MOST_BYTES", 10_000)
    np.savez_compressed(tmp_path / "bomb.npz", weight_0=np.zeros((3000, 2)), bias_0=np.zeros(2))
    with pytest.raises(PoliciesError, match=r"at most 10,000 bytes, found 48,\d+"):
        read_network(tmp_path / "bomb.npz")


def test_without_onnxruntime_an_onnx_file_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "net.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PoliciesError, match=r"bayesdice-ppl\[onnx\]"):
        read_policies(tmp_path / "net.onnx")


def test_an_onnx_file_is_asked_through_onnxruntime(tmp_path, monkeypatch):
    """A stand-in with the same few methods; the package itself is in a slow test."""
    slot = types.SimpleNamespace

    class Session:
        def __init__(self, path, providers):
            assert providers == ["CPUExecutionProvider"]

        def get_inputs(self):
            return [slot(name="obs", type="tensor(float)")]

        def get_outputs(self):
            return [slot(name="label"), slot(name="probabilities")]

        def run(self, outputs, given):
            assert outputs == ["probabilities"]
            assert given["obs"].dtype == np.float32
            return [np.full((len(given["obs"]), 2), 0.5)]

    monkeypatch.setitem(sys.modules, "onnxruntime", slot(InferenceSession=Session))
    (tmp_path / "net.onnx").write_bytes(b"x")
    policies = read_policies(tmp_path / "net.onnx")
    np.testing.assert_array_equal(policies["net"].probs(OBS), np.full((5, 2), 0.5))


@pytest.mark.slow
def test_onnxruntime_itself_gives_what_numpy_gives(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, numbers = onnx.helper, onnx.numpy_helper
    float32 = onnx.TensorProto.FLOAT
    weights = {name: array.astype(np.float32) for name, array in LAYERS.items()}
    nodes = [
        helper.make_node("Gemm", ["obs", "weight_0", "bias_0"], ["h0"]),
        helper.make_node("Tanh", ["h0"], ["h1"]),
        helper.make_node("Gemm", ["h1", "weight_1", "bias_1"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs", float32, ["batch", 3])],
        [
            helper.make_tensor_value_info("scores", float32, ["batch", 2]),
            helper.make_tensor_value_info("probabilities", float32, ["batch", 2]),
        ],
        [numbers.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    scores = np.exp(by_hand(np.tanh))
    expected = scores / scores.sum(axis=1, keepdims=True)
    found = read_policies(tmp_path / "net.onnx")["net"].probs(OBS)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    wrapped = softmax(read_onnx(tmp_path / "net.onnx", output="scores")).probs(OBS)
    np.testing.assert_allclose(wrapped, expected, rtol=1e-4)
    with pytest.raises(PoliciesError, match="one of its outputs, scores, probabilities"):
        read_onnx(tmp_path / "net.onnx", output="values")
    (tmp_path / "net.onnx").write_bytes(b"no model")
    with pytest.raises(PoliciesError, match="expected a model in ONNX"):
        read_onnx(tmp_path / "net.onnx")
