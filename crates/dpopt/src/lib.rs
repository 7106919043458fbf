//! Differentially private optimization on sensitive records: train a model, estimate a mean, minimize a loss, learn online, and publish the answer with a
//! guarantee that anyone can read and recompute.
//!
//! Every run takes the same four steps: **plan → certify → run → report**. A plan is made from public facts alone, and says what will be released; it is certified
//! against (ε, δ) before a record is read; the run releases through a curator, which refuses what the plan does not foresee; and the answer comes with its guarantee.
//!
//! # A model of a table
//!
//! ```
//! use dpopt::RunOptions;
//! use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
//! use dpopt::model::{Fit, FitOptions, Model};
//!
//! let rows = (0..3000).map(|i| format!("{},{}\n", 18 + i % 60, if i % 60 > 25 { "yes" } else { "no" }));
//! let table = open_bytes(("age,member\n".to_string() + &rows.collect::<String>()).into_bytes(), Format::Csv, &ReadOptions::default())?;
//! // what is publicly known of the columns
//! let schema = Schema::from_toml("[age]\nlower = 18\nupper = 80\n[member]\nlevels = ['no', 'yes']\n")?;
//!
//! let run = RunOptions::within(1.0).delta(1e-6);
//! let fitted = Fit::new(table, "member", run, FitOptions::default().schema(schema))?.run()?;
//! assert!(fitted.model.guarantee().certified_epsilon <= 1.0);
//!
//! // whoever has the model can recompute its guarantee from the events in it
//! let copy = Model::from_json(&fitted.model.to_json()?)?;
//! assert!(copy.guarantee().recompute().faults.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A loss of one's own
//!
//! ```
//! use dpopt::minimize::{MinimizeOptions, minimize};
//! use dpopt::objective::Closures;
//!
//! let loss = Closures::new(
//!     1,
//!     |x: &[f64], r: &f64| (x[0] - r).powi(2) / 2.0,
//!     |x: &[f64], r: &f64, gradient: &mut [f64]| gradient[0] = x[0] - r,
//! );
//! let records: Vec<f64> = (0..20_000).map(|i| f64::from(i % 10)).collect();
//! let found = minimize(loss, records, &[0.0], 1.0, MinimizeOptions::default())?;
//! assert!((found.x[0] - 4.5).abs() < 0.5);
//! # Ok::<(), dpopt::model::FitError>(())
//! ```
//!
//! # What something costs
//!
//! ```
//! use dpopt::privacy::{Event, Relation, accountant};
//!
//! let steps = Event::gaussian(1.1).poisson_sampled(0.01).self_composed(1000);
//! let bound = accountant::epsilon(&steps, Relation::AddOrRemove, 1e-6)?;
//! assert!(bound.upper < 2.3);
//! # Ok::<(), dpopt::privacy::accountant::AccountingError>(())
//! ```
//!
//! # Where to go from here
//!
//! | to | see |
//! |---|---|
//! | protect people with several rows | [`UnitOptions`] |
//! | keep a budget across runs | [`session::LedgerFile`], [`RunOptions::ledger`] |
//! | estimate means | [`estimate::MeanEstimate`], [`estimate::HeavyTailedMean`], [`estimate::Aggregate`] |
//! | learn round by round | [`online::Experts`], [`online::Convex`], [`online::Bandit`] |
//! | write a method of one's own | [`optimize::Registry`], [`optimize::prelude`], [`optimize::oracle::GradientSums`]; `examples/own_method` |
//! | release through the curator directly | [`mechanism::Curator`], [`mechanism::Sensitive`] |
//! | try to refute a claim | [`audit::attack`] |
//!
//! Ten programs to start from are in `examples/library`. Modules from the ground up: [`geometry`], [`loss`], [`records`], [`objective`]; [`plan`], [`guarantee`];
//! [`noise`], [`sampler`], [`mechanism`]; [`optimize`]; [`data`], [`audit`]; [`session`], [`moment`], [`recall`], [`disclosure`], [`report`]; [`model`], [`estimate`], [`minimize`], [`online`].
//! `docs/architecture.md` says what each uses, and which of them a guarantee rests on.
#![forbid(unsafe_code)]

pub mod disclosure;
pub mod estimate;
pub mod guarantee;
pub mod minimize;
pub mod model;
pub mod moment;
pub mod online;
mod provenance;
pub mod recall;
pub mod report;
mod run;
pub mod session;
pub mod sizing;

pub use provenance::Provenance;
pub use run::{Payer, RunOptions, UnitClipping, UnitOptions};

pub use dpopt_audit as audit;
pub use dpopt_data as data;
pub use dpopt_data::output;
pub use dpopt_mechanism::progress;
pub use dpopt_mechanism::{Public, Released, Sensitive};
pub use dpopt_objective::{geometry, loss, objective, records};
pub use dpopt_optimize::plan;
pub use dpopt_privacy as privacy;

/// What methods are made of, the methods for linear models, and the registry that compares them; [`minimize`](optimize::minimize) for objectives of
/// user-defined objectives, and [`online`](optimize::online) for games.
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

/// The only ways to release anything: the curator, and the mechanisms it applies.
pub mod mechanism {
    pub use dpopt_mechanism::{
        AboveThreshold, AgreedMean, Agreement, Answers, AssumedRun, AssumedSearch, Batch, BatchId, BatchSum, Blocks,
        Choice, ChoiceLaw, Clipped, ClippedVectors, ColumnClip, ColumnCounts, ColumnRanges, Comparisons, Correlation,
        Counts, Curator, CuratorError, DiscreteGaussianNoise, DiscreteLaplaceNoise, ExpertPlays, ExpertsFile,
        FixedBatch, FixedRuns, Gaussian, GradientStream, GridSum, Interactive, InteractiveStart, Inverse, L1Sum,
        LabelSelection, Laplace, LazyExperts, Level, Mechanism, NoisyLeader, ObjectiveDraw, POINT_QUANTA, PeelingLaw,
        PieceSum, PrivateBounds, ProjectedGaussian, ProjectedLaplace, Projection, Public, Quantiles, RandomStopping,
        RangeEnd, ReleaseRecord, Released, RoundLosses, RunScore, SamplerError, ScoredPoints, Searching, SecondMoment,
        Sensitive, SketchedGaussian, SparseClip, SparseGridSum, SparseSum, SparseSummer, SparseVector, StreamShape,
        Tempered, below_counts, symmetric_matrix,
    };
}

/// Draws from e^(−F), with a number for how far they are from that law.
pub mod sampler {
    pub use dpopt_mechanism::sampler::{
        Chain, Contraction, Convexity, Domain, DrawnStart, Exhausted, MAX_STEPS, NormSquare, Oracle, Potential, Start,
        Tally, ValueChain, ValueFacts, best_exponent, certified_value_chain, log_laplace, ratio, series,
    };
}
