"""Writes golden.json: what PyTorch gives for operations on small tensors, derivatives included.

    python golden.py > golden.json

Images are [n, height, width, channels] in the file. Each case has the derivative by the output from
which the other derivatives follow.
"""

import json

import torch
import torch.nn.functional as F

torch.manual_seed(0)
cases = []


def first(x):
    """Channels first, as PyTorch has them."""
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def tensor(x):
    return {"shape": list(x.shape), "values": [float(f"{v:.9g}") for v in x.detach().flatten().tolist()]}


def case(op, f, inputs, parameters=(), fixed=(), **attributes):
    """`f` takes inputs and parameters; those of `fixed` have no derivative."""
    inputs, parameters = list(inputs), list(parameters)
    learned = [x for i, x in enumerate(inputs) if i not in fixed] + parameters
    for x in learned:
        x.requires_grad_()
    y = f(*inputs, *parameters)
    dy = torch.randn_like(y)
    y.backward(dy)
    found = {
        "op": op,
        "attributes": {k.replace("_", "-"): v for k, v in attributes.items()},
        "inputs": [tensor(x) for x in inputs],
        "parameters": [tensor(x) for x in parameters],
        "output": tensor(y),
        "output_grad": tensor(dy),
        "input_grads": [tensor(x.grad) if x.grad is not None else None for x in inputs],
        "parameter_grads": [tensor(x.grad) for x in parameters],
    }
    cases.append(found)
    return found


def image(*shape):
    return torch.randn(*shape)


def affine(channels):
    return [torch.rand(channels) + 0.5, torch.randn(channels)]


for op, f in {
    "relu": F.relu,
    "leaky-relu": F.leaky_relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "swish": F.silu,
    "hard-sigmoid": F.hardsigmoid,
    "hard-swish": F.hardswish,
    "gelu": F.gelu,
}.items():
    case(op, f, [4 * image(3, 7)])

for relu in (False, True):
    norm = torch.nn.BatchNorm2d(5)

    def run(x, weight, bias):
        norm.weight, norm.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
        y = torch.func.functional_call(norm, {"weight": weight, "bias": bias}, first(x))
        return last(F.relu(y) if relu else y)

    x = image(2, 3, 4, 5)
    found = case("batch-norm", run, [x], affine(5), relu=relu)
    found["running"] = [tensor(norm.running_mean), tensor(norm.running_var)]
    norm.eval()
    with torch.no_grad():
        found["inference"] = tensor(run(x, *[torch.tensor(p["values"]) for p in found["parameters"]]))

case("group-norm", lambda x, w, b: last(F.group_norm(first(x), 3, w, b)), [image(2, 3, 2, 6)], affine(6), groups=3)
case("layer-norm", lambda x, w, b: F.layer_norm(x, (19,), w, b), [image(2, 3, 19)], affine(19))

case("add", lambda a, b, c: a + b + c, [image(2, 5) for _ in range(3)])
case("add", lambda a, b: F.relu(a + b), [image(2, 5) for _ in range(2)], relu=True)
case("concat", lambda a, b: torch.cat([a, b], -1), [image(2, 2, 3, 2), image(2, 2, 3, 5)])
case("concat", lambda a, b: torch.cat([a, b], 1), [image(2, 2, 3), image(2, 1, 3)], axis=1)
case("scale", lambda x, s: x * s[:, None, None], [image(2, 2, 3, 5), image(2, 5)])
case("slice", lambda x: x[:, :, 1:3], [image(2, 2, 4, 3)], axis=2, **{"from": 1, "to": 3})
case("transpose", lambda x: x.permute(0, 3, 1, 2), [image(2, 2, 3, 4)], axes=[0, 3, 1, 2])
case("flatten", lambda x: x.flatten(1), [image(2, 2, 3)])
case("reshape", lambda x: x.reshape(2, 3, 4), [image(2, 2, 6)], sizes=[3, 4])
case("upsample", lambda x: last(F.interpolate(first(x), scale_factor=2, mode="nearest")), [image(2, 2, 3, 3)], factor=2)

for attributes, size, stride, padding in [
    ({"size": 2}, 2, 2, 0),
    ({"size": 3, "stride": 2, "padding": 1}, 3, 2, 1),
    ({"size": [1, 3], "stride": [2, 1], "padding": [0, 1]}, (1, 3), (2, 1), (0, 1)),
]:
    pool = lambda x: last(F.max_pool2d(first(x), size, stride, padding))
    case("max-pool", pool, [image(2, 5, 6, 3)], **attributes)
    for count in (True, False):
        pool = lambda x: last(F.avg_pool2d(first(x), size, stride, padding, count_include_pad=count))
        case("average-pool", pool, [image(2, 5, 6, 3)], count_padding=count, **attributes)
case("global-max-pool", lambda x: x.amax((1, 2)), [image(2, 3, 4, 5)])
case("global-average-pool", lambda x: x.mean((1, 2)), [image(2, 3, 4, 5)])

for smoothing in (0.0, 0.1):
    case(
        "cross-entropy",
        lambda z, y: F.cross_entropy(z, y.long(), reduction="none", label_smoothing=smoothing),
        [3 * image(5, 19), torch.tensor([0.0, 3.0, 18.0, 7.0, 7.0])],
        fixed=[1],
        label_smoothing=smoothing,
    )
case("mean-squared-error", lambda x, y: F.mse_loss(x, y, reduction="none").mean(1), [image(3, 7), image(3, 7)])
case(
    "embedding",
    lambda tokens, table: F.embedding(tokens.long(), table),
    [torch.tensor([[0.0, 3.0, 3.0], [1.0, 3.0, 0.0]])],
    [image(5, 7)],
    fixed=[0],
    entries=5,
    width=7,
)
case("position", lambda x, weight: x + weight, [image(3, 4, 5)], [image(4, 5)])


def attention(x, heads, causal):
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


for causal in (True, False):
    case("attention", lambda x: attention(x, 2, causal), [image(2, 7, 18)], heads=2, causal=causal)

for op, module in {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.items():
    layer = module(4, 5, batch_first=True)
    learned = [x.detach().T.clone() if x.dim() == 2 else x.detach().clone() for x in layer.parameters()]

    def run(x, *learned):
        names = [name for name, _ in layer.named_parameters()]
        learned = [w.T if w.dim() == 2 else w for w in learned]
        return torch.func.functional_call(layer, dict(zip(names, learned)), x)[0]

    case(op, run, [image(2, 3, 4)], learned, width=5)

print('{"made_with": "torch %s", "cases": [' % torch.__version__.split("+")[0])
print(",\n".join(json.dumps(found, separators=(",", ":")) for found in cases))
print("]}")
