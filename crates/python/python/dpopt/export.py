"""Fitted models for other tools: scikit-learn objects, ONNX, safetensors. All of it is post-processing."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ._reading import kind


def _fitted(estimator: Any) -> None:
    if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise TypeError(f"estimator is {kind(estimator)}; give a fitted estimator")
    check_is_fitted(estimator)
    if getattr(estimator, "_table", None) is not None:
        raise ValueError(
            "this model reads a table with named columns, which its own file describes: estimator.save(path); for another format, fit "
            "the rows of a TableEncoder"
        )


def to_sklearn(estimator: Any) -> Any:
    """A plain scikit-learn estimator with the same coefficients and the same decisions.

    >>> import numpy as np, dpopt
    >>> from dpopt.export import to_sklearn
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2)); y = X[:, 0] > 0
    >>> model = dpopt.LogisticRegression(epsilon=5.0, bounds=(-1, 1), classes=[False, True], shift=0).fit(X, y)
    >>> bool((to_sklearn(model).predict(X) == model.predict(X)).all())
    True
    """
    _fitted(estimator)
    if is_classifier(estimator):
        loss = estimator._fitted_loss
        if loss["name"] in ("logistic", "softmax"):
            plain: Any = linear_model.LogisticRegression()
            if loss.get("shift", 0) != 0:
                warnings.warn(
                    "the model was fitted with a shifted logistic loss: decisions are the same, but scikit-learn's "
                    "probabilities use the plain logistic link; fit with shift=0 for equal probabilities",
                    UserWarning,
                    stacklevel=2,
                )
        else:
            plain = svm.LinearSVC()
        plain.classes_ = estimator.classes_.copy()
        plain.coef_ = np.atleast_2d(estimator.coef_).copy()
        plain.intercept_ = np.atleast_1d(estimator.intercept_).copy()
        plain.n_iter_ = np.array([0])
    else:
        plain = linear_model.LinearRegression()
        plain.coef_, plain.intercept_ = estimator.coef_.copy(), float(estimator.intercept_)
    plain.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        plain.feature_names_in_ = estimator.feature_names_in_
    return plain


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
    """An ONNX model (needs the `onnx` package): input ``X`` (rows × features, float64).

    Classifiers give ``label`` and, where they have them, ``probabilities``; regressors give ``y``. The guarantee is
    written into the model's metadata.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    _fitted(estimator)
    d = estimator.n_features_in_
    coef = np.atleast_2d(estimator.coef_).astype(np.float64)
    intercept = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    constants = {"coef": np.ascontiguousarray(coef.T), "intercept": intercept}
    nodes = [
        helper.make_node("MatMul", ["X", "coef"], ["product"]),
        helper.make_node("Add", ["product", "intercept"], ["scores"]),
    ]
    rows = "rows"
    if is_classifier(estimator):
        classes = estimator.classes_
        loss = estimator._fitted_loss
        if len(classes) == 2:
            constants["zero"] = np.array(0.0)
            nodes += [
                helper.make_node("Greater", ["scores", "zero"], ["positive"]),
                helper.make_node("Cast", ["positive"], ["index2"], to=TensorProto.INT64),
                helper.make_node("Squeeze", ["index2", "axis1"], ["index"]),
            ]
            constants["axis1"] = np.array([1], dtype=np.int64)
        else:
            nodes.append(helper.make_node("ArgMax", ["scores"], ["index"], axis=1, keepdims=0))
        text = classes.dtype.kind not in "iub"
        listed = np.array([str(c) for c in classes], dtype=object) if text else classes.astype(np.int64)
        constants["classes"] = listed
        nodes.append(helper.make_node("Gather", ["classes", "index"], ["label"]))
        kind = TensorProto.STRING if text else TensorProto.INT64
        outputs = [helper.make_tensor_value_info("label", kind, [rows])]
        if loss["name"] == "softmax":
            nodes.append(helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1))
        elif loss["name"] == "logistic":
            # σ(m+s)/(σ(m+s)+σ(m−s)) = σ(softplus(s−m) − softplus(−s−m)), with softplus(x) = −ln σ(−x)
            constants["shift"], constants["one"] = np.array(float(loss.get("shift", 0.0))), np.array(1.0)
            nodes += [
                helper.make_node("Sub", ["shift", "scores"], ["down"]),
                helper.make_node("Add", ["shift", "scores"], ["up"]),
                helper.make_node("Sigmoid", ["down"], ["sigma_down"]),
                helper.make_node("Sigmoid", ["up"], ["sigma_up"]),
                helper.make_node("Add", ["sigma_up", "sigma_down"], ["both"]),
                helper.make_node("Div", ["sigma_up", "both"], ["second"]),
                helper.make_node("Sub", ["one", "second"], ["first"]),
                helper.make_node("Concat", ["first", "second"], ["probabilities"], axis=1),
            ]
        if loss["name"] in ("softmax", "logistic"):
            outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, [rows, len(classes)]))
    else:
        constants["axis1"] = np.array([1], dtype=np.int64)
        nodes.append(helper.make_node("Squeeze", ["scores", "axis1"], ["y"]))
        outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [rows])]
    initializers = [numpy_helper.from_array(np.asarray(v), name=k) for k, v in constants.items()]
    graph = helper.make_graph(
        nodes, "dpopt", [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [rows, d])], outputs, initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="dpopt")
    model.ir_version = min(model.ir_version, 10)
    helper.set_model_props(model, _metadata(estimator))
    onnx.checker.check_model(model)
    if path is not None:
        Path(path).write_bytes(model.SerializeToString())
    return model


__all__ = ["to_onnx", "to_safetensors", "to_sklearn"]
