"""Peers that minimise in [0, 1]^dims: points on stdout, their values on stdin, one JSON line each.

First line in: {"peer": NAME, "dims": d, "seed": k, "evaluations": n}, and for pycma optionally "x0",
"sigma", "popsize" and "restarts". Then lines out {"points": [[...], ...]} and lines in
{"values": [...]}, until {"done": true, "version": ...}; a peer may end before its evaluations do.

Every peer has its defaults but for the start: where the default is the centre of the box, the start
is uniform in the box, since the functions that are measured say nothing of where their optimum lies.
"""

import importlib.metadata
import json
import sys
import warnings

import numpy as np


def pycma(task, rng):
    """CMA-ES; after a stop again from a new start with twice the population, as IPOP-CMA-ES does."""
    import cma

    popsize = task.get("popsize")
    while True:
        x0 = task.get("x0") or rng.uniform(size=task["dims"])
        options = {"bounds": [0, 1], "seed": int(rng.integers(1, 2**31)), "verbose": -9}
        if popsize:
            options["popsize"] = popsize
        strategy = cma.CMAEvolutionStrategy(x0, task.get("sigma", 0.2), options)
        while not strategy.stop():
            points = strategy.ask()
            strategy.tell(points, (yield points))
        if not task.get("restarts", True):
            return
        popsize = 2 * strategy.popsize


def optuna_sampler(make):
    """A sampler of Optuna, asked and told one point at a time."""

    def run(task, rng):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        names = [f"x{i}" for i in range(task["dims"])]
        space = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in names}
        study = optuna.create_study(sampler=make(optuna.samplers, names, rng))
        while True:
            trial = study.ask(space)
            values = yield [[trial.params[name] for name in names]]
            study.tell(trial, values[0])

    return run


def ngopt(task, rng):
    """NGOpt, which chooses among Nevergrad's optimisers by dimensions and budget."""
    import nevergrad

    start = nevergrad.p.Array(init=rng.uniform(size=task["dims"]), lower=0.0, upper=1.0)
    start.random_state.seed(int(rng.integers(2**31)))
    optimizer = nevergrad.optimizers.NGOpt(start, budget=task["evaluations"], num_workers=1)
    while True:
        candidate = optimizer.ask()
        optimizer.tell(candidate, (yield [candidate.value])[0])


def turbo(task, rng):
    """TuRBO-1 (Eriksson et al., NeurIPS 2019, Algorithm 1 and its supplement), on BoTorch's models.

    2 dims points to begin with, ARD Matérn-5/2, Thompson samples of min(100 dims, 5000) candidates,
    success and failure tolerances 3 and ceil(max(4, dims)/batch), a fresh start when the trust
    region has collapsed. Where BoTorch cannot fit a model, its length scales stay as they begin.
    """
    import contextlib

    import torch
    from botorch.exceptions.errors import ModelFittingError
    from botorch.fit import fit_gpytorch_mll
    from botorch.generation import MaxPosteriorSampling
    from botorch.models import SingleTaskGP
    from gpytorch.constraints import Interval
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from torch.quasirandom import SobolEngine

    dims, batch = task["dims"], task.get("batch", 1)
    torch.set_num_threads(1)
    torch.manual_seed(int(rng.integers(2**31)))
    sobol = lambda n: SobolEngine(dims, scramble=True, seed=int(rng.integers(2**31))).draw(n).double()
    while True:
        x = sobol(2 * dims)
        y = torch.tensor((yield x.tolist()), dtype=torch.double)
        length, successes, failures = 0.8, 0, 0
        while length > 0.5**7:
            scaled = -(y - y.mean()) / y.std().clamp_min(1e-12)
            kernel = MaternKernel(nu=2.5, ard_num_dims=dims, lengthscale_constraint=Interval(0.005, 4.0))
            model = SingleTaskGP(
                x,
                scaled[:, None],
                likelihood=GaussianLikelihood(noise_constraint=Interval(1e-8, 1e-3)),
                covar_module=ScaleKernel(kernel, outputscale_constraint=Interval(0.05, 20.0)),
                outcome_transform=None,
            )
            with contextlib.suppress(ModelFittingError):
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            centre, weights = x[y.argmin()], kernel.lengthscale.detach().flatten()
            weights = weights / weights.log().mean().exp()
            low = (centre - weights * length / 2).clamp(0, 1)
            high = (centre + weights * length / 2).clamp(0, 1)
            candidates = low + (high - low) * sobol(min(100 * dims, 5000))
            moved = torch.rand(candidates.shape) <= min(20 / dims, 1)
            still = ~moved.any(dim=1)
            moved[still, torch.randint(dims, (int(still.sum()),))] = True
            candidates = torch.where(moved, candidates, centre)
            with torch.no_grad():
                points = MaxPosteriorSampling(model, replacement=False)(candidates, num_samples=batch)
            values = torch.tensor((yield points.tolist()), dtype=torch.double)
            if values.min() < y.min() - 1e-3 * y.min().abs():
                successes, failures = successes + 1, 0
            else:
                successes, failures = 0, failures + 1
            if successes == 3:
                length, successes = min(2 * length, 1.6), 0
            elif failures == -(-max(4, dims) // batch):
                length, failures = length / 2, 0
            x, y = torch.cat([x, points]), torch.cat([y, values])


def log_ei(task, rng):
    """BoTorch's Gaussian process and logarithm of the expected improvement, one point at a time."""
    import torch
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from botorch.utils.sampling import draw_sobol_samples
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(int(rng.integers(2**31)))
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).repeat(1, task["dims"])
    x = draw_sobol_samples(bounds, n=10, q=1, seed=int(rng.integers(2**31))).squeeze(1)
    y = torch.tensor((yield x.tolist()), dtype=torch.double)
    while True:
        model = SingleTaskGP(x, -y[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=-y.min())
        points, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=10, raw_samples=512)
        x, y = torch.cat([x, points]), torch.cat([y, torch.tensor((yield points.tolist()), dtype=torch.double)])


def seed(rng):
    return int(rng.integers(2**31))


PEERS = {
    "pycma": ("cma", pycma),
    "optuna-cma": (
        "optuna",
        optuna_sampler(
            lambda samplers, names, rng: samplers.CmaEsSampler(
                x0={name: rng.uniform() for name in names}, seed=seed(rng)
            )
        ),
    ),
    "optuna-tpe": (
        "optuna",
        optuna_sampler(lambda samplers, _, rng: samplers.TPESampler(seed=seed(rng))),
    ),
    "optuna-gp": (
        "optuna",
        optuna_sampler(lambda samplers, _, rng: samplers.GPSampler(seed=seed(rng))),
    ),
    "nevergrad-ngopt": ("nevergrad", ngopt),
    "turbo-1": ("botorch", turbo),
    "botorch-logei": ("botorch", log_ei),
}


def main():
    warnings.simplefilter("ignore")
    task = json.loads(sys.stdin.readline())
    package, peer = PEERS[task["peer"]]
    left = task["evaluations"]
    run = peer(task, np.random.default_rng(task["seed"]))
    points = next(run, None)
    while points is not None and left > 0:
        batch = [[float(x) for x in point] for point in points[:left]]
        print(json.dumps({"points": batch}), flush=True)
        left -= len(batch)
        line = sys.stdin.readline()
        if not line or left == 0:
            break
        try:
            points = run.send(json.loads(line)["values"])
        except StopIteration:
            break
    print(json.dumps({"done": True, "version": importlib.metadata.version(package)}), flush=True)


main()
