"""Events, bounds and calibration: exact numbers, JSON, and agreement with dp_accounting."""

import dataclasses
import importlib.util
import json
import math
import pickle
from pathlib import Path

import dpopt
import numpy as np
import pytest
from dpopt import accounting as acc


def test_known_numbers():
    assert float(acc.epsilon(acc.GaussianDpEvent(3.730631634816), 1e-5)) == pytest.approx(1.0, abs=2e-6)
    assert acc.epsilon(acc.LaplaceDpEvent(2.0), 0.0) == pytest.approx(0.5, abs=1e-9)
    dp_sgd = acc.SelfComposedDpEvent(acc.PoissonSampledDpEvent(0.01, acc.GaussianDpEvent(1.5627)), 1000)
    bound = acc.epsilon(dp_sgd, 1e-6)
    assert 0.9995 < bound <= 1.0 and bound.accountant == "pld"
    assert bound.lower is None or bound.lower <= bound


def test_replace_one_costs_twice_the_sensitivity():
    one = acc.epsilon(acc.GaussianDpEvent(2.0), 1e-6, relation="replace-one")
    assert float(one) == pytest.approx(float(acc.epsilon(acc.GaussianDpEvent(1.0), 1e-6)), rel=1e-9)


def test_bounds_survive_pickling_and_know_their_origin():
    bound = pickle.loads(pickle.dumps(acc.epsilon("gaussian(2)", 1e-6)))
    assert bound.accountant == "gdp" and bound.details["upper"] == float(bound)


def test_classes_are_made_from_the_entries_of_the_library():
    spec = importlib.util.spec_from_file_location("events", Path(__file__).parents[1] / "events.py")
    events = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(events)
    assert events.TARGET.read_text(encoding="utf-8") == events.text(), "run `make options`"


def example_of(name):
    """An event of the class with that name."""
    values = {
        "noise_parameter": 0.5, "num_buckets": 4, "noise_multiplier": 1.5, "sensitivity": 2, "count": 3,
        "event": acc.GaussianDpEvent(1.0), "events": [acc.GaussianDpEvent(1.0), acc.LaplaceDpEvent(2.0)],
        "blocks": [acc.GaussianDpEvent(1.0)], "sampling_probability": 0.1, "source_dataset_size": 100, "sample_size": 10,
        "step_counts": [4, 8], "mean": 3.0, "shape": 1.0, "standard_deviation": 1.0, "sensitivities": [0.0, 1.0],
        "sampling_probs": [0.5, 0.5], "rho": 0.1, "xi": 0.0, "dataset_size": 100, "truncated_batch_size": 10, "num_selected": 1, "num_steps": 10,
        "epsilon": 1.0, "delta": 1e-6, "mu": 0.5, "orders": [2.0, 4.0], "divergences": [0.1, 0.2],
        "epsilons": [0.1, 1.0], "deltas": [0.1, 1e-6], "degrees_of_freedom": 5, "records_per_user": 2,
        "sigma": 2.0, "dimension": 3, "total_variation": 1e-20, "regularization": 2.0, "link": "monotone", "probability": 0.25,
    }  # fmt: skip
    cls = getattr(acc, name)
    return cls(**{f.name: values[f.name] for f in dataclasses.fields(cls) if f.name in values})


@pytest.mark.parametrize("name", sorted(n for n in acc.__all__ if n.endswith("DpEvent") and n != "DpEvent"))
def test_every_event_class_is_one_of_the_library(name):
    event = example_of(name)
    again = acc.from_json(event.to_json())
    assert again == event and hash(again) == hash(event)
    assert str(event)


def test_bad_events_say_what_is_wrong():
    with pytest.raises(ValueError, match="unknown event class"):
        acc.from_dict({"class_name": "GausianDpEvent"})
    with pytest.raises(ValueError, match="sigma"):
        acc.from_dict({"class_name": "GaussianDpEvent", "sigma": 1.0})
    with pytest.raises(ValueError):
        acc.epsilon(acc.GaussianDpEvent(float("nan")), 1e-6)
    assert acc.epsilon(acc.NonPrivateDpEvent(), 1e-6) == math.inf
    with pytest.raises(dpopt.PrivacyError):
        acc.certify(acc.NonPrivateDpEvent(), 1.0, 1e-6)
    with pytest.raises(TypeError):
        acc.epsilon(3.0, 1e-6)
    with pytest.raises(ValueError, match="relation"):
        acc.epsilon("gaussian(1)", 1e-6, relation="neighbours")
    with pytest.raises(ValueError, match="accountant"):
        acc.epsilon("gaussian(1)", 1e-6, accountant="moments")


def test_calibration_meets_the_budget_and_not_less():
    found = acc.calibrate(lambda z: acc.GaussianDpEvent(z), 1.0, 1e-5)
    assert 3.7306 <= found.value < 3.7308 and found.bound <= 1.0
    steps = acc.calibrate(
        lambda t: acc.SelfComposedDpEvent(acc.PoissonSampledDpEvent(0.01, acc.GaussianDpEvent(1.5627)), t),
        1.0,
        1e-6,
        what="steps",
    )
    assert isinstance(steps.value, int) and 1000 <= steps.value < 1004


def test_integer_noise_and_choices():
    # 50-digit value of one sum with sigma 1
    one = acc.epsilon(acc.DiscreteGaussianDpEvent(1.0, dimension=1), 1e-6)
    assert float(one) == pytest.approx(4.499590982194307, rel=1e-9) and one.accountant == "pld"
    assert acc.epsilon(acc.DiscreteGaussianDpEvent(1.0), 1e-6) == one
    assert acc.from_dict({"class_name": "DiscreteGaussianDpEvent", "sigma": 1.0, "dimension": None}).dimension is None
    choices = acc.SelfComposedDpEvent(acc.PermuteAndFlipDpEvent(0.25), 8)
    noise = acc.SelfComposedDpEvent(acc.LaplaceDpEvent(4.0), 8)
    # one law; 0.25 and 1/4.0 may round differently on the way
    assert float(acc.epsilon(choices, 1e-6)) == pytest.approx(float(acc.epsilon(noise, 1e-6)), rel=1e-12)
    assert acc.epsilon(choices, 1e-6) < 2.0
    assert float(acc.epsilon(acc.EpsilonDeltaDpEvent(0.5, 1e-7), 1e-6)) <= 0.5
    with pytest.raises(dpopt.PrivacyError):
        acc.epsilon(acc.EpsilonDeltaDpEvent(0.5, 1e-5), 1e-6)
    found = acc.calibrate(lambda e: acc.PermuteAndFlipDpEvent(e), 0.7, 1e-6, what="cost")
    assert 0.7 <= found.value < 0.70001
    rate = acc.calibrate(
        lambda q: acc.SelfComposedDpEvent(acc.PoissonSampledDpEvent(q, acc.GaussianDpEvent(1.5627)), 1000),
        1.0, 1e-6, what="sampling_probability",
    )  # fmt: skip
    assert 0.00999 < rate.value < 0.01001


def test_an_exception_in_the_event_function_comes_through():
    with pytest.raises(ZeroDivisionError):
        acc.calibrate(lambda z: 1 / 0, 1.0, 1e-5)


def test_certify_refuses_what_costs_too_much():
    with pytest.raises(dpopt.BudgetExceeded):
        acc.certify("gaussian(1)", 1.0, 1e-5)


def test_dp_accounting_events_are_understood_and_the_numbers_agree():
    peer = pytest.importorskip("dp_accounting")
    event = peer.SelfComposedDpEvent(peer.PoissonSampledDpEvent(0.02, peer.GaussianDpEvent(1.2)), 500)
    ours = acc.as_event(event)
    assert ours.to_dp_accounting() == event
    accountant = peer.pld.PLDAccountant(peer.NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(event)
    theirs = accountant.get_epsilon(1e-6)
    bound = acc.epsilon(event, 1e-6, relation=peer.NeighboringRelation.REPLACE_SPECIAL)
    # theirs is an upper bound too, on a coarser grid
    assert bound == pytest.approx(theirs, rel=2e-3)
    composed = peer.ComposedDpEvent([peer.LaplaceDpEvent(2.0), peer.NoOpDpEvent()])
    assert acc.as_event(composed) == acc.ComposedDpEvent([acc.LaplaceDpEvent(2.0), acc.NoOpDpEvent()])


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_events_of_fits_cost_the_same_in_dp_accounting():
    peer = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    X = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    y, box = (X[:, 0] > 0).astype(int), {"epsilon": 1.0, "delta": 1e-5, "bounds": (-1, 1)}
    plain = {**box, "encoding": None}
    fits = [
        *(dpopt.LogisticRegression(classes=[0, 1], method=method, **plain).fit(X, y)
          for method in ("noisy-gradient-descent", "noisy-sgd", "dp-ftrl", "output-perturbation", "released-preconditioner")),
        dpopt.LinearRegression(target_bounds=(-1, 1), **plain).fit(X, X[:, 0]),
        dpopt.MeanEstimator(**box).fit(X),
    ]  # fmt: skip
    for fit in fits:
        promised, event = fit.privacy_, fit.privacy_.event
        theirs = pld.PLDAccountant(peer.NeighboringRelation.REPLACE_SPECIAL).compose(event.to_dp_accounting())
        # theirs is an upper bound of the exact laws, and the samplers' part is far below δ
        assert 0.95 * promised.epsilon <= theirs.get_epsilon(promised.delta - event.samplers_delta(1.0)) <= 1.05
        assert 0 < event.samplers_delta(1.0) < 1e-20
        assert acc.from_json(event.to_json()) == event
    steps = fits[1].privacy_.event.to_opacus_history()
    # the training, and the three sums of its calibration
    assert len(steps) == 2 and steps[0][2] > 1 and steps[1][1:] == (1.0, 3)
    # no event bounds it, and the message names it and not what is around it
    perturbed = dpopt.LogisticRegression(classes=[0, 1], method="objective-perturbation", **plain).fit(X, y)
    for give in (perturbed.privacy_.event.to_dp_accounting, perturbed.privacy_.event.to_opacus_history):
        with pytest.raises(ValueError, match="ObjectivePerturbationDpEvent"):
            give()


def test_what_dp_accounting_has_not_goes_as_a_bound_or_is_refused():
    peer = pytest.importorskip("dp_accounting")
    from dp_accounting import pld

    relation = peer.NeighboringRelation.REPLACE_SPECIAL
    for event in [
        acc.PureStreamDpEvent(0.7), acc.ExponentialMechanismDpEvent(0.7), acc.PermuteAndFlipDpEvent(0.7), acc.GdpDpEvent(0.5),
        acc.EpsilonDeltaDpEvent(0.7, 0.0), acc.GatedDpEvent(0.3, acc.GaussianDpEvent(2.0)),
        acc.ParallelDpEvent([acc.GaussianDpEvent(2.0)] * 3),
        acc.SelfComposedDpEvent(acc.ExponentialMechanismDpEvent(0.1), 20),
    ]:  # fmt: skip
        theirs = pld.PLDAccountant(relation).compose(event.to_dp_accounting()).get_epsilon(1e-6)
        assert theirs >= float(acc.epsilon(event, 1e-6)) * (1 - 1e-6), event
    # tight where the event is: both are randomised response, and the same Gaussian
    tight = pld.PLDAccountant(relation).compose(acc.PureStreamDpEvent(0.7).to_dp_accounting())
    assert tight.get_epsilon(1e-9) == pytest.approx(0.7, rel=1e-3)
    for event in [
        acc.RdpDpEvent([2.0], [0.1]),
        acc.ParallelDpEvent([acc.GaussianDpEvent(2.0), acc.GaussianDpEvent(3.0)]),
    ]:
        with pytest.raises(ValueError, match=type(event).__name__):
            event.to_dp_accounting()
    # samplers that could matter are not left out unasked, and are added up
    far = acc.SelfComposedDpEvent(acc.ApproximateDpEvent(1e-12, acc.GaussianDpEvent(2.0)), 5)
    assert far.total_sampler_error() == pytest.approx(5e-12) and far.samplers_delta(0.0) == pytest.approx(1e-11)
    with pytest.raises(ValueError, match="apart=True"):
        far.to_dp_accounting()
    assert far.to_dp_accounting(apart=True).count == 5


def test_ledger_adds_up_exactly_and_refuses():
    ledger = dpopt.Ledger(1.0, 1e-6)
    for _ in range(10):
        ledger.charge("tenth", acc.ApproxDpDpEvent(0.1, 1e-7), epsilon=0.1, delta=1e-7)
        if ledger.remaining[0] < 0.1:
            break
    assert sum(e.epsilon for e in ledger.entries) <= 1.0 + 1e-12
    with pytest.raises(dpopt.BudgetExceeded, match="left of the ledger"):
        ledger.charge("more", "laplace(1.01)", epsilon=1.0, delta=0.0)
    with pytest.raises(dpopt.BudgetExceeded):
        dpopt.Ledger(10.0).charge("understated", "laplace(1)", epsilon=0.5, delta=0.0)
    with pytest.raises(ValueError, match="relation"):
        ledger.charge("other", "laplace(9)", epsilon=0.2, delta=0.0, relation="replace-one")


def test_ledger_is_one_object():
    import copy

    from sklearn.base import clone

    ledger = dpopt.Ledger(1.0)
    assert copy.deepcopy(ledger) is ledger and clone(ledger) is ledger
    assert clone(dpopt.LogisticRegression(budget=ledger)).budget is ledger
    with pytest.raises(TypeError, match="spend the same budget again"):
        pickle.dumps(ledger)
    ledger.charge("a", "laplace(2.01)", epsilon=0.5, delta=0.0)
    again = dpopt.Ledger.from_json(ledger.to_json())
    assert again.remaining == ledger.remaining and json.loads(ledger.to_json())["entries"][0]["name"] == "a"
    assert "left" in ledger._repr_html_() and math.isclose(ledger.spent[0], 0.5)


@pytest.mark.parametrize("parts", [[0.1] * 10, [0.05] * 20, [0.2, 0.8], [0.7, 0.1, 0.2], [0.3, 0.3, 0.3, 0.1]], ids=str)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_parts_that_add_up_to_the_whole_fit_in_memory_and_in_a_file(parts, delta, tmp_path):
    for path in [None, tmp_path / "budget.jsonl"] if delta == 0.0 else [None]:
        ledger = dpopt.Ledger(1.0, delta, path=path)
        for epsilon in parts:
            dpopt.mechanisms.discrete_laplace_counts([3, 4], epsilon=epsilon, ledger=ledger)
        assert len(ledger.entries) == len(parts) and ledger.share == pytest.approx(1.0, abs=1e-9)
        with pytest.raises(dpopt.BudgetExceeded):
            dpopt.mechanisms.discrete_laplace_counts([3, 4], epsilon=1e-3, ledger=ledger)
        if path is None:
            assert ledger.spent == (1.0, 0.0) and ledger.remaining == (0.0, delta)


def test_parts_of_delta_add_up_as_they_are_written():
    # 1e-5 is a little more as a number of the machine, and ten of these are more than its 1e-4
    ledger = dpopt.Ledger(1.0, 1e-4)
    for _ in range(10):
        ledger.charge("tenth", acc.ApproxDpDpEvent(0.0999, 9.99e-6), epsilon=0.1, delta=1e-5)
    assert ledger.spent == (1.0, 1e-4) and ledger.remaining == (0.0, 0.0)
    # what is certified at the machine's number alone is charged with that
    exact = dpopt.Ledger(1.0, 1e-4)
    for _ in range(9):
        exact.charge("tenth", acc.ApproxDpDpEvent(0.0999, 1e-5), epsilon=0.1, delta=1e-5)
    with pytest.raises(dpopt.BudgetExceeded, match=r"delta 1e-05, but only .* delta 9\.9+\d*e-06 are left"):
        exact.charge("tenth", acc.ApproxDpDpEvent(0.0999, 1e-5), epsilon=0.1, delta=1e-5)


def test_a_refusal_shows_what_is_lacking():
    ledger = dpopt.Ledger(1.0, 1e-6)
    ledger.charge("most", "laplace(1.2)", epsilon=0.9000001, delta=0.0)
    with pytest.raises(dpopt.BudgetExceeded, match=r"needs epsilon 0\.1 and delta 0, but only epsilon 0\.0999999 and"):
        ledger.charge("rest", "laplace(11)", epsilon=0.1, delta=0.0)
    ledger = dpopt.Ledger(1.0, 1e-6)
    ledger.charge("most", "laplace(1.2)", epsilon=0.9 + 2e-12, delta=0.0)
    with pytest.raises(
        dpopt.BudgetExceeded, match=r"needs epsilon 0\.1 and delta 0, but only epsilon 0\.099999999998 and"
    ):
        ledger.charge("rest", "laplace(11)", epsilon=0.1, delta=0.0)


def test_a_file_is_shown_as_a_ledger_in_memory(tmp_path):
    memory, file = dpopt.Ledger(2.0, 1e-6), dpopt.Ledger(2.0, 1e-6, path=tmp_path / "budget.jsonl")
    assert memory.spent == file.spent == (0.0, 0.0)
    shown = repr(memory)[:-1]
    assert shown.endswith("spent epsilon=0, delta=0") and repr(file) == f"{shown}, path={file.path!r})"
    pure = dpopt.Ledger(2.0, 0.0, path=tmp_path / "pure.jsonl")
    pure.charge("counts", "laplace(2.01)", epsilon=0.5, delta=0.0)
    assert "spent epsilon=0.497512, delta=0," in repr(pure)


@pytest.mark.parametrize("evil", ["\x1b[2Jgone", "two\nlines", "\x9b31m", "a\u202eb", "bell\x07"], ids=ascii)
def test_what_a_terminal_obeys_is_in_no_label(evil, tmp_path):
    for path in (None, tmp_path / "budget.jsonl"):
        ledger = dpopt.Ledger(2.0, 1e-6, path=path)
        with pytest.raises(ValueError, match="terminal"):
            ledger.charge(evil, "laplace(10)", epsilon=0.2, delta=0.0)
        # the names of runs may hold those of columns
        ledger._charge_for(())(f"fit {evil}", acc.as_event("laplace(10)").to_json(), 0.2, 0.0, "zero-out", "record")
        (entry,) = ledger.entries
        assert entry.name.startswith("fit ") and "\ufffd" in entry.name and entry.name != f"fit {evil}"
    with pytest.raises(ValueError, match="terminal"):
        dpopt.Ledger(2.0, 1e-6, path=tmp_path / "new.jsonl", name=evil)
    with pytest.raises(ValueError, match="terminal"):
        dpopt.Ledger(2.0, 1e-6, unit=evil)
    assert not (tmp_path / "new.jsonl").exists()


def test_ledger_file_is_shared_and_outlives_the_process(tmp_path):
    path = tmp_path / "budget.jsonl"
    first = dpopt.Ledger(1.0, 1e-5, path=path, name="census")
    first.charge("mean", "gaussian(20)", epsilon=0.3, delta=1e-6)
    second = pickle.loads(pickle.dumps(first))
    assert [e.name for e in second.entries] == ["mean"] and 0 < second.share < 0.3
    second.charge("mean", "gaussian(20)", epsilon=0.3, delta=1e-6)
    assert len(first.entries) == 2 and "spent" in first._repr_html_()
    with pytest.raises(dpopt.BudgetExceeded):
        first.charge("model", "gaussian(1)", epsilon=6.0, delta=1e-6)
    with pytest.raises(dpopt.PrivacyError, match="started with"):
        dpopt.Ledger(2.0, 1e-5, path=path, name="census")
    with pytest.raises(ValueError, match="share"):
        _ = first.remaining
