"""Peers that minimise over tables of options: one point on stdout, its loss from stdin, one JSON line each.

First line in: {"peer": NAME, "parameters": [{"count": c, "ordered": b}, ...], "seed": k,
"evaluations": n, "constrained": b}. Then lines out {"options": [index, ...], "version": ...} and
lines in {"loss": y, "excess": [e, ...]}, where a positive excess breaks a limit, until {"done": true}
or until stdin ends.
"""

import importlib.metadata
import json
import sys
import warnings


def optuna_tpe(task):
    """TPE: ordered options as integers, limits through constraints_func."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {}
    for i, parameter in enumerate(task["parameters"]):
        options = list(range(parameter["count"]))
        space[f"p{i}"] = (
            optuna.distributions.IntDistribution(0, parameter["count"] - 1)
            if parameter["ordered"]
            else optuna.distributions.CategoricalDistribution(options)
        )
    constraints = (lambda trial: trial.user_attrs["excess"]) if task["constrained"] else None
    sampler = optuna.samplers.TPESampler(seed=task["seed"], constraints_func=constraints)
    study = optuna.create_study(sampler=sampler)
    while True:
        trial = study.ask(space)
        answer = yield [trial.params[name] for name in space]
        trial.set_user_attr("excess", answer["excess"])
        study.tell(trial, answer["loss"])


def smac(task):
    """SMAC3: the facade for hyper-parameter optimisation, a random forest on options and integers."""
    import logging
    import tempfile

    from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, UniformIntegerHyperparameter
    from smac import HyperparameterOptimizationFacade, Scenario
    from smac.runhistory import TrialValue

    logging.disable(logging.CRITICAL)
    space = ConfigurationSpace(seed=task["seed"])
    for i, parameter in enumerate(task["parameters"]):
        count = parameter["count"]
        space.add(
            UniformIntegerHyperparameter(f"p{i}", 0, count - 1)
            if parameter["ordered"] and count > 1
            else CategoricalHyperparameter(f"p{i}", list(range(count)))
        )
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(
            space, n_trials=task["evaluations"], deterministic=True, seed=task["seed"], output_directory=folder
        )
        optimizer = HyperparameterOptimizationFacade(
            scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=False
        )
        while True:
            trial = optimizer.ask()
            answer = yield [int(trial.config[f"p{i}"]) for i in range(len(task["parameters"]))]
            optimizer.tell(trial, TrialValue(cost=answer["loss"]))


PEERS = {"optuna-tpe": ("optuna", optuna_tpe), "smac": ("smac", smac)}


def main():
    warnings.simplefilter("ignore")
    task = json.loads(sys.stdin.readline())
    package, peer = PEERS[task["peer"]]
    version = importlib.metadata.version(package)
    run = peer(task)
    options = next(run)
    for _ in range(task["evaluations"]):
        print(json.dumps({"options": options, "version": version}), flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        options = run.send(json.loads(line))
    print(json.dumps({"done": True, "version": version}), flush=True)


main()
