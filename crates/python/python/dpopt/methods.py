"""Methods with their options, as objects: what ``method=`` of an estimator takes beside a name.

>>> import dpopt
>>> model = dpopt.LogisticRegression(epsilon=1.0, delta=1e-6, method=dpopt.methods.NoisySGD(steps=400, clip_norm=1.0))
>>> model.set_params(method__steps=100).method
NoisySGD(clip_norm=1.0, steps=100)

An option that is not given is chosen from public facts. Made by `make options` from the descriptions that stand with the methods.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from ._settings import Method


class Auto(Method):
    """The best certified method of those that have all options that are given; ``method="auto"`` is the same without any.

    Each option is described in the class of a method that has it: most in :class:`NoisySGD`, :class:`DPAdam` and :class:`ObjectivePerturbation`.
    Options that the estimator's methods do not have are refused by name.

    Parameters
    ----------
    calibration : float, optional
    intervals : float, optional
    steps : int, optional
    learning_rate : float, optional
    momentum : float, optional
    regularization : float, optional
    shift : float, optional
    clip_norm : float, optional
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
    sampling_probability : float, optional
    correlation : {"blt", "banded", "tree", "independent"}, optional
    draws : int, optional
    constant_time : bool, default False
    geometry : str, optional
    dual_row_norm : float, optional
    distance : float, optional
    initial_features : int, optional
    refit_share : float, optional
    difference_clip : float, optional
    inner_steps : {"fixed", "geometric"}, optional
    snapshot_probability : float, optional
    peeling : {"gumbel", "laplace"}, optional
    l1_norm : float, optional
    refresh_every : int, optional
    gradient_rank : int, optional
    gradient_decay : float, optional
    public_moments : array, optional
    box_radius : float, optional
    ball_radius : float, optional
    moments : {"private", "private-halving", "running", "none"}, optional
    moment_share : float, optional
    moment_ratio : float, optional
    subspace_rank : int, optional
    subspace_first : int, optional
    euclidean_clip : bool, default False
    second_momentum : float, optional
    phases : int, optional
    gradient_moment : float, optional
    moment_order : float, optional
    count_noise : float, optional
    count_level : float, optional
    select_rows : bool, default False
    embedding_update : {"scalar", "diagonal", "adam"}, optional
    """

    name: ClassVar[str] = "auto"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        shift: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        correlation: Literal["blt", "banded", "tree", "independent"] | None = None,
        draws: int | None = None,
        constant_time: bool = False,
        geometry: str | None = None,
        dual_row_norm: float | None = None,
        distance: float | None = None,
        initial_features: int | None = None,
        refit_share: float | None = None,
        difference_clip: float | None = None,
        inner_steps: Literal["fixed", "geometric"] | None = None,
        snapshot_probability: float | None = None,
        peeling: Literal["gumbel", "laplace"] | None = None,
        l1_norm: float | None = None,
        refresh_every: int | None = None,
        gradient_rank: int | None = None,
        gradient_decay: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        subspace_rank: int | None = None,
        subspace_first: int | None = None,
        euclidean_clip: bool = False,
        second_momentum: float | None = None,
        phases: int | None = None,
        gradient_moment: float | None = None,
        moment_order: float | None = None,
        count_noise: float | None = None,
        count_level: float | None = None,
        select_rows: bool = False,
        embedding_update: Literal["scalar", "diagonal", "adam"] | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.shift = shift
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.correlation = correlation
        self.draws = draws
        self.constant_time = constant_time
        self.geometry = geometry
        self.dual_row_norm = dual_row_norm
        self.distance = distance
        self.initial_features = initial_features
        self.refit_share = refit_share
        self.difference_clip = difference_clip
        self.inner_steps = inner_steps
        self.snapshot_probability = snapshot_probability
        self.peeling = peeling
        self.l1_norm = l1_norm
        self.refresh_every = refresh_every
        self.gradient_rank = gradient_rank
        self.gradient_decay = gradient_decay
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.subspace_rank = subspace_rank
        self.subspace_first = subspace_first
        self.euclidean_clip = euclidean_clip
        self.second_momentum = second_momentum
        self.phases = phases
        self.gradient_moment = gradient_moment
        self.moment_order = moment_order
        self.count_noise = count_noise
        self.count_level = count_level
        self.select_rows = select_rows
        self.embedding_update = embedding_update


class AdaptiveClipDescent(Method):
    """``"adaptive-clip-descent"``. Releases noisy sums of gradients over all rows, clipped to a norm that adapts to noisy histograms of the
    residuals; best for regression.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    """

    name: ClassVar[str] = "adaptive-clip-descent"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum


class ObjectivePerturbation(Method):
    """``"objective-perturbation"``. Releases the minimiser of the loss plus a random linear term, with a little noise added for the solver's error;
    best for two labels.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    shift : float, optional
        Shift of the logistic loss: 2 is good for accuracy; calibration removes it from the probabilities; without calibration use 0 for plain
        log-odds (a number from 0 to 20).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    """

    name: ClassVar[str] = "objective-perturbation"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        regularization: float | None = None,
        shift: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.regularization = regularization
        self.shift = shift
        self.clip_norm = clip_norm


class CentredDescent(Method):
    """``"centred-descent"``. Releases the mean of the rows, then noisy sums of clipped gradients of the centred rows; for classes.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        How the step size falls during the run [default: constant] (``"constant"``: a constant step size; ``"linear"``: falls linearly to an eighth;
        ``"cosine"``: falls along half a cosine to a hundredth; ``"inverse-sqrt"``: falls as 1/√(1 + stage), in eight stages).
    """

    name: ClassVar[str] = "centred-descent"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
    ) -> None:
        self.calibration = calibration
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule


class NoisyGradientDescent(Method):
    """``"noisy-gradient-descent"``. Releases noisy sums of clipped gradients over all rows, step by step; for any loss, and wide sparse data.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        How the step size falls during the run [default: constant] (``"constant"``: a constant step size; ``"linear"``: falls linearly to an eighth;
        ``"cosine"``: falls along half a cosine to a hundredth; ``"inverse-sqrt"``: falls as 1/√(1 + stage), in eight stages).
    """

    name: ClassVar[str] = "noisy-gradient-descent"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule


class ReleasedPreconditioner(Method):
    """``"released-preconditioner"``. Releases the noisy second-moment matrix once, then noisy gradients; for features of very different scale.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    """

    name: ClassVar[str] = "released-preconditioner"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.regularization = regularization
        self.clip_norm = clip_norm


class NoisySGD(Method):
    """``"noisy-sgd"``. Releases noisy sums of clipped gradients over Poisson batches (DP-SGD); for very many rows.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        How the step size falls during the run [default: constant] (``"constant"``: a constant step size; ``"linear"``: falls linearly to an eighth;
        ``"cosine"``: falls along half a cosine to a hundredth; ``"inverse-sqrt"``: falls as 1/√(1 + stage), in eight stages).
    sampling_probability : float, optional
        Probability that a record enters a batch (a number above 0, at most 1).
    """

    name: ClassVar[str] = "noisy-sgd"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability


class DPFTRL(Method):
    """``"dp-ftrl"``. Releases noisy sums over the batches of a stream, with noise that is correlated between steps (DP-FTRL); for rows that arrive in
    an order.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        How the step size falls during the run [default: constant] (``"constant"``: a constant step size; ``"linear"``: falls linearly to an eighth;
        ``"cosine"``: falls along half a cosine to a hundredth; ``"inverse-sqrt"``: falls as 1/√(1 + stage), in eight stages).
    sampling_probability : float, optional
        Probability that a record enters a batch (a number above 0, at most 1).
    correlation : {"blt", "banded", "tree", "independent"}, optional
        Correlation of the noise between steps [default: the better of blt and banded] (``"blt"``: buffered linear Toeplitz matrix with four buffers
        (the memory of four models): near the optimum for one epoch; ``"banded"``: banded square-root factorization, one band per step of an epoch:
        best for several epochs; ``"tree"``: binary tree aggregation, a new tree per epoch; ``"independent"``: independent noise in each step, for
        comparison).
    """

    name: ClassVar[str] = "dp-ftrl"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        correlation: Literal["blt", "banded", "tree", "independent"] | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.correlation = correlation


class NoisyNewton(Method):
    """``"noisy-newton"``. Releases noisy gradients and noisy Newton steps; for two labels and few features.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    """

    name: ClassVar[str] = "noisy-newton"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        steps: int | None = None,
        regularization: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.steps = steps
        self.regularization = regularization


class ExponentialMechanism(Method):
    """``"exponential-mechanism"``. Releases a draw from exp(-beta * regularised loss) by a certified sampler; for few rows and small budgets; slow.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    shift : float, optional
        Shift of the logistic loss: 2 is good for accuracy; calibration removes it from the probabilities; without calibration use 0 for plain
        log-odds (a number from 0 to 20).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    draws : int, optional
        Number of draws that share the budget; the result is their mean [default: 1] (a whole number, at least 1).
    constant_time : bool, default False
        Make the number of evaluations independent of the data, at many times the cost (True or False).
    geometry : str, optional
        Norm of the regularizer; rows are bounded in its dual norm; p above 2 is l2 [default: l2] (``"l1"``, ``"l2"``, or ``"lp:P"`` with a number P
        from 1 on).
    dual_row_norm : float, optional
        With geometry: rows are clipped to this norm of order p/(p-1) [default: their l2 norm, which clips none] (a positive, finite number).
    """

    name: ClassVar[str] = "exponential-mechanism"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        regularization: float | None = None,
        shift: float | None = None,
        clip_norm: float | None = None,
        draws: int | None = None,
        constant_time: bool = False,
        geometry: str | None = None,
        dual_row_norm: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.regularization = regularization
        self.shift = shift
        self.clip_norm = clip_norm
        self.draws = draws
        self.constant_time = constant_time
        self.geometry = geometry
        self.dual_row_norm = dual_row_norm


class OutputPerturbation(Method):
    """``"output-perturbation"``. Releases the minimiser plus noise; a baseline for smooth losses.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    shift : float, optional
        Shift of the logistic loss: 2 is good for accuracy; calibration removes it from the probabilities; without calibration use 0 for plain
        log-odds (a number from 0 to 20).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    """

    name: ClassVar[str] = "output-perturbation"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        regularization: float | None = None,
        shift: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.regularization = regularization
        self.shift = shift
        self.clip_norm = clip_norm


class SparseOutputPerturbation(Method):
    """``"sparse-output-perturbation"``. Releases the sparsest point near the noisy minimiser; for very many features with few nonzeros per row, also
    with delta = 0.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    shift : float, optional
        Shift of the logistic loss: 2 is good for accuracy; calibration removes it from the probabilities; without calibration use 0 for plain
        log-odds (a number from 0 to 20).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    distance : float, optional
        Public guess of the norm of the best weights; some methods constrain the weights to this ball (a positive, finite number).
    """

    name: ClassVar[str] = "sparse-output-perturbation"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        regularization: float | None = None,
        shift: float | None = None,
        clip_norm: float | None = None,
        distance: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.regularization = regularization
        self.shift = shift
        self.clip_norm = clip_norm
        self.distance = distance


class SparseExponential(Method):
    """``"sparse-exponential"``. Releases one point of a public net of sparse weight vectors; a reference for tiny problems, also with delta = 0.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    distance : float, optional
        Public guess of the norm of the best weights; some methods constrain the weights to this ball (a positive, finite number).
    """

    name: ClassVar[str] = "sparse-exponential"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        distance: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.distance = distance


class HardThresholdingGD(Method):
    """``"dp-gd-ht"``. Keeps the k largest coordinates of noisy full-batch steps, then refits them; for few features.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    initial_features : int, optional
        Number of features kept after the first step; it falls to max_features over the first half of the steps [default: max_features] (a whole
        number, at least 1).
    refit_share : float, optional
        Share of the budget for refitting the chosen features; 0 for no refit [default: 0.5] (a number from 0, below 1).
    """

    name: ClassVar[str] = "dp-gd-ht"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        initial_features: int | None = None,
        refit_share: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.initial_features = initial_features
        self.refit_share = refit_share


class HardThresholdingSGD(Method):
    """``"dp-sgd-ht"``. Keeps the k largest coordinates of noisy steps on Poisson batches, then refits them; for few features and huge tables.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    sampling_probability : float, optional
        Probability that a record enters a batch (a number above 0, at most 1).
    initial_features : int, optional
        Number of features kept after the first step; it falls to max_features over the first half of the steps [default: max_features] (a whole
        number, at least 1).
    refit_share : float, optional
        Share of the budget for refitting the chosen features; 0 for no refit [default: 0.5] (a number from 0, below 1).
    """

    name: ClassVar[str] = "dp-sgd-ht"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        sampling_probability: float | None = None,
        initial_features: int | None = None,
        refit_share: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.sampling_probability = sampling_probability
        self.initial_features = initial_features
        self.refit_share = refit_share


class HardThresholdingSVRG(Method):
    """``"dp-svrg-ht"``. Keeps the k largest coordinates of noisy snapshots and clipped changes of gradients; for comparison.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    sampling_probability : float, optional
        Probability that a record enters a batch (a number above 0, at most 1).
    initial_features : int, optional
        Number of features kept after the first step; it falls to max_features over the first half of the steps [default: max_features] (a whole
        number, at least 1).
    difference_clip : float, optional
        Clip norm of the change of a record's gradient since the snapshot [default: a quarter of clip_norm] (a positive, finite number).
    """

    name: ClassVar[str] = "dp-svrg-ht"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        sampling_probability: float | None = None,
        initial_features: int | None = None,
        difference_clip: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.sampling_probability = sampling_probability
        self.initial_features = initial_features
        self.difference_clip = difference_clip


class HardThresholdingSCSG(Method):
    """``"dp-scsg-ht"``. As dp-svrg-ht, with snapshots of Poisson batches; for comparison.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    sampling_probability : float, optional
        Probability that a record enters a batch (a number above 0, at most 1).
    initial_features : int, optional
        Number of features kept after the first step; it falls to max_features over the first half of the steps [default: max_features] (a whole
        number, at least 1).
    difference_clip : float, optional
        Clip norm of the change of a record's gradient since the snapshot [default: a quarter of clip_norm] (a positive, finite number).
    inner_steps : {"fixed", "geometric"}, optional
        Number of inner steps of an epoch [default: fixed] (``"fixed"``: the ratio of the batch sizes of snapshots and inner steps; ``"geometric"``:
        geometrically distributed with that mean).
    snapshot_probability : float, optional
        Probability that a record enters a snapshot [default: 0.75] (a number above 0, at most 1).
    """

    name: ClassVar[str] = "dp-scsg-ht"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        sampling_probability: float | None = None,
        initial_features: int | None = None,
        difference_clip: float | None = None,
        inner_steps: Literal["fixed", "geometric"] | None = None,
        snapshot_probability: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.sampling_probability = sampling_probability
        self.initial_features = initial_features
        self.difference_clip = difference_clip
        self.inner_steps = inner_steps
        self.snapshot_probability = snapshot_probability


class Peeling(Method):
    """``"peeling"``. Picks k features by noisy scores, then fits them; for very few features, also with delta = 0.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    momentum : float, optional
        Heavy-ball momentum; for adaptive steps the decay of the mean of gradients (a number from 0, below 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    refit_share : float, optional
        Share of the budget for refitting the chosen features; 0 for no refit [default: 0.5] (a number from 0, below 1).
    peeling : {"gumbel", "laplace"}, optional
        How features are picked [default: the smaller predicted error] (``"gumbel"``: exponential mechanism: the largest scores after adding Gumbel
        noise once; ``"laplace"``: report-noisy-max with fresh Laplace noise for every pick).
    """

    name: ClassVar[str] = "peeling"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        refit_share: float | None = None,
        peeling: Literal["gumbel", "laplace"] | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.refit_share = refit_share
        self.peeling = peeling


class FrankWolfe(Method):
    """``"frank-wolfe"``. Releases the best vertex of the l1 ball in each of T steps (private Frank-Wolfe); for far more features than rows, also with
    delta = 0.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    l1_norm : float, optional
        Largest l1 norm of the weights (a positive, finite number).
    refresh_every : int, optional
        All derivatives are recomputed every N steps; 1 for exact gradients [default: 10] (a whole number, at least 1).
    """

    name: ClassVar[str] = "frank-wolfe"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        clip_norm: float | None = None,
        l1_norm: float | None = None,
        refresh_every: int | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.clip_norm = clip_norm
        self.l1_norm = l1_norm
        self.refresh_every = refresh_every


class SufficientStatistics(Method):
    """``"sufficient-statistics"``. Releases noisy second moments of features and target; for regression with few features.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    """

    name: ClassVar[str] = "sufficient-statistics"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        regularization: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.regularization = regularization


class OneStep(Method):
    """``"one-step"``. Releases noisy sums of slopes and curvatures together; for coefficients with standard errors.

    Parameters
    ----------
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    """

    name: ClassVar[str] = "one-step"

    def __init__(
        self,
        *,
        intervals: float | None = None,
    ) -> None:
        self.intervals = intervals


class RegularizedDescent(Method):
    """``"regularized-descent"``. Releases noisy sums of gradients of a regularised loss; has a proved error bound, which improves for features of low
    rank or with decaying spectrum.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    sampling_probability : float, optional
        Probability that a record enters a batch (a number above 0, at most 1).
    distance : float, optional
        Public guess of the norm of the best weights; some methods constrain the weights to this ball (a positive, finite number).
    gradient_rank : int, optional
        Public fact: gradients (features) lie in a subspace of N dimensions (a whole number, at least 1).
    gradient_decay : float, optional
        Public fact: the k-th largest direction of gradients (features) decays like k^-C (a finite number, 0 or more).
    """

    name: ClassVar[str] = "regularized-descent"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        sampling_probability: float | None = None,
        distance: float | None = None,
        gradient_rank: int | None = None,
        gradient_decay: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.sampling_probability = sampling_probability
        self.distance = distance
        self.gradient_rank = gradient_rank
        self.gradient_decay = gradient_decay


class PAGAN(Method):
    """``"pagan"``. Noisy mean squares of the features, then noisy gradient sums clipped to an ellipsoid, with a learning rate per weight (PAGAN); for
    features of very different scale.

    Parameters
    ----------
    calibration : float, optional
        As in :class:`NoisySGD`.
    intervals : float, optional
        As in :class:`NoisySGD`.
    steps : int, optional
        As in :class:`NoisySGD`.
    learning_rate : float, optional
        As in :class:`NoisySGD`.
    momentum : float, optional
        As in :class:`NoisySGD`.
    regularization : float, optional
        As in :class:`NoisySGD`.
    clip_norm : float, optional
        As in :class:`NoisySGD`.
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        As in :class:`NoisySGD`.
    sampling_probability : float, optional
        As in :class:`NoisySGD`.
    public_moments : array, optional
        Public root mean squares of the features, which determine the shape of clipping and noise (a file has one number per line, for each encoded
        feature) (an array, one number per feature in the units of X (around the middle of `bounds`)).
    box_radius : float, optional
        Every weight is constrained to [-R, R] (a positive, finite number).
    ball_radius : float, optional
        The norm of the weights is constrained to at most R (a positive, finite number).
    moments : {"private", "private-halving", "running", "none"}, optional
        What determines the shape of clipping and noise [default: private for pasan and pagan, else none] (``"private"``: the mean squares of the
        features, released before the first step; ``"private-halving"``: the mean squares, released in rounds from the largest down; for features with
        light tails; ``"running"``: the gradients released so far; ``"none"``: nothing: the same noise for every weight).
    moment_share : float, optional
        Share of the budget for private moments, or for a private subspace [default: 0.1] (a number from 0.001 to 0.5).
    moment_ratio : float, optional
        Public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian features [default: 1] (a number from
        1 to 100).
    subspace_rank : int, optional
        Project on the K leading directions of the features, released for a share of the budget [default: 20 for pdp-sgd, else none] (a whole number,
        at least 1).
    subspace_first : int, optional
        Project on the first K encoded features, publicly known to matter most (a whole number, at least 1).
    euclidean_clip : bool, default False
        Clip to the nearest point of the ellipsoid instead of radially (slow) (True or False).
    """

    name: ClassVar[str] = "pagan"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        subspace_rank: int | None = None,
        subspace_first: int | None = None,
        euclidean_clip: bool = False,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.subspace_rank = subspace_rank
        self.subspace_first = subspace_first
        self.euclidean_clip = euclidean_clip


class PASAN(Method):
    """``"pasan"``. Noisy mean squares of the features, then noisy gradient sums clipped to an ellipsoid, with one adaptive learning rate (PASAN); for
    features of very different scale.

    Parameters
    ----------
    calibration : float, optional
        As in :class:`NoisySGD`.
    intervals : float, optional
        As in :class:`NoisySGD`.
    steps : int, optional
        As in :class:`NoisySGD`.
    learning_rate : float, optional
        As in :class:`NoisySGD`.
    momentum : float, optional
        As in :class:`NoisySGD`.
    regularization : float, optional
        As in :class:`NoisySGD`.
    clip_norm : float, optional
        As in :class:`NoisySGD`.
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        As in :class:`NoisySGD`.
    sampling_probability : float, optional
        As in :class:`NoisySGD`.
    public_moments : array, optional
        Public root mean squares of the features, which determine the shape of clipping and noise (a file has one number per line, for each encoded
        feature) (an array, one number per feature in the units of X (around the middle of `bounds`)).
    box_radius : float, optional
        Every weight is constrained to [-R, R] (a positive, finite number).
    ball_radius : float, optional
        The norm of the weights is constrained to at most R (a positive, finite number).
    moments : {"private", "private-halving", "running", "none"}, optional
        What determines the shape of clipping and noise [default: private for pasan and pagan, else none] (``"private"``: the mean squares of the
        features, released before the first step; ``"private-halving"``: the mean squares, released in rounds from the largest down; for features with
        light tails; ``"running"``: the gradients released so far; ``"none"``: nothing: the same noise for every weight).
    moment_share : float, optional
        Share of the budget for private moments, or for a private subspace [default: 0.1] (a number from 0.001 to 0.5).
    moment_ratio : float, optional
        Public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian features [default: 1] (a number from
        1 to 100).
    subspace_rank : int, optional
        Project on the K leading directions of the features, released for a share of the budget [default: 20 for pdp-sgd, else none] (a whole number,
        at least 1).
    subspace_first : int, optional
        Project on the first K encoded features, publicly known to matter most (a whole number, at least 1).
    euclidean_clip : bool, default False
        Clip to the nearest point of the ellipsoid instead of radially (slow) (True or False).
    """

    name: ClassVar[str] = "pasan"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        subspace_rank: int | None = None,
        subspace_first: int | None = None,
        euclidean_clip: bool = False,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.subspace_rank = subspace_rank
        self.subspace_first = subspace_first
        self.euclidean_clip = euclidean_clip


class DPAdaGrad(Method):
    """``"dp-adagrad"``. AdaGrad on noisy gradient sums over Poisson batches (DP-AdaGrad); for comparison.

    Parameters
    ----------
    calibration : float, optional
        As in :class:`NoisySGD`.
    intervals : float, optional
        As in :class:`NoisySGD`.
    steps : int, optional
        As in :class:`NoisySGD`.
    learning_rate : float, optional
        As in :class:`NoisySGD`.
    momentum : float, optional
        As in :class:`NoisySGD`.
    regularization : float, optional
        As in :class:`NoisySGD`.
    clip_norm : float, optional
        As in :class:`NoisySGD`.
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        As in :class:`NoisySGD`.
    sampling_probability : float, optional
        As in :class:`NoisySGD`.
    public_moments : array, optional
        Public root mean squares of the features, which determine the shape of clipping and noise (a file has one number per line, for each encoded
        feature) (an array, one number per feature in the units of X (around the middle of `bounds`)).
    box_radius : float, optional
        Every weight is constrained to [-R, R] (a positive, finite number).
    ball_radius : float, optional
        The norm of the weights is constrained to at most R (a positive, finite number).
    moments : {"private", "private-halving", "running", "none"}, optional
        What determines the shape of clipping and noise [default: private for pasan and pagan, else none] (``"private"``: the mean squares of the
        features, released before the first step; ``"private-halving"``: the mean squares, released in rounds from the largest down; for features with
        light tails; ``"running"``: the gradients released so far; ``"none"``: nothing: the same noise for every weight).
    moment_share : float, optional
        Share of the budget for private moments, or for a private subspace [default: 0.1] (a number from 0.001 to 0.5).
    moment_ratio : float, optional
        Public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian features [default: 1] (a number from
        1 to 100).
    subspace_rank : int, optional
        Project on the K leading directions of the features, released for a share of the budget [default: 20 for pdp-sgd, else none] (a whole number,
        at least 1).
    subspace_first : int, optional
        Project on the first K encoded features, publicly known to matter most (a whole number, at least 1).
    euclidean_clip : bool, default False
        Clip to the nearest point of the ellipsoid instead of radially (slow) (True or False).
    """

    name: ClassVar[str] = "dp-adagrad"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        subspace_rank: int | None = None,
        subspace_first: int | None = None,
        euclidean_clip: bool = False,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.subspace_rank = subspace_rank
        self.subspace_first = subspace_first
        self.euclidean_clip = euclidean_clip


class DPAdam(Method):
    """``"dp-adam"``. Adam on noisy gradient sums over Poisson batches (DP-Adam); for comparison.

    Parameters
    ----------
    calibration : float, optional
        As in :class:`NoisySGD`.
    intervals : float, optional
        As in :class:`NoisySGD`.
    steps : int, optional
        As in :class:`NoisySGD`.
    learning_rate : float, optional
        As in :class:`NoisySGD`.
    momentum : float, optional
        As in :class:`NoisySGD`.
    regularization : float, optional
        As in :class:`NoisySGD`.
    clip_norm : float, optional
        As in :class:`NoisySGD`.
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        As in :class:`NoisySGD`.
    sampling_probability : float, optional
        As in :class:`NoisySGD`.
    public_moments : array, optional
        Public root mean squares of the features, which determine the shape of clipping and noise (a file has one number per line, for each encoded
        feature) (an array, one number per feature in the units of X (around the middle of `bounds`)).
    box_radius : float, optional
        Every weight is constrained to [-R, R] (a positive, finite number).
    ball_radius : float, optional
        The norm of the weights is constrained to at most R (a positive, finite number).
    moments : {"private", "private-halving", "running", "none"}, optional
        What determines the shape of clipping and noise [default: private for pasan and pagan, else none] (``"private"``: the mean squares of the
        features, released before the first step; ``"private-halving"``: the mean squares, released in rounds from the largest down; for features with
        light tails; ``"running"``: the gradients released so far; ``"none"``: nothing: the same noise for every weight).
    moment_share : float, optional
        Share of the budget for private moments, or for a private subspace [default: 0.1] (a number from 0.001 to 0.5).
    moment_ratio : float, optional
        Public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian features [default: 1] (a number from
        1 to 100).
    subspace_rank : int, optional
        Project on the K leading directions of the features, released for a share of the budget [default: 20 for pdp-sgd, else none] (a whole number,
        at least 1).
    subspace_first : int, optional
        Project on the first K encoded features, publicly known to matter most (a whole number, at least 1).
    euclidean_clip : bool, default False
        Clip to the nearest point of the ellipsoid instead of radially (slow) (True or False).
    second_momentum : float, optional
        Decay of the mean of squared gradients [default: 0.999] (a number from 0, below 1).
    """

    name: ClassVar[str] = "dp-adam"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        subspace_rank: int | None = None,
        subspace_first: int | None = None,
        euclidean_clip: bool = False,
        second_momentum: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.subspace_rank = subspace_rank
        self.subspace_first = subspace_first
        self.euclidean_clip = euclidean_clip
        self.second_momentum = second_momentum


class PDPSGD(Method):
    """``"pdp-sgd"``. Noisy gradient sums projected on the leading directions of the features, which are released first; for comparison.

    Parameters
    ----------
    calibration : float, optional
        As in :class:`NoisySGD`.
    intervals : float, optional
        As in :class:`NoisySGD`.
    steps : int, optional
        As in :class:`NoisySGD`.
    learning_rate : float, optional
        As in :class:`NoisySGD`.
    momentum : float, optional
        As in :class:`NoisySGD`.
    regularization : float, optional
        As in :class:`NoisySGD`.
    clip_norm : float, optional
        As in :class:`NoisySGD`.
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        As in :class:`NoisySGD`.
    sampling_probability : float, optional
        As in :class:`NoisySGD`.
    public_moments : array, optional
        Public root mean squares of the features, which determine the shape of clipping and noise (a file has one number per line, for each encoded
        feature) (an array, one number per feature in the units of X (around the middle of `bounds`)).
    box_radius : float, optional
        Every weight is constrained to [-R, R] (a positive, finite number).
    ball_radius : float, optional
        The norm of the weights is constrained to at most R (a positive, finite number).
    moments : {"private", "private-halving", "running", "none"}, optional
        What determines the shape of clipping and noise [default: private for pasan and pagan, else none] (``"private"``: the mean squares of the
        features, released before the first step; ``"private-halving"``: the mean squares, released in rounds from the largest down; for features with
        light tails; ``"running"``: the gradients released so far; ``"none"``: nothing: the same noise for every weight).
    moment_share : float, optional
        Share of the budget for private moments, or for a private subspace [default: 0.1] (a number from 0.001 to 0.5).
    moment_ratio : float, optional
        Public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian features [default: 1] (a number from
        1 to 100).
    subspace_rank : int, optional
        Project on the K leading directions of the features, released for a share of the budget [default: 20 for pdp-sgd, else none] (a whole number,
        at least 1).
    subspace_first : int, optional
        Project on the first K encoded features, publicly known to matter most (a whole number, at least 1).
    euclidean_clip : bool, default False
        Clip to the nearest point of the ellipsoid instead of radially (slow) (True or False).
    """

    name: ClassVar[str] = "pdp-sgd"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        subspace_rank: int | None = None,
        subspace_first: int | None = None,
        euclidean_clip: bool = False,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.subspace_rank = subspace_rank
        self.subspace_first = subspace_first
        self.euclidean_clip = euclidean_clip


class LastIterate(Method):
    """``"last-iterate"``. Descent whose steps stay secret: any number of them at the price of one; by name.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    regularization : float, optional
        λ of the squared norm, in units of the sum of losses (a finite number, 0 or more).
    shift : float, optional
        Shift of the logistic loss: 2 is good for accuracy; calibration removes it from the probabilities; without calibration use 0 for plain
        log-odds (a number from 0 to 20).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    """

    name: ClassVar[str] = "last-iterate"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        regularization: float | None = None,
        shift: float | None = None,
        clip_norm: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.regularization = regularization
        self.shift = shift
        self.clip_norm = clip_norm


class BiasReducedSGD(Method):
    """``"bias-reduced-sgd"``. Releases noisy means of a batch of random size and of its halves; a reference, never the best.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    steps : int, optional
        Number of noisy steps (a whole number, at least 1).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    distance : float, optional
        Public guess of the norm of the best weights; some methods constrain the weights to this ball (a positive, finite number).
    """

    name: ClassVar[str] = "bias-reduced-sgd"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        clip_norm: float | None = None,
        distance: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.steps = steps
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.distance = distance


class PhasedSGD(Method):
    """``"phased-sgd"``. Releases the noisy mean of each of a few phases' iterates, every record read once; a reference, in linear time.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    distance : float, optional
        Public guess of the norm of the best weights; some methods constrain the weights to this ball (a positive, finite number).
    phases : int, optional
        Number of phases, each of half the records of the one before and with shorter steps (a whole number, at least 1).
    gradient_moment : float, optional
        G, a public bound on the k-th moment of gradient norms, (E‖gradient‖^k)^(1/k) ≤ G, for heavy tails; the clip norm then balances clipping bias
        against noise (a positive, finite number).
    moment_order : float, optional
        Order k of gradient_moment, above 1; larger for lighter tails [default: 2] (a positive, finite number).
    """

    name: ClassVar[str] = "phased-sgd"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        learning_rate: float | None = None,
        clip_norm: float | None = None,
        distance: float | None = None,
        phases: int | None = None,
        gradient_moment: float | None = None,
        moment_order: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.distance = distance
        self.phases = phases
        self.gradient_moment = gradient_moment
        self.moment_order = moment_order


class ClippedSGD(Method):
    """``"clipped-sgd"``. Releases the noisy mean of each phase's iterates along clipped gradients, where a noisy test finds few clips; a reference.

    Parameters
    ----------
    calibration : float, optional
        Share of the budget for calibrating the fitted model: its scale and intercept are refitted, so that predicted probabilities match frequencies
        and predicted means match means (a share of the budget from 0 (none) to 0.5, by default 0.05).
    intervals : float, optional
        Level of prediction intervals for a regression (squared, absolute or huber loss): half their width is found by noisy sums after the fit, for 2
        to 20 % of the budget, so that intervals hold at least this share of targets (a level from 0.5 to 0.99).
    learning_rate : float, optional
        Step size on the mean loss, the largest of all steps (a positive, finite number).
    clip_norm : float, optional
        Bound on the norm of one record's gradient (for squared loss also the slope bound of Huber's loss) (a positive, finite number).
    distance : float, optional
        Public guess of the norm of the best weights; some methods constrain the weights to this ball (a positive, finite number).
    phases : int, optional
        Number of phases, each of half the records of the one before and with shorter steps (a whole number, at least 1).
    gradient_moment : float, optional
        G, a public bound on the k-th moment of gradient norms, (E‖gradient‖^k)^(1/k) ≤ G, for heavy tails; the clip norm then balances clipping bias
        against noise (a positive, finite number).
    moment_order : float, optional
        Order k of gradient_moment, above 1; larger for lighter tails [default: 2] (a positive, finite number).
    """

    name: ClassVar[str] = "clipped-sgd"

    def __init__(
        self,
        *,
        calibration: float | None = None,
        intervals: float | None = None,
        learning_rate: float | None = None,
        clip_norm: float | None = None,
        distance: float | None = None,
        phases: int | None = None,
        gradient_moment: float | None = None,
        moment_order: float | None = None,
    ) -> None:
        self.calibration = calibration
        self.intervals = intervals
        self.learning_rate = learning_rate
        self.clip_norm = clip_norm
        self.distance = distance
        self.phases = phases
        self.gradient_moment = gradient_moment
        self.moment_order = moment_order


class EmbeddingSGD(Method):
    """``"embedding-sgd"``. DP-SGD for embedding models, sums of embeddings and two towers.

    Parameters
    ----------
    steps : int, optional
        As in :class:`NoisySGD`.
    learning_rate : float, optional
        As in :class:`NoisySGD`.
    momentum : float, optional
        As in :class:`NoisySGD`.
    regularization : float, optional
        As in :class:`NoisySGD`.
    clip_norm : float, optional
        As in :class:`NoisySGD`.
    rate_schedule : {"constant", "linear", "cosine", "inverse-sqrt"}, optional
        As in :class:`NoisySGD`.
    sampling_probability : float, optional
        As in :class:`NoisySGD`.
    public_moments : array, optional
        Public root mean squares of the features, which determine the shape of clipping and noise (a file has one number per line, for each encoded
        feature) (an array, one number per feature in the units of X (around the middle of `bounds`)).
    box_radius : float, optional
        Every weight is constrained to [-R, R] (a positive, finite number).
    ball_radius : float, optional
        The norm of the weights is constrained to at most R (a positive, finite number).
    moments : {"private", "private-halving", "running", "none"}, optional
        What determines the shape of clipping and noise [default: private for pasan and pagan, else none] (``"private"``: the mean squares of the
        features, released before the first step; ``"private-halving"``: the mean squares, released in rounds from the largest down; for features with
        light tails; ``"running"``: the gradients released so far; ``"none"``: nothing: the same noise for every weight).
    moment_share : float, optional
        Share of the budget for private moments, or for a private subspace [default: 0.1] (a number from 0.001 to 0.5).
    moment_ratio : float, optional
        Public bound on the moment ratio of the features, for moments private-halving; 1 for bounded or Gaussian features [default: 1] (a number from
        1 to 100).
    second_momentum : float, optional
        Decay of the mean of squared gradients [default: 0.999] (a number from 0, below 1).
    count_noise : float, optional
        With select_rows: ratio of the noise of counts to that of gradients [default: 3] (a number from 0.1 to 100).
    count_level : float, optional
        With select_rows: threshold of the noisy counts, in standard deviations of their noise (a number from 0.125 to 9).
    select_rows : bool, default False
        Train only embeddings of features chosen by a noisy count in each batch, so that the model stays sparse (True or False).
    embedding_update : {"scalar", "diagonal", "adam"}, optional
        Adaptive steps instead of momentum; `moments` and `domain` configure them (``"scalar"``: one adaptive learning rate, as in pasan;
        ``"diagonal"``: a learning rate per weight, as in pagan; ``"adam"``: as dp-adam).
    """

    name: ClassVar[str] = "embedding-sgd"

    def __init__(
        self,
        *,
        steps: int | None = None,
        learning_rate: float | None = None,
        momentum: float | None = None,
        regularization: float | None = None,
        clip_norm: float | None = None,
        rate_schedule: Literal["constant", "linear", "cosine", "inverse-sqrt"] | None = None,
        sampling_probability: float | None = None,
        public_moments: ArrayLike | None = None,
        box_radius: float | None = None,
        ball_radius: float | None = None,
        moments: Literal["private", "private-halving", "running", "none"] | None = None,
        moment_share: float | None = None,
        moment_ratio: float | None = None,
        second_momentum: float | None = None,
        count_noise: float | None = None,
        count_level: float | None = None,
        select_rows: bool = False,
        embedding_update: Literal["scalar", "diagonal", "adam"] | None = None,
    ) -> None:
        self.steps = steps
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.regularization = regularization
        self.clip_norm = clip_norm
        self.rate_schedule = rate_schedule
        self.sampling_probability = sampling_probability
        self.public_moments = public_moments
        self.box_radius = box_radius
        self.ball_radius = ball_radius
        self.moments = moments
        self.moment_share = moment_share
        self.moment_ratio = moment_ratio
        self.second_momentum = second_momentum
        self.count_noise = count_noise
        self.count_level = count_level
        self.select_rows = select_rows
        self.embedding_update = embedding_update


#: Every class by the name of its method.
BY_NAME: dict[str, type[Method]] = {
    "auto": Auto,
    "adaptive-clip-descent": AdaptiveClipDescent,
    "objective-perturbation": ObjectivePerturbation,
    "centred-descent": CentredDescent,
    "noisy-gradient-descent": NoisyGradientDescent,
    "released-preconditioner": ReleasedPreconditioner,
    "noisy-sgd": NoisySGD,
    "dp-ftrl": DPFTRL,
    "noisy-newton": NoisyNewton,
    "exponential-mechanism": ExponentialMechanism,
    "output-perturbation": OutputPerturbation,
    "sparse-output-perturbation": SparseOutputPerturbation,
    "sparse-exponential": SparseExponential,
    "dp-gd-ht": HardThresholdingGD,
    "dp-sgd-ht": HardThresholdingSGD,
    "dp-svrg-ht": HardThresholdingSVRG,
    "dp-scsg-ht": HardThresholdingSCSG,
    "peeling": Peeling,
    "frank-wolfe": FrankWolfe,
    "sufficient-statistics": SufficientStatistics,
    "one-step": OneStep,
    "regularized-descent": RegularizedDescent,
    "pagan": PAGAN,
    "pasan": PASAN,
    "dp-adagrad": DPAdaGrad,
    "dp-adam": DPAdam,
    "pdp-sgd": PDPSGD,
    "last-iterate": LastIterate,
    "bias-reduced-sgd": BiasReducedSGD,
    "phased-sgd": PhasedSGD,
    "clipped-sgd": ClippedSGD,
    "embedding-sgd": EmbeddingSGD,
}

__all__ = [
    "AdaptiveClipDescent",
    "Auto",
    "BY_NAME",
    "BiasReducedSGD",
    "CentredDescent",
    "ClippedSGD",
    "DPAdaGrad",
    "DPAdam",
    "DPFTRL",
    "EmbeddingSGD",
    "ExponentialMechanism",
    "FrankWolfe",
    "HardThresholdingGD",
    "HardThresholdingSCSG",
    "HardThresholdingSGD",
    "HardThresholdingSVRG",
    "LastIterate",
    "Method",
    "NoisyGradientDescent",
    "NoisyNewton",
    "NoisySGD",
    "ObjectivePerturbation",
    "OneStep",
    "OutputPerturbation",
    "PAGAN",
    "PASAN",
    "PDPSGD",
    "Peeling",
    "PhasedSGD",
    "RegularizedDescent",
    "ReleasedPreconditioner",
    "SparseExponential",
    "SparseOutputPerturbation",
    "SufficientStatistics",
]
