"""A log in PySpark's local mode, which needs Java, gives the belief of its rows in memory."""

import jax
import numpy as np
import polars as pl
import pytest

import bayesdice_ppl as bd

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    session = (
        sql.SparkSession.builder.master("local[1]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.mark.parametrize("drop", [[], ["next_state"]], ids=["given", "next-rows"])
def test_belief_from_spark(spark, drop):
    rng = np.random.default_rng(0)
    n, steps = 400, 5
    state = rng.integers(0, 3, (n, steps + 1))
    log = pl.DataFrame(
        {
            "episode_id": np.repeat(np.arange(n), steps),
            "step": np.tile(np.arange(steps), n),
            "state": state[:, :-1].ravel(),
            "action": rng.integers(0, 2, n * steps),
            "reward": rng.normal(size=n * steps) + np.repeat(rng.normal(size=n), steps),
            "next_state": state[:, 1:].ravel(),
        }
    ).drop(drop)
    policy = {"one": bd.TabularPolicy(rng.dirichlet([1, 1], 3), states=[0, 1, 2], actions=[0, 1])}
    found = [
        bd.fit(logs, policy, gamma=0.9, rng_key=jax.random.key(0))
        for logs in (
            bd.Logs.from_dataframe(log),
            bd.Logs.from_lazy(spark.createDataFrame(log.rows(), log.columns)),
        )
    ]
    values = [each["posterior/value"].to_numpy() for each in found]
    np.testing.assert_allclose(values[1], values[0], rtol=0, atol=1e-9)
    assert found[0].attrs["support_warnings"] == found[1].attrs["support_warnings"]
