//! Valleys of a non-convex loss with every record read once: running sums over batches that follow the way, batches of fixed sizes, and descents
//! (docs/decisions/0031-where-spider-wins.md).
//!
//! Covers: thesis algorithm 21, algorithm 22, theorem 7.3.11

use super::super::accelerated::{Curve, last_mean, panel};
use super::tuning::{Plans, slope_in_n, tuned};
use super::walks::{Descent, OnePass};
use super::{DELTA, EPSILON, Ground, PULL, WIDTH};
use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Scale, Table, Trial, Verdict, cell};
use dpopt::minimize::{Batches, MinimizePlan, MinimizeProblem};
use dpopt::optimize::{MethodOptions, minimize};
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::report::chart::{Chart, Series};
use dpopt_problems::Valley;
use serde::Serialize;

/// The entry of two gated valleys, with one pass over the records.
pub const ENTRY: Entry = Entry {
    name: "stationary-one-pass",
    source: "second-order points of the population, Theorems 6.3.12 and 7.3.11; the chapters have no experiments",
    shows: "gradient norm that one reading of each record leaves on gated valleys: adaptive batches with fresh trees, fixed batches, and descents",
    fidelity: Fidelity::Theory,
    revision: 1,
    run,
};

const DIMENSION: usize = 129;
/// κ: a record's loss is (1 ± κ) times the mean loss, and a pull.
const SPREAD: f64 = 0.5;

#[derive(Clone, Copy, Serialize, PartialEq)]
enum Way {
    Last,
    Averaged,
    Falling,
    HeavyBall,
    Tree,
    Fixed,
    Adaptive,
    Planned,
}

const WAYS: [(Way, &str); 8] = [
    (Way::Last, "one-pass SGD, last"),
    (Way::Averaged, "one-pass SGD, mean of last half"),
    (Way::Falling, "one-pass SGD, step falling to 0"),
    (Way::HeavyBall, "one-pass heavy ball, step falling to 0"),
    (Way::Tree, "one-pass SGD, noise of a tree"),
    (Way::Fixed, "Spider, fixed batches"),
    (Way::Adaptive, "Spider, adaptive batches"),
    (Way::Planned, "the same, not tuned"),
];

/// What one tuning is made for.
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
    gap: f64,
}

fn valley(ground: Ground) -> Valley {
    match ground {
        Ground::Logarithmic => Valley::gated(Valley::logarithmic(), WIDTH, DIMENSION),
        Ground::Exponential => Valley::gated(Valley::exponential(), WIDTH, DIMENSION),
        Ground::Plain => Valley::plain(Valley::logarithmic(), DIMENSION),
    }
}

/// Of adaptive batches; its noise multiplier is that of any sums whose batches are disjoint.
fn plan(records: u64, gap: f64) -> Result<MinimizePlan, Failure> {
    let problem = MinimizeProblem {
        smoothness: Some(1.0),
        distance: 1.0,
        ..MinimizeProblem::new(records, DIMENSION, Neighbours::of_records(Relation::ReplaceOne))
    };
    let options = MethodOptions::of("one-pass-spider").with("initial_gap", gap).with("difference_clip", 1.0 + SPREAD);
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    minimize::choose(&problem, budget, &options).map_err(Failure::of)
}

fn walk(s: &Setting, plan: &MinimizePlan, trial: Trial) -> Result<f64, Failure> {
    let (valley, mut stream) = (valley(s.ground), trial.stream());
    let pass = OnePass {
        valley: &valley,
        records: s.records,
        pull: PULL,
        spread: SPREAD,
        noise_multiplier: plan.schedule.noise_multiplier,
        clip_norm: plan.schedule.clip_norm,
        difference_clip: 1.0 + SPREAD,
    };
    Ok(match (s.way, plan.schedule.batches) {
        (Way::Adaptive | Way::Planned, Batches::Once(once)) => {
            pass.adaptive(&once, plan.schedule.steps, &mut stream)?
        }
        (Way::Fixed, _) => pass.fixed((s.steps, s.fresh, s.drift), &mut stream),
        (Way::Tree, _) => {
            let (last, averaged) = pass.along_a_tree((s.steps, s.learning_rate), &mut stream)?;
            last.min(averaged)
        }
        _ => {
            let descent = Descent {
                learning_rate: s.learning_rate,
                momentum: s.momentum,
                steps: s.steps,
                falls: matches!(s.way, Way::Falling | Way::HeavyBall),
                noise_std: pass.batch_std(s.records as f64 / s.steps as f64),
            };
            let (last, averaged) = descent.run(&valley, &mut stream);
            if s.way == Way::Averaged { averaged } else { last }
        }
    })
}

/// 2^k batches around where the best ones are.
fn lengths(records: u64, scale: Scale) -> std::ops::RangeInclusive<u32> {
    match records {
        _ if scale == Scale::Short => 6..=7,
        ..=2_000_000 => 6..=15,
        2_000_001..=20_000_000 => 8..=17,
        _ => 9..=18,
    }
}

/// The public grid of a way.
fn grid(ground: Ground, way: Way, records: u64, scale: Scale) -> Vec<Setting> {
    let gap = ground.gap();
    let base = Setting { ground, way, records, steps: 1, learning_rate: 1.0, momentum: 0.0, fresh: 1, drift: 1.0, gap };
    match way {
        Way::Planned => return vec![base],
        // the options that describe the loss decide all sizes
        Way::Adaptive => return (-5..=2).map(|k| Setting { gap: gap * f64::exp2(f64::from(k)), ..base }).collect(),
        _ => {}
    }
    let mut all = Vec::new();
    for k in lengths(records, scale) {
        let with = Setting { steps: 1 << k, ..base };
        match way {
            Way::HeavyBall => all.extend(
                [(0.9, 0.3), (0.9, 1.0), (0.9, 3.0), (0.9, 10.0), (0.99, 1.0), (0.99, 3.0), (0.99, 10.0)]
                    .map(|(momentum, learning_rate)| Setting { momentum, learning_rate, ..with }),
            ),
            Way::Fixed => {
                let middle = (gap * with.steps as f64).sqrt().log2().round().max(0.0) as i32;
                for fresh in [middle - 2, middle - 1, middle, middle + 1].map(|k| 1u64 << k.max(0)) {
                    for drift in [0.125, 0.5, 2.0] {
                        all.push(Setting { fresh, drift: drift * fresh as f64 / with.steps as f64, ..with });
                    }
                }
            }
            _ => all.extend([1.0, 0.5, 0.2, 0.1].map(|learning_rate| Setting { learning_rate, ..with })),
        }
    }
    all.dedup_by_key(|s| (s.steps, s.fresh, s.drift.to_bits(), s.learning_rate.to_bits(), s.momentum.to_bits()));
    all
}

fn curves(lab: &Lab, ground: Ground, sizes: &[u64], fresh: u32, table: &mut Table) -> Result<Vec<Curve>, Failure> {
    let mut all: Vec<Curve> = WAYS.iter().map(|(_, name)| Curve { way: name, points: Vec::new() }).collect();
    let plans = Plans::default();
    let planned = |s: &Setting| plans.of((s.records, s.gap), || plan(s.records, s.gap));
    for (curve, (way, name)) in all.iter_mut().zip(WAYS) {
        for &records in sizes {
            let settings = grid(ground, way, records, lab.scale);
            let (s, found) = tuned(lab, &settings, fresh, |s, trial| walk(s, &planned(s)?, trial))?;
            table.row([
                ground.name().into(),
                name.into(),
                records.to_string(),
                s.steps.to_string(),
                cell(s.learning_rate),
                cell(s.momentum),
                s.fresh.to_string(),
                cell(s.drift),
                cell(s.gap),
                cell(found.mean),
                cell(found.standard_error()),
            ]);
            curve.points.push((records as f64, found));
        }
    }
    Ok(all)
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let sizes: Vec<u64> = lab.pick(vec![100_000, 200_000], vec![1_000_000, 10_000_000, 100_000_000]);
    let fresh = lab.pick(2, 8);
    lab.setting("epsilon, delta (replace-one)", [EPSILON, DELTA])?;
    lab.setting("dimension, width of gates, spread of records", [DIMENSION as f64, WIDTH, SPREAD])?;
    lab.setting("fresh repeats", fresh)?;
    let mut table = Table::new(
        "slopes",
        [
            "valley",
            "way",
            "n",
            "batches",
            "step size",
            "momentum",
            "fresh gradients",
            "drift",
            "gap told",
            "gradient norm",
            "standard error",
        ],
    );
    let (mut compared, mut panels, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    for ground in [Ground::Logarithmic, Ground::Exponential] {
        let all = curves(lab, ground, &sizes, fresh, &mut table)?;
        let of = |way: Way| all.iter().zip(WAYS).find(|(_, (other, _))| *other == way).map(|(curve, _)| curve);
        let slope = |way: Way| of(way).map_or(f64::NAN, slope_in_n);
        let last = |way: Way| of(way).map_or(f64::NAN, |curve| last_mean(std::slice::from_ref(curve), curve.way));
        let least = |ways: &[Way]| ways.iter().map(|&way| last(way)).fold(f64::INFINITY, f64::min);
        let plain = least(&[Way::Last, Way::Averaged, Way::Falling]);
        let all_descents = plain.min(least(&[Way::HeavyBall, Way::Tree]));
        let name = ground.name();
        // what the bounds say where privacy decides; sampling alone has -1/3
        compared.push(Compared::near(format!("{name}: slope of adaptive batches"), -0.5, slope(Way::Adaptive), 0.1));
        compared.push(Compared::near(format!("{name}: slope of fixed batches"), -3.0 / 7.0, slope(Way::Fixed), 0.1));
        let ratio = |what: &str, most: f64, ratio: f64| {
            Compared::within(format!("{name}: {what}, most records"), 0.0..=most, ratio)
        };
        compared.push(ratio("adaptive over fixed batches", 0.9, last(Way::Adaptive) / last(Way::Fixed)));
        compared.push(ratio("adaptive batches over the best plain SGD", 0.9, last(Way::Adaptive) / plain));
        compared.push(ratio(
            "adaptive batches over the best descent, momentum and trees included",
            0.9,
            last(Way::Adaptive) / all_descents,
        ));
        sentences.push(format!(
            "{name}: slopes {:.2} (adaptive batches) and {:.2} (fixed); on most records the best plain SGD leaves {:.2} times, the best of all descents {:.2} times what adaptive batches do.",
            slope(Way::Adaptive),
            slope(Way::Fixed),
            plain / last(Way::Adaptive),
            all_descents / last(Way::Adaptive),
        ));
        let start = of(Way::Adaptive).and_then(|curve| curve.points.first()).map_or(f64::NAN, |p| p.1.mean);
        let line = |name: &str, power: f64| {
            let first = sizes[0] as f64;
            Series::theory(name, sizes.iter().map(|&n| (n as f64, start * (n as f64 / first).powf(power))))
        };
        let drawn = panel(name, "records n", "norm of the gradient", &all, false);
        panels.push(drawn.with(line("slope -1/2", -0.5)).with(line("slope -3/7", -3.0 / 7.0)));
    }
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentences.join(" ")),
        tables: vec![table],
        charts: vec![("figure".into(), Chart::of(panels))],
        compared,
        notes: vec![
            "Every record is in one batch. Simulated: the gradient of the mean loss, sampling of records whose gradients are .95 long and whose changes are off by half, and noise of the plan of one-pass-spider; the library has no method with fixed batches. No clip is active.".into(),
            "All but the last are tuned by two runs per cell of a public grid, the three best again by four, then fresh runs; of adaptive batches what is told of the loss is tuned, which decides all sizes. Tuning is not paid for. Of steps along a tree the better of the last point and the mean of the last half counts, run by run.".into(),
        ],
    })
}
