"""Rows with several owners: each of them is protected, and what is kept follows from who owns what alone."""

from __future__ import annotations

import json
from typing import Any

import dpopt
import numpy as np
import pytest

pd = pytest.importorskip("pandas")

PERSONS, ROWS = 120, 1500
OPEN = "who shares rows with whom, is not protected"


def messages(seed: int = 1) -> Any:
    """Who writes to whom, and whether it is answered: x above 0."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, ROWS)
    return pd.DataFrame(
        {
            "sender": [f"p{i}" for i in draw.integers(0, PERSONS, ROWS)],
            "recipient": [f"p{i}" for i in draw.integers(0, PERSONS, ROWS)],
            "x": x,
            "answered": np.where(x > 0, "yes", "no"),
        }
    )


def model(**more: Any) -> dpopt.LogisticRegression:
    options: dict[str, Any] = {
        "epsilon": 3,
        "delta": 1e-4,
        "bounds": {"x": (-1, 1)},
        "classes": ["no", "yes"],
        "insecure_seed": 1,
        "unit": dpopt.Unit(max_rows=1),
    }
    return dpopt.LogisticRegression(**{**options, **more})


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = messages()
    return table[["x"]].to_numpy(), table["answered"].to_numpy(), table[["sender", "recipient"]].to_numpy()


def by_position(**more: Any) -> dpopt.LogisticRegression:
    return model(**{"bounds": (-1, 1), "method": "noisy-gradient-descent", **more})


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_a_table_names_both_columns_and_says_what_is_not_protected() -> None:
    fitted = model().fit(messages(), "answered", units=("sender", "recipient"))
    assert list(fitted.feature_names_in_) == ["x"]
    privacy = fitted.privacy_
    assert (privacy.unit, privacy.unit_column, privacy.public_ownership) == ("user", "sender and recipient", True)
    assert OPEN in str(privacy) and privacy.guarantee()["public_ownership"] is True

    # everything but who owns what may change, and the plan does not
    other = messages()
    own = (other["sender"] == "p3") | (other["recipient"] == "p3")
    other.loc[own, ["x"]] = np.nan
    again = model().fit(other, "answered", units=("sender", "recipient"))
    assert again.plan_.candidates == fitted.plan_.candidates


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_a_matrix_takes_an_array_of_ids_or_a_table_of_them() -> None:
    X, y, ids = arrays()
    one = by_position(unit=dpopt.Unit(max_rows=2)).fit(X, y, units=ids)
    two = by_position(unit=dpopt.Unit(max_rows=2)).fit(X, y, units=messages()[["sender", "recipient"]])
    assert np.array_equal(one.coef_, two.coef_)
    assert (one.privacy_.unit_column, two.privacy_.unit_column) == ("owner 1 and owner 2", "sender and recipient")
    assert OPEN in str(one.privacy_)
    event = json.dumps(one.privacy_.stages[0]["event"])
    assert "UserUnit" in event and one.predict(X[:3]).shape == (3,)
    planned = by_position(unit=dpopt.Unit(max_rows=2)).explain(X, units=ids)
    assert planned.n_units == PERSONS and planned.chosen == one.plan_.chosen
    # a person's values are one in both columns: the same ids in the other order own the same rows
    three = by_position(unit=dpopt.Unit(max_rows=2)).fit(X, y, units=ids[:, ::-1])
    assert three.plan_.chosen == one.plan_.chosen
    # labels are found on one row of each
    found = by_position(classes=None, epsilon=40).fit(X, y, units=ids)
    assert list(found.classes_) == ["no", "yes"] and found.privacy_.public_ownership


@pytest.mark.filterwarnings("ignore::dpopt.PrivacyWarning")
def test_what_several_owners_leave_no_room_for_is_refused() -> None:
    X, y, ids = arrays()
    for options, why in [
        ({"unit": None}, r"give unit=dpopt.Unit\(max_rows"),
        (
            {"neighbors": "add-or-remove", "n_rows": ROWS, "unit": dpopt.Unit(max_rows=1, count=PERSONS)},
            "without bound",
        ),
        ({"unit": dpopt.Unit(max_rows=1, clipping="unit")}, "cannot be clipped as a whole"),
        ({"unit": dpopt.Unit(max_rows=1, count=3)}, "count of unit is 3"),
    ]:
        for fit in (
            lambda options=options: by_position(**options).fit(X, y, units=ids),
            lambda options=options: model(**options).fit(messages(), "answered", units=("sender", "recipient")),
        ):
            with pytest.raises((ValueError, dpopt.PrivacyError), match=why):
                fit()
    with pytest.raises(ValueError, match="twice"):
        model().fit(messages(), "answered", units=("sender", "sender"))
    with pytest.raises(ValueError, match="not all are columns"):
        model().fit(messages(), "answered", units=("sender", "whom"))
    with pytest.raises(ValueError, match="y is one of"):
        model().fit(messages(), "answered", units=("sender", "answered"))
    with pytest.raises(ValueError, match="ids and X has"):
        by_position().fit(X, y, units=ids[:-1])
    # other functions take one owner of a row
    with pytest.raises((ValueError, TypeError, dpopt.PrivacyError)):
        dpopt.MeanEstimator(epsilon=1, sparsity=1).fit(X, units=ids)
