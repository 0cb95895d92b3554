"""Writes directions.bin: the direction numbers of Joe and Kuo as SciPy ships them.

Usage: python directions.py directions.bin      (written with SciPy 1.17.1)

For each dimension from the second on: the primitive polynomial as a bit mask with both its ends,
then its m_1 .. m_s, where s is its degree; all as little-endian 16-bit words.
"""

import struct
import sys
from importlib.resources import files

import numpy as np

DIMENSIONS = 2048

table = np.load(files("scipy.stats") / "_sobol_direction_numbers.npz")
with open(sys.argv[1], "wb") as out:
    for polynomial, numbers in zip(table["poly"][1:DIMENSIONS], table["vinit"][1:DIMENSIONS]):
        degree = int(polynomial).bit_length() - 1
        words = [int(polynomial), *map(int, numbers[:degree])]
        out.write(struct.pack(f"<{len(words)}H", *words))
