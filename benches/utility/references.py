"""What can be had without privacy: scikit-learn's boosted trees and its linear model."""

import time

import encode
import numpy as np


def trees(columns, task, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if columns.x.shape[1] > 2000:
        raise encode.NotFor("boosted trees over thousands of words are beyond this benchmark's time")
    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return scored(kind(random_state=seed), columns, task)


def linear(columns, task, seed):
    from sklearn.linear_model import LogisticRegression, Ridge

    return scored(Ridge(alpha=1.0) if task == "regression" else LogisticRegression(max_iter=2000), columns, task)


def baseline(columns, task, seed):
    """Answers everybody alike: the most frequent class, or the mean, of the training rows."""
    return {"score": encode.baseline(task, columns), "seconds": 0.0}


def scored(model, columns, task):
    start = time.perf_counter()
    model.fit(columns.x, columns.y)
    seconds = time.perf_counter() - start
    guess = np.asarray(model.predict(columns.test_x))
    result = {"score": encode.accuracy_or_r2(task, columns.test_y, guess), "seconds": round(seconds, 3)}
    if task == "binary":
        from sklearn.metrics import roc_auc_score

        result["auc"] = float(roc_auc_score(columns.test_y, model.predict_proba(columns.test_x)[:, 1]))
    return result
