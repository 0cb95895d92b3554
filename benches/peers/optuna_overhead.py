"""Milliseconds of one ask and tell with Optuna, 20 floats.

Usage: optuna_overhead.py SAMPLER TRIALS WARMUP SEED [SQLITE_FILE]. Prints one JSON line.
The trials before the clock starts are random ones for samplers that look at nothing but their points.
"""

import json
import random
import sys
import time

import optuna

SAMPLERS = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
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

    rng = random.Random(seed)
    for _ in range(warmup):
        if sampler in ("tpe", "gp"):
            params = {name: rng.random() for name in space}
            value = sum((x - 0.3) ** 2 for x in params.values())
            study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))
        else:
            step()
    start = time.perf_counter()
    for _ in range(trials):
        step()
    milliseconds = (time.perf_counter() - start) * 1e3 / trials
    print(json.dumps({"ms": milliseconds, "version": optuna.__version__}))


main()
