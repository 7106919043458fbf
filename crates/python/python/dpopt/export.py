"""Fitted models for other tools: scikit-learn objects, ONNX, safetensors. All of it is post-processing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from . import _onnx_encoder
from ._bounded_moments import BoundedColumns
from ._probabilities import probabilities_of
from ._reading import kind
from ._regressors import PoissonRegressor, QuantileRegressor


def _checked(estimator: Any) -> None:
    if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise TypeError(f"estimator is {kind(estimator)}; give a fitted estimator")
    if isinstance(estimator, BoundedColumns):
        raise ValueError(
            f"{type(estimator).__name__} is not written in other formats, which linear and embedding models are; pickle it, or take its attributes"
        )
    check_is_fitted(estimator)


def _fitted(estimator: Any) -> None:
    _checked(estimator)
    if getattr(estimator, "_table", None) is not None:
        raise ValueError(
            "the columns of this model are encoded, which its own file describes: estimator.save(path); to_onnx writes it with its encoder. "
            "For another format fit a matrix with encoding=None, or the rows of a TableEncoder"
        )


def to_sklearn(estimator: Any) -> Any:
    """A plain scikit-learn estimator with the same coefficients and the same decisions.

    Its probabilities are the model's own, or it has none: scikit-learn's logistic regression knows the plain logistic function only, so that a model whose loss
    has a ``shift`` becomes a ``LinearSVC``, which has scores and decisions.

    >>> import numpy as np, dpopt
    >>> from dpopt.export import to_sklearn
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2)); y = X[:, 0] > 0
    >>> facts = {"bounds": (-1, 1), "classes": [False, True], "encoding": None}
    >>> model = dpopt.LogisticRegression(epsilon=5.0, **facts, method=dpopt.methods.Auto(shift=0)).fit(X, y)
    >>> bool(np.allclose(to_sklearn(model).predict_proba(X), model.predict_proba(X)))
    True
    """
    _fitted(estimator)
    if is_classifier(estimator):
        plain: Any = linear_model.LogisticRegression() if _has_the_plain_link(estimator) else svm.LinearSVC()
        plain.classes_ = estimator.classes_.copy()
        plain.coef_ = np.atleast_2d(estimator.coef_).copy()
        plain.intercept_ = np.atleast_1d(estimator.intercept_).copy()
        plain.n_iter_ = np.array([0])
    else:
        plain = linear_model.LinearRegression()
        if isinstance(estimator, QuantileRegressor):
            plain = linear_model.QuantileRegressor(quantile=float(estimator.quantile), alpha=0.0)
        elif _counts(estimator):
            plain = linear_model.PoissonRegressor(alpha=0.0)
            plain._base_loss = plain._get_loss()
        plain.coef_, plain.intercept_ = estimator.coef_.copy(), float(estimator.intercept_)
    plain.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        plain.feature_names_in_ = estimator.feature_names_in_
    return plain


def _counts(estimator: Any) -> bool:
    """Whether expected counts are predicted: the exponential of scores, and no more than the largest count."""
    return isinstance(estimator, PoissonRegressor)


def _has_the_plain_link(estimator: Any) -> bool:
    """Whether the model's probabilities are the logistic or softmax function of its scores: asked of the model, at scores that tell every other map apart."""
    if not hasattr(estimator, "predict_proba"):
        return False
    scores = np.array([-30.0, -3.0, -0.5, 0.0, 0.1, 1.0, 2.0, 8.0])
    if len(estimator.classes_) > 2:
        scores = np.stack([np.roll(scores, k) for k in range(len(estimator.classes_))], axis=1)
        plain = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    else:
        second = 1.0 / (1.0 + np.exp(-scores))
        plain = np.column_stack([1.0 - second, second])
    return bool(np.allclose(probabilities_of(estimator, scores), plain, rtol=1e-9, atol=1e-12))


def _metadata(estimator: Any) -> dict[str, str]:
    privacy = estimator.privacy_
    return {
        "software": "dpopt",
        "estimator": type(estimator).__name__,
        "epsilon": repr(privacy.epsilon),
        "delta": repr(privacy.delta),
        "relation": privacy.relation,
        "insecure_seed": str(privacy.insecure_seed).lower(),
        "event": privacy.event.to_json(),
    }


def to_safetensors(estimator: Any, path: str | Path) -> None:
    """Writes coefficients and intercept with the guarantee as metadata."""
    from safetensors.numpy import save_file

    _fitted(estimator)
    tensors = {
        "coef": np.atleast_2d(estimator.coef_).astype(np.float64),
        "intercept": np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)),
    }
    metadata = _metadata(estimator)
    if is_classifier(estimator):
        metadata["classes"] = json.dumps(estimator.classes_.tolist())
        metadata["loss"] = json.dumps(estimator._fitted_loss)
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, str(path), metadata=metadata)


def to_onnx(estimator: Any, path: str | Path | None = None) -> Any:
    """An ONNX model (needs the `onnx` package): input ``X`` (rows × features, float64), or where columns are encoded one input for each of them.

    Classifiers give ``label`` and, where they have them, ``probabilities``; regressors give ``y``. The guarantee is written into the model's metadata.

    A model of encoded columns has its encoder inside. Each column is an input of its own name (``x0``, ``x1``, … of a matrix) and of shape rows × 1: a number as float64 (NaN: missing), a level as a
    string, spelled as it was declared (missing: empty, or what stands for it in a file). Hashed columns, texts and vectors are refused: ONNX has no operators for them.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    _checked(estimator)
    graph = _onnx_encoder.Graph()
    table = getattr(estimator, "_table", None)
    if table is None:
        inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", estimator.n_features_in_])]
        coef = np.atleast_2d(estimator.coef_).astype(np.float64)
        product = graph.put("MatMul", "X", np.ascontiguousarray(coef.T))
        scores = graph.put("Add", product, np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64)))
    else:
        model = json.loads(table.model.to_json())
        _onnx_encoder.check(model)
        matrix = table.positions is not None
        encoded, inputs = _onnx_encoder.encoded(graph, model["encoder"], table.model.missing_texts(), matrix)
        target = model["encoder"]["target"]["as"]
        weights = table.model.weights()
        if is_classifier(estimator):
            # the file has classes as they were declared, `classes_` has them sorted
            weights = table.order.sign * weights if len(weights) == 1 else weights[table.order.places]
        scores = graph.put("MatMul", encoded, np.ascontiguousarray(weights.T))
        if "number" in target and _counts(estimator):
            # a score of 0 is the usual count
            usual = target["number"]["upper"] / model["loss"]["top"]
            scores = graph.put("Add", scores, np.array(float(np.log(usual))))
        elif "number" in target:
            # outside of the declared range no target can be
            lower, upper = target["number"]["lower"], target["number"]["upper"]
            unit = graph.put("Min", graph.put("Max", scores, np.array(-1.0)), np.array(1.0))
            half = graph.put("Mul", graph.put("Add", unit, np.array(1.0)), np.array(0.5 * (upper - lower)))
            scores = graph.put("Add", half, np.array(float(lower)))
    if is_classifier(estimator):
        outputs = _decided(graph, scores, estimator)
    else:
        if _counts(estimator):
            scores = graph.put("Min", graph.put("Exp", scores), np.array(float(estimator.target_range_[1])))
        graph.nodes.append(helper.make_node("Squeeze", [scores, graph.constant(np.array([1]))], ["y"]))
        outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["rows"])]
    initializers = [numpy_helper.from_array(value, name=name) for name, value in graph.constants.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_graph(graph.nodes, "dpopt", inputs, outputs, initializers)
    written = helper.make_model(made, opset_imports=opsets, producer_name="dpopt")
    written.ir_version = min(written.ir_version, 10)
    helper.set_model_props(written, _metadata(estimator))
    onnx.checker.check_model(written)
    if path is not None:
        Path(path).write_bytes(written.SerializeToString())
    return written


def _decided(graph: _onnx_encoder.Graph, scores: str, estimator: Any) -> list[Any]:
    """The label and, where the model has them, the probabilities of scores."""
    from onnx import TensorProto, helper

    classes, loss = estimator.classes_, estimator._fitted_loss
    if len(classes) == 2:
        positive = graph.put("Cast", graph.put("Greater", scores, np.array(0.0)), to=TensorProto.INT64)
        index = graph.put("Squeeze", positive, np.array([1]))
    else:
        index = graph.put("ArgMax", scores, axis=1, keepdims=0)
    text = classes.dtype.kind not in "iub"
    listed = np.array([str(c) for c in classes], dtype=object) if text else classes.astype(np.int64)
    graph.nodes.append(helper.make_node("Gather", [graph.constant(listed), index], ["label"]))
    kind = TensorProto.STRING if text else TensorProto.INT64
    outputs = [helper.make_tensor_value_info("label", kind, ["rows"])]
    if not hasattr(estimator, "predict_proba"):
        return outputs
    if len(classes) > 2:
        graph.nodes.append(helper.make_node("Softmax", [scores], ["probabilities"], axis=1))
    elif loss["name"] == "logistic":
        # σ(m+s)/(σ(m+s)+σ(m−s))
        shift, one = np.array(float(loss.get("shift", 0.0))), np.array(1.0)
        down = graph.put("Sigmoid", graph.put("Sub", shift, scores))
        up = graph.put("Sigmoid", graph.put("Add", shift, scores))
        second = graph.put("Div", up, graph.put("Add", up, down))
        first = graph.put("Sub", one, second)
        graph.nodes.append(helper.make_node("Concat", [first, second], ["probabilities"], axis=1))
    else:
        return outputs
    outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, ["rows", len(classes)]))
    return outputs


__all__ = ["to_onnx", "to_safetensors", "to_sklearn"]
