import numpy as np
import pytest

from bayesdice_ppl.codes import combined, distinct


@pytest.mark.parametrize("largest", [1, 7, 3_000_000, 2**40])
def test_codes_are_those_of_sorting(largest):
    rng = np.random.default_rng(largest)
    code = rng.integers(largest, size=500)
    keys, place = distinct(code)
    expected, inverse = np.unique(code, return_inverse=True)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(place, inverse)


@pytest.mark.parametrize("sizes", [(4, 3, 2, 5), (1, 1), (2**35, 3, 2**35)])
def test_combinations_are_the_rows_of_a_matrix(sizes):
    rng = np.random.default_rng(len(sizes))
    columns = [rng.integers(size, size=300) for size in sizes]
    keys, place = combined(*columns)
    expected, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    np.testing.assert_array_equal(np.stack(keys, axis=1), expected)
    np.testing.assert_array_equal(place, inverse.ravel())


def test_no_rows_have_no_codes():
    empty = np.zeros(0, dtype=np.int64)
    keys, place = distinct(empty)
    assert len(keys) == len(place) == 0
