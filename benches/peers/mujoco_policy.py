"""Searches a linear policy for a robot of Gymnasium with Pleach's Python client.

Usage: mujoco_policy.py ROBOT METHOD EVALUATIONS SEED STUDY_FILE. Prints one JSON line: the return of
the best policy. An evaluation is one episode from a start that the seed fixes; the policy is a matrix
with entries in [-1, 1] that turns what the robot observes into its action.
"""

import json
import sys

import gymnasium
import numpy as np
import pleach


def main():
    robot, method, evaluations, seed, file = sys.argv[1:]
    world = gymnasium.make(robot)
    shape = world.action_space.shape + world.observation_space.shape

    def episode(trial):
        policy = np.array(list(trial.params.values())).reshape(shape)
        observation, _ = world.reset(seed=int(seed))
        total, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = world.step(np.clip(policy @ observation, -1, 1))
            total, ended = total + float(reward), terminated or truncated
        return total

    space = {f"w{i}": {"type": "float", "low": -1, "high": 1} for i in range(int(np.prod(shape)))}
    # As in every comparison, nobody begins at the centre, where a policy does nothing.
    options = {"start": "random"} if method == "cmaes" else None
    given = {"space": space, "objectives": {"return": "max"}, "method": method, "options": options}
    with pleach.Study(file, **given, seed=int(seed)) as study:
        print(json.dumps({"return": study.optimize(episode, int(evaluations))["value"]}))


main()
