"""Prints the golden values of partition/svm.rs. Written with scikit-learn 1.9.1 and numpy 2.

Needs: pip install scikit-learn
"""

import numpy as np
from sklearn.svm import SVC

N = 60
points = np.array([[(i * 37 + j * 61 + i * i * (j + 3)) % 101 / 101 for j in range(3)] for i in range(N)])
# A curved boundary, with every seventh label wrong.
good = (points[:, 0] + points[:, 1] ** 2 > 0.8) ^ (np.arange(N) % 7 == 0)
fresh = np.array([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5], [0.9, 0.1, 0.4], [0.3, 0.9, 0.6]])
for kernel, gamma in [("rbf", 2.0), ("poly", 1.5), ("linear", 1.0)]:
    machine = SVC(kernel=kernel, gamma=gamma, coef0=1.0, degree=3, C=10.0, tol=1e-9).fit(points, good)
    alphas = machine.dual_coef_[0]
    supports = machine.support_vectors_
    products = supports @ supports.T
    squares = ((supports[:, None] - supports[None]) ** 2).sum(-1)
    gram = {"rbf": np.exp(-gamma * squares), "poly": (gamma * products + 1) ** 3, "linear": products}[kernel]
    objective = 0.5 * alphas @ gram @ alphas - np.abs(alphas).sum()
    values = ", ".join(f"{v:.9f}" for v in machine.decision_function(fresh))
    print(f"{kernel}: objective {objective:.9f}, {len(supports)} support vectors, values [{values}]")
