"""Sums that another library clipped: noise and accounting are the library's, the clip is an assumption of the caller."""

import dpopt
import numpy as np
import pytest

TERMS = {"dataset_size": 500, "sampling_probability": 0.2, "steps": 3, "clip_norm": 1.0, "delta": 1e-6}


def clipped(gradients, clip_norm=1.0):
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1, clip_norm / np.maximum(norms, 1e-30))).sum(axis=0)


def test_the_event_is_that_of_a_clip_here_and_the_grade_says_whose_word_it_is():
    ledger = dpopt.Ledger(2.0, 1e-5)
    sums = dpopt.ClippedSums(np.zeros(4), epsilon=2.0, budget=ledger, **TERMS)
    assert ledger.remaining[0] == 0.0 and sums.privacy_.epsilon <= 2.0
    assert sums.privacy_.grade == "research"
    records = np.random.default_rng(0).normal(size=(500, 4))
    for _ in range(3):
        mean = sums.step(clipped(records[sums.sample()]))
        assert mean.shape == (4,) and mean.dtype == np.float64
    assert [(r["label"], r["count"]) for r in sums.releases] == [("batch gradient", 3)]
    for refused in (sums.step, sums.sample):
        with pytest.raises(dpopt.BudgetExceeded, match="planned"):
            refused()
    assert sums.privacy_.guarantee()["grade"] == "research"
    assert all(s["rests_on"] == "vouched" for s in sums.privacy_.stages if "rests_on" in s)


def test_noise_has_the_stated_size_and_lies_on_the_sum():
    with pytest.warns(dpopt.PrivacyWarning, match="predictable"):
        sums = dpopt.ClippedSums(
            np.zeros(4000), dataset_size=100, sampling_probability=1.0, steps=1, clip_norm=2.0, noise_multiplier=3.0, delta=1e-6,
            insecure_seed=5,
        )  # fmt: skip
    assert len(sums.sample()) == 100
    noise = sums.step(np.full(4000, 0.5)) * 100 - 0.5
    # 4000 draws of standard deviation 6: five of its own, false alarm 1e-6; and the mean
    assert abs(noise.std() / 6 - 1) < 5 / np.sqrt(8000) and abs(noise.mean()) < 5 * 6 / np.sqrt(4000)


def test_every_library_and_form_of_arrays_goes_in_and_comes_out():
    jnp = pytest.importorskip("jax.numpy")
    torch = pytest.importorskip("torch")
    for make, kind in (
        (np.asarray, np.ndarray),
        (lambda a: jnp.asarray(a, dtype=jnp.float32), jnp.ndarray),
        (lambda a: torch.tensor(a, dtype=torch.float32), torch.Tensor),
    ):
        form = lambda v: {"a": make(np.full((2, 3), v)), "b": [make(np.full(2, -v))]}  # noqa: E731
        sums = dpopt.ClippedSums(
            form(0.0), dataset_size=10**6, sampling_probability=1.0, steps=1, clip_norm=1.0, noise_multiplier=1.0, delta=1e-6
        )  # fmt: skip
        mean = sums.step(form(1e5))
        assert isinstance(mean["a"], kind) and isinstance(mean["b"][0], kind) and "32" in str(mean["a"].dtype) + "32"
        # noise of 1e-6: eight entries at twenty standard deviations (false alarm below 1e-80); a mean that is a thousandth off is seen
        assert np.allclose(np.asarray(mean["a"]), 0.1, atol=2e-5) and np.allclose(
            np.asarray(mean["b"][0]), -0.1, atol=2e-5
        )


@pytest.mark.parametrize("drawn_here", [True, False])
def test_what_cannot_be_such_a_sum_is_refused_before_it_is_released(drawn_here):
    for wrong, says in (
        (np.array([np.nan, 0.0]), "not finite"),
        (np.array([0.0, np.inf]), "not finite"),
        (np.array([400.0, 400.0]), "longer than"),
        (np.zeros(3), "the structure of the parameters"),
        ([np.zeros(2), np.zeros(2)], "the structure of the parameters"),
    ):
        sums = dpopt.ClippedSums(np.zeros(2), noise_multiplier=1.0, **TERMS)
        if drawn_here:
            sums.sample()
        with pytest.raises(ValueError, match=says) as caught:
            sums.step(wrong)
        assert "400" not in str(caught.value) and sums.steps_taken == 0 and not sums.releases
    # a mean of unclipped gradients is short; a sum of twenty records' cannot have the length of two hundred's. A batch of 100 expected records has
    # 300 with probability below 1e-80
    sums = dpopt.ClippedSums(np.zeros(2), noise_multiplier=1.0, **TERMS)
    sums.sample()
    with pytest.raises(ValueError, match="longer than"):
        sums.step(np.array([300.0, 0.0]))


def test_noise_that_gives_no_guarantee_is_refused_with_what_would():
    with pytest.raises(
        ValueError,
        match=r"noise_multiplier 0.01 gives no guarantee at delta 1e-06; epsilon 20 would need 0\.\d+, smaller ones more",
    ):
        dpopt.ClippedSums(np.zeros(2), noise_multiplier=0.01, **TERMS)


def test_after_a_refused_sum_the_batch_is_still_the_drawn_one():
    sums = dpopt.ClippedSums(np.zeros(2), noise_multiplier=1.0, **TERMS)
    records = len(sums.sample())
    # more than the batch has, less than all records (a batch of 100 expected ones has 494 with probability below 1e-300): of a batch that was drawn
    # elsewhere this would be taken
    long = np.array([records + 1.0, 0.0]) * 1.01
    for _ in range(2):
        with pytest.raises(ValueError, match="longer than"):
            sums.step(long)
    assert sums.steps_taken == 0
    sums.step(np.array([records / 2.0, 0.0]))
    assert sums.steps_taken == 1
    # used up: the next one is drawn elsewhere
    sums.step(long)
    assert sums.steps_taken == 2


def test_under_add_or_remove_the_number_of_records_is_a_guess_that_nothing_is_held_against():
    sums = dpopt.ClippedSums(np.zeros(2), noise_multiplier=1.0, relation="add-or-remove", **TERMS)
    assert sums.sample(700).max(initial=0) < 700
    sums.step()
    # 900 records of a batch that was drawn elsewhere
    sums.step(np.array([900.0, 0.0]))
    assert sums.steps_taken == 2
    other = dpopt.ClippedSums(np.zeros(2), noise_multiplier=1.0, **TERMS)
    with pytest.raises(ValueError, match="public under this relation"):
        other.sample(700)


def test_ghost_clipping_of_opacus_moves_weights_as_a_clip_here_does():
    torch = pytest.importorskip("torch")
    opacus = pytest.importorskip("opacus")
    from dpopt.torch import ClippedSumOptimizer, PrivateOptimizer
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    assert opacus.__version__
    n, steps, rate = 4000, 4, 0.5
    X = torch.tensor(np.random.default_rng(0).normal(size=(n, 5)), dtype=torch.float32)
    y = (X[:, 0] - X[:, 1] > 0).long()

    def network():
        torch.manual_seed(1)
        return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    # all records in each batch, so that both take the same steps but for their noise
    terms = {"dataset_size": n, "sampling_probability": 1.0, "steps": steps, "noise_multiplier": 0.5, "delta": 1e-6}
    clip = 0.3
    ghost = GradSampleModuleFastGradientClipping(
        network(), max_grad_norm=clip, use_ghost_clipping=True, loss_reduction="sum"
    )
    theirs = ClippedSumOptimizer(torch.optim.SGD(ghost.parameters(), lr=rate), clip_norm=clip * 1.01, **terms)
    criterion = DPLossFastGradientClipping(
        ghost, theirs, torch.nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum"
    )
    whole = GradSampleModule(network(), loss_reduction="sum")
    ours = PrivateOptimizer(torch.optim.SGD(whole.parameters(), lr=rate), clip_norm=clip, **terms)
    start = torch.cat([p.detach().flatten() for p in whole.parameters()])
    for _ in range(steps):
        at = theirs.sample()
        assert len(at) == n
        for part in at.split(1500):
            criterion(ghost(X[part]), y[part]).backward()
            theirs.accumulate()
        theirs.step()
        at = ours.sample()
        ours.zero_grad()
        torch.nn.functional.cross_entropy(whole(X[at]), y[at], reduction="sum").backward()
        ours.step()
    a, b = (torch.cat([p.detach().flatten() for p in m.parameters()]) for m in (ghost, whole))
    # noise of a weight: four steps of two runs, rate·.5·.3/4000 each; six of its standard deviations, which one of 66 weights misses with
    # probability below 2e-7, and twice as much for what it does to later steps. A clip that is 6 % off moves a weight by twice that, and is always seen
    room = 2 * 6 * rate * 0.5 * 0.3 / n * np.sqrt(2 * steps)
    assert float((a - b).abs().max()) < room < 0.03 * float((a - start).abs().max())
    assert theirs.privacy_.event == ours.privacy_.event
    assert (theirs.privacy_.grade, ours.privacy_.grade) == ("research", "research")
    with pytest.raises(ValueError, match="p.grad"):
        theirs.step([1.0])
