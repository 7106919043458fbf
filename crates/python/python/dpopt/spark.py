"""Records in Spark: partitions of a data frame, encoded once and kept by Spark itself.

    model = SparkLogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], featuresCol="features", labelCol="label").fit(frame)
    model.transform(frame).select("prediction")
    parts = dpopt.spark.partitions(frame, target="income")        # for any other estimator: LinearSVC(...).fit(parts)

The first pass encodes every partition where it lies (``mapInArrow``, so it works under Spark Connect too) and persists the result as a
data frame of bytes, in memory and on the executors' disks if that is short; every further pass sends a query along and collects one
sum for each partition. Lost executors, retries and speculative tasks are Spark's business: a partition's sum counts once. A pass costs one
job, so methods with few passes are the quick ones. Partial sums, queries and encoded partitions are as sensitive as the records:
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
from ._mean import MeanEstimator
from ._regressors import LinearRegression
from .partitions import PartitionFailed, Partitions, Persons, Recipe, each_without_values

#: Rows of a partition that are encoded as one: what becomes one value of a data frame stays far below 2 GiB.
MAX_NUMBERS = 1 << 22
#: Places that units are divided among: so many that nearly each has one of its own.
PLACES = 1 << 62


class SparkPartitions(Partitions):
    """Partitions of a data frame; :func:`parts` makes them."""

    def __init__(
        self,
        frame: Any,
        n_features: int,
        names: Sequence[str] | None,
        *,
        units: Persons | None = None,
        targets: bool = True,
        table: Any = None,
        target: str | None = None,
    ) -> None:
        like = None if table is None else _arrow_like(table, names or [])
        super().__init__(n_features, names, units=units, targets=targets, like=like, target=target)
        #: The same with the features as they are, called x0, x1, …; None where they are vectors.
        self._table = table
        #: An array of features (x), the target (y), whose the row is (id), and which rows stand together (place).
        self._frame = frame
        self._encoded: Any = None
        self._numbers: dict[tuple[int, int], int] = {}

    def load_partitions(self, recipe: Recipe) -> list[tuple[int, int, int, bytes]]:
        most, like = max(1, MAX_NUMBERS // max(self.n_features, 1)), self.like
        frame = self._table if recipe.raw else self._frame

        def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from each_without_values(_encoded(batches, recipe, most, like))

        schema = "partition int, chunk int, records long, digest string, rows long, marks binary, part binary"
        self._encoded = frame.mapInArrow(encode, schema).persist()
        found = self._encoded.select("partition", "chunk", "records", "digest", "rows", "marks").collect()
        known = {
            (row["partition"], row["chunk"]): (row["records"], int(row["digest"]), row["rows"], bytes(row["marks"]))
            for row in found
        }
        self._numbers = {place: number for number, place in enumerate(sorted(known))}
        return [known[place] for place in sorted(known)]

    def ask_partitions(self, message: bytes) -> list[bytes]:
        numbers = self._numbers

        def answer(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from each_without_values(_answered(batches, numbers, message))

        asked = self._encoded.select("partition", "chunk", "part")
        return [bytes(row["answer"]) for row in asked.mapInArrow(answer, "answer binary").collect()]

    def drop_partitions(self) -> None:
        if self._encoded is not None:
            self._encoded.unpersist()
        self._encoded = None


def _encoded(
    batches: Iterable[pa.RecordBatch], recipe: Recipe, most: int, like: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """The parts of one partition, at least one, each a batch of about `most` rows. Rows of one place stay together."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    waiting: list[pa.RecordBatch] = []
    rows = chunk = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= most:
            whole = pa.Table.from_batches(waiting)
            end = _end(whole)
            if end:
                yield _one(whole.slice(0, end), recipe, partition, chunk, like)
                rows, chunk = rows - end, chunk + 1
            waiting = whole.slice(end).to_batches()
    if rows or chunk == 0:
        yield _one(pa.Table.from_batches(waiting) if waiting else None, recipe, partition, chunk, like)


def _end(table: pa.Table) -> int:
    """Where the rows end whose places are complete: all of them, or those before the last place."""
    if "place" not in table.column_names:
        return int(table.num_rows)
    places = table.column("place").to_numpy()
    return int(np.searchsorted(places, places[-1]))


def _whole(column: Any) -> pa.Array:
    """A column in one piece."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _numbers_of(table: pa.Table, width: int) -> tuple[np.ndarray, Any]:
    """Rows and targets; what is missing is not a number."""
    features = _whole(table.column("x"))
    # a row of another length contributes nothing: that there is one is not told
    fits = pc.equal(features.value_lengths(), width).fill_null(False)
    X = np.full((table.num_rows, width), np.nan)
    here = features.filter(fits).flatten().to_numpy(zero_copy_only=False)
    X[fits.to_numpy(zero_copy_only=False)] = here.reshape(-1, width)
    if "y" not in table.column_names:
        return X, None
    target = _whole(table.column("y"))
    target = pc.if_else(pc.or_(fits, features.is_null()), target, pa.scalar(None, target.type))
    return X, target.to_numpy(zero_copy_only=False)


def _one(table: pa.Table | None, recipe: Recipe, partition: int, chunk: int, like: pa.Table | None) -> pa.RecordBatch:
    X: Any
    ids: Any = None
    if recipe.raw and like is not None:
        X, y = like, pa.array([], pa.float64())
        if table is not None:
            X = table.select([f"x{j}" for j in range(like.num_columns)]).rename_columns(like.column_names)
            y = table.column("y")
    elif table is None:
        X, y = np.zeros((0, recipe.n_features)), np.zeros(0)
        ids = [] if recipe.units is not None else None
    else:
        X, y = _numbers_of(table, recipe.n_features)
        ids = table.column("id") if recipe.units is not None else None
    part = recipe(X, y, partition, ids)
    records, digest, rows, marks = part.known
    # a digest has 64 bits without a sign
    kept = [[partition], [chunk], [records], [str(digest)], [rows], [marks], [part.to_bytes()]]
    types = [pa.int32(), pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.binary(), pa.binary()]
    names = ["partition", "chunk", "records", "digest", "rows", "marks", "part"]
    return pa.RecordBatch.from_arrays([pa.array(k, t) for k, t in zip(kept, types)], names)


def _answered(
    batches: Iterable[pa.RecordBatch], numbers: dict[tuple[int, int], int], message: bytes
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for partition, chunk, part in zip(*batch.columns):
            place = (partition.as_py(), chunk.as_py())
            if place not in numbers:
                raise PartitionFailed(f"partition {place[0]} did not exist when the fit began; cache the data frame")
            # read where Arrow has it
            encoded = np.frombuffer(part.as_buffer(), np.uint8)
            answer = _core.Shard.from_bytes(encoded, numbers[place]).answer(message, True)
            yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], ["answer"])


def _placed(batches: Iterable[pa.RecordBatch], persons: Persons) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        places = pa.array(persons.places(batch.column("id"), PLACES), pa.int64())
        yield pa.RecordBatch.from_arrays([*batch.columns, places], [*batch.schema.names, "place"])


def _brought_together(frame: Any, persons: Persons, partitions: int | None) -> Any:
    """The frame with all rows of a unit in one partition, next to each other."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from each_without_values(_placed(batches, persons))

    schema = T.StructType([*frame.schema.fields, T.StructField("place", T.LongType())])
    count = _partitions(frame) if partitions is None else partitions
    return frame.mapInArrow(place, schema).repartition(count, "place").sortWithinPartitions("place")


def _partitions(frame: Any) -> int:
    """How many partitions a frame has. A shuffle would make two hundred of any, each of which costs its time at every pass."""
    try:
        return max(int(frame.rdd.getNumPartitions()), 1)
    except Exception:
        # Spark Connect has no such thing: those that have rows are counted
        ids = frame.select(F.spark_partition_id().alias("id")).agg(F.countDistinct("id"))
        return max(int(ids.first()[0]), 1)


def _arrow_like(table: Any, names: Sequence[str]) -> pa.Table | None:
    """A table without rows that has these names and the types of the first columns; None where Arrow has no such types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        schema = to_arrow_schema(T.StructType(list(table.schema.fields[: len(names)])))
    except Exception:
        return None
    return schema.empty_table().rename_columns(list(names))


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


def _arrays(frame: Any, columns: Any) -> Any:
    """A column of vectors or arrays, or several of numbers, as one of arrays."""
    if isinstance(columns, str):
        return _array(frame, columns)
    return F.array(*[_named(name).try_cast("double") for name in columns])


def _column(frame: Any, name: str) -> None:
    if name not in frame.columns:
        raise ValueError(f"there is no column {name!r} in the data frame; it has {', '.join(frame.columns)}")


def partitions(
    frame: Any,
    *,
    target: str | None = None,
    features: str | Sequence[str] | None = None,
    n_features: int | None = None,
    units: str | None = None,
    partitions: int | None = None,
) -> SparkPartitions:
    """The partitions of a Spark data frame as parts of records.

    Parameters
    ----------
    frame
        The data frame. Cache what is slow or random to compute: a partition that changes ends the fit.
    target
        The column that is predicted; None where nothing is.
    features
        One column of vectors or arrays, or several of numbers; by default all but the target and the unit.
    n_features
        Entries of a vector; by default what VectorAssembler wrote down of the column.
    units
        The column whose values are persons, where one may have several rows: the rows of each are brought into one partition (a shuffle).
    partitions
        How many there are after that; by default as many as before.

    Raises
    ------
    ValueError
        If there is no such column, or it holds something else.
    """
    others = [name for name in (target, units) if name is not None]
    for name in others:
        _column(frame, name)
    names = None
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
    else:
        names = [name for name in frame.columns if name not in others] if features is None else list(features)
        for name in names:
            _column(frame, name)
        x = _arrays(frame, names)
        n_features = len(names)
    y = [] if target is None else [_named(target).alias("y")]
    persons = None if units is None else Persons.called(units)
    if units is not None and persons is not None:
        whose = frame.select(x.alias("x"), *y, _named(units).alias("id"))
        made, table = _brought_together(whose, persons, partitions), None
    else:
        made, table = frame.select(x.alias("x"), *y), None
        if names is not None:
            table = frame.select(*[_named(name).alias(f"x{j}") for j, name in enumerate(names)], *y)
    return SparkPartitions(
        made, n_features, names, units=persons, targets=target is not None, table=table, target=target
    )


class _SparkEstimator(Estimator):
    """What estimators in the manner of ``pyspark.ml`` share.

    Parameters
    ----------
    featuresCol
        A column of vectors or arrays, or a list of columns of numbers.
    labelCol
        What is predicted.
    predictionCol
        Where predictions go.
    unitCol
        The column whose values are persons, where one may have several rows.
    n_features
        Entries of a vector, where the column does not say.
    said
        Everything that the estimator of the same name takes.
    """

    _made: Any

    def __init__(
        self,
        *,
        featuresCol: Any = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        unitCol: str | None = None,
        n_features: int | None = None,
        **said: Any,
    ) -> None:
        super().__init__()
        self.featuresCol, self.labelCol, self.predictionCol = featuresCol, labelCol, predictionCol
        self.unitCol, self.n_features = unitCol, n_features
        #: What is fitted; its parameters are those of scikit-learn's convention.
        self.estimator = self._made(**said)

    def _fit(self, dataset: Any) -> SparkModel:
        made = partitions(
            dataset, target=self.labelCol, features=self.featuresCol, n_features=self.n_features, units=self.unitCol
        )
        return SparkModel(self.estimator.fit(made), self.featuresCol, self.predictionCol)


def fit(frame: Any, estimator: Any, *, target: str, features: Sequence[str] | None = None, **said: Any) -> Any:
    """Fits `estimator` to a data frame whose columns it declares by name, or which holds numbers; `said` is what :func:`parts` takes.

    model = dpopt.spark.fit(frame, dpopt.LogisticRegression(bounds={"age": (18, 80)}, columns=dpopt.Columns(levels={"sex": ["f", "m"]}), classes=["no", "yes"]), target="member")
    """
    return estimator.fit(partitions(frame, target=target, features=features, **said))


class SparkLogisticRegression(_SparkEstimator):
    """:class:`dpopt.LogisticRegression` of the rows of a Spark data frame."""

    _made = LogisticRegression


class SparkLinearRegression(_SparkEstimator):
    """:class:`dpopt.LinearRegression` of the rows of a Spark data frame."""

    _made = LinearRegression


class SparkMean(Estimator):
    """:class:`dpopt.MeanEstimator` of the rows of a Spark data frame.

    Parameters
    ----------
    inputCol
        A column of vectors or arrays, or a list of columns of numbers.
    outputCol
        Where the fitted model puts rows less the mean.
    unitCol
        The column whose values are persons, where one may have several rows.
    n_features
        Entries of a vector, where the column does not say.
    said
        Everything that the estimator of the same name takes.
    """

    def __init__(
        self,
        *,
        inputCol: Any = "features",
        outputCol: str = "centred",
        unitCol: str | None = None,
        n_features: int | None = None,
        **said: Any,
    ) -> None:
        super().__init__()
        self.inputCol, self.outputCol, self.unitCol, self.n_features = inputCol, outputCol, unitCol, n_features
        #: The estimator that is fitted.
        self.estimator = MeanEstimator(**said)

    def _fit(self, dataset: Any) -> SparkMeanModel:
        made = partitions(dataset, features=self.inputCol, n_features=self.n_features, units=self.unitCol)
        return SparkMeanModel(self.estimator.fit(made), self.inputCol, self.outputCol)


class SparkMeanModel(Model):
    """A released mean as a Spark model.

    Attributes
    ----------
    model
        The fitted estimator, with ``mean_``, ``noise_std_``, ``privacy_`` and ``plan_``.
    """

    def __init__(self, model: MeanEstimator, inputCol: Any, outputCol: str) -> None:
        super().__init__()
        self.model, self.inputCol, self.outputCol = model, inputCol, outputCol

    def _transform(self, dataset: Any) -> Any:
        mean = F.array(*[F.lit(float(value)) for value in self.model.mean_])
        return dataset.withColumn(self.outputCol, F.zip_with(_arrays(dataset, self.inputCol), mean, lambda x, m: x - m))


class SparkModel(Model):
    """A released model, which predicts where the rows lie.

    Attributes
    ----------
    model
        The fitted estimator, with ``coef_``, ``privacy_``, ``plan_`` and ``report``.
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

        x = _arrays(dataset, self.featuresCol)
        predict = F.pandas_udf(predicted, returnType=kind, functionType=F.PandasUDFType.SCALAR_ITER)
        return dataset.withColumn(self.predictionCol, predict(x))


__all__ = [
    "PartitionFailed",
    "SparkLinearRegression",
    "SparkLogisticRegression",
    "SparkMean",
    "SparkMeanModel",
    "SparkModel",
    "SparkPartitions",
    "fit",
    "partitions",
]
