"""Does what code that is not ours says of a record depend on that record alone? It is tried on made-up records, before a real one is read.

A check is a test and no proof: what passes is of grade *checked*. What it finds is refused, with the way out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ._trees import library

#: Records of a batch: two sizes, since an axis of a model may happen to be as long as one of them.
SIZES = (7, 12)
#: What a record's numbers are multiplied by, to see whether they move others.
EXTREME = 1e4
#: Places of a batch whose record is exchanged: both ends, and one between them.
PLACES = (0, 4, -1)
_FLOAT32 = float(np.finfo(np.float32).eps)


class NotOfOneRecord(ValueError):
    """What is said of a record depends on more than that record."""


class CannotBeTried(ValueError):
    """The code fails on made-up records, so that nothing can be said of it."""


@dataclass(frozen=True)
class Evidence:
    """Why it may be believed that what is said of a record is that record's own.

    Attributes
    ----------
    grade
        ``"certified"`` (by construction), ``"checked"`` (tried, and not refuted) or ``"research"`` (nobody looked).
    why
        In words, for the guarantee.
    """

    grade: str
    why: str

    @property
    def kind(self) -> str:
        """The evidence as the compiled library calls it."""
        return {"certified": "proved", "checked": "checked", "research": "vouched"}[self.grade]

    def note(self, session: Any) -> None:
        """Writes it into the guarantee of a session."""
        if self.grade != "certified":
            session.rest_on_evidence(self.kind, self.why)


@dataclass(frozen=True)
class Pool:
    """Made-up records by position.

    Attributes
    ----------
    at
        The records at these positions, as the code takes them.
    usual
        How many of them are of the usual kind; they come first.
    zeroed
        The place of a record of zeros.
    extreme
        The place of one with very large numbers.
    origin
        Where they come from, in words.
    """

    at: Callable[[Sequence[int]], Any]
    usual: int
    zeroed: int
    extreme: int
    origin: str = "made-up records"

    def batch(self, size: int) -> list[int]:
        """The first `size` records; where there are fewer, they come again."""
        return [i % self.usual for i in range(size)]


def _rows(draw: Callable[[tuple[int, ...]], np.ndarray], shape: tuple[int, ...], usual: int) -> np.ndarray:
    """Usual records, one of zeros and an extreme one."""
    some = draw((usual, *shape))
    large = some[:1] * EXTREME if some.dtype.kind == "f" else some[:1]
    return np.concatenate([some, np.zeros_like(some[:1]), large])


def _numbers(dtype: np.dtype, shape: tuple[int, ...], sort: str, usual: int, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "f":
        draw = rng.standard_normal if sort == "normal" else rng.random
        return _rows(lambda s: draw(s).astype(dtype), shape, usual)
    if dtype.kind == "b":
        return _rows(lambda s: rng.random(s) < 0.5, shape, usual)
    if dtype.kind in "iu":
        # classes, counts and places of small tables: 0 and 1 are most often among them
        among = MORE_WHOLE.get(sort, (0, 1))
        return _rows(lambda s: rng.choice(np.array(among), s).astype(dtype), shape, usual)
    raise CannotBeTried(
        f"records of type {dtype} cannot be synthesized; give example=, a few non-sensitive records of the same form"
    )


#: Kinds of made-up numbers, in the order in which they are tried: a loss may ask for positive ones.
SORTS = ("normal", "between 0 and 1")
#: Whole numbers beside 0 and 1, which code may take or not: more classes, and what usually marks a missing label.
MORE_WHOLE = {"more classes": tuple(range(10)), "missing labels": (0, 1, -1, -100)}


def synthetic(parts: Sequence[Any], sort: str = "normal", usual: int = SIZES[-1] + 1) -> Pool:
    """Records of the types and shapes of `parts`, whose values are not read."""
    rng = np.random.default_rng(20)
    arrays = [_like(part, sort, usual, rng) for part in parts]

    def at(positions: Sequence[int]) -> list[Any]:
        return [_taken(a, positions) for a in arrays]

    return Pool(at, usual, usual, usual + 1, f"{usual + 2} made-up records")


def of_example(parts: Sequence[Any]) -> Pool:
    """Records that the caller gave as not sensitive."""
    from ._trees import Records

    records = Records(list(parts))
    count = len(records)
    if count < 2:
        raise ValueError("example has fewer than two records; give at least two, which must not be sensitive")
    arrays = []
    for part in parts:
        first = _taken(part, [0])
        nothing, large = _scaled(first, 0.0), _scaled(first, EXTREME)
        arrays.append((part, nothing, large))

    def at(positions: Sequence[int]) -> list[Any]:
        return [_joined(part, nothing, large, positions, count) for part, nothing, large in arrays]

    return Pool(
        at, count, count, count + 1, f"{count} records of the example, one of zeros and one with very large numbers"
    )


def _scaled(rows: Any, factor: float) -> Any:
    """Rows times `factor`, where they are numbers; whole numbers only become 0."""
    where = library(rows)
    if where == "torch":
        return rows * factor if rows.is_floating_point() else rows.clone().zero_() if factor == 0.0 else rows
    sort = getattr(getattr(rows, "dtype", None), "kind", "O")
    if sort == "f":
        return (rows * factor).astype(rows.dtype)
    return (rows * 0).astype(rows.dtype) if factor == 0.0 and sort in "iub" else rows


def _joined(part: Any, nothing: Any, large: Any, positions: Sequence[int], count: int) -> Any:
    pieces = [nothing if p == count else large if p > count else _taken(part, [p]) for p in positions]
    where = library(part)
    if where == "torch":
        import torch

        return torch.cat(pieces)
    if where == "jax":
        import jax.numpy as jnp

        return jnp.concatenate(pieces)
    if hasattr(part, "iloc"):
        import pandas

        return pandas.concat(pieces, ignore_index=True)
    if hasattr(part, "tocsr"):
        from scipy import sparse

        return sparse.vstack(pieces, format="csr")
    return np.concatenate([np.asarray(piece, dtype=part.dtype) for piece in pieces])


def _like(part: Any, sort: str, usual: int, rng: np.random.Generator) -> Any:
    where = library(part)
    if where == "torch":
        import torch

        if part.dtype in (torch.float16, torch.bfloat16):
            wide = _numbers(np.dtype(np.float32), tuple(part.shape[1:]), sort, usual, rng)
        else:
            wide = _numbers(np.dtype(str(part.dtype).removeprefix("torch.")), tuple(part.shape[1:]), sort, usual, rng)
        return torch.from_numpy(wide).to(part.device, part.dtype)
    if where == "jax":
        import jax.numpy as jnp

        return jnp.asarray(_numbers(np.dtype(part.dtype), tuple(part.shape[1:]), sort, usual, rng))
    if hasattr(part, "iloc"):
        import pandas

        if hasattr(part, "columns"):
            columns = [_numbers(_dtype(kind), (), sort, usual, rng) for kind in part.dtypes]
            frame = pandas.DataFrame(dict(enumerate(columns)))
            frame.columns = part.columns
            return frame
        return pandas.Series(_numbers(_dtype(part.dtype), (), sort, usual, rng), name=part.name)
    if hasattr(part, "tocsr"):
        from scipy import sparse

        dense = _numbers(np.dtype(part.dtype), tuple(part.shape[1:]), sort, usual, rng)
        return sparse.csr_matrix(dense * (rng.random(dense.shape) < 0.3))
    return _numbers(_dtype(part.dtype), tuple(part.shape[1:]), sort, usual, rng)


def _dtype(kind: Any) -> np.dtype:
    if not isinstance(kind, np.dtype):
        raise CannotBeTried(
            f"records of type {kind} cannot be synthesized; give example=, a few non-sensitive records of the same form"
        )
    return kind


def _taken(part: Any, positions: Sequence[int]) -> Any:
    at = np.asarray(positions, dtype=np.int64)
    if library(part) == "torch":
        import torch

        return part[torch.from_numpy(at).to(part.device)]
    return part.iloc[at] if hasattr(part, "iloc") else part[at]


def examine(
    subject: str,
    said: Callable[[list[int]], np.ndarray],
    pool: Pool,
    *,
    alone: Callable[[int], np.ndarray] | None = None,
    sizes: Sequence[int] = SIZES,
    random: bool = False,
    rounding: float = _FLOAT32,
) -> str:
    """Tries whether row i of what is said of a batch is record i's own; what was tried, in words.

    Parameters
    ----------
    subject
        What is tried, in words: the subject of a sentence.
    said
        Rows of numbers, one for each of the records at these positions of the pool.
    pool
        The records.
    alone
        The row of one record by itself, made in another way if there is one.
    sizes
        Of batches.
    random
        What is said has random numbers of its own, so that only changes within a batch of one size can be seen.
    rounding
        Of the coarsest numbers in it, between 1 and the next one.

    Raises
    ------
    NotOfOneRecord
        It is not.
    """
    by_itself = alone or (lambda i: said([i])[0])
    near = partial(_near, rounding=rounding)

    def rows(positions: list[int]) -> np.ndarray:
        found = said(positions)
        if len(found) != len(positions):
            raise NotOfOneRecord(f"{subject} did not give one row for each record")
        return found

    large = max(sizes)
    batch = pool.batch(large)
    together = rows(batch)
    again = rows(batch)
    exact = _same_bits(together, again)
    if not exact and not near(together, again):
        raise NotOfOneRecord(
            f"{subject}: two equal calls gave different results, so that state or random numbers would carry over between records; make it depend on its arguments only"
        )
    tried = []
    if not random:
        reference = {i: by_itself(i) for i in sorted(set(batch))}
        for size in sizes:
            some = rows(pool.batch(size))
            expected = np.stack([reference[i] for i in pool.batch(size)])
            if not near(some, expected):
                raise NotOfOneRecord(
                    f"{subject}: a record gives different numbers alone and in a batch of {size}, so that its row depends on other records or their number, and nothing would be protected; make row i depend on record i only"
                )
        order = list(np.random.default_rng(21).permutation(large))
        for moved in (order, list(range(large))[::-1]):
            if not near(rows([batch[i] for i in moved]), together[moved]):
                raise NotOfOneRecord(
                    f"{subject}: a record gives different numbers when the batch is reordered, so that its row depends on other records; make row i depend on record i only"
                )
        tried.append(f"one at a time against batches of {' and '.join(map(str, sizes))}, in other orders")
    changes = {"replaced": None, "zeroed": pool.zeroed, f"{EXTREME:.0e} times as large": pool.extreme}
    for what, other in changes.items():
        for place in PLACES:
            at = place % large
            changed = list(batch)
            changed[at] = (batch[at] + 1) % pool.usual if other is None else other
            try:
                found = rows(changed)
            except CannotBeTried:
                break
            kept = [i for i in range(large) if i != at]
            same = _same_bits(found[kept], together[kept]) if exact else near(found[kept], together[kept])
            if not same:
                raise NotOfOneRecord(
                    f"{subject}: the row of a record changes when another record of the batch is {what}, so that nothing would be protected; make row i depend on record i only"
                )
        else:
            tried.append(f"one {what}")
    bits = "the others the same to the last bit" if exact else "the others the same up to rounding"
    return f"tried on {pool.origin}: {', '.join(tried)} ({bits})"


def examine_sums(subject: str, summed: Callable[[list[int]], np.ndarray], pool: Pool, clip_norm: float) -> str:
    """Tries whether a sum over a batch is moved by one record's presence by at most the clip norm; what was tried, in words.

    Parameters
    ----------
    subject
        What is tried, in words.
    summed
        One vector for the records at these positions of the pool.
    pool
        The records.
    clip_norm
        In l2.

    Raises
    ------
    NotOfOneRecord
        It is moved by more, or not by the record's own part alone.
    """
    # the grid of the library has room for this much of a float32 sum's rounding, and for no more
    most = clip_norm * (1 + 1e-6)
    each = {i: summed([i]) for i in [*range(min(pool.usual, SIZES[-1])), pool.zeroed, pool.extreme]}
    for size in SIZES:
        batch = pool.batch(size)
        changes = [batch, batch[::-1], [pool.zeroed, *batch[1:]], [*batch[:-1], pool.extreme]]
        for positions in changes:
            total = summed(positions)
            if not _near(total, np.sum([each[i] for i in positions], axis=0)):
                raise NotOfOneRecord(
                    f"{subject}: the sum over a batch differs from the sum of its records taken alone, so that a record's contribution depends on others or their number; clip and sum each record's own gradient"
                )
            for place in PLACES:
                rest = [p for i, p in enumerate(positions) if i != place % size]
                moved = float(np.linalg.norm(total - summed(rest)))
                if not moved <= most:
                    raise NotOfOneRecord(
                        f"{subject}: one record changes the sum by {moved / clip_norm:.4g} clip norms; clip each record's gradient, over all arrays together, to 1 % less than the given clip_norm"
                    )
    return f"tried on {pool.origin}: with and without one record, in batches of {' and '.join(map(str, SIZES))}, with one zeroed and one {EXTREME:.0e} times as large"


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes() or bool(np.array_equal(a, b, equal_nan=True))


def _near(a: np.ndarray, b: np.ndarray, rounding: float = _FLOAT32) -> bool:
    """Equal up to the rounding of products, of f32 if nothing else is said."""
    if a.shape != b.shape:
        return False
    known = np.abs(b[np.isfinite(b)])
    size = max(float(known.max(initial=0.0)), 1e-30)
    return bool(np.allclose(a, b, rtol=max(1e-4, 8 * rounding), atol=rounding**0.75 * size, equal_nan=True))


def first_that_runs(pools: Sequence[Callable[[], Pool]], run: Callable[[Pool], Any]) -> tuple[Pool, Any]:
    """The first kind of made-up records that the code takes, and what it gave.

    Raises
    ------
    CannotBeTried
        It takes none of them; the last failure is told, since made-up records are nobody's.
    """
    failure: Exception | None = None
    for made in pools:
        pool = made()
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return pool, run(pool)
        except NotOfOneRecord:
            raise
        except Exception as why:
            failure = why
    assert failure is not None
    if isinstance(failure, ValueError) and str(failure).startswith(("the objective gave", "what the objective gave")):
        raise failure
    raise CannotBeTried(
        f"it fails on synthetic records of the types and shapes of the data ({type(failure).__name__}: {failure}); fix it, or, if it needs special records, give example=, a few non-sensitive records of the same form"
    ) from failure


__all__ = [
    "CannotBeTried",
    "Evidence",
    "NotOfOneRecord",
    "Pool",
    "examine",
    "examine_sums",
    "first_that_runs",
    "synthetic",
    "of_example",
]
