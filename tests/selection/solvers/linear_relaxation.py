"""The relaxation of choosing sets of policies, as one linear program."""

import numpy as np
from scipy.optimize import linprog


def linear_relaxation(problem, full=()):
    """Give the value of the linear program that the best prices reach: SciPy's HiGHS.

    The policies in `full` are taken whole.
    """
    n, n_draws = problem.regret.shape
    # Variables: how much of each policy is taken, then how much of it serves each draw.
    mean = problem.regret.T.ravel() / n_draws
    served = np.hstack([np.zeros((n_draws, n)), np.kron(np.eye(n_draws), np.ones(n))])
    opened = np.hstack([-np.tile(np.eye(n), (n_draws, 1)), np.eye(n * n_draws)])
    rules = np.zeros((2, n + n * n_draws))
    rules[0, :n], rules[1, :n] = 1.0, problem.cost
    most = [problem.places, min(problem.limit, 1e6)]
    affordable = problem.cost <= problem.limit
    solved = linprog(
        np.concatenate([np.zeros(n), mean]),
        A_ub=np.vstack([opened, rules]),
        b_ub=np.concatenate([np.zeros(n * n_draws), most]),
        A_eq=served,
        b_eq=np.ones(n_draws),
        bounds=[(int(i in full), int(can)) for i, can in enumerate(affordable)]
        + [(0, 1)] * (n * n_draws),
    )
    return solved.fun
