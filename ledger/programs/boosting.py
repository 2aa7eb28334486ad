"""Train boosted trees on synthetic numbers of HIGGS' shape, with fewer rows: `python boosting.py xgboost-hist`."""

import os
import sys

import numpy as np
from timing import print_times

FEATURES, SHARED = 28, {"eta": 0.1, "min_child_weight": 100, "objective": "binary:logistic"}
library = sys.argv[1]
rows = int(sys.argv[2])
trees = int(sys.argv[3])
numbers = np.random.default_rng(int(os.environ.get("SPEEDPROOF_SEED", "0")))


def draw(rows):
    x = numbers.standard_normal((rows, FEATURES), dtype=np.float32)
    score = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + x[:, 3:9].sum(axis=1) + numbers.standard_normal(rows)
    return x, (score > 0).astype(np.float32)


(x, y), (x_test, y_test) = draw(rows), draw(20_000)


def prepare_xgboost(**options):
    import xgboost

    data = xgboost.DMatrix(x, y)
    return lambda: xgboost.train({**SHARED, **options}, data, num_boost_round=trees)


def prepare_lightgbm():
    import lightgbm

    options = {"objective": "binary", "learning_rate": 0.1, "num_leaves": 255, "verbosity": -1}
    options |= {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 100}
    data = lightgbm.Dataset(x, y, params=options, free_raw_data=False).construct()
    return lambda: lightgbm.train(options, data, num_boost_round=trees)


def prepare_sklearn(histogram):
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

    if histogram:
        return lambda: HistGradientBoostingClassifier(max_iter=trees, early_stopping=False).fit(x, y)
    return lambda: GradientBoostingClassifier(n_estimators=trees).fit(x, y)


works = {
    "xgboost-exact": lambda: prepare_xgboost(tree_method="exact", max_depth=8),
    "xgboost-hist": lambda: prepare_xgboost(tree_method="hist", grow_policy="lossguide", max_depth=0, max_leaves=255),
    "lightgbm": prepare_lightgbm,
    "sklearn-exact": lambda: prepare_sklearn(histogram=False),
    "sklearn-hist": lambda: prepare_sklearn(histogram=True),
}
model = print_times(works[library](), repetitions=3)


def measure_auc(scores):
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    ones = y_test.sum()
    return (ranks[y_test == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(y_test) - ones))


if library.startswith("xgboost"):
    import xgboost

    scores = model.predict(xgboost.DMatrix(x_test))
else:
    scores = model.predict(x_test) if library == "lightgbm" else model.predict_proba(x_test)[:, 1]
print(f"AUC {measure_auc(scores):.5f}")
