"""The filter of dpopt.nvflare inside NVFlare: what its filters get and give, and a job with two clients in NVFlare's simulator.

Ends with `passed N of N`; any other end is a failure.

    python nvflare_filter.py
"""

import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from dpopt import BudgetExceeded, Ledger, PrivacyWarning
from dpopt.federated import PrivateUpdates
from dpopt.nvflare import PrivateUpdateFilter
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.event_type import EventType
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply

TERMS = {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "rounds": 3}
SENT = {"first": np.zeros((2, 3), dtype=np.float32), "second": np.ones(4), "batches": np.array(5)}
CANARY = "c4n4ry-Zoe"


def context(client="site-1", task="train"):
    made = FLContext()
    made.set_prop(ReservedKey.IDENTITY_NAME, client, private=False, sticky=False)
    made.set_prop(FLContextKey.TASK_NAME, task, private=True, sticky=False)
    return made


def asked(screen, sent=SENT, client="site-1", task="train"):
    """As NVFlare's client does: the task comes, and is gone when filters are asked."""
    where = context(client, task)
    content = DXO(DataKind.WEIGHTS, data={name: array.copy() for name, array in sent.items()}).to_shareable()
    content.set_header("current_round", 2)
    where.set_prop(FLContextKey.TASK_DATA, content, private=True, sticky=False)
    screen.handle_event(EventType.BEFORE_TASK_EXECUTION, where)
    for array in from_shareable(content).data.values():
        # executors train in place
        array += 1
    where.set_prop(FLContextKey.TASK_DATA, None, private=True, sticky=False)
    return where


def result(data, kind=DataKind.WEIGHTS, **meta):
    made = DXO(kind, data=data, meta=meta).to_shareable()
    made.set_header("note", CANARY)
    made[CANARY] = 917
    return made


def plus(amount):
    return {name: array + amount for name, array in SENT.items()}


ODD = {
    "weights": lambda: result(plus(100.0), NUM_STEPS_CURRENT_ROUND=917, loss=0.917),
    "differences": lambda: result({name: np.full(array.shape, 100.0) for name, array in SENT.items()}, DataKind.WEIGHT_DIFF),
    "a return code": lambda: make_reply(ReturnCode.EXECUTION_EXCEPTION),
    "metrics": lambda: result({CANARY: 0.917}, DataKind.METRICS),
    "no DXO": lambda: Shareable({CANARY: 917}),
    "nothing": lambda: None,
    "other names": lambda: result({CANARY: np.zeros(3)}),
    "other shapes": lambda: result({**SENT, "second": np.zeros(917)}),
    "not finite": lambda: result({**SENT, "second": np.full(4, np.nan)}),
    "text": lambda: result({**SENT, "second": np.array([CANARY] * 4)}),
}  # fmt: skip


def passes_the_same_form(directory):
    for kind in (DataKind.WEIGHT_DIFF, DataKind.WEIGHTS):
        for name, made in ODD.items():
            screen = PrivateUpdateFilter(
                **TERMS, session=f"{directory}/{kind.value}-{name.replace(' ', '-')}-{{client}}", data_kind=kind, meta={"NUM_STEPS_CURRENT_ROUND": 1}
            )  # fmt: skip
            assert isinstance(screen, DXOFilter)
            got = screen.process(made(), asked(screen))
            dxo, headers = from_shareable(got), got["__headers__"]
            assert got.get_return_code() == ReturnCode.OK and dxo.data_kind == kind
            assert dxo.meta == {"NUM_STEPS_CURRENT_ROUND": 1} and set(headers) == {"__content_type__", "current_round"}
            assert set(got) == {"__headers__", "DXO"}
            assert {n: (a.shape, a.dtype) for n, a in dxo.data.items()} == {
                n: (a.shape, a.dtype) for n, a in SENT.items()
            }
            std = screen.updates("site-1").noise_multiplier
            away = dxo.data["second"] - (SENT["second"] if kind == DataKind.WEIGHTS else 0)
            # of an update of norm 316: the clip, and noise at eight standard deviations
            assert np.abs(away).max() < 1 + 8 * std, name
            assert CANARY not in str(got) and "917" not in str({**dxo.meta, **headers})
    return 2 * len(ODD)


class Seeded(PrivateUpdateFilter):
    """A filter whose objects all draw equal noise, from one insecure seed."""

    def updates(self, client, charged=True):
        given = {"clip_norm": self.clip_norm, "epsilon": self.epsilon, "delta": self.delta, "rounds": self.rounds}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            return PrivateUpdates(**given, insecure_seed=1)


def clips_and_adds_the_noise(directory):
    sent, drawn = {"w": np.zeros(20_000)}, []
    for i, size in enumerate([0.0, 50.0]):
        screen = Seeded(**{**TERMS, "clip_norm": 100.0}, session=f"{directory}/law-{i}")
        update = result({"w": np.full(20_000, size)})
        drawn.append(from_shareable(screen.process(update, asked(screen, sent))).data["w"])
    std, (noise, noisy) = 100.0 * screen.updates("").noise_multiplier, drawn
    # six standard errors of a variance of 20 000 numbers
    assert abs(np.mean(noise**2) / std**2 - 1) < 6 * np.sqrt(2 / 20_000)
    # without the noise the update is left, clipped to norm 100, to the grid
    assert np.linalg.norm(noisy - noise - 100.0 / np.sqrt(20_000)) < 0.1
    return 2


def counts_rounds_and_blocks(directory):
    path = Path(directory) / "ledger"
    ledger = Ledger(8.0, 1e-4, relation="replace-one", unit="client", path=path)
    for _ in range(3):
        # a new filter each time, as a restarted client has
        screen = PrivateUpdateFilter(**TERMS, session=f"{directory}/counted-{{client}}", ledger=str(path))
        screen.process(result(plus(0.1)), asked(screen))
    screen = PrivateUpdateFilter(**TERMS, session=f"{directory}/counted-{{client}}", ledger=str(path))
    refused = []
    for attempt in (
        lambda: screen.process(result(plus(0.1)), asked(screen)),
        lambda: screen.process(result(plus(0.1)), asked(screen, client="site-2")),
        lambda: screen.process(result({"accuracy": 0.9}, DataKind.METRICS), asked(screen, task="validate")),
        lambda: screen.process(result(plus(0.1)), context()),
    ):
        try:
            attempt()
        except (BudgetExceeded, ContentBlockedException) as why:
            refused.append(type(why).__name__)
    assert refused == ["BudgetExceeded", "BudgetExceeded", "ContentBlockedException", "ContentBlockedException"], (
        refused
    )
    assert len(ledger.entries) == 1
    return 4


def runs_in_the_simulator(directory):
    from nvflare.app_common.np.np_trainer import NPTrainer
    from nvflare.app_common.workflows.fedavg import FedAvg
    from nvflare.job_config.api import FedJob
    from nvflare.job_config.defs import FilterType

    rounds = Path(directory) / "simulated"
    rounds.mkdir()
    job = FedJob(name="protected")
    job.to_server(FedAvg(num_clients=2, num_rounds=3, model={"numpy_key": np.zeros((3, 3)).tolist()}, persistor_id="", save_filename="model"))  # fmt: skip
    for site in ("site-1", "site-2"):
        job.to(NPTrainer(delta=100), site, tasks=["train"])
        job.to(
            PrivateUpdateFilter(**TERMS, session=f"{rounds}/{{client}}"), site, tasks=["train"], filter_type=FilterType.TASK_RESULT
        )  # fmt: skip
    job.simulator_run(str(Path(directory) / "workspace"), threads=2)
    sessions = [rounds / "site-1", rounds / "site-2"]
    beside = [path.with_name(f"{path.name}.mark") for path in sessions]
    assert set(rounds.iterdir()) == {*sessions, *beside}, list(rounds.iterdir())
    for path in sessions:
        header, marks = path.read_bytes().split(b"\n", 1)
        assert len(marks) == 3 and json.loads(header)["plan"]["dimension"] == 9
    return 2


def main():
    logging.disable(logging.WARNING)
    passed = 0
    with tempfile.TemporaryDirectory() as directory:
        for check in (passes_the_same_form, clips_and_adds_the_noise, counts_rounds_and_blocks, runs_in_the_simulator):
            found = check(directory)
            print(f"{check.__name__.replace('_', ' ')}: {found}", flush=True)
            passed += found
    print(f"passed {passed} of {2 * len(ODD) + 8}")


if __name__ == "__main__":
    sys.exit(main())
