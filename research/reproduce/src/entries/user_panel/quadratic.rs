//! φ(θ; z) = ½‖θ − z‖² with z ∈ {±1/√d}^d, by descent on sums clipped per unit or per row, under both relations.

use crate::{Compared, Failure, Lab, Summary, Table, Trial, cell};
use dpopt::Sensitive;
use dpopt::mechanism::{Clipped, Curator, Gaussian, GridSum, SamplerError};
use dpopt::noise::{Grid, NoiseSource, Purpose, Stream};
use dpopt::objective::{Closures, Objective, OfUnits};
use dpopt::privacy::{Budget, Certificate, Event, Neighbours, Relation, calibrate};
use dpopt::records::{Owners, Units};
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use serde::{Deserialize, Serialize};

/// The dimension d.
const DIMENSION: usize = 50;
const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-5;
/// The number of steps T.
const STEPS: u64 = 100;
/// Steps of size 1 come first: enough to walk from 0 to a mean of norm 1 at the clip norm .15. Those after them are of sizes 1, ½, ⅓, …, so that
/// the answer is the mean of their noisy means.
const LONG_STEPS: u64 = 20;
/// Excess risk asked for: zero-out, replace-one.
const GOALS: [(Relation, f64); 2] = [(Relation::ZeroOut, 2e-6), (Relation::ReplaceOne, 5e-6)];

#[derive(Clone, Copy, PartialEq, Serialize)]
enum Clipping {
    /// The mean of a unit's gradients, at 1.5/√m: the mean of m rows has a standard deviation of 1/√m.
    Unit,
    /// Each row at 1.5, with the guarantee of a row for a group of m.
    Row,
}

#[derive(Clone, Serialize)]
struct Setting {
    clipping: Clipping,
    relation: Relation,
    units: usize,
    rows_per_unit: usize,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    excess: f64,
    /// What the theory of an unclipped mean says: that of sampling, and that of noise.
    predicted: [f64; 2],
    noise_multiplier: f64,
}

/// What the quadratic adds to the entry.
pub(super) struct Part {
    pub(super) table: Table,
    pub(super) chart: Chart,
    pub(super) compared: Vec<Compared>,
    pub(super) notes: Vec<String>,
    pub(super) sentence: String,
}

/// The signs of a row's coordinates, a bit each.
type Signs = u64;

/// Rows whose coordinate j is 1/√d with probability (1 + p_j)/2 and −1/√d otherwise, with p_j uniform in [−½, ½]; and p.
fn rows(count: usize, stream: &mut Stream) -> (Vec<Signs>, Vec<f64>) {
    const ONE: u64 = 1 << 32;
    let bias: Vec<f64> = (0..DIMENSION).map(|_| stream.below(ONE) as f64 / ONE as f64 - 0.5).collect();
    let thresholds: Vec<u64> = bias.iter().map(|p| (0.5 * (1.0 + p) * ONE as f64) as u64).collect();
    let row = |stream: &mut Stream| {
        thresholds.iter().enumerate().fold(0, |signs, (j, &least)| signs | (u64::from(stream.below(ONE) < least) << j))
    };
    ((0..count).map(|_| row(stream)).collect(), bias)
}

/// The gradient θ − z of a row; values are asked for by nobody here, and are as they should be.
fn quadratic() -> impl Objective<Vec<Signs>> {
    let size = 1.0 / (DIMENSION as f64).sqrt();
    let coordinate = move |signs: Signs, j: usize| if signs >> j & 1 == 1 { size } else { -size };
    Closures::new(
        DIMENSION,
        move |x: &[f64], &signs: &Signs| {
            x.iter().enumerate().map(|(j, x)| (x - coordinate(signs, j)).powi(2)).sum::<f64>() / 2.0
        },
        move |x: &[f64], &signs: &Signs, gradient: &mut [f64]| {
            gradient.iter_mut().zip(x).enumerate().for_each(|(j, (g, x))| *g = x - coordinate(signs, j));
        },
    )
}

/// θ after T noisy steps on the mean of `count` records.
fn descend(
    noise: &Gaussian,
    count: usize,
    curator: &mut Curator,
    sum: impl Fn(&[f64]) -> Sensitive<GridSum>,
) -> Result<Vec<f64>, Failure> {
    let mut x = vec![0.0; DIMENSION];
    for step in 1..=STEPS {
        let gradient = curator.release(noise, &sum(&x)).map_err(Failure::of)?;
        let size = 1.0 / (step.saturating_sub(LONG_STEPS).max(1) * count as u64) as f64;
        x.iter_mut().zip(gradient.get()).for_each(|(x, g)| *x -= size * g);
    }
    Ok(x)
}

/// z with T releases of a sum within the budget, each for all that one user has.
fn calibrated(setting: &Setting) -> Result<(f64, Certificate), Failure> {
    let terms = Neighbours::of_users(setting.relation).within(Budget::new(EPSILON, DELTA).map_err(Failure::of)?);
    let most = match setting.clipping {
        Clipping::Unit => 1,
        Clipping::Row => setting.rows_per_unit as u64,
    };
    let samplers = SamplerError::rounded(DIMENSION as f64) * STEPS as f64;
    let event = |z| samplers.on(Event::gaussian(z).self_composed(STEPS)).for_users_of(most);
    calibrate::noise(event, terms).map_err(Failure::of)
}

fn measure(setting: &Setting, trial: Trial) -> Result<Measured, Failure> {
    let Setting { clipping, units, rows_per_unit, .. } = *setting;
    let n = units * rows_per_unit;
    let mut draws = NoiseSource::insecure(trial.shared_seed).stream(Purpose::Other(1), 0);
    let (rows, bias) = rows(n, &mut draws);
    let (z, certificate) = calibrated(setting)?;
    let (clip_norm, count) = match clipping {
        Clipping::Unit => (1.5 / (rows_per_unit as f64).sqrt(), units),
        Clipping::Row => (1.5, n),
    };
    let grid = Grid::for_sum(clip_norm, z * clip_norm, count as u64, DIMENSION);
    let noise = Gaussian::new(z, clip_norm, grid, DIMENSION, "gradient");
    let mut curator = Curator::new(&certificate, trial.source());
    let answer = match clipping {
        Clipping::Unit => {
            let of_row = (0..n).map(|row| (row / rows_per_unit) as u32).collect();
            let units = Units::new(rows, &Owners { of_row, units }).map_err(Failure::of)?;
            let units = Sensitive::new(units);
            let clipped = Clipped::new(OfUnits::new(quadratic()), clip_norm, grid).map_err(Failure::of)?;
            descend(&noise, count, &mut curator, |x| clipped.sum(&units, x))?
        }
        Clipping::Row => {
            let rows = Sensitive::new(rows);
            let clipped = Clipped::new(quadratic(), clip_norm, grid).map_err(Failure::of)?;
            descend(&noise, count, &mut curator, |x| clipped.sum(&rows, x))?
        }
    };
    let d = DIMENSION as f64;
    let squares = |p: &f64| 1.0 - p * p;
    let sampling = bias.iter().map(squares).sum::<f64>() / d / (2.0 * n as f64);
    let averaged = (STEPS - LONG_STEPS) as f64;
    Ok(Measured {
        excess: answer.iter().zip(&bias).map(|(x, p)| (x - p / d.sqrt()).powi(2)).sum::<f64>() / 2.0,
        predicted: [sampling, d * (z * clip_norm / count as f64).powi(2) / averaged / 2.0],
        noise_multiplier: z,
    })
}

pub(super) fn run(lab: &Lab) -> Result<Part, Failure> {
    let (units, rows_per_unit) = lab.pick((500, 20), (5_000, 100));
    let repeats = lab.pick(2, 5);
    lab.setting("quadratic: d, units, rows of each", [DIMENSION, units, rows_per_unit])?;
    lab.setting("quadratic: epsilon, delta", [EPSILON, DELTA])?;
    lab.setting("quadratic: steps, of them of size 1", [STEPS, LONG_STEPS])?;
    lab.setting("quadratic: repeats", repeats)?;
    let settings: Vec<Setting> = [Clipping::Unit, Clipping::Row]
        .into_iter()
        .flat_map(|clipping| GOALS.map(|(relation, _)| Setting { clipping, relation, units, rows_per_unit }))
        .collect();
    let results = lab.trials("quadratic", &settings, repeats, measure)?;
    let mut table = Table::new(
        "quadratic",
        ["clipped", "relation", "noise multiplier", "excess risk", "sd", "predicted: sampling", "predicted: noise"],
    );
    let excess: Vec<Summary> = results.iter().map(|r| Summary::of(r.iter().map(|m| m.excess))).collect();
    for ((setting, trials), excess) in settings.iter().zip(&results).zip(&excess) {
        let mean = |of: fn(&Measured) -> f64| cell(Summary::of(trials.iter().map(of)).mean);
        table.row([
            name(setting.clipping).into(),
            setting.relation.name().into(),
            mean(|m| m.noise_multiplier),
            cell(excess.mean),
            cell(excess.sd),
            mean(|m| m.predicted[0]),
            mean(|m| m.predicted[1]),
        ]);
    }
    let mut panel = Panel::new(
        format!("d = {DIMENSION}, {units} units × {rows_per_unit} rows, ε = {EPSILON}"),
        Axis::linear("relation: 1 zero-out, 2 replace-one").from_to(0.5, 2.5),
        Axis::log("F(θ) − min F"),
    );
    for (clipping, excess) in [Clipping::Unit, Clipping::Row].into_iter().zip(excess.chunks(GOALS.len())) {
        let points = excess.iter().enumerate().map(|(i, s)| s.at((i + 1) as f64));
        panel = panel.with(Series::band(name(clipping), points));
    }
    panel = panel.with(Series::dots("goal", GOALS.iter().enumerate().map(|(i, goal)| ((i + 1) as f64, goal.1))));
    let compared = GOALS
        .iter()
        .zip(&excess)
        .map(|((relation, goal), s)| Compared {
            what: format!("quadratic: excess risk by unit under {}", relation.name()),
            reported: format!("at most {goal:e}"),
            ours: format!("{:.2e} ± {:.1e}", s.mean, s.standard_error()),
            agrees: Some(s.mean <= *goal),
        })
        .collect();
    let sentence = format!(
        "On the quadratic the excess risk by unit is {:.2e} (zero-out) and {:.2e} (replace-one), by group privacy {:.2e} and {:.2e}.",
        excess[0].mean, excess[1].mean, excess[2].mean, excess[3].mean
    );
    Ok(Part {
        table,
        chart: Chart::of([panel]),
        compared,
        notes: vec![format!(
            "Quadratic: p uniform in [-1/2, 1/2]^d, so that the start, 0, is far from the answer; clip norms 1.5/√m by unit and 1.5 by row. Clip norms and step sizes \
             are public facts of the problem and were not tuned; {repeats} repeats, each with its own table."
        )],
        sentence,
    })
}

fn name(clipping: Clipping) -> &'static str {
    match clipping {
        Clipping::Unit => "per unit",
        Clipping::Row => "per row, group of all",
    }
}
