"""The README's code runs as it stands, in a fresh process and in the order that it prints."""

import re
import subprocess
import sys
from pathlib import Path

import bayesdice_ppl as bd

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_python_blocks_run_on_simulated_files(tmp_path):
    world = bd.simulation.make_world("garnet", n_states=4, n_actions=2)
    import jax

    logs = bd.simulate(world.env, world.behavior, 60, 20, rng_key=jax.random.key(0))
    logs.to_dataframe().rename({"action": "item_id"}).write_csv(tmp_path / "logs.csv")
    world.candidates.to_dataframe().write_csv(tmp_path / "candidates.csv")
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 7
    code = "import matplotlib; matplotlib.use('Agg')\n" + "\n".join(blocks)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Try alpha_" in done.stdout
    assert "NUTS" in done.stdout
    assert "Logs(2,000 transitions" in done.stdout


def test_every_number_of_the_calibration_table_is_in_the_results():
    import polars as pl

    folder = Path(__file__).parent.parent / "benchmarks" / "results"
    table = pl.read_csv(folder / "calibration.csv", comment_prefix="#")
    for row in table.filter(pl.col("form") == "default").iter_rows(named=True):
        coverage = " | ".join(f"{100 * row[f'cov_{level}']:.1f}" for level in (50, 70, 80, 90, 95))
        assert f"| {coverage} | {row['mace']:.3f} |" in README
