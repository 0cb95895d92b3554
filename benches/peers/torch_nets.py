"""Networks in PyTorch with the layers, names and weights of ours; steps of training, timed.

One JSON line in: {"model": NAME, "parameters": {...}, "batch": n, "threads": k, "weights": FILE,
"solver": {...}, "compile": bool}. Then for each line {"steps": n, "inputs": FILE or null} one line out:
{"ms": [...], "losses": [...]}. With "inputs", a raw file of float32 batches and targets, losses are
those of these batches, else of the same random batch again and again. An empty line ends it.
"""

import json
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or inputs != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depth=18, input=(224, 224, 3), classes=1000):
        super().__init__()
        counts = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3]}[depth]
        block, expansion = (Bottleneck, 4) if depth >= 50 else (BasicBlock, 1)
        self.small = input[0] < 64
        self.conv1 = nn.Conv2d(3, 64, *((3, 1, 1) if self.small else (7, 2, 3)), bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for stage, count in enumerate(counts):
            blocks = []
            for index in range(count):
                width = 64 << stage
                blocks.append(block(inputs, width, 2 if stage > 0 and index == 0 else 1))
                inputs = expansion * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = functional.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class CifarBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.more = stride, width - inputs

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride != 1:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return functional.relu(y + x)


class CifarResNet(nn.Module):
    def __init__(self, depth=20, input=(32, 32, 3), classes=10, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage in range(3):
            blocks = []
            for index in range((depth - 2) // 6):
                blocks.append(CifarBlock(inputs, width << stage, 2 if stage > 0 and index == 0 else 1))
                inputs = width << stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class Mlp(nn.Module):
    def __init__(self, input, hidden=(128,), classes=10):
        super().__init__()
        features = int(np.prod(input))
        for index, width in enumerate(hidden):
            setattr(self, f"hidden{index}", nn.Linear(features, width))
            features = width
        self.count = len(hidden)
        self.fc = nn.Linear(features, classes)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).flatten(1)
        for index in range(self.count):
            x = functional.relu(getattr(self, f"hidden{index}")(x))
        return self.fc(x)


MODELS = {"resnet": ResNet, "resnet-cifar": CifarResNet, "mlp": Mlp}


def load(model, path):
    """Weights from one of our checkpoints: filters are [r, s, c, k] there, matrices [in, out]."""
    from safetensors.numpy import load_file

    tensors = load_file(path)
    state = model.state_dict()
    names = {"running_variance": "running_var", "scale": "weight", "shift": "bias"}
    taken = set()
    for name, value in tensors.items():
        if name.startswith("solver/"):
            continue
        layer, _, last = name.rpartition(".")
        key = f"{layer}.{names.get(last, last)}"
        if value.ndim == 4:
            value = value.transpose(3, 2, 0, 1)
        elif value.ndim == 2:
            value = value.T
        assert state[key].shape == value.shape, (key, state[key].shape, value.shape)
        state[key].copy_(torch.from_numpy(np.ascontiguousarray(value)))
        taken.add(key)
    missing = [key for key in state if key not in taken and not key.endswith("num_batches_tracked")]
    assert not missing, missing


def solver_of(model, options):
    options = dict(options)
    name, rate = options.pop("name"), options.pop("rate")
    decay = options.pop("weight-decay", 0.0)
    # Only weights decay with us: neither biases nor what normalisations scale and shift.
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=options.get("momentum", 0.0))
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](groups, lr=rate)


def main():
    task = json.loads(sys.stdin.readline())
    torch.manual_seed(0)
    torch.set_num_threads(task["threads"])
    model = MODELS[task["model"]](**task["parameters"])
    load(model, task["weights"])
    shape = task["shape"]
    if len(shape) == 3:
        model = model.to(memory_format=torch.channels_last)
    solver = solver_of(model, task["solver"])
    batch, classes = task["batch"], task["classes"]

    def step(x, target):
        solver.zero_grad()
        loss = functional.cross_entropy(model(x), target)
        loss.backward()
        solver.step()
        return loss

    run = torch.compile(step) if task.get("compile") else step

    def tensors(inputs, targets):
        x = torch.from_numpy(inputs.reshape(batch, *shape))
        if len(shape) == 3:
            x = x.permute(0, 3, 1, 2)
        return x, torch.from_numpy(targets.reshape(batch, -1).astype(np.int64)).squeeze(1)

    rng = np.random.default_rng(0)
    size = batch * int(np.prod(shape))
    x, target = tensors(rng.normal(size=size).astype(np.float32), rng.integers(0, classes, batch))
    print(json.dumps({"version": torch.__version__}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        request = json.loads(line)
        times, losses = [], []
        batches = None
        if request.get("inputs"):
            batches = np.fromfile(request["inputs"], dtype="<f4").reshape(request["steps"], -1)
        for index in range(request["steps"]):
            if batches is not None:
                x, target = tensors(batches[index, :size], batches[index, size:])
            start = time.perf_counter()
            loss = run(x, target)
            loss = float(loss)
            times.append((time.perf_counter() - start) * 1e3)
            losses.append(loss)
        print(json.dumps({"ms": times, "losses": losses}), flush=True)


main()
