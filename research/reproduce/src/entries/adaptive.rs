//! Private adaptive gradients (PASAN, PAGAN): Figure 1, the rates of the lower bounds, and two real tables (Asi et al. 2021).
//!
//! Covers: adaptive-gradients algorithm 1, algorithm 2 (adaptive-synthetic, adaptive-language-model)
//! Covers: adaptive-gradients algorithm 3 (adaptive-tables)
//! Covers: adaptive-gradients theorem 2, theorem 4, theorem 5 (adaptive-lower-bounds)

mod language_model;
mod lower_bounds;
mod synthetic;
mod tables;

use crate::{Entry, Failure, Fidelity, Trial};
use dpopt::Sensitive;
use dpopt::mechanism::Curator;
use dpopt::optimize::{Adaptive, AdaptiveKind, AdaptiveOptions, Algorithm, DescentOptions, Run};
use dpopt::plan::Problem;
use dpopt::privacy::Budget;
use dpopt::progress::Silent;
use dpopt::records::Examples;

/// The entry of Figure 1 of Asi et al. 2021: absolute regression.
pub const SYNTHETIC: Entry = Entry {
    name: "adaptive-synthetic",
    source: "paper on private adaptive gradient methods, Figure 1",
    shows: "absolute regression with features of spread j^-3/2: loss against the iterate for ε = 0.1, 1, 4, on the paper's step sizes and on more of them",
    fidelity: Fidelity::Corrected(
        "noise calibrated numerically; δ = 1e-5, 1000 Poisson batches, box [-1, 1]^d and clip norms are ours, the source gives none",
    ),
    revision: 1,
    run: synthetic::run,
};

/// Theorems 4 and 5.
pub const LOWER_BOUNDS: Entry = Entry {
    name: "adaptive-lower-bounds",
    source: "paper on private adaptive gradient methods, Theorems 2, 4 and 5",
    shows: "excess risk of linear losses on box and ball at the signal that each noise hides best, against n, ε and the profile of the features",
    fidelity: Fidelity::Theory,
    revision: 3,
    run: lower_bounds::run,
};

/// PAGAN against DP-SGD at equal total budget.
pub const TABLES: Entry = Entry {
    name: "adaptive-tables",
    source: "paper on private adaptive gradient methods, §4 (private moments), on tables that it does not have",
    shows: "log loss and accuracy of PAGAN with privately learnt moments and of DP-SGD at equal total budget, default options, on census income and SMS spam",
    fidelity: Fidelity::StandIn("the source gives no experiment with private moments"),
    revision: 1,
    run: tables::run,
};

/// Figure 2 and Table 1.
pub const LANGUAGE_MODEL: Entry = Entry {
    name: "adaptive-language-model",
    source: "paper on private adaptive gradient methods, Figure 2 and Table 1",
    shows: "perplexity of a two-layer LSTM with 2,160,320 weights on WikiText-2, trained by DP-SGD, PASAN and PAGAN at equal tuning",
    fidelity: Fidelity::StandIn(
        "trained on WikiText-2's validation part and tested on its test part: a tenth of the training part, which is not here; moments from half of the test part",
    ),
    revision: 2,
    run: language_model::run,
};

/// Why Figure 2 is not reproduced.
pub const LANGUAGE_MODEL_CAUSES: Entry = Entry {
    name: "adaptive-language-model-causes",
    source: "paper on private adaptive gradient methods, Figure 2 and Table 1: what stands in their way",
    shows: "the language model with clip, moments and steps changed one at a time: which of them costs PAGAN its gain",
    fidelity: Fidelity::StandIn(
        "268,352 weights (16 numbers where the source has 120) on the texts of adaptive-language-model; four trainings with the source's 2,160,320",
    ),
    revision: 1,
    run: language_model::causes,
};

const DELTA: f64 = 1e-5;

/// Plans a method for (ε, [`DELTA`]) and runs it; `look` sees every iterate. The answer's weights.
fn train<K: AdaptiveKind>(
    (sampling_probability, adaptive, descent): (f64, AdaptiveOptions, DescentOptions),
    (problem, examples): (&Problem, &Sensitive<Examples>),
    epsilon: f64,
    trial: Trial,
    look: &mut dyn FnMut(u64, &[f64]),
) -> Result<Vec<f64>, Failure> {
    let method = Adaptive::<K>::new(Some(sampling_probability), adaptive, descent);
    let plan = method.plan(problem, Budget::new(epsilon, DELTA).map_err(Failure::of)?).map_err(Failure::of)?;
    let mut curator = Curator::new(&plan.summary.certificate, trial.source());
    let run = Run::new(problem, examples, &mut curator, &Silent).map_err(Failure::of)?;
    Ok(method.run_watched(&plan, run, look).map_err(Failure::of)?.into_inner().weights)
}
