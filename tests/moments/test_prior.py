"""The prior's widths, by pencil and paper."""

import numpy as np
import pytest

from bayesdice_ppl.errors import SettingsError
from bayesdice_ppl.moments import Prior


def test_a_rare_pair_may_have_all_of_the_steps():
    visits = np.array([900.0, 100.0, 50.0, 5.0, 0.0])
    found = Prior().of_pairs(visits, 1_000.0)
    # A tenth of the rows and more: 10. Below: n / n_sa. Without rows there is nothing to hold.
    np.testing.assert_allclose(found[:4], [10.0, 10.0, 20.0, 200.0])
    assert np.isfinite(found[4])
    # The prior sd of the share zeta n_sa / n of a rare pair is the same for all.
    np.testing.assert_allclose((found * visits / 1_000.0)[1:4], 1.0)
    np.testing.assert_allclose(Prior(ratio_sd=3.0).of_pairs(visits, 1_000.0), 0.3 * found)
    assert np.all(Prior(rare_share=0.0).of_pairs(visits, 1_000.0) == 10.0)


@pytest.mark.parametrize("given", [{"ratio_sd": 0.0}, {"value_sd": -1.0}, {"rare_share": -0.1}])
def test_widths_out_of_range_are_refused(given):
    with pytest.raises(SettingsError, match=f"prior.{next(iter(given))}: expected"):
        Prior(**given)
