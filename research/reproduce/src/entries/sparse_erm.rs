//! Excess risk of private learning with sparse rows against the number of records and of features, in the regimes of
//! Ghazi et al. 2024, Tables 1 and 2.
//!
//! Covers: sparse-v1 algorithm 3, theorem 5.1
//! Covers: sparse-v2 algorithm 6, theorem 7.1

use super::yardstick::{gradient, least_logistic, project};
use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::optimize::{MethodOptions, Run, choose, has_option};
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::report::chart::{Axis, Chart, Panel, Series, log_log_slope};
use dpopt_problems::one_hot;
use serde::{Deserialize, Serialize};

/// Excess risk against n and d.
pub const ENTRY: Entry = Entry {
    name: "sparse-erm",
    source: "sparse gradients, Tables 1 and 2 (upper bounds for convex ERM)",
    shows: "excess training risk of logistic regression on one-hot rows against n, for d = 10^3, 10^4, 10^5, and against s",
    fidelity: Fidelity::Theory,
    revision: 2,
    run,
};

const SPARSITY: usize = 10;
const RADIUS: f64 = 8.0;
const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

/// Method name as in `--method`, δ, and how the legend calls it.
const METHODS: [(&str, f64, &str); 5] = [
    ("sparse-output-perturbation", 1e-6, "sparse output perturbation"),
    ("sparse-output-perturbation", 0.0, "the same, pure"),
    ("output-perturbation", 1e-6, "output perturbation"),
    ("objective-perturbation", 1e-6, "objective perturbation"),
    ("noisy-sgd", 1e-6, "DP-SGD"),
];

#[derive(Clone, Serialize)]
struct Setting {
    method: &'static str,
    delta: f64,
    records: usize,
    dimension: usize,
    sparsity: usize,
}

#[derive(Clone, Serialize, Deserialize)]
struct Learned {
    /// Mean loss above the least in the ball.
    excess: f64,
    /// Excess risk that the plan predicted.
    predicted: f64,
    /// Excess risk of the answer 0.
    zero: f64,
    /// Weights of the answer that are not zero.
    nonzeros: usize,
}

fn learn(setting: &Setting, trial: Trial) -> Result<Learned, Failure> {
    let examples = one_hot(setting.records, setting.dimension, setting.sparsity, RADIUS, 4, trial.shared_seed);
    let problem = Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: setting.records as u64,
        features: setting.dimension,
        nonzeros: setting.sparsity,
        row_norm: 1.0,
        loss: LOGISTIC,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    };
    let budget = Budget::new(1.0, setting.delta).map_err(Failure::of)?;
    let options = MethodOptions::of(setting.method)
        .with_if("distance", has_option(setting.method, "distance").then_some(RADIUS))
        .with_if("shift", has_option(setting.method, "shift").then_some(0.0));
    let plan = choose(&problem, budget, &options).map_err(Failure::of)?;
    let mut curator = Curator::new(&plan.summary().certificate, trial.source());
    let mean_loss = |weights: &[f64]| gradient(&examples, LOGISTIC, weights).0;
    let (floor, zero) = (least_logistic(&examples, RADIUS), mean_loss(&vec![0.0; setting.dimension]));
    let data = Sensitive::new(examples.clone());
    let run = Run::new(&problem, &data, &mut curator, &Silent).map_err(Failure::of)?;
    let mut weights = plan.run(run).map_err(Failure::of)?.into_inner().weights;
    // all answers are held to the same ball: a projection of a released answer costs nothing
    project(&mut weights, RADIUS);
    Ok(Learned {
        excess: mean_loss(&weights) - floor,
        predicted: plan.summary().predicted_excess_risk,
        zero: zero - floor,
        nonzeros: weights.iter().filter(|w| **w != 0.0).count(),
    })
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let dimensions = lab.pick(vec![1000], vec![1000, 10_000, 100_000]);
    let records = lab.pick(vec![500, 2000], vec![1000, 4000, 16_000, 64_000, 256_000]);
    let repeats = lab.pick(1, 4);
    lab.setting("epsilon", 1.0)?;
    lab.setting("delta (0 for pure)", 1e-6)?;
    lab.setting("s", SPARSITY)?;
    lab.setting("D", RADIUS)?;
    lab.setting("n", &records)?;
    lab.setting("d", &dimensions)?;
    lab.setting("repeats", repeats)?;
    let mut settings = Vec::new();
    for &dimension in &dimensions {
        for &n in &records {
            for (method, delta, _) in METHODS {
                settings.push(Setting { method, delta, records: n, dimension, sparsity: SPARSITY });
            }
        }
    }
    // against s at the middle d and n
    let (middle_d, middle_n) = (dimensions[dimensions.len() / 2], records[records.len() / 2]);
    let sparsities = lab.pick(vec![5, 20], vec![3, 5, 20, 50]);
    lab.setting("other s, at the middle d and n", &sparsities)?;
    for &sparsity in &sparsities {
        for (method, delta, _) in METHODS {
            settings.push(Setting { method, delta, records: middle_n, dimension: middle_d, sparsity });
        }
    }
    let results = lab.trials("learn", &settings, repeats, learn)?;
    let mut table =
        Table::new("risk", ["method", "delta", "d", "s", "n", "excess", "sd", "predicted", "excess of 0", "non-zeros"]);
    for (s, r) in settings.iter().zip(&results) {
        let excess = Summary::of(r.iter().map(|x| x.excess));
        table.row([
            s.method.into(),
            s.delta.to_string(),
            s.dimension.to_string(),
            s.sparsity.to_string(),
            s.records.to_string(),
            cell(excess.mean),
            cell(excess.sd),
            cell(r[0].predicted),
            cell(Summary::of(r.iter().map(|x| x.zero)).mean),
            cell(Summary::of(r.iter().map(|x| x.nonzeros as f64)).mean),
        ]);
    }
    let points = |dimension: usize, method: &str, delta: f64| -> Vec<(f64, Summary)> {
        settings
            .iter()
            .zip(&results)
            .filter(|(s, _)| {
                s.dimension == dimension && s.method == method && s.delta == delta && s.sparsity == SPARSITY
            })
            .map(|(s, r)| (s.records as f64, Summary::of(r.iter().map(|x| x.excess))))
            .collect()
    };
    let zero = |dimension: usize| {
        settings
            .iter()
            .zip(&results)
            .filter(move |(s, _)| {
                s.dimension == dimension && s.method == METHODS[0].0 && s.delta > 0.0 && s.sparsity == SPARSITY
            })
            .map(|(s, r)| (s.records as f64, Summary::of(r.iter().map(|x| x.zero)).mean))
    };
    let panel = |dimension: usize| {
        let title = format!("d = {dimension}");
        let mut panel = Panel::new(title, Axis::log("records n"), Axis::log("F(x) − min F"));
        for (method, delta, name) in METHODS {
            let points = points(dimension, method, delta);
            panel = panel.with(Series::band(name, points.iter().map(|(n, s)| s.at(*n))));
        }
        panel.with(Series::theory("answering 0", zero(dimension)))
    };
    let against_s = |method: &str, delta: f64| -> Vec<(f64, Summary)> {
        let mut found: Vec<(f64, Summary)> = settings
            .iter()
            .zip(&results)
            .filter(|(s, _)| s.dimension == middle_d && s.records == middle_n && s.method == method && s.delta == delta)
            .map(|(s, r)| (s.sparsity as f64, Summary::of(r.iter().map(|x| x.excess))))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found
    };
    let by_sparsity = {
        let title = format!("d = {middle_d}, n = {middle_n}");
        METHODS.iter().fold(
            Panel::new(title, Axis::log("non-zeros s"), Axis::log("F(x) − min F")),
            |panel, (method, delta, name)| {
                panel.with(Series::band(*name, against_s(method, *delta).iter().map(|(s, e)| e.at(*s))))
            },
        )
    };
    let in_s = log_log_slope(against_s(METHODS[0].0, 1e-6).into_iter().map(|(s, e)| (s, e.mean.max(1e-9))))
        .map_or(f64::NAN, |s| s.slope);
    let slope = |dimension: usize, method: &str, delta: f64| {
        log_log_slope(points(dimension, method, delta).into_iter().map(|(n, s)| (n, s.mean.max(1e-9))))
            .map_or(f64::NAN, |s| s.slope)
    };
    let largest = dimensions[dimensions.len() - 1];
    let approximate = slope(largest, METHODS[0].0, 1e-6);
    let pure = slope(largest, METHODS[0].0, 0.0);
    let at = |dimension: usize, method: &str, delta: f64| {
        points(dimension, method, delta).last().map_or(f64::NAN, |p| p.1.mean)
    };
    let growth = at(largest, METHODS[0].0, 1e-6) / at(dimensions[0], METHODS[0].0, 1e-6);
    let dense = at(largest, "output-perturbation", 1e-6) / at(dimensions[0], "output-perturbation", 1e-6);
    let best =
        METHODS.iter().min_by(|a, b| at(largest, a.0, a.1).total_cmp(&at(largest, b.0, b.1))).map_or("", |m| m.2);
    let compared = vec![
        Compared::within(
            "slope in n at the largest d, δ = 1e-6 (bound: -1/2 until it meets that of 0)",
            -0.7..=-0.1,
            approximate,
        ),
        Compared::within("slope in n at the largest d, δ = 0 (bound: -1/3)", -0.5..=0.0, pure),
        Compared::within("slope in s at the middle d and n (bound: 1/4, with D fixed)", -0.25..=0.75, in_s),
        Compared::within("excess at the largest n: largest over smallest d (ln d would be below 2)", 0.5..=2.5, growth),
    ];
    let sentence = format!(
        "At d = {largest} the excess risk falls like n^{approximate:.2} (δ = 1e-6) and n^{pure:.2} (δ = 0); from d = {} on it grows by a \
         factor of {growth:.2}, where plain output perturbation grows by {dense:.2}. With s it changes like s^{in_s:.2}. The best method at the largest n is {best}.",
        dimensions[0]
    );
    Ok(Outcome {
        tables: vec![table],
        charts: vec![("figure".into(), Chart::of(dimensions.iter().map(|d| panel(*d)).chain([by_sparsity])))],
        verdict: Verdict::of_checks(&compared, sentence),
        compared,
        notes: vec![
            "Rows have ten one-hot groups with level frequencies about 1/l; only the four most frequent levels of a group matter. \
             All answers are projected on the ball that holds the truth."
                .into(),
            "The yardstick is the least loss in that ball, computed without privacy.".into(),
        ],
    })
}
