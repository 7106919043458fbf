//! Spider beside noisy descent on valleys that narrow again and again, and on one that does not: norm of the gradient that is left against n (docs/decisions/0031).
//!
//! Covers: thesis algorithm 17, theorem 6.3.9

mod one_pass;
mod tuning;
mod walks;

pub use one_pass::ENTRY as ONE_PASS;

use super::accelerated::{Curve, last_mean, panel};
use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Scale, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::mechanism::Curator;
use dpopt::minimize::{InMemory, MinimizePlan, MinimizeProblem};
use dpopt::optimize::{MethodOptions, minimize};
use dpopt::privacy::special::gaussian_mu;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::report::chart::{Chart, Panel, Series};
use dpopt_problems::Valley;
use serde::Serialize;
use tuning::{Plans, slope_in_n, tuned};
use walks::{Descent, spider};

/// The entry of three valleys, with many passes over the records.
pub const ENTRY: Entry = Entry {
    name: "stationary",
    source: "second-order points of the empirical risk, Theorem 6.3.9, against the bound of noisy descent; the chapter has no experiments",
    shows: "gradient norm that Spider and noisy descent leave on valleys that narrow again and again, and on a plain one",
    fidelity: Fidelity::Theory,
    revision: 1,
    run,
};

const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
const DIMENSION: usize = 101;
const WIDTH: f64 = 12.0;
/// Length of a record's own gradient.
const PULL: f64 = 0.95;
/// Records up to which DP-SGD is tuned.
const MAX_OF_SGD: u64 = 1_000_000;

#[derive(Clone, Copy, Serialize, PartialEq)]
enum Ground {
    Logarithmic,
    Exponential,
    Plain,
}

impl Ground {
    fn valley(self) -> Valley {
        match self {
            Self::Logarithmic => Valley::gated(Valley::logarithmic(), WIDTH, DIMENSION),
            Self::Exponential => Valley::gated(Valley::exponential(), WIDTH, DIMENSION),
            Self::Plain => Valley::plain(Valley::logarithmic(), DIMENSION),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Logarithmic => "gated valley, logarithmic floor",
            Self::Exponential => "gated valley, exponential floor",
            Self::Plain => "plain valley, logarithmic floor",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Logarithmic => "logarithmic",
            Self::Exponential => "exponential",
            Self::Plain => "plain",
        }
    }

    /// The option `initial_gap` of Spider: Δ of the exponential floor; of the logarithmic ones, which have none, as far as 27 lengths.
    fn gap(self) -> f64 {
        match self {
            Self::Exponential => self.valley().drop_to(f64::INFINITY),
            Self::Logarithmic | Self::Plain => 0.033,
        }
    }
}

#[derive(Clone, Copy, Serialize, PartialEq)]
enum Way {
    Last,
    Averaged,
    Falling,
    HeavyBall,
    Sgd,
    OneStage,
    TwoStages,
    Planned,
}

const WAYS: [(Way, &str); 8] = [
    (Way::Last, "DP-GD, last"),
    (Way::Averaged, "DP-GD, mean of last half"),
    (Way::Falling, "DP-GD, step falling to 0"),
    (Way::HeavyBall, "heavy ball, step falling to 0"),
    (Way::Sgd, "DP-SGD, mean of last half"),
    (Way::OneStage, "Spider, one stage"),
    (Way::TwoStages, "Spider, two stages"),
    (Way::Planned, "Spider, not tuned"),
];

/// What one tuning is made for.
#[derive(Clone, Copy, Serialize)]
struct Setting {
    ground: Ground,
    way: Way,
    records: u64,
    steps: u64,
    sampling_probability: f64,
    learning_rate: f64,
    momentum: f64,
    fresh: u64,
    drift: f64,
    second_stage: f64,
}

impl Setting {
    /// What the plan depends on.
    fn planned(self) -> Self {
        let way = if matches!(self.way, Way::Last | Way::Averaged | Way::Falling | Way::HeavyBall) {
            Way::Last
        } else {
            self.way
        };
        Self { way, learning_rate: 0.0, momentum: 0.0, ..self }
    }
}

fn problem(records: u64, relation: Relation) -> MinimizeProblem {
    MinimizeProblem {
        smoothness: Some(1.0),
        distance: 1.0,
        ..MinimizeProblem::new(records, DIMENSION, Neighbours::of_records(relation))
    }
}

fn plan(s: &Setting) -> Result<MinimizePlan, Failure> {
    let of_spider = MethodOptions::of("spider").with("initial_gap", s.ground.gap());
    let options = match s.way {
        Way::Planned => of_spider.with("steps", s.steps),
        Way::OneStage | Way::TwoStages => of_spider
            .with("steps", s.steps)
            .with("fresh_gradients", s.fresh)
            .with("drift", s.drift)
            .with("second_stage", s.second_stage),
        Way::Sgd => {
            MethodOptions::of("noisy-sgd").with("steps", s.steps).with("sampling_probability", s.sampling_probability)
        }
        _ => MethodOptions::of("noisy-gradient-descent").with("steps", s.steps),
    };
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    minimize::choose(&problem(s.records, Relation::ReplaceOne), budget, &options).map_err(Failure::of)
}

/// Norm of the gradient that is left.
fn walk(s: &Setting, plan: &MinimizePlan, trial: Trial) -> f64 {
    let (valley, n, mut stream) = (s.ground.valley(), s.records as f64, trial.stream());
    if let Some(numbers) = &plan.schedule.spider {
        return spider(&valley, (&plan.schedule, numbers), n, &mut stream);
    }
    let q = s.sampling_probability;
    // of a batch by coins: records of length .95 each of which counts 1/(qn) with probability q
    let sampling = PULL * ((1.0 - q) / (q * n * DIMENSION as f64)).sqrt();
    let descent = Descent {
        learning_rate: s.learning_rate,
        momentum: s.momentum,
        steps: s.steps,
        falls: matches!(s.way, Way::Falling | Way::HeavyBall),
        noise_std: (plan.schedule.noise_std / (q * n)).hypot(sampling),
    };
    let (last, averaged) = descent.run(&valley, &mut stream);
    if matches!(s.way, Way::Averaged | Way::Sgd) { averaged } else { last }
}

/// 2^k steps around where the best ones are.
fn lengths(ground: Ground, records: u64, scale: Scale) -> std::ops::RangeInclusive<u32> {
    match (ground, records) {
        _ if scale == Scale::Short => 6..=7,
        (Ground::Exponential, ..=200_000) => 5..=11,
        (Ground::Exponential, ..=2_000_000) => 9..=13,
        (Ground::Exponential, _) => 12..=16,
        (_, ..=200_000) => 7..=12,
        (_, ..=2_000_000) => 12..=16,
        _ => 15..=18,
    }
}

/// The public grid of a way.
fn grid(ground: Ground, way: Way, records: u64, scale: Scale) -> Result<Vec<Setting>, Failure> {
    let base = Setting {
        ground,
        way,
        records,
        steps: 1,
        sampling_probability: 1.0,
        learning_rate: 1.0,
        momentum: 0.0,
        fresh: 1,
        drift: 1.0,
        second_stage: 0.0,
    };
    if way == Way::Planned {
        // as many steps as it would take, were there no cap
        let unlimited = plan(&Setting { steps: 1 << 20, ..base })?;
        let aim = unlimited.schedule.spider.map_or(f64::NAN, |spider| spider.aim);
        return Ok(vec![Setting { steps: (ground.gap() / (aim * aim)).ceil() as u64, ..base }]);
    }
    let lengths = lengths(ground, records, scale);
    let shorter = if matches!(way, Way::HeavyBall) { 3 } else { 0 };
    let mut all = Vec::new();
    for k in *lengths.start() - shorter..=*lengths.end() {
        let with = Setting { steps: 1 << k, ..base };
        match way {
            Way::HeavyBall => all.extend(
                [(0.9, 1.0), (0.9, 3.0), (0.9, 10.0), (0.99, 3.0), (0.99, 10.0), (0.99, 30.0)]
                    .map(|(momentum, learning_rate)| Setting { momentum, learning_rate, ..with }),
            ),
            Way::OneStage | Way::TwoStages => {
                // MΔ/(Cα) and four times as much or as little
                let middle = (ground.gap() * with.steps as f64).sqrt().log2().round().max(0.0) as i32;
                for fresh in [middle - 2, middle - 1, middle, middle + 1].map(|k| 1u64 << k.max(0)) {
                    for drift in [0.5, 2.0] {
                        let share = if way == Way::TwoStages { 0.25 } else { 0.0 };
                        let drift = drift * fresh as f64 / with.steps as f64;
                        all.push(Setting { fresh, drift, second_stage: share, ..with });
                    }
                }
            }
            Way::Sgd => {
                all.extend([(0.1, 1.0), (0.1, 0.5), (0.1, 0.2), (0.01, 1.0), (0.01, 0.5), (0.01, 0.2)].map(
                    |(sampling_probability, learning_rate)| Setting { sampling_probability, learning_rate, ..with },
                ))
            }
            _ => all.extend([1.0, 0.5, 0.2].map(|learning_rate| Setting { learning_rate, ..with })),
        }
    }
    all.dedup_by_key(|s| (s.steps, s.fresh, s.drift.to_bits(), s.learning_rate.to_bits(), s.momentum.to_bits()));
    Ok(all)
}

fn curves(lab: &Lab, ground: Ground, sizes: &[u64], fresh: u32, table: &mut Table) -> Result<Vec<Curve>, Failure> {
    let mut all: Vec<Curve> = WAYS.iter().map(|(_, name)| Curve { way: name, points: Vec::new() }).collect();
    let plans = Plans::default();
    let planned = |s: &Setting| plans.of(s.planned(), || plan(s));
    for (curve, (way, name)) in all.iter_mut().zip(WAYS) {
        // each of its plans is a loss distribution of thousands of steps
        let affordable = sizes.iter().filter(|&&records| way != Way::Sgd || records <= MAX_OF_SGD);
        for &records in affordable {
            let settings = grid(ground, way, records, lab.scale)?;
            let (s, found) = tuned(lab, &settings, fresh, |s, trial| Ok(walk(s, &planned(s)?, trial)))?;
            let numbers = planned(&s)?.schedule.spider;
            table.row([
                ground.name().into(),
                name.into(),
                records.to_string(),
                s.steps.to_string(),
                cell(s.sampling_probability),
                cell(s.learning_rate),
                cell(s.momentum),
                numbers.map_or(String::new(), |spider| spider.fresh_gradients.to_string()),
                numbers.map_or(String::new(), |spider| cell(spider.drift)),
                cell(found.mean),
                cell(found.standard_error()),
            ]);
            curve.points.push((records as f64, found));
        }
    }
    Ok(all)
}

/// The library's own run where all is as it is with `records` records at ε = 1 under replace-one: fewer records at ε = 8 under zero-out.
fn of_the_library(lab: &Lab, ground: Ground, records: u64, repeats: u32) -> Result<Summary, Failure> {
    const SHOWN: f64 = 8.0;
    let fewer = (records as f64 * gaussian_mu(EPSILON, DELTA) / (2.0 * gaussian_mu(SHOWN, DELTA))).round() as u64;
    let problem = problem(fewer, Relation::ZeroOut);
    let steps = grid(ground, Way::Planned, records, lab.scale)?.first().map_or(1, |s| s.steps);
    let budget = Budget::new(SHOWN, DELTA).map_err(Failure::of)?;
    let options = MethodOptions::of("spider").with("initial_gap", ground.gap()).with("steps", steps);
    let plan = minimize::choose(&problem, budget, &options).map_err(Failure::of)?;
    let cells = [(ground, fewer, steps)];
    let found = lab.trials("library", &cells, repeats, |_, trial| {
        let valley = ground.valley();
        let table = Sensitive::new(valley.records(fewer as usize, 0.0, trial.shared_seed));
        let mut curator = Curator::new(&plan.certificate, trial.source());
        let start = vec![0.0; DIMENSION];
        let x = minimize::run(&problem, &plan, &start, InMemory::new(valley, &table), &mut curator, &Silent);
        Ok(valley.slope(x.map_err(Failure::of)?.get()))
    })?;
    Ok(Summary::of(found.into_iter().flatten()))
}

/// What the bounds say of a ground, without constants of their own.
fn lines(ground: Ground, sizes: &[u64]) -> Vec<Series> {
    let valley = ground.valley();
    let mu = gaussian_mu(EPSILON, DELTA);
    // norm of the noise of one release of everything
    let c = move |n: f64| 2.0 * (DIMENSION as f64).sqrt() / (n * mu);
    let line = |name: &str, of: &dyn Fn(f64) -> Option<f64>| {
        Series::theory(name, sizes.iter().filter_map(|&n| of(c(n as f64)).map(|y| (n as f64, y))))
    };
    let energy = valley.drop_to(0.55) / std::f64::consts::LN_2;
    match ground {
        Ground::Logarithmic => vec![
            line("held up by gates, slope -1/2", &|c| valley.stuck_slope(c)),
            line("Spider's bound, slope -2/3", &|c| Some((4.0 * c * c * energy).cbrt())),
        ],
        Ground::Exponential => vec![
            line("held up by gates, slope -2/3", &|c| valley.stuck_slope(c)),
            line("noise of one gradient, slope -1", &Some),
        ],
        Ground::Plain => vec![line("noise of one gradient, slope -1", &Some)],
    }
}

fn drawn(ground: Ground, curves: &[Curve], sizes: &[u64]) -> Panel {
    let panel = panel(ground.name(), "records n", "norm of the gradient", curves, false);
    lines(ground, sizes).into_iter().fold(panel, Panel::with)
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let sizes: Vec<u64> = lab.pick(vec![20_000, 40_000], vec![100_000, 1_000_000, 10_000_000]);
    let fresh = lab.pick(2, 8);
    lab.setting("epsilon, delta (replace-one)", [EPSILON, DELTA])?;
    lab.setting("dimension, width of gates", [DIMENSION as f64, WIDTH])?;
    lab.setting("fresh repeats", fresh)?;
    let mut table = Table::new(
        "slopes",
        [
            "valley",
            "way",
            "n",
            "steps",
            "share of a batch",
            "step size",
            "momentum",
            "fresh gradients",
            "drift",
            "gradient norm",
            "standard error",
        ],
    );
    let (mut compared, mut charts, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    for ground in [Ground::Logarithmic, Ground::Exponential, Ground::Plain] {
        let all = curves(lab, ground, &sizes, fresh, &mut table)?;
        let of = |way: Way| all.iter().zip(WAYS).find(|(_, (other, _))| *other == way).map(|(curve, _)| curve);
        let slope = |way: Way| of(way).map_or(f64::NAN, slope_in_n);
        let last = |way: Way| of(way).map_or(f64::NAN, |curve| last_mean(std::slice::from_ref(curve), curve.way));
        let descents = [Way::Last, Way::Averaged, Way::Falling].map(last).into_iter().fold(f64::INFINITY, f64::min);
        let baselines = descents.min(last(Way::HeavyBall));
        let name = ground.name();
        match ground {
            Ground::Logarithmic => {
                compared.push(Compared::near(format!("{name}: slope of DP-GD, last"), -0.5, slope(Way::Last), 0.1));
                compared.push(Compared::near(
                    format!("{name}: slope of Spider, two stages"),
                    -2.0 / 3.0,
                    slope(Way::TwoStages),
                    0.1,
                ));
                compared.push(Compared::within(
                    format!("{name}: Spider, not tuned, over the best tuned descent without momentum"),
                    0.0..=0.8,
                    last(Way::Planned) / descents,
                ));
                compared.push(Compared::within(
                    format!("{name}: Spider, two stages, over the best baseline, momentum included"),
                    0.0..=0.9,
                    last(Way::TwoStages) / baselines,
                ));
            }
            Ground::Exponential => {
                compared.push(Compared::within(
                    format!("{name}: Spider, not tuned, over the best baseline, momentum included"),
                    0.0..=0.8,
                    last(Way::Planned) / baselines,
                ));
                compared.push(Compared::within(
                    format!("{name}: slope of Spider, two stages"),
                    -1.1..=-0.75,
                    slope(Way::TwoStages),
                ));
            }
            Ground::Plain => {
                compared.push(Compared::within(
                    format!("{name}: mean of the last half over Spider, two stages, at the middle n"),
                    0.0..=1.0,
                    {
                        let at = |way: Way| {
                            of(way).and_then(|curve| curve.points.get(sizes.len() / 2)).map_or(f64::NAN, |p| p.1.mean)
                        };
                        at(Way::Averaged) / at(Way::TwoStages)
                    },
                ));
            }
        }
        if ground != Ground::Plain {
            let own = of_the_library(lab, ground, sizes[0], fresh)?;
            let simulated = of(Way::Planned).and_then(|curve| curve.points.first()).map_or(f64::NAN, |p| p.1.mean);
            compared.push(Compared::near(
                format!("{name}: the library's runs over the simulated ones, fewest records"),
                1.0,
                own.mean / simulated,
                0.15,
            ));
        }
        sentences.push(format!(
            "{name}: slopes {:.2} (DP-GD) and {:.2} (Spider, two stages); on most records the best tuned descent leaves {:.2} times, heavy ball {:.2} times what Spider that nobody tuned does.",
            slope(Way::Last),
            slope(Way::TwoStages),
            descents / last(Way::Planned),
            last(Way::HeavyBall) / last(Way::Planned),
        ));
        charts.push((ground.file().into(), Chart::of(vec![drawn(ground, &all, &sizes)])));
    }
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentences.join(" ")),
        tables: vec![table],
        charts,
        compared,
        notes: vec![
            "No clip is active on these losses, so that a run of all records in each step is the gradient of the mean loss and noise: lines are simulated so, with the noise of certified plans. The library itself runs Spider on records at the fewest n of each gated valley, with the same noise from fewer records at epsilon 8 under zero-out.".into(),
            "Baselines, and Spider with one or two stages, are tuned by two runs per cell of a public grid, the three best again by four, then fresh runs; tuning is not paid for. Spider that is not tuned knows M = 1, C = 1 and the drop of the loss: .003, and .033 where the floor has no end.".into(),
            "DP-SGD is drawn for up to 10^6 records: sampling of isotropic gradients of length .95 beside the noise of its plan. DP-Adam, which is behind it, is in decision 31.".into(),
        ],
    })
}
