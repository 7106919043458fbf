"""The encoder of a table by names as ONNX operators: what docs/model-file.md says of its features, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

#: A column of more levels is one of them and not centred.
_MOST_CENTRED = 4
#: Linear B-splines of a number with which predictions move one way.
_TREND_KNOTS = 125


class Graph:
    """Nodes and constants of an ONNX graph as it grows; every value has a name of its own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def put(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Adds an operator on names or constants; the name of what it gives."""
        from onnx import helper

        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [out], domain=domain, **attributes))
        return out

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name


def _refused(column: str, what: str) -> ValueError:
    return ValueError(
        f"column {column!r} is {what}, for which ONNX has no operators; save the model by estimator.save(path), which "
        "`dpopt predict` and dpopt.load read, or leave the column out of the fit"
    )


def check(model: dict[str, Any]) -> None:
    """Refuses a model that ONNX cannot hold, before anything is made."""
    if model.get("embedding") is not None:
        raise ValueError("this model has an embedding of its features; save it by estimator.save(path)")
    for feature in model["encoder"]["features"]:
        (form,) = feature["as"]
        if form == "hashed":
            raise _refused(feature["column"], "hashed")
        if form == "text":
            raise _refused(feature["column"], "a text")
        if form == "sparse":
            raise _refused(feature["column"], "a vector")


def encoded(graph: Graph, spec: dict[str, Any], missing: list[str], matrix: bool) -> tuple[str, list[Any]]:
    """The features of a table as the name of a rows × features value, and the inputs that it needs; `missing`: what stands for no level, unless it is declared;
    of a `matrix` an infinite number is its bound, of a table it is missing."""
    from onnx import TensorProto, helper

    centred, pairs = spec.get("centred", False), spec.get("pairs")
    splines = [knots for knots in (spec["knots"], spec.get("fine_knots", 0)) if knots > 0]
    share = pairs["share"] if pairs else 0.0
    scale = spec["row_norm"] * np.sqrt((1.0 - share) / (1 + len(spec["features"])))
    inputs, blocks, factors = [], [], []
    for feature in spec["features"]:
        column, ((form, given),) = feature["column"], feature["as"].items()
        kind = TensorProto.DOUBLE if form == "numeric" else TensorProto.STRING
        inputs.append(helper.make_tensor_value_info(column, kind, ["rows", 1]))
        if form == "numeric":
            block, factor = _number(
                graph, column, (given, matrix), splines, centred, scale, pairs["knots"] if pairs else 0
            )
        else:
            block, factor = _level(graph, column, (given["levels"], missing), centred, scale)
        blocks.append(block)
        factors.append(factor)
    # a column of ones, of as many rows as there are
    one = graph.put("Mul", graph.put("ReduceSum", blocks[0], np.array([1]), keepdims=1), np.array(0.0))
    blocks.insert(0, graph.put("Add", one, np.array(scale)))
    if pairs:
        each = spec["row_norm"] * np.sqrt(share / len(pairs["columns"]))
        weights = np.array(pairs.get("weights") or np.ones(len(pairs["columns"])))
        for (first, second), weight in zip(pairs["columns"], weights / weights.sum() * len(weights)):
            left = graph.put("Unsqueeze", factors[first], np.array([2]))
            right = graph.put("Unsqueeze", factors[second], np.array([1]))
            product = graph.put("Flatten", graph.put("Mul", left, right), axis=1)
            blocks.append(graph.put("Mul", product, np.array(each * np.sqrt(weight))))
    features = graph.put("Concat", *blocks, axis=1)
    square = graph.put("ReduceSum", graph.put("Mul", features, features), np.array([1]), keepdims=1)
    norm = graph.put("Sqrt", square)
    # rows that are scaled have the norm exactly, others at most
    longest = (
        norm if centred and not spec.get("additive") else graph.put("Max", norm, np.array(float(spec["row_norm"])))
    )
    return graph.put("Mul", features, graph.put("Div", np.array(float(spec["row_norm"])), longest)), inputs


def _splines(graph: Graph, unit: str, knots: int) -> str:
    """max(0, 1 − |(knots − 1)·unit − k|) for each knot k."""
    at = graph.put("Mul", unit, np.array(knots - 1.0))
    away = graph.put("Abs", graph.put("Sub", at, np.arange(knots, dtype=np.float64).reshape(1, -1)))
    return graph.put("Relu", graph.put("Sub", np.array(1.0), away))


def _number(
    graph: Graph,
    column: str,
    said: tuple[dict[str, Any], bool],
    splines: list[int],
    centred: bool,
    scale: float,
    pair_knots: int,
) -> tuple[str, str | None]:
    (given, matrix), double = said, _double()
    lower, upper = float(given["lower"]), float(given["upper"])
    unreadable = graph.put("IsNaN", column)
    if not matrix:
        unreadable = graph.put("Or", unreadable, graph.put("IsInf", column))
    absent = graph.put("Cast", unreadable, to=double)
    value = graph.put("Where", unreadable, np.array(lower), column)
    value = graph.put("Min", graph.put("Max", value, np.array(lower)), np.array(upper))
    if given["log"]:
        low, high = np.log1p(lower), np.log1p(upper)
        value = graph.put("Log", graph.put("Add", value, np.array(1.0)))
    else:
        low, high = lower, upper
    unit = graph.put("Div", graph.put("Sub", value, np.array(low)), np.array(high - low))
    unit = graph.put("Min", graph.put("Max", unit, np.array(0.0)), np.array(1.0))
    if given.get("spread"):
        # Σ of each piece's slope times how much of the piece lies below
        points = np.array(given["spread"], dtype=np.float64)
        widths, slopes = np.diff(points[:, 0]), np.diff(points[:, 1]) / np.diff(points[:, 0])
        into = graph.put("Sub", unit, points[:-1, 0].reshape(1, -1))
        into = graph.put("Min", graph.put("Relu", into), widths.reshape(1, -1))
        unit = graph.put("MatMul", into, slopes.reshape(-1, 1))
    unit = graph.put("Where", unreadable, np.array(0.5), unit)
    if centred:
        parts = [graph.put("Sub", graph.put("Mul", unit, np.array(2.0)), np.array(1.0))]
    else:
        parts = [graph.put("Sub", np.array(1.0), unit), unit]
    if given.get("monotone"):
        there = graph.put("Sub", np.array(1.0), absent)
        block = graph.put("Concat", graph.put("Mul", _splines(graph, unit, _TREND_KNOTS), there), absent, axis=1)
        # rounded down to four binary digits
        digits, power = np.frexp(0.99 * scale)
        return graph.put("Mul", block, np.array(np.ldexp(np.floor(16 * digits) / 16, power))), None
    parts += [_splines(graph, unit, knots) for knots in splines]
    block = graph.put("Concat", *parts, absent, axis=1)
    if splines or not centred:
        square = graph.put("ReduceSum", graph.put("Mul", block, block), np.array([1]), keepdims=1)
        block = graph.put("Div", graph.put("Mul", block, np.array(scale)), graph.put("Sqrt", square))
    else:
        block = graph.put("Mul", block, np.array(scale))
    if not pair_knots:
        return block, None
    factor = _splines(graph, unit, pair_knots)
    square = graph.put("ReduceSum", graph.put("Mul", factor, factor), np.array([1]), keepdims=1)
    there = graph.put("Sub", np.array(1.0), absent)
    return block, graph.put("Mul", graph.put("Div", factor, graph.put("Sqrt", square)), there)


def _level(
    graph: Graph, column: str, texts: tuple[list[str], list[str]], centred: bool, scale: float
) -> tuple[str, str]:
    levels, missing = texts
    count = len(levels)
    slots = {text: count + 1 for text in missing} | {level.strip(): at for at, level in enumerate(levels)}
    slot = graph.put(
        "LabelEncoder", column, domain="ai.onnx.ml", keys_strings=list(slots), values_int64s=list(slots.values()),
        default_int64=count,
    )  # fmt: skip
    rows = np.eye(count + 2)
    features = scale * rows
    if centred and 2 <= count <= _MOST_CENTRED:
        features[:count, :count] = scale * (np.eye(count) - 1.0 / count) / np.sqrt(1.0 - 1.0 / count)
    at = graph.put("Squeeze", slot, np.array([1]))
    # in products a missing level is nothing
    factor = np.vstack([np.eye(count + 1), np.zeros((1, count + 1))])
    return graph.put("Gather", features, at, axis=0), graph.put("Gather", factor, at, axis=0)


def _double() -> int:
    from onnx import TensorProto

    return int(TensorProto.DOUBLE)


__all__ = ["Graph", "check", "encoded"]
