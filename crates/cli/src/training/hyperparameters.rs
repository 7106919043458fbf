//! Flags of single methods, and how they become options.

use crate::output::Failure;
use crate::usage;
use clap::{Args, ValueEnum};
use dpopt::mechanism::Correlation;
use dpopt::optimize::{AdaptiveOptions, Domain, Moments, RateSchedule, Subspace};
use std::path::{Path, PathBuf};

/// Hyper-parameters; all of them are chosen from public facts.
#[derive(Args, Clone)]
#[command(next_help_heading = "Hyper-parameters (chosen from public facts; no need to set any)")]
pub(crate) struct Tuning {
    /// Number of noisy steps
    #[arg(long)]
    pub(super) steps: Option<u64>,
    /// Step size on the mean loss
    #[arg(long, allow_negative_numbers = true)]
    pub(super) learning_rate: Option<f64>,
    /// How the step size falls during the run (descent methods)
    #[arg(long, value_enum)]
    pub(super) rate_schedule: Option<RateFlag>,
    /// Norm bound on one record's gradient
    #[arg(long, allow_negative_numbers = true)]
    pub(super) clip_norm: Option<f64>,
    /// Probability of a record to enter a batch
    #[arg(long, allow_negative_numbers = true)]
    pub(super) sampling_probability: Option<f64>,
    /// λ of the sum of losses
    #[arg(long, allow_negative_numbers = true)]
    pub(super) regularization: Option<f64>,
    /// Heavy-ball momentum
    #[arg(long, allow_negative_numbers = true)]
    pub(super) momentum: Option<f64>,
    /// dp-ftrl: how the noises of the steps are correlated
    #[arg(long, value_enum)]
    pub(super) correlation: Option<CorrelationFlag>,
    /// regularized-descent: features are publicly known to decay like k^-C over their directions
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    pub(super) gradient_decay: Option<f64>,
    /// regularized-descent: features are publicly known to lie in R directions
    #[arg(long, value_name = "R", conflicts_with = "gradient_decay")]
    pub(super) gradient_rank: Option<u64>,
    /// Public guess of the norm of the best weights (regularized-descent, sparse-output-perturbation)
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    pub(super) distance: Option<f64>,
    /// At most this many features with a weight that is not zero (the intercept not counted)
    #[arg(long, value_name = "K")]
    pub(super) max_features: Option<u64>,
    /// With --max-features: features kept after the first step
    #[arg(long, value_name = "K", requires = "max_features")]
    pub(super) initial_features: Option<u64>,
    /// With --max-features: share of the budget for fitting the chosen features again; 0 for none
    #[arg(long, value_name = "SHARE", requires = "max_features", allow_negative_numbers = true)]
    pub(super) refit_share: Option<f64>,
    /// peeling: how a feature is picked [default: the better prediction]
    #[arg(long, value_enum, requires = "max_features")]
    pub(super) peeling: Option<PeelingFlag>,
    /// dp-svrg-ht, dp-scsg-ht: norm bound on the change of a record's gradient since the snapshot
    #[arg(long, requires = "max_features", allow_negative_numbers = true)]
    pub(super) difference_clip: Option<f64>,
    /// dp-scsg-ht: probability of a record to enter a snapshot
    #[arg(long, requires = "max_features", allow_negative_numbers = true)]
    pub(super) snapshot_probability: Option<f64>,
    /// dp-scsg-ht: how many inner steps an epoch has
    #[arg(long, value_enum, requires = "max_features")]
    pub(super) inner_steps: Option<InnerStepsFlag>,
    /// frank-wolfe: largest l1 norm of the weights
    #[arg(long, value_name = "LAMBDA", allow_negative_numbers = true)]
    pub(super) l1_norm: Option<f64>,
    /// frank-wolfe: all slopes are computed anew every N steps; 1 for exact gradients
    #[arg(long, value_name = "N")]
    pub(super) refresh_every: Option<u64>,
    /// Shift of the logistic loss: 2 for accuracy, 0 for calibrated probabilities
    #[arg(long, allow_negative_numbers = true)]
    pub(super) shift: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: where the shape of clip and noise comes from [default: private for pasan and pagan, else none]
    #[arg(long, value_enum)]
    pub(super) moments: Option<MomentsFlag>,
    /// Public root mean squares of the encoded features, one number per line in the order of the weights: the shape of clip and noise
    #[arg(long, value_name = "FILE", conflicts_with = "moments")]
    pub(super) public_moments: Option<PathBuf>,
    /// pdp-sgd: project on the K leading directions of the features, released for a share of the budget
    #[arg(long, value_name = "K", conflicts_with = "subspace_first")]
    pub(super) subspace_rank: Option<usize>,
    /// pdp-sgd: project on the first K encoded features, publicly known to matter most
    #[arg(long, value_name = "K")]
    pub(super) subspace_first: Option<usize>,
    /// --moments private, --subspace-rank: share of the budget for moments or directions
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(super) moment_share: Option<f64>,
    /// --moments private-halving: public bound r on the features' moment ratio, 1 for bounded or Gaussian ones
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(super) moment_ratio: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: every weight stays within ±R
    #[arg(long, value_name = "R", conflicts_with = "ball_radius", allow_negative_numbers = true)]
    pub(super) box_radius: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: the weights' norm stays within R
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(super) ball_radius: Option<f64>,
    /// dp-adam: decay of the mean of squared gradients
    #[arg(long, allow_negative_numbers = true)]
    pub(super) second_momentum: Option<f64>,
    /// pasan, pagan, dp-adam, dp-adagrad: clip to the nearest point of the ellipsoid instead of radially (slow)
    #[arg(long)]
    pub(super) euclidean_clip: bool,
    /// exponential-mechanism: draws that share the budget; the answer is their mean
    #[arg(long)]
    pub(super) draws: Option<u64>,
    /// exponential-mechanism: as many evaluations whatever the data, at many times the cost
    #[arg(long)]
    pub(super) constant_time: bool,
}

/// `--moments`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum MomentsFlag {
    /// A release of the features' mean squares before the first step
    Private,
    /// Round by round from the largest down: for features with light tails
    PrivateHalving,
    /// From the gradients released so far
    Running,
    /// None: the same noise for every weight
    None,
}

impl Tuning {
    pub(super) fn adaptive(&self) -> Result<AdaptiveOptions, Failure> {
        let chosen = self.moments.map(|flag| match flag {
            MomentsFlag::Private => Moments::Private,
            MomentsFlag::PrivateHalving => Moments::PrivateHalving,
            MomentsFlag::Running => Moments::Running,
            MomentsFlag::None => Moments::None,
        });
        let moments = match &self.public_moments {
            Some(path) => Some(Moments::Public { spreads: numbers(path)? }),
            None => chosen,
        };
        let domain = match (self.box_radius, self.ball_radius) {
            (Some(radius), _) => Some(Domain::Box { radius }),
            (None, Some(radius)) => Some(Domain::Ball { radius }),
            (None, None) => None,
        };
        Ok(AdaptiveOptions {
            moments,
            subspace: match (self.subspace_rank, self.subspace_first) {
                (Some(rank), _) => Some(Subspace::Private { rank }),
                (None, Some(rank)) => Some(Subspace::Coordinates { rank }),
                (None, None) => None,
            },
            moment_share: self.moment_share,
            moment_ratio: self.moment_ratio,
            domain,
            euclidean_clip: self.euclidean_clip,
            second_momentum: self.second_momentum,
            lazy: None,
        })
    }
}

/// A public file with one number per line.
fn numbers(path: &Path) -> Result<Vec<f64>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| usage(format!("{}: {e}", path.display())))?;
    text.lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(i, line)| line.parse().map_err(|_| usage(format!("{}: line {} is not a number", path.display(), i + 1))))
        .collect()
}

/// `--peeling`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PeelingFlag {
    /// Exponential mechanism: the largest scores with one Gumbel noise each
    Gumbel,
    /// Report-noisy-max with fresh Laplace noise for every pick
    Laplace,
    /// The better prediction
    Auto,
}

/// `--inner-steps`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum InnerStepsFlag {
    /// Snapshot batch over inner batch
    Fixed,
    /// Geometric with that mean
    Geometric,
}

/// `--rate-schedule`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RateFlag {
    /// One step size
    Constant,
    /// In equal steps down to an eighth
    Linear,
    /// Along half a cosine, down to a hundredth
    Cosine,
    /// As 1/√(1 + stage), eight stages
    InverseSqrt,
}

impl From<RateFlag> for RateSchedule {
    fn from(flag: RateFlag) -> Self {
        match flag {
            RateFlag::Constant => Self::Constant,
            RateFlag::Linear => Self::Linear,
            RateFlag::Cosine => Self::Cosine,
            RateFlag::InverseSqrt => Self::InverseSqrt,
        }
    }
}

/// `--correlation`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum CorrelationFlag {
    /// Four buffers: near the best for one epoch, memory of four models
    Blt,
    /// Square root, as many bands as an epoch has steps: best for several epochs
    Banded,
    /// Binary tree, a fresh one per epoch
    Tree,
    /// None, for comparison
    Independent,
}

impl From<CorrelationFlag> for Correlation {
    fn from(flag: CorrelationFlag) -> Self {
        match flag {
            CorrelationFlag::Blt => Self::Blt,
            CorrelationFlag::Banded => Self::Banded,
            CorrelationFlag::Tree => Self::Tree,
            CorrelationFlag::Independent => Self::Independent,
        }
    }
}
