"""Makes optuna.sqlite, a study of Optuna with trials of every kind (written with Optuna 5.0.0)."""

import math
import os
import sqlite3

import optuna


def objective(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    width = trial.suggest_int("width", 16, 256, step=16)
    opt = trial.suggest_categorical("opt", ["sgd", "adamw", None, 3])
    x = trial.suggest_float("x", -1.0, 1.0)
    if trial.number == 5:
        raise RuntimeError("a failed trial")
    if trial.number == 7:
        raise optuna.TrialPruned
    if opt == "adamw":
        trial.suggest_float("beta2", 0.9, 0.999)
    if trial.number == 9:
        return math.inf
    return (math.log10(lr) + 3) ** 2 + (width - 64) ** 2 / 4096 + x * x


if os.path.exists("optuna.sqlite"):
    os.remove("optuna.sqlite")
study = optuna.create_study(
    study_name="old-search",
    storage="sqlite:///optuna.sqlite",
    direction="minimize",
    sampler=optuna.samplers.RandomSampler(seed=3),
)
study.optimize(objective, n_trials=16, catch=(RuntimeError,))
# Small pages make a small file.
connection = sqlite3.connect("optuna.sqlite", isolation_level=None)
connection.execute("PRAGMA page_size = 512")
connection.execute("VACUUM")
