"""Pleach for Python: ask for points, tell what they gave, in a study that survives anything.

    import pleach

    space = {"lr": "log(1e-5, 1e-1)", "layers": {"type": "int", "low": 1, "high": 8}}
    with pleach.Study("study.db", space=space, objectives={"loss": "min"}) as study:
        for trial in study.ask(4):
            study.tell(trial, loss=train(**trial.params))
        print(study.best)

This file is all there is to install. It runs the program `pleach` (from `binary`, the environment
variable PLEACH_BIN or the search path), which keeps the study, and talks to it in lines of JSON.
"""

import contextlib
import json
import math
import os
import subprocess
import threading
from collections import namedtuple

Trial = namedtuple("Trial", "number attempt seed params")
Trial.__doc__ = "A point to evaluate: `params` by name. A trial whose worker died comes back as a new `attempt`."


class Error(Exception):
    """What Pleach refused, and what to do about it."""


class Study:
    """A study in a file, made or continued; without a `space` it must exist.

    space        {name: "log(1e-5, 1e-1)"} or {name: {"type": "int", "low": 1, "high": 8}}, …
    objectives   {name: "min" | "max" | {"goal": "min", "limit": 8.0}}; one of them has no limit
    constraints  texts that every point keeps, such as "width * depth <= 4096"
    method       how to search, with its `options`; `pleach list` shows the methods

    Use it in a `with` statement, or call `close`. Several threads may share it.
    """

    def __init__(self, path, space=None, objectives=None, *, name=None, constraints=(), method=None,
                 options=None, seed=0, binary=None):
        binary = binary or os.environ.get("PLEACH_BIN") or "pleach"
        self._lock, self._id = threading.Lock(), 0
        try:
            # In a session of its own, so that Ctrl-C reaches this program only, which then closes it.
            self._process = subprocess.Popen([binary, "session", "--json"], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            raise Error(f"cannot run {binary}: {error}; install pleach or set PLEACH_BIN") from error
        try:
            given = {"path": os.fspath(path), "name": name}
            if space is None:
                opened = self._request("open", **given)
            else:
                opened = self._request("create", **given, space=space, objectives=objectives,
                                       constraints=list(constraints), method=method, options=options, seed=seed)
        except BaseException:
            self.close()
            raise
        self.name = opened["name"]

    def ask(self, n=1, *, limit=None):
        """Up to `n` trials to evaluate; fewer when the study would get more than `limit` trials, or
        when every point of the space was tried."""
        return [Trial(**trial) for trial in self._request("ask", n=n, limit=limit)["trials"]]

    def tell(self, trial, values=None, *, status=None, reason=None, sem=None, cost=None, features=None, **metrics):
        """Records what came of a trial: metrics by keyword, or `values`, a mapping of metrics or the
        objective alone.

        A trial without metrics has a `status`: "infeasible", "failed", "pruned", "cancelled", or "retry"
        to have it handed out again. Returns its state ("failed" if a metric is not finite), once on disk.
        """
        told = None if status else _numbers(values, metrics)
        return self._request("tell", number=trial.number, attempt=trial.attempt, metrics=told, status=status,
                             reason=reason, sem=sem, cost=cost, features=features)["state"]

    def report(self, trial, step, values=None, **metrics):
        """Records intermediate values; false means that the trial should stop."""
        return self._request("report", number=trial.number, step=step, metrics=_numbers(values, metrics))["continue"]

    def enqueue(self, **params):
        """Adds a point of your own, to be evaluated next; returns the number of its trial."""
        return self._request("enqueue", params=params)["number"]

    def optimize(self, function, trials):
        """Evaluates `function(trial)`, which gives what `tell` takes as `values`, until the study has
        that many trials. One that raises is a failed trial. Returns the best."""
        while asked := self.ask(limit=trials):
            try:
                values = _numbers(function(asked[0]), {})
            except Exception as error:
                self.tell(asked[0], status="failed", reason=f"{type(error).__name__}: {error}")
            else:
                self.tell(asked[0], values)
        return self.best

    @property
    def best(self):
        """The best point so far, a dictionary: number, value, sem, feasible, params, metrics; or `None`."""
        return self._request("best")["best"]

    @property
    def progress(self):
        """Number of trials, their `counts` by state, and the best."""
        return self._request("progress")

    def close(self):
        """Ends the session. Trials that were not told are handed out again to whoever asks next."""
        if self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):  # It may have ended already.
            self._process.stdin.close()  # The end of its input tells the program to end.
        self._process.stdout.close()
        self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _request(self, op, **fields):
        with self._lock:
            if self._process.stdin.closed:
                raise Error("the study is closed")
            self._id += 1
            request = {"id": self._id, "op": op, **{k: v for k, v in fields.items() if v is not None}}
            line, answer = json.dumps(request, default=lambda number: number.item(), allow_nan=False), {}
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
                while answer.get("id") != self._id:  # An interrupted request leaves its answer behind.
                    answer = json.loads(self._process.stdout.readline())
                    if answer["id"] is None:  # The request could not be read.
                        break
            except (BrokenPipeError, json.JSONDecodeError):
                raise Error(f"pleach has ended, with exit status {self._process.wait()}") from None
        if "error" in answer:
            raise Error(answer["error"])
        return answer["ok"]


def _numbers(values, metrics):
    """Metrics as JSON can write them. The objective alone has the empty name."""
    named = {**(values if hasattr(values, "keys") else {} if values is None else {"": values}), **metrics}
    floats = {name: float(value) for name, value in named.items()}
    return {name: value if math.isfinite(value) else str(value) for name, value in floats.items()}
