//! AC-SA, and phases on blocks for the population's sake, beside plain noisy steps (Liu 2024, Algorithms 4 and 5): rates in n and d on the linear hard instance, excess
//! against passes, and the loss of records yet unseen.
//!
//! Covers: thesis algorithm 3, algorithm 5, theorem 1.1.1, theorem 1.1.2, theorem 1.4.11, theorem 1.5.6

use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::mechanism::Curator;
use dpopt::minimize::{InMemory, Minimization, MinimizePlan, MinimizeProblem};
use dpopt::objective::Closures;
use dpopt::optimize::{MethodOptions, minimize};
use dpopt::privacy::special::gaussian_mu;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use dpopt_problems::LinearLosses;
use serde::{Deserialize, Serialize};

/// Excess against n, d and passes; the loss of records yet unseen against n.
pub const ENTRY: Entry = Entry {
    name: "accelerated",
    source: "sub-quadratic private optimisation, Theorems 1.1.1, 1.4.11 and 1.5.6",
    shows: "AC-SA and localisation over disjoint blocks beside noisy SGD, full-batch descent and heavy ball: rates in n and d, excess against passes, loss of records yet unseen",
    fidelity: Fidelity::Theory,
    revision: 1,
    run,
};

const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;

/// A way to the answer, by name and options.
#[derive(Clone, Copy, Serialize)]
struct Way {
    name: &'static str,
    method: &'static str,
    momentum: Option<f64>,
    population: bool,
}

const ACCELERATED: Way = Way { name: "AC-SA", method: "accelerated", momentum: None, population: false };
const SGD: Way = Way { name: "noisy SGD, heavy ball", method: "noisy-sgd", momentum: None, population: false };
const PLAIN_SGD: Way = Way { name: "noisy SGD, plain", method: "noisy-sgd", momentum: Some(0.0), population: false };
const DESCENT: Way =
    Way { name: "full batch, plain", method: "noisy-gradient-descent", momentum: Some(0.0), population: false };
const HEAVY: Way =
    Way { name: "full batch, heavy ball", method: "noisy-gradient-descent", momentum: Some(0.9), population: false };
const BLOCKS: Way = Way { name: "blocks, AC-SA", method: "accelerated", momentum: None, population: true };
const BLOCKS_SGD: Way = Way { name: "blocks, noisy SGD", method: "noisy-sgd", momentum: None, population: true };

#[derive(Clone, Copy, Serialize)]
enum Task {
    /// −⟨w, x⟩ on the unit ball, x of signs over √d whose bias noise just hides; `sampled`: with what sampling hides on top.
    Linear { sampled: bool },
    /// ½(⟨w, a⟩ − y)², a normal with variances 1/(k·H_d), y off by .5.
    Squares,
}

#[derive(Clone, Serialize)]
struct Setting {
    task: Task,
    way: Way,
    records: usize,
    dimension: usize,
    passes: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    /// On the records, or for linear losses with what sampling hides and for squares the expected one.
    excess: f64,
}

fn problem(s: &Setting) -> MinimizeProblem {
    let neighbours = Neighbours::of_records(Relation::ZeroOut);
    let usual = MinimizeProblem::new(s.records as u64, s.dimension, neighbours);
    match s.task {
        // a linear loss has no curvature; a small bound does for AC-SA, which adds its own
        Task::Linear { .. } => MinimizeProblem { distance: 1.0, smoothness: Some(1e-3), ..usual },
        Task::Squares => MinimizeProblem { distance: 1.0, smoothness: Some(1.0), ..usual },
    }
}

fn planned(s: &Setting) -> Result<MinimizePlan, Failure> {
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    let mut options = MethodOptions::of(s.way.method).with_if("momentum", s.way.momentum);
    options = match s.way.method {
        "noisy-gradient-descent" => options.with("steps", s.passes),
        _ => options.with("passes", s.passes as f64),
    };
    if s.way.population {
        options = options.with("goal", "population");
    }
    if matches!(s.task, Task::Linear { .. }) {
        options = options.with("ball_radius", 1.0);
    }
    Ok(Minimization::plan(problem(s), budget, &options).map_err(Failure::of)?.chosen().clone())
}

/// Variances of the features: they add up to 1.
fn spectrum(d: usize) -> Vec<f64> {
    let all: f64 = (1..=d).map(|k| 1.0 / k as f64).sum();
    (1..=d).map(|k| 1.0 / (k as f64 * all)).collect()
}

/// Of length 1, the same share along each feature.
fn truth(d: usize) -> Vec<f64> {
    (0..d).map(|k| if k % 2 == 0 { 1.0 } else { -1.0 } / (d as f64).sqrt()).collect()
}

fn measure(s: &Setting, plan: &MinimizePlan, trial: Trial) -> Result<Measured, Failure> {
    let (n, d) = (s.records, s.dimension);
    let mut curator = Curator::new(&plan.certificate, trial.source());
    let start = vec![0.0; d];
    match s.task {
        Task::Linear { sampled } => {
            let hidden = (d as f64).sqrt() / (n as f64 * gaussian_mu(EPSILON, DELTA));
            let bias = (hidden + if sampled { 1.0 / (n as f64).sqrt() } else { 0.0 }).min(1.0);
            let f = LinearLosses::biased_signs(n, d, bias, trial.shared_seed);
            let records: Vec<Vec<f32>> = (0..n).map(|i| f.row(i).to_vec()).collect();
            let loss = Closures::new(
                d,
                |x: &[f64], a: &Vec<f32>| -x.iter().zip(a).map(|(x, a)| x * f64::from(*a)).sum::<f64>(),
                |_: &[f64], a: &Vec<f32>, g: &mut [f64]| g.iter_mut().zip(a).for_each(|(g, a)| *g = -f64::from(*a)),
            );
            let records = Sensitive::new(records);
            let source = InMemory::new(loss, &records);
            let x = minimize::run(&problem(s), plan, &start, source, &mut curator, &Silent).map_err(Failure::of)?;
            let x = x.into_inner();
            Ok(Measured {
                excess: if sampled { f.population_excess_on_ball(&x, 1.0) } else { f.excess_on_ball(&x, 1.0) },
            })
        }
        Task::Squares => {
            let (variances, truth) = (spectrum(d), truth(d));
            let mut random = trial.source().stream(dpopt::noise::Purpose::Other(1), 0);
            let mut record = || {
                let mut a: Vec<f32> = variances.iter().map(|v| (v.sqrt() * random.standard_normal()) as f32).collect();
                let clean: f64 = a.iter().zip(&truth).map(|(a, w)| f64::from(*a) * w).sum();
                a.push((clean + 0.5 * random.standard_normal()) as f32);
                a
            };
            let records: Vec<Vec<f32>> = (0..n).map(|_| record()).collect();
            let residual = |x: &[f64], a: &[f32]| -> f64 {
                x.iter().zip(a).map(|(x, a)| x * f64::from(*a)).sum::<f64>() - f64::from(a[x.len()])
            };
            let loss = Closures::new(
                d,
                move |x: &[f64], a: &Vec<f32>| 0.5 * residual(x, a).powi(2),
                move |x: &[f64], a: &Vec<f32>, g: &mut [f64]| {
                    let r = residual(x, a);
                    g.iter_mut().zip(a).for_each(|(g, a)| *g = r * f64::from(*a));
                },
            );
            let records = Sensitive::new(records);
            let source = InMemory::new(loss, &records);
            let x = minimize::run(&problem(s), plan, &start, source, &mut curator, &Silent).map_err(Failure::of)?;
            let excess =
                0.5 * x.get().iter().zip(&truth).zip(&variances).map(|((x, w), v)| v * (x - w).powi(2)).sum::<f64>();
            Ok(Measured { excess })
        }
    }
}

/// Results of one way along one axis.
pub(super) struct Curve {
    pub(super) way: &'static str,
    pub(super) points: Vec<(f64, Summary)>,
}

fn curves(
    lab: &Lab,
    phase: &str,
    (ways, repeats): (&[Way], u32),
    settings_of: impl Fn(Way) -> Vec<(f64, Setting)>,
    table: &mut Table,
) -> Result<Vec<Curve>, Failure> {
    let all: Vec<(f64, Setting)> = ways.iter().flat_map(|&way| settings_of(way)).collect();
    let plans: Vec<MinimizePlan> = all.iter().map(|(_, s)| planned(s)).collect::<Result<_, _>>()?;
    let cells: Vec<(usize, Setting)> = all.iter().enumerate().map(|(i, (_, s))| (i, s.clone())).collect();
    let results = lab.trials(phase, &cells, repeats, |(i, s), trial| measure(s, &plans[*i], trial))?;
    let mut out: Vec<Curve> = ways.iter().map(|way| Curve { way: way.name, points: Vec::new() }).collect();
    for (((at, s), plan), trials) in all.iter().zip(&plans).zip(&results) {
        let found = Summary::of(trials.iter().map(|m| m.excess));
        table.row([
            phase.into(),
            s.way.name.into(),
            s.records.to_string(),
            s.dimension.to_string(),
            s.passes.to_string(),
            plan.schedule.steps.to_string(),
            cell(found.mean),
            cell(found.sd),
            cell(plan.predicted_excess),
        ]);
        if let Some(curve) = out.iter_mut().find(|curve| curve.way == s.way.name) {
            curve.points.push((*at, found));
        }
    }
    Ok(out)
}

pub(super) fn panel(title: &str, x: &str, y: &str, curves: &[Curve], fitted: bool) -> Panel {
    curves.iter().fold(Panel::new(title, Axis::log(x), Axis::log(y)), |panel, curve| {
        let series = Series::band(curve.way, curve.points.iter().map(|(at, s)| s.at(*at)));
        panel.with(if fitted { series.fitted(1.0..=1e9) } else { series })
    })
}

fn slope(panel: &Panel, way: &str) -> Result<f64, Failure> {
    let series = panel.series.iter().find(|s| s.name == way);
    Ok(series.and_then(Series::slope).ok_or_else(|| Failure::of("no positive excess to fit"))?.slope)
}

pub(super) fn last_mean(curves: &[Curve], way: &str) -> f64 {
    curves.iter().find(|c| c.way == way).and_then(|c| c.points.last()).map_or(f64::NAN, |(_, s)| s.mean)
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let repeats = lab.pick(2, 10);
    let sizes: Vec<usize> = lab.pick(vec![500, 1000], vec![250, 500, 1000, 2000]);
    let dimensions: Vec<usize> = lab.pick(vec![8, 16], vec![32, 64, 128, 256, 512]);
    let unseen: Vec<usize> = lab.pick(vec![500, 1000], vec![4000, 16_000, 64_000, 256_000]);
    let passes: Vec<u64> = lab.pick(vec![5, 10], vec![5, 10, 20, 40, 80, 160]);
    lab.setting("epsilon, delta (zero-out)", [EPSILON, DELTA])?;
    lab.setting("repeats", repeats)?;
    let mut table = Table::new("excess", ["panel", "way", "n", "d", "passes", "steps", "excess", "sd", "predicted"]);
    let linear = |way, records, dimension, sampled| Setting {
        task: Task::Linear { sampled },
        way,
        records,
        dimension,
        passes: 20,
    };
    let ways = [ACCELERATED, SGD, DESCENT];
    let in_n = curves(
        lab,
        "linear losses, n",
        (&ways, repeats),
        |way| sizes.iter().map(|&n| (n as f64, linear(way, n, 256, false))).collect(),
        &mut table,
    )?;
    let in_d = curves(
        lab,
        "linear losses, d",
        (&ways, repeats),
        |way| dimensions.iter().map(|&d| (d as f64, linear(way, 500, d, false))).collect(),
        &mut table,
    )?;
    let in_passes = curves(
        lab,
        "squares, passes",
        (&[ACCELERATED, SGD, PLAIN_SGD, DESCENT, HEAVY], repeats),
        |way| {
            let at = |&passes: &u64| {
                let records = lab.pick(1000, 32_000);
                (passes as f64, Setting { task: Task::Squares, way, records, dimension: 50, passes })
            };
            passes.iter().map(at).collect()
        },
        &mut table,
    )?;
    let ways = [SGD, ACCELERATED, BLOCKS, BLOCKS_SGD];
    let squares = curves(
        lab,
        "squares, unseen",
        (&ways, repeats),
        |way| {
            let at =
                |&n: &usize| (n as f64, Setting { task: Task::Squares, way, records: n, dimension: 20, passes: 20 });
            unseen.iter().map(at).collect()
        },
        &mut table,
    )?;
    let hard = curves(
        lab,
        "linear losses, unseen",
        (&ways, repeats),
        |way| unseen.iter().map(|&n| (n as f64, linear(way, n, 8, true))).collect(),
        &mut table,
    )?;
    let n_panel = panel("linear losses on the ball, d = 256", "records n", "F(x) − min F", &in_n, true);
    let d_panel = panel("linear losses on the ball, n = 500", "dimension d", "F(x) − min F", &in_d, true);
    let hard_panel =
        panel("linear losses, d = 8, records yet unseen", "records n", "excess of the expected loss", &hard, true);
    let squares_panel =
        panel("least squares, d = 20, records yet unseen", "records n", "excess of the expected loss", &squares, true);
    let passes_panel = panel(
        "least squares, n = 32,000, d = 50",
        "passes over the records",
        "excess of the expected loss",
        &in_passes,
        false,
    );
    let mut compared = Vec::new();
    for way in [ACCELERATED.name, SGD.name, DESCENT.name] {
        compared.push(Compared::within(
            format!("slope in n, {way} (theory: -1)"),
            -1.15..=-0.85,
            slope(&n_panel, way)?,
        ));
        compared.push(Compared::within(format!("slope in d, {way} (theory: 1/2)"), 0.4..=0.6, slope(&d_panel, way)?));
    }
    for way in [BLOCKS.name, BLOCKS_SGD.name] {
        let ours = slope(&hard_panel, way)?;
        compared.push(Compared::within(
            format!("slope in n of the unseen loss, {way} (theory: -1/2)"),
            -0.65..=-0.4,
            ours,
        ));
    }
    let best_simple = [SGD.name, PLAIN_SGD.name, DESCENT.name, HEAVY.name]
        .iter()
        .map(|way| last_mean(&in_passes, way))
        .fold(f64::INFINITY, f64::min);
    let accelerated = last_mean(&in_passes, ACCELERATED.name) / best_simple;
    let blocks =
        last_mean(&squares, BLOCKS.name).min(last_mean(&squares, BLOCKS_SGD.name)) / last_mean(&squares, SGD.name);
    let blocks_hard = last_mean(&hard, BLOCKS.name).min(last_mean(&hard, BLOCKS_SGD.name)) / last_mean(&hard, SGD.name);
    compared.push(Compared::within(
        "AC-SA over the best simple way, most passes (at most .9 would make it a default)",
        0.0..=0.9,
        accelerated,
    ));
    compared.push(Compared::within(
        "blocks over noisy SGD on all records, least squares, most records",
        0.0..=0.9,
        blocks,
    ));
    compared.push(Compared::within(
        "blocks over noisy SGD on all records, hard instance, most records",
        0.0..=0.9,
        blocks_hard,
    ));
    let sentence = format!(
        "The excess of AC-SA on linear losses goes like n^{:.2} and d^{:.2}, that of phases on blocks for records yet unseen like n^{:.2}. At most passes AC-SA has {:.2} of \
         the best simple way's excess, and on most records phases on blocks have {:.2} (least squares) and {:.2} (hard instance) of noisy SGD's on all records.",
        slope(&n_panel, ACCELERATED.name)?,
        slope(&d_panel, ACCELERATED.name)?,
        slope(&hard_panel, BLOCKS.name)?,
        accelerated,
        blocks,
        blocks_hard,
    );
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![table],
        charts: vec![
            ("rates".into(), Chart::of([n_panel, d_panel])),
            ("passes".into(), Chart::of([passes_panel])),
            ("unseen".into(), Chart::of([squares_panel, hard_panel])),
        ],
        compared,
        notes: vec![
            "Every run goes through the curator with its certified plan; clip norm 1, D = 1 and L are public facts of the problems, all else is the methods' default at equal passes. Nothing is tuned.".into(),
            "The bias of the linear losses is the one that the noise just hides (and sampling, for records yet unseen), so that the rate is that of the worst case for each n and d. That holds where d is above nμ² only: beyond it the records' own \
             spread is a signal that noise does not hide, and a first run there (d = 64, n from 2,000) fell faster than 1/n for all three ways.".into(),
            "Phases on blocks read n/2, n/4, … records with the whole budget each (parallel composition); all other ways read all records in each pass.".into(),
        ],
    })
}
