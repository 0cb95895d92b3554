"""pycma as a peer: proposes points on stdout, reads their values from stdin, one JSON line each.

First line in: {"x0": [...], "sigma": s, "popsize": p, "seed": k, "evaluations": n}.
Then lines out {"points": [[...], ...]} and lines in {"values": [...]}, until {"done": true}.
The box is [0, 1]^d; there are no restarts.
"""

import json
import sys

import cma


def main():
    task = json.loads(sys.stdin.readline())
    options = {
        "bounds": [0, 1],
        "popsize": task["popsize"],
        "seed": task["seed"] % (2**32 - 1) + 1,
        "verbose": -9,
        "maxfevals": task["evaluations"],
    }
    strategy = cma.CMAEvolutionStrategy(task["x0"], task["sigma"], options)
    left = task["evaluations"]
    while left > 0 and not strategy.stop():
        points = strategy.ask()
        print(json.dumps({"points": [list(map(float, point)) for point in points[:left]]}), flush=True)
        values = json.loads(sys.stdin.readline())["values"]
        left -= len(values)
        if len(values) < len(points):
            break
        strategy.tell(points, values)
    print(json.dumps({"done": True, "version": cma.__version__}), flush=True)


main()
