"""Trains a network of one hidden layer to tell two spirals apart, without any package.

Reports to Pleach by lines on the standard output; run alone, the lines are just shown.
"""

import argparse
import json
import math
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.0)
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
rng = random.Random(int(os.environ.get("PLEACH_SEED", "0")))


def report(**values):
    print("::pleach " + json.dumps(values), flush=True)


def spiral(t, sign):
    angle, radius = 3 * t, t / 3
    return sign * radius * math.cos(angle), sign * radius * math.sin(angle), (sign + 1) / 2


data = [spiral(0.2 + 2.8 * k / 60, sign) for k in range(60) for sign in (-1, 1)]
width = args.width
weights = [[rng.gauss(0, 2) for _ in range(3)] + [rng.gauss(0, 1) / math.sqrt(width)] for _ in range(width)]
speed = [[0.0] * 4 for _ in range(width)]
bias, bias_speed = 0.0, 0.0

for epoch in range(1, args.epochs + 1):
    rng.shuffle(data)
    total = 0.0
    for x, y, label in data:
        hidden = [math.tanh(a * x + b * y + c) for a, b, c, _ in weights]
        score = bias + sum(h * w[3] for h, w in zip(hidden, weights))
        score = max(-30.0, min(30.0, score))
        guess = 1 / (1 + math.exp(-score))
        total -= math.log(guess if label else 1 - guess)
        error = guess - label
        for h, w, v in zip(hidden, weights, speed):
            inner = error * w[3] * (1 - h * h)
            for i, gradient in enumerate((inner * x, inner * y, inner, error * h)):
                v[i] = args.momentum * v[i] - args.lr * gradient
                w[i] += v[i]
        bias_speed = args.momentum * bias_speed - args.lr * error
        bias += bias_speed
    if epoch % 5 == 0:
        report(step=epoch, loss=total / len(data))

report(final=True, loss=total / len(data), params=4 * width + 1)
