"""Single releases: laws, events, ledgers; audits that pass on the code and fail on injected faults."""

import dpopt
import numpy as np
import pytest
import scipy.sparse
from dpopt import accounting, audit, mechanisms


def test_gaussian_sum_is_centred_and_as_noisy_as_planned():
    x = np.full((50, 2), 0.1)
    release = mechanisms.gaussian_sum(x, 1.0, epsilon=1.0, delta=1e-6)
    sigma = release.event.event.noise_multiplier
    many = np.array([mechanisms.gaussian_sum(x, 1.0, epsilon=1.0, delta=1e-6).value for _ in range(200)])
    # 400 samples: mean within 5.5σ/20, variance by χ²_400 in [220, 640]/400 (false alarm below 1e-7). Noise of .7 or 1.35 times the planned size is
    # seen in 95 of 100 runs, a sum that is σ/2 off in all but one of 100,000
    assert np.abs(many.mean() - 5.0) < 5.5 * sigma / 20
    assert 220 < ((many - 5.0) ** 2).sum() / sigma**2 < 640


def test_rows_are_clipped_whatever_they_hold():
    wild = np.array([[1e300, 0.0], [np.inf, 1.0], [np.nan, 2.0], [3.0, 4.0]])
    release = mechanisms.gaussian_sum(wild, 1.0, epsilon=1e6, delta=0.5, insecure_seed=1)
    assert np.linalg.norm(release.value) < 4.1
    laplace = mechanisms.laplace_sum(wild, 1.0, epsilon=1e4, insecure_seed=1)
    assert np.abs(laplace.value).sum() < 4.1


def test_releases_are_charged_and_refused():
    ledger = dpopt.Ledger(1.0, 1e-5)
    mechanisms.discrete_laplace_counts([3, 4], epsilon=0.5, ledger=ledger)
    mechanisms.discrete_gaussian_counts([3, 4], epsilon=0.25, delta=1e-6, ledger=ledger)
    mechanisms.choose([1, 5, 2], epsilon=0.125, ledger=ledger)
    mechanisms.choose([1, 5, 2], epsilon=0.125, mechanism="exponential", ledger=ledger)
    assert ledger.remaining[0] == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(dpopt.BudgetExceeded):
        mechanisms.laplace_sum([1.0], 1.0, epsilon=0.5, ledger=ledger)


def test_a_choice_under_replace_one_has_the_noise_for_a_replaced_record():
    """Presence moves a score by 1, replacement by 2: the better of two scores wins less often (1/(1 + e^-1.5), 1/(1 + e^-0.75))."""
    from dpopt import _core

    def wins(relation):
        by = _core.NoisyChoice("exponential", 1.0, 1, False, relation)
        price = (accounting.ExponentialMechanismDpEvent(1.0).to_json(), 1.0, 0.0, relation)
        return (
            sum(_core.choose([0, 3], by, _core.Session("choice", "choice", price, None, seed)) for seed in range(4000))
            / 4000
        )

    # five standard deviations of a share of 4000
    assert wins("zero-out") == pytest.approx(1 / (1 + np.exp(-1.5)), abs=0.04)
    assert wins("replace-one") == pytest.approx(1 / (1 + np.exp(-0.75)), abs=0.04)


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match="integers"):
        mechanisms.choose([0.5, 1.0], epsilon=1.0)
    with pytest.raises(ValueError, match="monotone"):
        mechanisms.choose([1, 2], epsilon=1.0, monotone=True, relation="replace-one")
    with pytest.raises(ValueError, match="n_rows"):
        mechanisms.gaussian_sum([1.0], 1.0, epsilon=1.0, delta=1e-6, relation="add-or-remove")
    with pytest.raises(ValueError, match="no scores"):
        mechanisms.choose([], epsilon=1.0)


def test_audit_passes_on_the_code_and_catches_a_quarter_of_the_noise():
    # on purpose behind the curator's back: the certificate is for the noise that is drawn, the claim is for four times it
    def run(noise_share):
        from dpopt import _core

        z = accounting.calibrate(accounting.GaussianDpEvent, 2.0, 1e-3).value * noise_share
        noise = _core.NoisySum("gaussian", z, 1.0, 1, 1)
        drawn = accounting.ApproximateDpEvent(2.0**-110, accounting.GaussianDpEvent(z))
        price = (drawn.to_json(), 1e3, 1e-3, "zero-out")
        session = lambda: _core.Session("audit", "sum", price, None, None)  # noqa: E731
        sample = lambda data: _core.gaussian_sum(data, noise, session())[0]  # noqa: E731
        return [[sample(data) for _ in range(8000)] for data in (np.ones((1, 1)), np.zeros((1, 1)))]

    # a true claim is blamed with probability 1e-6 at most, the audit's own. At a quarter of the noise a record moves the sum by 2.8 standard deviations:
    # the bound is 4.2 ± .15, 2.0 is fourteen of these below
    honest = audit.audit_samples(*run(1.0), epsilon=2.0, delta=1e-3)
    injected = audit.audit_samples(*run(0.25), epsilon=2.0, delta=1e-3)
    assert not honest.violated and honest.lower_bound <= 2.0
    assert injected.violated and injected.lower_bound > 2.0
    assert injected.svg.startswith("<svg") and "VIOLATED" in str(injected)


def test_every_release_says_its_event_bound_and_record():
    X = np.random.default_rng(0).uniform(1, 5, (3000, 2))
    both = {"epsilon": 1.0, "delta": 1e-6}
    releases = [
        mechanisms.gaussian_sum(X, 8.0, **both),
        mechanisms.laplace_sum(X, 8.0, epsilon=1.0),
        mechanisms.second_moment(X, 8.0, **both),
        mechanisms.histogram(["a", "b"], ["a", "b"], epsilon=1.0),
        mechanisms.discrete_laplace_counts([3, 4], epsilon=1.0),
        mechanisms.discrete_gaussian_counts([3, 4], **both),
        mechanisms.choose([3, 400], epsilon=1.0),
        mechanisms.choose([3, 400], epsilon=1.0, mechanism="exponential"),
        mechanisms.quantiles(X[:, 0], [0.5, 0.1], epsilon=1.0),
        mechanisms.private_bounds(X, epsilon=1.0),
        mechanisms.frequent_labels(["a"] * 400 + ["b"] * 400, **both),
        mechanisms.sparse_mean(X, 2, **both),
    ]
    assert {f"{m.__name__}" for m in map(lambda n: getattr(mechanisms, n), mechanisms.__all__)} - {"Release", "SparseMean", "sparse_mean_plans"} == {
        "gaussian_sum", "laplace_sum", "second_moment", "histogram", "discrete_laplace_counts", "discrete_gaussian_counts",
        "choose", "quantiles", "private_bounds", "frequent_labels", "sparse_mean",
    }  # fmt: skip
    for release in releases:
        assert release.bound <= 1.0 and release.records
        again = accounting.epsilon(release.event, release.delta)
        assert float(again) <= float(release.bound) * (1 + 1e-9)


def test_a_release_that_its_certificate_does_not_foresee_is_refused():
    from dpopt import _core

    noise, less = (_core.NoisySum("gaussian", z, 1.0, 3, 1) for z in (5.0, 4.0))
    exact = accounting.GaussianDpEvent(5.0)
    price = (accounting.ApproximateDpEvent(2.0**-110, exact).to_json(), 10.0, 1e-6, "zero-out")
    # delta has nothing for the sampler
    with pytest.raises(dpopt.PrivacyError, match="exact distributions"):
        unpaid = (exact.to_json(), *price[1:])
        _core.gaussian_sum(np.ones((3, 1)), noise, _core.Session("run", "sum", unpaid, None, None))
    with pytest.raises(dpopt.PrivacyError, match="does not foresee"):
        _core.gaussian_sum(np.ones((3, 1)), less, _core.Session("run", "sum", price, None, None))
    with pytest.raises(dpopt.BudgetExceeded):
        _core.Session("run", "sum", (price[0], 0.1, 1e-6, "zero-out"), None, None)
    # a session pays for its one release once, and what a ledger raises is raised
    session = _core.Session("run", "sum", price, None, None)
    _core.gaussian_sum(np.ones((3, 1)), noise, session)
    with pytest.raises(dpopt.PrivacyError, match="not charged"):
        _core.gaussian_sum(np.ones((3, 1)), noise, session)
    with pytest.raises(KeyError, match="no such account"):
        _core.Session("run", "sum", price, _raising, None)
    with pytest.raises(dpopt.PrivacyError, match="exclude each other"):
        _core.Session("run", "sum", price, print, 1)


def _raising(*_):
    raise KeyError("no such account")


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_quantiles_come_in_the_order_asked_for_and_bounds_fit_estimators():
    X = np.random.default_rng(0).uniform(10, 20, (5000, 1))
    high, low = mechanisms.quantiles(X, [0.9, 0.1], epsilon=5.0, insecure_seed=1).value
    assert high > low
    bounds = mechanisms.private_bounds(X, epsilon=1.0, insecure_seed=1).value
    mean = dpopt.MeanEstimator(epsilon=1.0, delta=1e-6, bounds=bounds, insecure_seed=1).fit(X).mean_
    assert mean[0] == pytest.approx(15, abs=1)


def test_audit_of_a_callable_stops_when_the_claim_has_fallen(capsys):
    rng = np.random.default_rng(7)

    def noisy_sum(data, scale=1.0):
        return sum(data) + rng.laplace(0, scale)

    one, none = [1.0], [0.0]
    # 20 audits of a true claim, each looked at after every pair: false alarm at most 2e-5 in all
    for _ in range(20):
        honest = audit.audit(noisy_sum, one, none, runs=300, epsilon=1.0)
        assert not honest.violated and honest.refuted_after is None and honest.runs == 300
    broken = audit.audit(lambda d: noisy_sum(d, 0.25), one, none, runs=20_000, epsilon=1.0, progress=True)
    assert broken.violated and broken.refuted_after == broken.runs < 1000
    assert broken.lower_bound > 0.5 and "bet on" in broken.svg and str(broken.refuted_after) in str(broken)
    assert "runs, at most" in capsys.readouterr().err
    counted = audit.audit(lambda d: noisy_sum(d, 0.25), one, none, runs=2000, stop_early=False, epsilon=1.0)
    assert counted.violated and counted.runs == 2000 and counted.lower_bound > 1.0


def test_audit_of_an_event():
    rng = np.random.default_rng(1)
    report = audit.audit_samples(rng.normal(1, 2, 5000), rng.normal(0, 2, 5000), event="gaussian(2)", delta=1e-5)
    assert not report.violated and np.isfinite(report.claimed)


def test_a_sparse_mean_keeps_what_rows_share_and_drops_noise():
    rng = np.random.default_rng(0)
    n, d, s = 4000, 200_000, 5
    columns = np.concatenate([np.full((n, 1), 7), rng.integers(8, d, (n, s - 1))], axis=1)
    X = scipy.sparse.csr_array((np.full(n * s, s**-0.5), columns.ravel(), np.arange(0, n * s + 1, s)), shape=(n, d))
    ledger = dpopt.Ledger(1.0, 1e-6)
    assert mechanisms.sparse_mean(X, s, epsilon=1.0, delta=1e-6, ledger=ledger).bound <= 1.0
    assert ledger.remaining[0] < 1e-9
    mean = mechanisms.sparse_mean(X, s, epsilon=1.0, delta=1e-6, insecure_seed=1)
    assert mean.value.shape == (1, d) and np.asarray(mean).shape == (d,)
    # the bound is proved with probability 0.95, and far from tight
    error = np.linalg.norm(np.asarray(mean) - np.asarray(X.mean(axis=0)).ravel())
    assert error <= mean.error_bound < 1
    assert abs(mean.value[0, 7] - s**-0.5) < 0.1
    # without the projection the error would be noise_std * sqrt(d)
    plan = next(p for p in mechanisms.sparse_mean_plans(n, d, s, epsilon=1.0, delta=1e-6) if p["method"] == mean.method)
    assert error < 0.5 * plan["noise_std"] * d**0.5
    with pytest.raises(dpopt.BudgetExceeded):
        mechanisms.sparse_mean(X, s, epsilon=1.0, delta=1e-6, ledger=ledger)
    pure = mechanisms.sparse_mean(X[:, :100], s, epsilon=1.0, delta=0.0, insecure_seed=1)
    assert pure.method == "projected-laplace" and pure.bound.accountant == "pure"
    with pytest.raises(dpopt.PrivacyError, match="projected-gaussian"):
        mechanisms.sparse_mean(X, s, epsilon=1.0, delta=1e-6, method="l1-recovery")
    with pytest.raises(ValueError, match="choose one of"):
        mechanisms.sparse_mean(X, s, epsilon=1.0, delta=1e-6, method="median")


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 1.5, 5.0])
def test_integer_laplace_noise_is_no_larger_than_epsilon_asks_for(epsilon):
    release = mechanisms.discrete_laplace_counts([10], epsilon=epsilon, insecure_seed=1)
    decay = release.event.noise_parameter
    assert epsilon * (1 - 1e-11) < decay <= epsilon


def test_histograms_count_bytes_as_their_text_and_refuse_text_against_numbers():
    count = lambda values, categories: mechanisms.histogram(values, categories, epsilon=20.0, insecure_seed=1).value
    expected = count(["a", "b"] * 300, ["a", "b"])
    assert min(expected) > 290
    for values in (np.array(["a", "b"] * 300, dtype="S1"), [b"a", b"b"] * 300, ["a", b"b"] * 300):
        assert count(values, ["a", "b"]) == expected and count(values, [b"a", b"b"]) == expected
    for values, categories in (
        (["1", "2"] * 300, [1, 2]),
        ([1, 2] * 300, ["1", "2"]),
        (np.array(["1"], dtype="S1"), [1]),
    ):
        with pytest.raises(ValueError, match="numbers and the other text"):
            count(values, categories)


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
@pytest.mark.parametrize("relation", ["zero-out", "replace-one", "add-or-remove"])
def test_quantiles_of_ties_constants_and_bounded_ranges(relation):
    n, rng = 5000, np.random.default_rng(3)
    ages = rng.integers(18, 81, n).astype(float)
    zeros = np.where(np.arange(n) % 25 < 23, 0.0, rng.lognormal(7, 1, n))
    # values, levels, between what the answers have to lie: within 0.1 of the ranks, which miss with probability below 25000·exp(-1000/4) at ε = 1 in all
    cases = [
        (np.full(n, 5.0), [0.25, 0.5, 0.75], [(4.8, 5.1)] * 3),
        (np.full(n, -70.0), [0.5], [(-72.5, -69.0)]),
        (np.arange(n) % 2 + 0.0, [0.25, 0.75], [(0, 0), (1.0, 1.04)]),
        (zeros, [0.25, 0.5], [(0, 0), (0, 0)]),
        (ages, [0.5], [(42, 56)]),
        (rng.uniform(0, 1, n), [0.25, 0.75], [(0.15, 0.35), (0.65, 0.85)]),
    ]
    for values, levels, ranges in cases:
        for epsilon in (1.0, 10.0, 20.0):
            found = mechanisms.quantiles(values, levels, epsilon=epsilon, relation=relation, insecure_seed=2).value
            assert all(low <= q <= high for q, (low, high) in zip(found, ranges)), (epsilon, levels, found)
    # near the end of a range: at ε = 10 a rank is missed by 45 with probability below 25000·exp(-5·45/2)
    assert 77 < mechanisms.quantiles(ages, [0.99], epsilon=10.0, relation=relation, insecure_seed=2).value[0] < 82
