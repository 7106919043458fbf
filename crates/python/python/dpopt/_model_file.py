"""Fitted estimators from model files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import _additive, _classifiers, _core, _embeddings, _regressors
from ._fitted_table import loaded, path_of
from ._plan import Privacy
from ._public_facts import Columns
from ._reading import labels, shown
from ._tables import vectors_path
from ._warnings import SEEDED, warn


def load(path: Any, public_vectors: Any = None, recalls: Any = None, classes: Any = None) -> Any:
    """The fitted estimator of a model file, of `dpopt fit` or of :meth:`LogisticRegression.save`: it predicts for tables with the
    columns of the one it was fitted to. A model of texts with public vectors of words needs the same file of them again.

    A file holds labels as text, and that is what the model predicts; `classes` says what they are in Python: ``classes=[0, 1]`` for numbers.

    A known fault of an earlier version that certainly concerns the model is a :class:`PrivacyWarning`; `recalls` is the path of a newer list of
    them than the one that ships (SECURITY.md).

    >>> import dpopt, os, pandas, tempfile
    >>> table = pandas.DataFrame({"age": [20, 60] * 500, "member": ["no", "yes"] * 500})
    >>> model = dpopt.LogisticRegression(epsilon=2, delta=1e-6, bounds={"age": (18, 80)}, classes=["no", "yes"]).fit(table, "member")
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> model.save(path)
    >>> dpopt.load(path).predict(pandas.DataFrame({"age": [19, 70]})).tolist()
    ['no', 'yes']
    """
    model = _core.TableModel.load(str(path_of(path)), vectors_path(public_vectors))
    promised = json.loads(model.guarantee())
    facts: dict[str, Any] = {
        "columns": None if public_vectors is None else Columns(public_vectors=public_vectors),
        "epsilon": promised["epsilon"],
        "delta": promised["delta"],
        "neighbors": promised["relation"],
    }
    if classes is not None:
        facts["classes"] = _declared(classes, model.labels)
    estimator: Any = _estimator_of(model, facts)
    table = loaded(model, estimator._order_of(model, None))
    estimator._settle(table, None)
    if not model.labels:
        estimator._flat()
    estimator.n_features_in_ = len(model.columns)
    if table.positions is None:
        estimator.feature_names_in_ = np.array(model.columns, dtype=object)
    estimator.privacy_ = Privacy.of(model.guarantee(), "[]")
    if promised["insecure_seed"]:
        warn(SEEDED)
    for recall, sentence in json.loads(model.recalls(None if recalls is None else str(path_of(recalls)))):
        if recall["concern"] == "certain":
            warn(sentence)
    return estimator


def _declared(classes: Any, texts: list[str]) -> list[Any]:
    """`classes`, if they are the labels of the file in any order."""
    if not texts:
        raise ValueError("classes are for models of classes, and this one predicts a number; leave them out")
    values: list[Any] = labels(classes, "classes").tolist()
    if sorted(_core.Table.codes(values, texts).tolist()) != list(range(len(texts))):
        raise ValueError(
            f"classes do not name the labels of the file, each once; they are {', '.join(map(shown, texts))}"
        )
    return values


def _estimator_of(model: Any, facts: dict[str, Any]) -> Any:
    """An estimator that predicts as `model` does, by its loss and form."""
    embedding, loss = model.embedding(), json.loads(model.loss())
    if embedding is not None:
        form = json.loads(embedding)
        size = {"embedding_dim": form["dimension"], "embedding_seed": form["seed"]}
        if form.get("towers") is None:
            if not model.labels:
                raise ValueError(
                    "this file holds a sum of embeddings for a number, which Python cannot load; predict with the command line, dpopt predict"
                )
            return _embeddings.EmbeddingClassifier(**size, **facts)
        towers = _embeddings.TwoTowerClassifier if model.labels else _embeddings.TwoTowerRegressor
        return towers(**size, **facts)
    if loss["name"] == "smoothed-hinge":
        return _classifiers.LinearSVC(smoothing=loss["width"], **facts)
    if loss["name"] == "hinge":
        return _classifiers.SGDClassifier(loss="hinge", **facts)
    if loss["name"] == "poisson":
        return _regressors.PoissonRegressor(**facts)
    if loss["name"] == "quantile":
        return _regressors.QuantileRegressor(quantile=loss["level"], **facts)
    if loss["name"] in ("huber", "absolute"):
        name = "huber" if loss["name"] == "huber" else "absolute_error"
        return _regressors.SGDRegressor(loss=name, threshold=loss.get("threshold", 0.5), **facts)
    encoder = json.loads(model.to_json())["encoder"]
    if encoder.get("additive", False):
        names = [feature["column"] for feature in encoder["features"]]
        pairs = [(names[a], names[b]) for a, b in (encoder.get("pairs") or {}).get("columns", [])]
        additive = _additive.AdditiveClassifier if model.labels else _additive.AdditiveRegressor
        return additive(interactions=pairs or "none", **facts)
    return _classifiers.LogisticRegression(**facts) if model.labels else _regressors.LinearRegression(**facts)


__all__ = ["load"]
