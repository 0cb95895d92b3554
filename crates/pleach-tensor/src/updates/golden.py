"""Writes golden.json: parameters after twenty steps of torch.optim (run with PyTorch 2.14.1)."""
import json
import torch

cases = [
    ("sgd", {}, lambda p: torch.optim.SGD(p, lr=0.05)),
    ("sgd", {"momentum": 0.9, "weight-decay": 0.1}, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1)),
    ("sgd", {"momentum": 0.8, "nesterov": True}, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True)),
    ("adam", {}, lambda p: torch.optim.Adam(p, lr=0.05)),
    ("adam", {"beta1": 0.8, "beta2": 0.95, "weight-decay": 0.1}, lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0.1)),
    ("adamw", {"weight-decay": 0.5}, lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.5)),
    ("rmsprop", {}, lambda p: torch.optim.RMSprop(p, lr=0.05)),
    ("rmsprop", {"alpha": 0.9, "momentum": 0.5, "weight-decay": 0.1}, lambda p: torch.optim.RMSprop(p, lr=0.05, alpha=0.9, momentum=0.5, weight_decay=0.1)),
]
out = []
for name, attributes, make in cases:
    w = torch.nn.Parameter(torch.ones(7, dtype=torch.float64))
    target = torch.arange(7, dtype=torch.float64) * 0.25
    solver = make([w])
    for _ in range(20):
        solver.zero_grad()
        (((w - target) ** 2).sum() / 2).backward()
        solver.step()
    out.append((name, attributes, w.tolist()))
with open("golden.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")
