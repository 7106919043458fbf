//! Differentially private optimization on sensitive records: **plan → certify → run → report**.
//!
//! Rooms from the ground up; each uses only rooms above it in this list (`docs/architecture.md` has all of them, and a test
//! holds the code against it):
//!
//! | room | what lives there |
//! |---|---|
//! | [`geometry`] | norms, projections |
//! | [`loss`] | per-record losses and their facts |
//! | [`records`] | bounded rows in memory, on disk, or elsewhere in parts |
//! | [`objective`] | what one record contributes, with what is known of it and why |
//! | [`plan`] | public facts, plans, candidates: everything before the first record |
//! | [`guarantee`] | what a whole run promises |
//! | [`sampler`] | draws from e^(−F) with a proved distance from that law |
//! | [`mechanism`] | [`Sensitive`] and [`Released`], the curator and the only doors out |
//! | [`optimize`] | one algorithm, one file, each in the same four steps |
//! | [`data`] | readers, schema, encoders from public facts |
//! | [`audit`] | empirical lower bounds on ε, for any mechanism here and for foreign ones |
//! | [`moment`] | what is known of numbers without a range |
//! | [`report`] | the answer, its guarantee and its cost, as one HTML file |
//! | [`model`] | what a user fits, predicts with and evaluates |
//! | [`estimate`] | answers without a model: the mean of sparse vectors, means of heavy-tailed columns |
//! | [`minimize`] | where the mean of anybody's own losses is small |
//! | [`online`] | one of many experts in every round, while their losses come in |
#![forbid(unsafe_code)]

pub mod estimate;
pub mod guarantee;
pub mod minimize;
pub mod model;
pub mod moment;
pub mod online;
pub mod report;
pub mod session;

pub use dpopt_audit as audit;
pub use dpopt_data as data;
pub use dpopt_data::output;
pub use dpopt_mechanism::progress;
pub use dpopt_mechanism::{Public, Released, Sensitive};
pub use dpopt_objective::{geometry, loss, objective, records};
pub use dpopt_optimize::plan;
pub use dpopt_privacy as privacy;

/// What methods are made of, the methods for linear models, and the registry that compares them; [`minimize`](optimize::minimize) for objectives of
/// anybody's own, and [`online`](optimize::online) for games.
pub mod optimize {
    pub use dpopt_linear::*;
    pub use dpopt_minimize as minimize;
    pub use dpopt_minimize::stationary;
    pub use dpopt_online as online;
    pub use dpopt_optimize::*;
}

/// Randomness that is safe to publish: streams, grids and exact samplers.
pub mod noise {
    pub use dpopt_draws::*;
    pub use dpopt_noise::*;
}

/// The only doors out: the curator, and the mechanisms it applies.
pub mod mechanism {
    pub use dpopt_mechanism::{
        AboveThreshold, AgreedMean, Agreement, Answers, BatchId, BatchSum, Blocks, Choice, ChoiceLaw, Clipped,
        ClippedVectors, ColumnClip, ColumnCounts, ColumnRanges, Comparisons, Correlation, Counts, Curator,
        CuratorError, DiscreteGaussianNoise, DiscreteLaplaceNoise, ExpertPlays, ExpertsFile, FixedBatch, FixedRuns,
        Gaussian, GradientStream, GridSum, Interactive, Inverse, L1Sum, LabelSelection, Laplace, LazyExperts, Level,
        Mechanism, NoisyLeader, ObjectiveDraw, Opening, POINT_UNITS, PeelingLaw, PieceSum, PoissonBatch, PrivateBounds,
        ProjectedGaussian, ProjectedLaplace, Projection, Public, Quantiles, RandomStopping, RangeEnd, ReleaseRecord,
        Released, RoundLosses, RunScore, SamplerError, ScoredPoints, Searching, SecondMoment, Sensitive,
        SketchedGaussian, SparseClip, SparseGridSum, SparseSum, SparseSummer, SparseVector, StreamShape, Tempered,
        VouchedRun, VouchedSearch, below_counts, symmetric_matrix,
    };
}

/// Draws from e^(−F), with a number for how far they are from that law.
pub mod sampler {
    pub use dpopt_mechanism::sampler::{
        Chain, Contraction, Convexity, Domain, DrawnStart, Exhausted, MAX_STEPS, NormSquare, Oracle, Potential, Start,
        Tally, ValueChain, ValueFacts, best_exponent, certified_value_chain, log_laplace, ratio, series,
    };
}
