//! Python bindings of dpopt: the compiled half of the package `dpopt` (its other half, in Python, lives in `python/`).
//!
//! Thin on purpose: values cross the border as JSON text or NumPy arrays, every mechanism and every number of the
//! accounting is the library's own. The interpreter's lock is released while records are encoded, plans are made and
//! fits run.

mod accounting;
mod agreed;
mod audit;
mod cells;
mod centred;
mod disclosure;
mod errors;
mod face;
mod fit;
mod games;
mod heavy_tailed;
mod integers;
mod kept;
mod ledger;
mod minimize;
mod moments;
mod objectives;
mod online;
mod owners;
mod partitions;
mod provenance;
mod release;
mod report;
mod rows;
mod search;
mod seeds;
mod session;
mod sizing;
mod sparse_mean;
mod stationary;
mod stop;
mod stream;
mod table;
mod table_fit;
mod training;

/// The module `dpopt._core`.
#[pyo3::pymodule(gil_used = true)]
mod _core {
    #[pymodule_export]
    use crate::accounting::{
        batch_event, batch_noise, calibrate, certified, compare, default_delta, delta, describe, epsilon,
        event_classes, foreign, gdp_estimate, guarantee_by, guarantee_delta, parse, privacy_curve, renyi, shown,
        sum_noise, true_positive_rates,
    };
    #[pymodule_export]
    use crate::agreed::{agreed_mean, agreed_plan};
    #[pymodule_export]
    use crate::audit::{SequentialAudit, audit};
    #[pymodule_export]
    use crate::centred::{centred_mean, centred_plan};
    #[pymodule_export]
    use crate::disclosure::disclose;
    #[pymodule_export]
    use crate::errors::{BudgetExceeded, PrivacyError};
    #[pymodule_export]
    use crate::fit::{Fit, method_options, moment, probability};
    #[pymodule_export]
    use crate::games::{BanditGame, ConvexGame, bandit_plan, convex_plan};
    #[pymodule_export]
    use crate::heavy_tailed::{heavy_tailed_mean, heavy_tailed_plans};
    #[pymodule_export]
    use crate::integers::{clipped_integers, grid_exponent};
    #[pymodule_export]
    use crate::ledger::FileLedger;
    #[pymodule_export]
    use crate::minimize::{Minimizing, minimize_options};
    #[pymodule_export]
    use crate::moments::{class_moments, class_moments_plan, covariance, covariance_plan};
    #[pymodule_export]
    use crate::objectives::NativeObjective;
    #[pymodule_export]
    use crate::online::{ExpertsGame, experts_plans};
    #[pymodule_export]
    use crate::owners::{Owners, UnitRows};
    #[pymodule_export]
    use crate::partitions::{RemoteNumbers, Shard, empty_query, places_of_units, units_are_apart, units_of};
    #[pymodule_export]
    use crate::provenance::provenance;
    #[pymodule_export]
    use crate::release::{
        NoisyChoice, NoisyCounts, NoisyQuantiles, NoisySum, bounds_event, choose, gaussian_sum, histogram,
        histogram_of_units, label_event, laplace_sum, noisy_counts, private_bounds, quantile_choices, quantiles,
        quantiles_sampler_error, random_below, second_moment, select_labels,
    };
    #[pymodule_export]
    use crate::rows::{Bounding, Rows};
    #[pymodule_export]
    use crate::search::{plan_search, repetitions, select_best};
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::sizing::{has_goal, sizing};
    #[pymodule_export]
    use crate::sparse_mean::{sparse_mean, sparse_mean_plans};
    #[pymodule_export]
    use crate::stationary::Stationary;
    #[pymodule_export]
    use crate::stream::{LinearStream, stream_report};
    #[pymodule_export]
    use crate::table::{ColumnEncoder, Declarations, Table};
    #[pymodule_export]
    use crate::table_fit::{TableFit, TableModel};
    #[pymodule_export]
    use crate::training::{ClippedOutside, Training};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("LABEL_SHARE", dpopt::model::StageShares::default().labels)?;
        module.add("METHODS", dpopt_methods::registry().names().collect::<Vec<_>>())
    }
}
