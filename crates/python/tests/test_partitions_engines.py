"""What engines do near the records, without an engine: nothing that is raised or shown there has a value in it."""

import sys
import types

import dpopt
import dpopt.dask
import dpopt.ray
import numpy as np
import pytest
from dpopt.partitions import Failure, PartitionFailed, Persons, Recipe, each_without_values, without_values

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

PERSONS = Persons.called("person")
RECIPE = Recipe(dpopt.LogisticRegression(classes=[0, 1], bounds=(-1, 1)), 1, False, PERSONS)


class Panic(BaseException):
    """What compiled code raises where it has a fault."""


def raising(kind):
    raise kind("secret")


def coming(kind):
    yield 1
    raise kind("secret")


@pytest.mark.parametrize("kind", [ValueError, Panic, StopIteration])
def test_what_is_raised_near_the_records_has_no_value(kind):
    for call in (
        lambda: without_values(raising, kind),
        lambda: list(each_without_values(coming(kind))),
    ):
        with pytest.raises(PartitionFailed, match="a worker could not answer") as raised:
            call()
        assert "secret" not in str(raised.value)
        assert raised.value.__cause__ is None and raised.value.__context__ is None
    assert next(each_without_values(coming(kind))) == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interruptions_are_no_failures_of_a_part(kind):
    with pytest.raises(kind):
        without_values(raising, kind)
    with pytest.raises(kind):
        list(each_without_values(coming(kind)))


def test_the_error_of_a_partition_is_passed_on():
    def failing():
        yield 2
        raise PartitionFailed("partition 3 was not there")

    with pytest.raises(PartitionFailed, match="^partition 3 was not there$"):
        list(each_without_values(failing()))
    assert list(each_without_values(iter([1, 2]))) == [1, 2]


def test_rows_of_dask_are_brought_together_whatever_their_types_are():
    # text among numbers, two types of ids, a column that is called as ours are
    ids = np.array([f"p{i % 7}" for i in range(40)], dtype=object)
    label = np.array([0, "1"] * 20, dtype=object)
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 40), "place": label, "person": ids})
    sent = dpopt.dask._placed(frame, PERSONS, 3)
    assert list(sent.columns) == ["place", "rows"] and sent["place"].dtype == np.int64
    assert all(type(rows) is str for rows in sent["rows"]) and len(sent) <= 3
    blocks = [
        dpopt.dask._of_texts(sent[sent["place"] == place], frame[:0], ["a"], "place", "person") for place in range(3)
    ]
    assert sum(len(block.X) for block in blocks) == 40 and "p1" not in repr(blocks)
    for i, block in enumerate(blocks):
        assert not any(set(block.ids) & set(other.ids) for other in blocks[:i])
        assert all(type(y) in (int, str) for y in block.y)
    nobody = dpopt.dask._of_texts(sent[:0], frame[:0], ["a"], "place", "person")
    assert dpopt.dask._made(RECIPE, nobody, 0).records == 0


def test_a_failure_of_a_block_of_dask_is_a_fixed_sentence_to_the_end():
    frame = pd.DataFrame({"a": [0.5, 0.25], "y": [0, 1], "person": [("secret", 1), ("secret", 2)]})
    sent = dpopt.dask._placed(frame, PERSONS, 2)
    found = dpopt.dask._of_texts(sent, frame[:0], ["a"], "y", "person")
    assert isinstance(found, Failure) and "neither text nor numbers" in found.why and "secret" not in found.why
    assert dpopt.dask._made(RECIPE, found, 0) is found
    assert isinstance(dpopt.dask._of_a_frame(frame, ["secret"], "y", None), Failure)


class Client:
    """Runs what is submitted here, and keeps what was shown of it."""

    def __init__(self, fails=False):
        self.shown, self.fails = [], fails

    def submit(self, call, *given, pure):
        self.shown += [repr(call), *map(repr, given)]
        return call(*given)

    def gather(self, found):
        if self.fails:
            raise ValueError("secret")
        self.shown += map(repr, found)
        return found


def test_dask_shows_no_query_and_no_value_of_what_it_raises():
    frame = pd.DataFrame({"a": [0.5, 0.25], "y": [0, 1], "person": ["p", "q"]})
    client = Client()
    parts = dpopt.dask.DaskPartitions([dpopt.dask._split(frame, ["a"], "y", "person")], 1, None, client, units=PERSONS)
    recipe = dpopt.partitions.Recipe(RECIPE.estimator, 1, False, PERSONS)
    assert parts.load_partitions(recipe)[0][0] == 2
    client.shown = []
    query = bytes(dpopt.partitions._core.empty_query())
    assert len(parts.ask_partitions(query)) == 1
    assert "<query>" in client.shown and not any(repr(query)[2:-1] in shown for shown in client.shown[:-1])
    client.fails = True
    for ask in (lambda: parts.ask_partitions(query), lambda: parts.load_partitions(recipe)):
        with pytest.raises(PartitionFailed, match=r"Dask could not compute a partition \(ValueError\)") as raised:
            ask()
        assert "secret" not in str(raised.value) and raised.value.__context__ is None


def test_a_column_of_ray_that_is_called_as_ours_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))

    class Dataset:
        def columns(self):
            return ["a", dpopt.ray.PLACE, "person"]

    with pytest.raises(ValueError, match="a column is called 'dpopt place'.*rename it"):
        dpopt.ray.partitions(Dataset(), target="a", units="person")


def test_ids_of_ray_are_read_without_a_value_in_what_is_raised():
    block = pa.table({"a": [0.5, 0.25], "person": [["secret"], ["other"]]})
    with pytest.raises(PartitionFailed, match="neither text nor numbers") as raised:
        without_values(dpopt.ray._placed, block, PERSONS, 4)
    assert raised.value.__context__ is None
    placed = dpopt.ray._placed(pa.table({"a": [0.5, 0.25], "person": ["p", "p"]}), PERSONS, 4)
    assert len(set(placed.column(dpopt.ray.PLACE).to_pylist())) == 1
