"""The parameter list that all linear estimators share, put into their docstrings once."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T", bound=type)

PARAMETERS = """Args:
        epsilon, delta: what the whole fit may spend. Default δ: 1/n^1.1, at most 0.01.
        method: ``"auto"`` takes the best certified candidate of :meth:`explain`; or a name of ``dpopt.METHODS``.
        bounds: public range of the features, ``(lower, upper)``: two numbers or two arrays. Never read off the data:
            without bounds rows are clipped to `row_norm` (1 by default) in the units of X, and a PrivacyWarning says so.
        row_norm: public l2 norm that rows are clipped to, after scaling by `bounds` (then at most 1, the default).
        max_nonzeros: public number of entries of a row that are kept, the largest ones after scaling. Methods for sparse rows
            use it, and ``"auto"`` then knows whether they are in their regime.
        classes: the public labels (classifiers). None: 5 % of the budget finds the frequent ones privately;
            ``"public"``: every label that occurs may be known.
        target_bounds: public range ``(lower, upper)`` of y (regressors); y is clipped to it. Left out, and without a moment, it is found privately for the
            first of 5, 10, 20 and 30 % of epsilon that is enough for so many rows.
        heavy_tailed: what is known of y whose range is not (regressors): a moment ``(k, m, a)``, (E|y - a|^k)^(1/k) <= m. y is clipped where that
            takes from its mean about as much as noise moves predictions; ``target_clip_bias_`` bounds it. k alone: the range is found privately.
        neighbors: ``"zero-out"``, ``"add-or-remove"`` (needs `n_rows`) or ``"replace-one"``.
        accountant: ``"auto"``, the tightest; a name of :func:`dpopt.accounting.compare` reports that one's (larger) ε
            in ``privacy_`` instead. The noise is the same.
        budget: a :class:`dpopt.Ledger` that is charged before any record is read.
        bounds, levels, text, hashed, numeric, ignore: columns of a table of pandas, Polars or Arrow declared by name, with public
            facts: ``bounds={"age": (17, 90)}`` (or ``"bounds.toml"``, the command line's file), ``levels={"sex": ["f", "m"]}``, lists
            of names for free text, hashed categories, numbers without a public range, and columns that are not used. The table is
            then encoded and fitted as ``dpopt fit`` does it, to the same bytes (docs/python.md).
        public_vectors: the path of a file of word vectors that are not sensitive (word2vec's or GloVe's text format, also gzipped), for the
            columns in `text`: words that mean alike then count alike. A model needs the same file again: ``dpopt.load(path, public_vectors=…)``.
        bounds_budget: share of epsilon that finds the ranges of `numeric` columns privately.
        encoding: constants of the encoder as under ``[dpopt]`` in a bounds file, for example ``{"knots": 12}``. Beside
            ``bounds=(lower, upper)`` it has the columns of a matrix encoded as a table's numeric columns are; ``{}`` leaves all to the plan.
        bad_cells: a cell of a declared table that cannot be read is ``"missing"``, or an ``"error"`` that tells column and row.
        fit_intercept, intercept_scaling: whether there is a constant, and its size next to a row of norm 1.
        n_rows: public number of rows, or a public guess of it under add-or-remove.
        max_rows_per_unit: for ``fit(X, y, units=...)``, a public bound on the rows of a unit: of one with more, so many are taken at random.
            Methods that look at rows one by one need it.
        unit_clipping: what is clipped then: ``"unit"``, the mean of a unit's gradients; ``"row"``, each row, whose guarantee is taken for a
            group of `max_rows_per_unit`; ``"auto"``, for each method what promises the smaller error.
        n_units: public number of units, of whom some may have no row; or a public guess of it under add-or-remove; by default they are counted.
        insecure_seed: reproducible noise for tests. **No privacy** against who knows it.

    Options of methods. None: chosen from public facts. A method that does not have an option refuses it by name; ``method="auto"``
    compares the methods that have all that are given (docs/methods/options.md says which have what):

{options}

    Fitted attributes: ``coef_``, ``intercept_``, ``classes_``, ``privacy_`` (:class:`dpopt.Privacy`), ``plan_``
    (:class:`dpopt.Plan`), ``noise_std_`` (of the main release; NaN for a method that adds no noise), ``coef_noise_std_``
    (upper bound per coefficient, NaN where the method has none). All other data-dependent facts (iterations, time, losses) are deliberately not kept."""


def documented(cls: T) -> T:
    """Fills ``{parameters}`` in the docstring."""
    cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", PARAMETERS)
    return cls
