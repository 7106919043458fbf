"""A real engine: processes of Dask on this machine. `make test-engines` runs all engines with every method."""

import logging
import os
import signal

import dask.array as da
import dask.dataframe as dd
import dpopt
import dpopt.dask
import numpy as np
import pandas as pd
import pytest
from dpopt.partitions import Here
from sklearn.base import clone

pytestmark = pytest.mark.filterwarnings("ignore")

N = 1500
RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (N, 4))
CLASSES = np.argmax(X[:, :3], axis=1)
PERSONS = RNG.integers(0, 200, N)
COMMON = {"epsilon": 1.0, "delta": 1e-6, "bounds": (-1, 1), "encoding": None, "insecure_seed": 1}
DESCENT = dpopt.LogisticRegression(classes=[0, 1, 2], method=dpopt.methods.NoisyGradientDescent(steps=5), **COMMON)
SOLVED = dpopt.LogisticRegression(classes=[0, 1, 2], method="output-perturbation", **COMMON)
CUTS = {1: [N], 2: [700, N], 7: [1, 300, 300, 900, 1000, N - 1, N]}


@pytest.fixture(scope="module")
def client():
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    client = Client(n_workers=2, threads_per_worker=1, dashboard_address=None)
    yield client
    client.close(timeout=30)


def blocks(cuts):
    return [(X[a:b], CLASSES[a:b]) for a, b in zip([0, *cuts[:-1]], cuts)]


def parts(client, cuts):
    """Each block made by a task of its own."""
    from dask import delayed

    def array(some):
        return da.concatenate([da.from_delayed(delayed(block), block.shape, block.dtype) for block in some])

    rows, targets = zip(*blocks(cuts))
    return dpopt.dask.partitions(array(rows), array(targets), client=client)


def same(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


@pytest.mark.parametrize("count", CUTS)
def test_a_model_is_the_same_bits_in_processes_of_dask(client, count):
    found = clone(DESCENT).fit(parts(client, CUTS[count]))
    assert same(found, clone(DESCENT).fit(X, CLASSES)) and np.abs(found.coef_).sum() > 0
    if count == 7:
        # 32 passes
        assert same(clone(SOLVED).fit(parts(client, CUTS[count])), clone(SOLVED).fit(Here(blocks([N]))))


def test_persons_and_quantiles_of_a_data_frame(client):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=CLASSES, person=PERSONS)
    there = dd.from_pandas(frame, npartitions=3)
    units = dpopt.dask.partitions(there, features=list("abcd"), target="kind", units="person", client=client)
    assert same(clone(DESCENT).fit(units), clone(DESCENT).fit(X, CLASSES, units={"person": PERSONS}))
    options = {"levels": [0.1, 0.5, 0.9], "epsilon": 1.0, "insecure_seed": 1}
    column = dpopt.dask.partitions(there, features=["a"], client=client)
    found = dpopt.mechanisms.quantiles(column, **options).value
    assert np.array_equal(found, dpopt.mechanisms.quantiles(X[:, :1], **options).value)


def test_a_worker_that_is_killed_between_passes_changes_nothing(client):
    there = parts(client, CUTS[7])
    asked, killed = there.ask_partitions, []

    def asking(message):
        if len(there.seconds) == 2 and not killed:
            worker = next(iter(client.scheduler_info()["workers"]))
            killed.append(client.run(os.getpid, workers=[worker])[worker])
            os.kill(killed[0], signal.SIGKILL)
        return asked(message)

    there.ask_partitions = asking
    assert same(clone(DESCENT).fit(there), clone(DESCENT).fit(X, CLASSES))
    assert killed
