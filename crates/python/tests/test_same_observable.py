"""A part of the equivalence test over neighbouring tables; `make same-observable` runs all of it."""

import pytest
import same_observable as equivalence

CASES = list(equivalence.cases())
#: Every 61st case (all methods, relations, tasks and options come in turn), and all that are no fits of a linear model.
SLICE = [
    case
    for i, case in enumerate(CASES)
    if i % 61 == 0
    # thousands of steps, each a release of its own: the whole test has it
    and not ("bias-reduced-sgd" in case[0] and case[0].endswith("much budget"))
    or case[0] != "PrivateSearchCV three classes, columns"
    and case[0].split()[0]
    in (
        *equivalence.MECHANISMS,
        "PrivateClient",
        "PrivateSearchCV",
        "TableEncoder",
        "TextEncoder",
        "make_private",
        "minimize",
    )
    or case[0].startswith("units")
    and i % 8 == 0
    # planning objective perturbation for a group takes half a minute: the whole test has it
    and not (case[0].startswith("units LogisticRegression") and case[0].endswith("two classes, at most two rows"))
    or case[0].startswith("units MeanEstimator")
    or case[0].startswith("columns")
    and "add-or-remove" not in case[0]
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), SLICE, ids=[name for name, _ in SLICE])
def test_neighbours_look_the_same(name, case):
    pairs, found, _ = equivalence.differing(case)
    assert pairs == len(equivalence.HOSTILE) and not found


def test_every_estimator_and_mechanism_is_compared():
    import dpopt
    from dpopt._base import PrivateEstimator

    names = " ".join(name for name, _ in CASES)
    present = [n for n in dpopt.__all__ if n != "torch"]  # needs PyTorch, and has no estimator
    models = [
        n for n in present if isinstance(getattr(dpopt, n), type) and issubclass(getattr(dpopt, n), PrivateEstimator)
    ]
    encoders = list(dpopt.encoders.__all__)
    functions = [n for n in dpopt.mechanisms.__all__ if n[0].islower() and n != "sparse_mean_plans"]
    #: these take counts or scores that the caller made: no record comes in
    functions = [n for n in functions if n not in ("discrete_laplace_counts", "discrete_gaussian_counts", "choose")]
    assert len(models) >= 12 and [n for n in (*models, *encoders, *functions) if n not in names.split()] == []
    assert all(method in names.split() for method in dpopt.METHODS)
    objectives = [n for n in dpopt.objectives.__all__ if n != "NegativeBinomialRegression"]
    assert [n for n in objectives if n not in names.split()] == []


def test_a_difference_is_seen():
    def leaky(record):
        return equivalence.observed(lambda: float("text") if record[1] == "unknown" else 1.0)

    assert [hostile for hostile, _ in equivalence.differing(leaky)[1]] == ["negative infinity, unknown class"]
