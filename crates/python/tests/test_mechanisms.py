"""Single releases: laws, events, ledgers; audits that pass on the code and fail on planted bugs."""

import numpy as np
import pytest

import dpopt
from dpopt import accounting, audit, mechanisms


def test_gaussian_sum_is_centred_and_as_noisy_as_planned():
    x = np.full((50, 2), 0.1)
    release = mechanisms.gaussian_sum(x, 1.0, epsilon=1.0, delta=1e-6)
    sigma = release.event.event.noise_multiplier
    many = np.array([mechanisms.gaussian_sum(x, 1.0, epsilon=1.0, delta=1e-6).value for _ in range(200)])
    # 400 samples: mean within 5.5σ/20, variance by χ²_400 in [220, 640]/400 (false alarm below 1e-7)
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


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match="integers"):
        mechanisms.choose([0.5, 1.0], epsilon=1.0)
    with pytest.raises(ValueError, match="monotone"):
        mechanisms.choose([1, 2], epsilon=1.0, monotone=True, relation="replace-one")
    with pytest.raises(ValueError, match="n_rows"):
        mechanisms.gaussian_sum([1.0], 1.0, epsilon=1.0, delta=1e-6, relation="add-or-remove")
    with pytest.raises(ValueError, match="no scores"):
        mechanisms.choose([], epsilon=1.0)


def test_audit_passes_on_the_code_and_catches_half_the_noise():
    def run(noise_share):
        x, nothing = np.ones((1, 1)), np.zeros((1, 1))
        from dpopt import _core

        z = accounting.calibrate(accounting.GaussianDpEvent, 2.0, 1e-3).value * noise_share
        sample = lambda data, k: _core.gaussian_sum(data, 1.0, z, 1, None, 0)[0]  # noqa: E731
        return [[sample(data, k) for k in range(8000)] for data in (x, nothing)]

    honest = audit.audit_samples(*run(1.0), epsilon=2.0, delta=1e-3)
    planted = audit.audit_samples(*run(0.5), epsilon=2.0, delta=1e-3)
    assert not honest.violated and honest.lower_bound <= 2.0
    assert planted.violated and planted.lower_bound > honest.lower_bound
    assert planted.svg.startswith("<svg") and "VIOLATED" in str(planted)


def test_audit_of_an_event():
    rng = np.random.default_rng(1)
    report = audit.audit_samples(rng.normal(1, 2, 5000), rng.normal(0, 2, 5000), event="gaussian(2)", delta=1e-5)
    assert not report.violated and np.isfinite(report.claimed)
