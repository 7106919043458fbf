"""Records in Spark: partitions of a data frame, encoded once and kept by Spark itself.

    model = SparkLogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], featuresCol="features", labelCol="label").fit(frame)
    model.transform(frame).select("prediction")
    parts = dpopt.spark.parts(frame, target="income")        # for any other estimator: LinearSVC(...).fit(parts)

The first pass encodes every partition where it lies (``mapInArrow``, so it works under Spark Connect too) and persists the result as a
data frame of bytes, in memory and on the executors' disks if that is short; every further pass sends a question along and collects one
sum for each partition. Lost executors, retries and speculative tasks are Spark's business: a partition's sum counts once. A pass costs one
job, so methods with few passes are the quick ones. Partial sums and encoded partitions are as sensitive as the records:
``spark.network.crypto.enabled`` and ``spark.io.encryption.enabled`` encrypt them on the way and on disk. Executors need the same version
of dpopt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import vector_to_array
from pyspark.sql import functions as F
from pyspark.sql import types as T

from . import _core
from ._classifiers import LogisticRegression
from ._regressors import LinearRegression
from .parts import PartFailed, Parts, Recipe

#: Rows of a partition that are encoded as one: what becomes one value of a data frame stays far below 2 GiB.
MOST_NUMBERS = 1 << 22


class SparkParts(Parts):
    """Partitions of a data frame; :func:`parts` makes them."""

    def __init__(self, frame: Any, n_features: int, names: Sequence[str] | None) -> None:
        super().__init__(n_features, names)
        #: Two columns: an array of features, the target.
        self._frame = frame
        self._encoded: Any = None
        self._numbers: dict[tuple[int, int], int] = {}

    def load_parts(self, recipe: Recipe) -> list[tuple[int, int]]:
        most = max(1, MOST_NUMBERS // max(self.n_features, 1))

        def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from _encoded(batches, recipe, most)

        self._encoded = self._frame.mapInArrow(
            encode, "partition int, chunk int, records long, digest string, part binary"
        ).persist()
        found = self._encoded.select("partition", "chunk", "records", "digest").collect()
        known = {(row["partition"], row["chunk"]): (row["records"], int(row["digest"])) for row in found}
        self._numbers = {place: number for number, place in enumerate(sorted(known))}
        return [known[place] for place in sorted(known)]

    def ask_parts(self, message: bytes) -> list[bytes]:
        numbers = self._numbers

        def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from _answered(batches, numbers, message)

        return [bytes(row["answer"]) for row in self._encoded.mapInArrow(answer, "answer binary").collect()]

    def drop_parts(self) -> None:
        if self._encoded is not None:
            self._encoded.unpersist()
        self._encoded = None


def _encoded(batches: Iterable[pa.RecordBatch], recipe: Recipe, most: int) -> Iterator[pa.RecordBatch]:
    """The parts of one partition, at least one, of at most `most` rows each and a batch."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    waiting = chunk = 0
    for batch in batches:
        rows.append(_numbers_of(batch, recipe.n_features))
        waiting += batch.num_rows
        if waiting >= most:
            yield _one(rows, recipe, partition, chunk)
            rows, waiting, chunk = [], 0, chunk + 1
    if rows or chunk == 0:
        yield _one(rows, recipe, partition, chunk)


def _numbers_of(batch: pa.RecordBatch, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a batch; what is missing is not a number."""
    features, target = batch.column(0), batch.column(1)
    # a row of another length contributes nothing: that there is one is not told
    fits = pc.equal(features.value_lengths(), width).fill_null(False)
    X = np.full((batch.num_rows, width), np.nan)
    here = features.filter(fits).flatten().to_numpy(zero_copy_only=False)
    X[fits.to_numpy(zero_copy_only=False)] = here.reshape(-1, width)
    target = pc.if_else(pc.or_(fits, features.is_null()), target, pa.scalar(None, target.type))
    return X, target.to_numpy(zero_copy_only=False)


def _one(rows: list[tuple[np.ndarray, np.ndarray]], recipe: Recipe, partition: int, chunk: int) -> pa.RecordBatch:
    if rows:
        X, y = np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows])
    else:
        X, y = np.zeros((0, recipe.n_features)), np.zeros(0)
    part = recipe(X, y, partition)
    records, digest = part.known
    # a digest has 64 bits without a sign
    kept = [[partition], [chunk], [records], [str(digest)], [part.to_bytes()]]
    types = [pa.int32(), pa.int32(), pa.int64(), pa.string(), pa.binary()]
    names = ["partition", "chunk", "records", "digest", "part"]
    return pa.RecordBatch.from_arrays([pa.array(k, t) for k, t in zip(kept, types)], names)


def _answered(
    batches: Iterable[pa.RecordBatch], numbers: dict[tuple[int, int], int], message: bytes
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for partition, chunk, _, _, part in zip(*batch.columns):
            place = (partition.as_py(), chunk.as_py())
            if place not in numbers:
                raise PartFailed(f"partition {place[0]} was not there when the fit began; cache the data frame")
            answer = _core.Shard.from_bytes(part.as_py(), numbers[place]).answer(message, True)
            yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], ["answer"])


def _named(column: str) -> Any:
    """A column by its whole name, dots and all."""
    return F.col("`" + column.replace("`", "``") + "`")


def _array(frame: Any, column: str) -> Any:
    """A column of vectors or arrays, as one of arrays of numbers."""
    kind = frame.schema[column].dataType
    if isinstance(kind, T.ArrayType):
        return _named(column).try_cast("array<double>")
    if isinstance(kind, T.UserDefinedType):
        return vector_to_array(_named(column))
    raise ValueError(
        f"column {column!r} holds {kind.simpleString()}; give a column of vectors or arrays, or several of numbers"
    )


def _column(frame: Any, name: str) -> None:
    if name not in frame.columns:
        raise ValueError(f"there is no column {name!r} in the data frame; it has {', '.join(frame.columns)}")


def parts(
    frame: Any, *, target: str, features: str | Sequence[str] | None = None, n_features: int | None = None
) -> SparkParts:
    """The partitions of a Spark data frame as parts of records.

    Args:
        frame: the data frame. Cache what is slow or random to compute: a partition that changes ends the fit.
        target: the column that is predicted.
        features: one column of vectors or arrays, or several of numbers; by default all but the target.
        n_features: entries of a vector; by default what VectorAssembler wrote down of the column.

    Raises:
        ValueError: if there is no such column, or it holds something else.
    """
    _column(frame, target)
    if isinstance(features, str):
        _column(frame, features)
        x = _array(frame, features)
        if n_features is None:
            # never from a row, which may be an odd one
            n_features = frame.schema[features].metadata.get("ml_attr", {}).get("num_attrs")
        if n_features is None:
            raise ValueError(
                f"how long the vectors in {features!r} are is not written down with the column; say n_features"
            )
        return SparkParts(frame.select(x.alias("x"), _named(target).alias("y")), n_features, None)
    names = [name for name in frame.columns if name != target] if features is None else list(features)
    for name in names:
        _column(frame, name)
    x = F.array(*[_named(name).try_cast("double") for name in names])
    return SparkParts(frame.select(x.alias("x"), _named(target).alias("y")), len(names), names)


class _SparkEstimator(Estimator):
    """What estimators in the manner of ``pyspark.ml`` share.

    Args:
        featuresCol: a column of vectors or arrays, or a list of columns of numbers.
        labelCol: what is predicted.
        predictionCol: where predictions go.
        n_features: entries of a vector, where the column does not say.
        said: everything that the estimator of the same name takes.
    """

    _made: Any

    def __init__(
        self,
        *,
        featuresCol: Any = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        n_features: int | None = None,
        **said: Any,
    ) -> None:
        super().__init__()
        self.featuresCol, self.labelCol, self.predictionCol = featuresCol, labelCol, predictionCol
        self.n_features = n_features
        #: What is fitted; its parameters are those of scikit-learn's convention.
        self.estimator = self._made(**said)

    def _fit(self, dataset: Any) -> SparkModel:
        model = self.estimator.fit(
            parts(dataset, target=self.labelCol, features=self.featuresCol, n_features=self.n_features)
        )
        return SparkModel(model, self.featuresCol, self.predictionCol)


class SparkLogisticRegression(_SparkEstimator):
    """:class:`dpopt.LogisticRegression` of the rows of a Spark data frame."""

    _made = LogisticRegression


class SparkLinearRegression(_SparkEstimator):
    """:class:`dpopt.LinearRegression` of the rows of a Spark data frame."""

    _made = LinearRegression


class SparkModel(Model):
    """A released model, which predicts where the rows lie.

    Attributes:
        model: the fitted estimator, with ``coef_``, ``privacy_``, ``plan_`` and ``report``.
    """

    def __init__(self, model: Any, featuresCol: Any, predictionCol: str) -> None:
        super().__init__()
        self.model, self.featuresCol, self.predictionCol = model, featuresCol, predictionCol

    def _transform(self, dataset: Any) -> Any:
        # what travels is the released model, without a ledger
        from sklearn.base import clone

        scorer = clone(self.model).set_params(budget=None)
        for name, value in vars(self.model).items():
            if name in ("coef_", "intercept_", "classes_", "_range", "n_features_in_", "_fitted_loss"):
                setattr(scorer, name, value)
        classes = getattr(self.model, "classes_", None)
        kind = "double" if classes is None or classes.dtype.kind in "iufb" else "string"

        def predicted(batches: Iterable[Any]) -> Iterator[Any]:
            import pandas as pd

            for rows in batches:
                X = (
                    np.stack([np.asarray(row, dtype=np.float64) for row in rows])
                    if len(rows)
                    else np.zeros((0, scorer.n_features_in_))
                )
                found = scorer.predict(X) if len(rows) else np.zeros(0)
                yield pd.Series(found.astype(np.float64) if kind == "double" else found.astype(str))

        if isinstance(self.featuresCol, str):
            x = _array(dataset, self.featuresCol)
        else:
            x = F.array(*[_named(name).try_cast("double") for name in self.featuresCol])
        predict = F.pandas_udf(predicted, returnType=kind, functionType=F.PandasUDFType.SCALAR_ITER)
        return dataset.withColumn(self.predictionCol, predict(x))


__all__ = ["PartFailed", "SparkLinearRegression", "SparkLogisticRegression", "SparkModel", "SparkParts", "parts"]
