//! Spider beside noisy descent on valleys that narrow again and again, and on one that does not: norm of the gradient that is left against n (docs/decisions/0031).
//!
//! Covers: thesis algorithm 17, theorem 6.3.9

mod walks;

use super::accelerated::{Curve, last_mean, panel};
use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::mechanism::Curator;
use dpopt::minimize::{InMemory, MinimizePlan, MinimizeProblem};
use dpopt::optimize::{MethodOptions, minimize};
use dpopt::privacy::special::gaussian_mu;
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::problems::Valley;
use dpopt::progress::Silent;
use dpopt::report::chart::Chart;
use serde::{Deserialize, Serialize};
use walks::{Descent, spider};

/// Three valleys.
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

    /// Told to Spider: Δ of the exponential floor; of the logarithmic ones, which have none, as far as 27 lengths.
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
    OneStage,
    TwoStages,
    Planned,
}

const WAYS: [(Way, &str); 7] = [
    (Way::Last, "DP-GD, last"),
    (Way::Averaged, "DP-GD, mean of last half"),
    (Way::Falling, "DP-GD, step falling to 0"),
    (Way::HeavyBall, "heavy ball, step falling to 0"),
    (Way::OneStage, "Spider, one stage"),
    (Way::TwoStages, "Spider, two stages"),
    (Way::Planned, "Spider, not tuned"),
];

/// What is tuned.
#[derive(Clone, Copy, Serialize)]
struct Setting {
    ground: Ground,
    way: Way,
    records: u64,
    steps: u64,
    learning_rate: f64,
    momentum: f64,
    fresh: u64,
    drift: f64,
    second_stage: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Left {
    slope: f64,
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
        _ => MethodOptions::of("noisy-gradient-descent").with("steps", s.steps),
    };
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    minimize::choose(&problem(s.records, Relation::ReplaceOne), budget, &options).map_err(Failure::of)
}

fn walk(s: &Setting, plan: &MinimizePlan, trial: Trial) -> Left {
    let (valley, n, mut stream) = (s.ground.valley(), s.records as f64, trial.stream());
    let slope = match &plan.schedule.spider {
        Some(numbers) => spider(&valley, (&plan.schedule, numbers), n, &mut stream),
        None => {
            let descent = Descent {
                learning_rate: s.learning_rate,
                momentum: s.momentum,
                steps: s.steps,
                falls: matches!(s.way, Way::Falling | Way::HeavyBall),
                noise_std: plan.schedule.noise_std / n,
            };
            let (last, averaged) = descent.run(&valley, &mut stream);
            if s.way == Way::Averaged { averaged } else { last }
        }
    };
    Left { slope }
}

/// 2^k steps around where the best ones are.
fn lengths(ground: Ground, records: u64) -> std::ops::RangeInclusive<u32> {
    match (ground, records) {
        (Ground::Exponential, ..=200_000) => 5..=11,
        (Ground::Exponential, ..=2_000_000) => 9..=13,
        (Ground::Exponential, _) => 12..=16,
        (_, ..=200_000) => 7..=12,
        (_, ..=2_000_000) => 12..=16,
        _ => 15..=18,
    }
}

/// The public grid of a way.
fn grid(ground: Ground, way: Way, records: u64) -> Result<Vec<Setting>, Failure> {
    let base = Setting {
        ground,
        way,
        records,
        steps: 1,
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
    let lengths = lengths(ground, records);
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
            _ => all.extend([1.0, 0.5, 0.2].map(|learning_rate| Setting { learning_rate, ..with })),
        }
    }
    all.dedup_by_key(|s| (s.steps, s.fresh, s.drift.to_bits(), s.learning_rate.to_bits(), s.momentum.to_bits()));
    Ok(all)
}

fn measured(lab: &Lab, phase: &str, settings: &[Setting], repeats: u32) -> Result<Vec<Summary>, Failure> {
    let plans: Vec<MinimizePlan> = settings.iter().map(plan).collect::<Result<_, _>>()?;
    let cells: Vec<(usize, Setting)> = settings.iter().copied().enumerate().collect();
    let results = lab.trials(phase, &cells, repeats, |(i, s), trial| Ok(walk(s, &plans[*i], trial)))?;
    Ok(results.iter().map(|trials| Summary::of(trials.iter().map(|left| left.slope))).collect())
}

/// The best of a grid by two runs each, of the three best by four more, and fresh runs of it.
fn tuned(lab: &Lab, grid: &[Setting], fresh: u32) -> Result<(Setting, Summary), Failure> {
    let best = |settings: &[Setting], found: &[Summary], count: usize| -> Vec<Setting> {
        let mut order: Vec<usize> = (0..settings.len()).collect();
        order.sort_by(|&a, &b| found[a].mean.total_cmp(&found[b].mean));
        order.into_iter().take(count).map(|i| settings[i]).collect()
    };
    let mut left = grid.to_vec();
    for (phase, repeats, count) in [("grid", 2, 3), ("again", 4, 1)] {
        if left.len() > count {
            let found = measured(lab, phase, &left, repeats)?;
            left = best(&left, &found, count);
        }
    }
    let found = measured(lab, "fresh", &left, fresh)?;
    match (left.first(), found.first()) {
        (Some(setting), Some(summary)) => Ok((*setting, *summary)),
        _ => Err(Failure::of("an empty grid")),
    }
}

fn curves(lab: &Lab, ground: Ground, sizes: &[u64], fresh: u32, table: &mut Table) -> Result<Vec<Curve>, Failure> {
    let mut all: Vec<Curve> = WAYS.iter().map(|(_, name)| Curve { way: name, points: Vec::new() }).collect();
    for (curve, (way, name)) in all.iter_mut().zip(WAYS) {
        for &records in sizes {
            let (s, found) = tuned(lab, &grid(ground, way, records)?, fresh)?;
            let numbers = plan(&s)?.schedule.spider;
            table.row([
                ground.name().into(),
                name.into(),
                records.to_string(),
                s.steps.to_string(),
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
    let steps = grid(ground, Way::Planned, records)?.first().map_or(1, |s| s.steps);
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
        Ok(Left { slope: valley.slope(x.map_err(Failure::of)?.get()) })
    })?;
    Ok(Summary::of(found.iter().flatten().map(|left| left.slope)))
}

fn log_slope(curve: &Curve) -> f64 {
    let points = curve.points.iter().map(|(n, found)| (n.ln(), found.mean.ln()));
    let count = curve.points.len() as f64;
    let (x, y) = points.clone().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / count, y + b / count));
    let (covariance, variance) =
        points.fold((0.0, 0.0), |(c, v), (a, b)| (c + (a - x) * (b - y), v + (a - x) * (a - x)));
    covariance / variance
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
            "step size",
            "momentum",
            "fresh gradients",
            "drift",
            "gradient norm",
            "standard error",
        ],
    );
    let (mut compared, mut panels, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    for ground in [Ground::Logarithmic, Ground::Exponential, Ground::Plain] {
        let all = curves(lab, ground, &sizes, fresh, &mut table)?;
        let of = |way: Way| all.iter().zip(WAYS).find(|(_, (other, _))| *other == way).map(|(curve, _)| curve);
        let slope = |way: Way| of(way).map_or(f64::NAN, log_slope);
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
        panels.push(panel(name, "records n", "norm of the gradient", &all, false));
    }
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentences.join(" ")),
        tables: vec![table],
        charts: vec![("slopes".into(), Chart::of(panels))],
        compared,
        notes: vec![
            "No clip is active on these losses, so that a run of all records in each step is the gradient of the mean loss and noise: lines are simulated so, with the noise of certified plans. The library itself runs Spider on records at the fewest n of each gated valley, with the same noise from fewer records at epsilon 8 under zero-out.".into(),
            "Baselines, and Spider with one or two stages, are tuned by two runs per cell of a public grid, the three best again by four, then fresh runs; tuning is not paid for. Spider that is not tuned knows M = 1, C = 1 and the drop of the loss: .003, and .033 where the floor has no end.".into(),
            "DP-SGD and DP-Adam, which are behind, are in decision 31.".into(),
        ],
    })
}
