"""Train the deterministic policy around which Reacher's Gaussian policies are built.

Twin delayed deep deterministic policy gradients (stable-baselines3's TD3, 64 x 64 ReLU) on
Gymnasium's ordinary Reacher-v5, until ten evaluations in a row bring nothing better. It writes
the best policy's weights, the learning curve and the mean return of fresh episodes, which ship
with `bayesdice_ppl.envs`; nothing of this is needed to use them.

How to redo it: `make train-reacher` (an environment of its own, since PyTorch is large).
"""

import argparse
import csv
import json
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnNoModelImprovement
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

ENVIRONMENT = "Reacher-v5"
EVALUATE_EVERY, EVALUATION_EPISODES, PATIENCE = 5_000, 100, 10
MAX_STEPS = 500_000
FINAL_EPISODES = 2_000
FOLDER = Path(__file__).resolve().parent.parent / "envs" / "reacher_policy"


def train(seed: int, work: Path) -> tuple[TD3, list[tuple[int, float, float]]]:
    """Train until the returns stop rising.

    Parameters
    ----------
    seed
        Seeds networks, exploration and both environments.
    work
        Folder for what is written on the way.

    Returns
    -------
    tuple
        The best policy met, and the curve: (steps, mean return, its standard error).
    """
    evaluation = Monitor(gymnasium.make(ENVIRONMENT))
    evaluation.reset(seed=seed + 1)
    patience = StopTrainingOnNoModelImprovement(
        max_no_improvement_evals=PATIENCE, min_evals=2 * PATIENCE, verbose=1
    )
    callback = EvalCallback(
        evaluation,
        callback_after_eval=patience,
        n_eval_episodes=EVALUATION_EPISODES,
        eval_freq=EVALUATE_EVERY,
        best_model_save_path=str(work),
        log_path=str(work),
        deterministic=True,
        verbose=1,
    )
    environment = gymnasium.make(ENVIRONMENT)
    model = TD3(
        "MlpPolicy",
        environment,
        seed=seed,
        learning_rate=1e-3,
        batch_size=256,
        learning_starts=5_000,
        buffer_size=MAX_STEPS,
        gamma=0.98,
        action_noise=NormalActionNoise(np.zeros(2), np.full(2, 0.1)),
        policy_kwargs={"net_arch": {"pi": [64, 64], "qf": [256, 256]}},
        device="cpu",
    )
    model.learn(MAX_STEPS, callback=callback)
    recorded = np.load(work / "evaluations.npz")
    curve = [
        (int(step), float(row.mean()), float(row.std(ddof=1) / np.sqrt(row.size)))
        for step, row in zip(recorded["timesteps"], recorded["results"], strict=True)
    ]
    return TD3.load(work / "best_model", device="cpu"), curve


def weights_of(model: TD3) -> dict[str, np.ndarray]:
    """Weights (inputs, outputs) and biases of the policy's three layers, in float32."""
    layers = [layer for layer in model.actor.mu if isinstance(layer, torch.nn.Linear)]
    arrays = {}
    for i, layer in enumerate(layers):
        arrays[f"weight_{i}"] = layer.weight.detach().numpy().T.astype(np.float32)
        arrays[f"bias_{i}"] = layer.bias.detach().numpy().astype(np.float32)
    return arrays


def returns_of(model: TD3, n_episodes: int, seed: int) -> np.ndarray:
    """Undiscounted returns of ordinary episodes under the policy, (n_episodes,)."""
    environment = gymnasium.make(ENVIRONMENT)
    earned = np.zeros(n_episodes)
    for episode in range(n_episodes):
        observation, _ = environment.reset(seed=seed if episode == 0 else None)
        over = False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = environment.step(action)
            earned[episode] += reward
            over = terminated or truncated
    return earned


def main() -> None:
    """Parse the command line, train, and write what ships."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        model, curve = train(arguments.seed, Path(work))
    arguments.output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.output / "weights.npz", **weights_of(model))
    with (arguments.output / "learning_curve.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["step", "mean_return", "standard_error"])
        writer.writerows([step, f"{mean:.4f}", f"{error:.4f}"] for step, mean, error in curve)
    earned = returns_of(model, FINAL_EPISODES, seed=10_000 + arguments.seed)
    record = {
        "environment": ENVIRONMENT,
        "algorithm": "TD3",
        "seed": arguments.seed,
        "steps_trained": curve[-1][0],
        "best_step": max(curve, key=lambda row: row[1])[0],
        "episodes": FINAL_EPISODES,
        "mean_return": round(float(earned.mean()), 4),
        "standard_error": round(float(earned.std(ddof=1) / np.sqrt(FINAL_EPISODES)), 4),
        "python": platform.python_version(),
        "versions": {
            name: version(name)
            for name in ("stable-baselines3", "torch", "gymnasium", "mujoco", "numpy")
        },
    }
    (arguments.output / "training.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
