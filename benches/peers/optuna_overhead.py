"""Milliseconds of one ask and tell with Optuna, 20 floats.

Usage: optuna_overhead.py SAMPLER TRIALS WARMUP SEED [SQLITE_FILE]. Prints one JSON line.
"""

import json
import sys
import time

import optuna

SAMPLERS = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
}


def main():
    sampler, trials, warmup, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    storage = f"sqlite:///{sys.argv[5]}" if len(sys.argv) > 5 else None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=storage, sampler=SAMPLERS[sampler](seed))
    space = {f"x{i}": optuna.distributions.FloatDistribution(0.0, 1.0) for i in range(20)}

    def step():
        trial = study.ask(space)
        study.tell(trial, sum((value - 0.3) ** 2 for value in trial.params.values()))

    for _ in range(warmup):
        step()
    start = time.perf_counter()
    for _ in range(trials):
        step()
    milliseconds = (time.perf_counter() - start) * 1e3 / trials
    print(json.dumps({"ms": milliseconds, "version": optuna.__version__}))


main()
