import polars as pl

import bayesdice_ppl as bd


def test_a_run_writes_its_files_and_goes_on(run, tmp_path):
    folder = tmp_path / "out"
    code, said = run("explore riverswim --rounds 4 --steps 20 --seed 3 -o", folder)
    assert code == 0
    assert "4 rounds of 20 steps with bayesdice(quantile), seed 3" in said.out
    assert "The best policy earns 0.3785 per step." in said.out
    first = pl.read_csv(folder / "rounds.csv")
    assert bd.read_logs(folder / "logs.parquet").n_transitions == 80
    assert list(bd.read_policies(folder / "policy.csv")) == ["explored"]
    assert (folder / "regret.png").stat().st_size > 1000
    # More rounds of the same run, whose seed is in the folder.
    code, _ = run("explore riverswim --rounds 6 --steps 20 -o", folder)
    assert code == 0
    assert pl.read_csv(folder / "rounds.csv").head(4).equals(first)
    code, said = run("explore riverswim --rounds 6 --steps 30 -o", folder)
    assert code == 2
    assert "expected a run with steps = 30, found one with 20" in said.err
    code, said = run("explore riverswim --rounds 6 --steps 20 --seed 4 -o", folder)
    assert code == 2
    assert "expected a run with seed = 4, found one with 3" in said.err


def test_a_game_of_gymnasium_is_explored(run, tmp_path):
    words = "explore FrozenLake-v1 --rounds 2 --steps 20 --explorer psrl --seed 1 -o"
    code, said = run(words, tmp_path / "out")
    assert code == 0
    assert "The best policy is not known, so that there is no regret." in said.out
    # Nothing was found on the ice.
    assert "Every step paid 0, so that nothing told policies apart." in said.out


def test_bad_choices_are_refused_in_one_sentence(run, tmp_path):
    for words, message in (
        ("explore nowhere", "world: expected one of 'bandit'"),
        ("explore bandit --explorer luck", "--explorer: expected one of 'bayesdice'"),
        ("explore bandit --optimism hope", "--optimism: "),
        ("explore bandit --rewards 1", "--rewards: expected the lowest and the highest"),
        ("explore bandit --rewards 1,0", "reward range: expected two numbers"),
        ("explore CartPole-v1", "features of the state, such as fourier(50)"),
        ("explore Pendulum-v1 --features fourier(50)", "action_space: expected Discrete"),
        ("explore CartPole-v1 --features waves", "--features: expected one of one_hot, poly"),
        ("explore CartPole-v1 --features fourier(3)", "expected an even number"),
        ("explore riverswim --features polynomial(2)", "To explore such states, use one_hot"),
        ("explore CartPole", "a name of Gymnasium with its version, such as CartPole-v1"),
        ("explore foo:Bar-v0", "Gymnasium cannot make this environment: No module named"),
        ("explore riverswim --gamma 1.5", "gamma: expected a"),
        (
            "explore riverswim --gamma 1 --explorer ucbvi",
            "gamma: expected a discount in [0, 1) for",
        ),
        ("explore riverswim --explorer psrl --features one_hot", "--features one_hot: expected"),
        ("explore riverswim --explorer psrl --optimism quantile(0.9)", "--optimism quantile(0.9)"),
        ("explore riverswim --on-termination absorb", "expected an explorer through features"),
        ("explore Nothing-v1", "Gymnasium cannot make this environment"),
    ):
        code, said = run(words, "--rounds 2 --steps 5 --seed 1 -o", tmp_path / "out")
        assert code == 2
        assert message.replace("'bandit'", "bandit") in said.err
        assert not (tmp_path / "out").exists()


def test_vectors_are_explored_through_features(run, tmp_path):
    folder = tmp_path / "out"
    words = "explore CartPole-v1 --features fourier(6) --rounds 2 --steps 20 --seed 1 -o"
    code, said = run(words, folder)
    assert code == 0
    assert "bayesdice(quantile) by fourier(6" in said.out
    assert "Every step paid 1, so that nothing told policies apart." in said.out
    policy = pl.read_csv(folder / "policy.csv")
    assert policy["row"].to_list() == list(range(1, 41))
    assert bd.read_logs(folder / "logs.parquet").state_labels.shape[1] == 4
    code, said = run(words.replace("--rounds", "--on-termination absorb --rounds"), folder)
    assert code == 2
    assert "absorb" in said.err
