//! What public numbers alone can tell is checked before a budget is charged: whatever was planned runs, on random problems with budgets and norms of
//! all sizes, but for what its records decide.
//!
//! `DPOPT_WALK_PLANS` and `DPOPT_WALK_FITS` say how many (`make known-before` asks for 10,000 and 1,000); a case's number is its seed, so that one
//! that fails is run alone by `DPOPT_WALK_FROM`.

use dpopt::RunOptions;
use dpopt::Sensitive;
use dpopt::data::{Format, ReadOptions, Schema, open_bytes};
use dpopt::loss::Loss;
use dpopt::mechanism::{Curator, CuratorError};
use dpopt::model::{Fit, FitError, FitOptions};
use dpopt::noise::NoiseSource;
use dpopt::optimize::{MethodOptions, Run, RunError, has_option, named, registry};
use dpopt::plan::Problem;
use dpopt::privacy::ledger::{Quote, Receipt};
use dpopt::privacy::{Budget, Certificate, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use dpopt::session::{Account, SessionError};
use rayon::prelude::*;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const RELATIONS: [Relation; 3] = [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne];

fn given(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number of cases"))
}

fn cases(name: &str, usual: u64) -> std::ops::Range<u64> {
    let from = given("DPOPT_WALK_FROM", 0);
    from..from + given(name, usual)
}

/// Splitmix64: small, and the same on every machine.
struct Coins(u64);

impl Coins {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.word() >> 11) as f64 * 2f64.powi(-53)
    }
}

/// A power of ten, its exponent even in [low, high].
fn power(coins: &mut Coins, low: f64, high: f64) -> f64 {
    10f64.powf(coins.between(low, high))
}

fn one_of<T: Copy>(coins: &mut Coins, all: &[T]) -> T {
    all[coins.below(all.len())]
}

/// Usual budgets, large ones, and absurd ones.
fn budget(coins: &mut Coins) -> Budget {
    let epsilon = match coins.below(10) {
        0 => one_of(coins, &[1e300, 1e100, 1e30, 1e-30, 1e-300]),
        1..3 => power(coins, 1.0, 12.0),
        3 => power(coins, -9.0, -2.0),
        _ => power(coins, -2.0, 1.0),
    };
    let delta = if coins.below(5) == 0 { 0.0 } else { power(coins, -12.0, -1.1) };
    Budget::new(epsilon, delta).unwrap()
}

fn problem(coins: &mut Coins) -> Problem {
    let rows = power(coins, 0.0, 2.3) as u64;
    let features = match coins.below(40) {
        0 => one_of(coins, &[65_536, 70_000, 300_000]),
        1..3 => 1000 + coins.below(4000),
        _ => 1 + coins.below(29),
    };
    let row_norm = match coins.below(10) {
        0 => one_of(coins, &[1e-30, 1e-10, 1e10, 1e30, 1e100, 1e-100]),
        1..4 => power(coins, -4.0, 4.0),
        _ => 1.0,
    };
    let losses = [
        Loss::Logistic { shift: 0.0 },
        Loss::Logistic { shift: 2.0 },
        Loss::Squared,
        Loss::Absolute,
        Loss::Hinge,
        Loss::Huber { threshold: 0.5 },
        Loss::SmoothedHinge { width: 0.5 },
        Loss::Softmax { classes: 3 },
        Loss::Quantile { level: 0.9, width: Loss::USUAL_WIDTH },
    ];
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: rows.max(1),
        features,
        nonzeros: features.min(8),
        row_norm,
        loss: one_of(coins, &losses),
        neighbours: Neighbours::of_records(one_of(coins, &RELATIONS)),
    }
}

fn examples(coins: &mut Coins, problem: &Problem) -> Examples {
    let mut rows = Rows::new(problem.features);
    let mut targets = Vec::new();
    for _ in 0..problem.rows {
        let mut entries: Vec<(u32, f32)> = (0..problem.nonzeros)
            .map(|_| (coins.below(problem.features) as u32, coins.between(-1.0, 1.0) as f32))
            .collect();
        entries.sort_by_key(|entry| entry.0);
        entries.dedup_by_key(|entry| entry.0);
        rows.push_clipped(&mut entries, problem.row_norm);
        targets.push(match problem.loss {
            Loss::Softmax { .. } => coins.below(3) as f32,
            Loss::Squared | Loss::Absolute | Loss::Huber { .. } | Loss::Quantile { .. } => {
                coins.between(-1.0, 1.0) as f32
            }
            _ => one_of(coins, &[-1.0, 1.0]),
        });
    }
    Examples { rows, targets }
}

/// Products of a run that a test waits for.
const MAX_WORK: f64 = 2e8;

/// Plans one method for one problem and runs what was planned: whether it ran, or what stopped it though it was planned.
fn planned_runs(case: u64) -> Result<bool, String> {
    let coins = &mut Coins(case);
    let (problem, budget) = (problem(coins), budget(coins));
    let methods: Vec<_> = registry().names().collect();
    let method = methods[case as usize % methods.len()];
    let limited = has_option(method, "max_features") && method != "frank-wolfe";
    let mut options = MethodOptions::of(method).with_if("max_features", limited.then_some(2));
    options.intercept = (method == "centred-descent").then_some(0);
    let Some(Ok(plan)) = named(&problem, budget, &options).map(|candidate| candidate.plan) else { return Ok(false) };
    let summary = plan.summary();
    if (summary.gradients + summary.steps as f64) * problem.features as f64 * 3.0 > MAX_WORK {
        return Ok(false);
    }
    let examples = Sensitive::new(examples(coins, &problem));
    let mut curator = Curator::new(&summary.certificate, NoiseSource::insecure(case));
    let ran = Run::new(plan.problem(), &examples, &mut curator, &Silent).and_then(|run| plan.run(run));
    match ran {
        // a private outcome that says "nothing": an answer
        Ok(_) | Err(RunError::Curator(CuratorError::Unusable(_))) => Ok(true),
        // released values may be beyond what numbers can hold
        Err(RunError::Numerical(_)) => Ok(true),
        Err(why) => Err(format!("case {case}, {method}, {problem:?}, {budget:?}: {why}")),
    }
}

#[test]
fn what_was_planned_runs() {
    let cases = cases("DPOPT_WALK_PLANS", 400);
    let count = cases.end - cases.start;
    let results: Vec<Result<bool, String>> = cases.into_par_iter().map(planned_runs).collect();
    let failed: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {count}: {failed:#?}", failed.len());
    let ran = results.iter().filter(|result| matches!(result, Ok(true))).count() as u64;
    assert!(count < 100 || 5 * ran > count, "{ran} of {count} were planned");
}

/// Counts charges, and refuses none.
struct Counts(AtomicU64);

impl Account for Counts {
    fn quote(&self, _: &Certificate) -> Result<Option<Quote>, SessionError> {
        Ok(None)
    }

    fn charge(&self, _: &str, _: &Certificate) -> Result<Option<Receipt>, SessionError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }
}

/// A table of numbers, levels and a target, with everything or not everything declared.
fn fit(coins: &mut Coins, account: Arc<dyn Account>) -> Result<(), FitError> {
    let rows = power(coins, 0.5, 2.5) as usize;
    let (mut text, numbers) = (String::from("a,b,level,y\n"), coins.below(3) == 0);
    for _ in 0..rows {
        let (a, b): (f64, f64) = (coins.between(-1.0, 1.0), coins.between(0.0, 50.0));
        let target = if numbers { format!("{:.3}", 0.5 * a) } else { if a > 0.0 { "yes" } else { "no" }.to_string() };
        let _ = writeln!(text, "{a:.4},{b:.2},{},{target}", one_of(coins, &["red", "green", "blue"]));
    }
    let wide = power(coins, -3.0, 9.0);
    let target = if numbers { "lower = -1\nupper = 1" } else { "levels = ['no', 'yes']" };
    let target = if !numbers && coins.below(6) == 0 { String::new() } else { format!("[y]\n{target}\n") };
    let bounds = format!(
        "[a]\nlower = -{wide}\nupper = {wide}\n[b]\nlower = 0\nupper = 50\n[level]\nlevels = ['blue', 'green', 'red']\n{target}"
    );
    let budget = budget(coins);
    let method = (coins.below(4) > 0).then(|| one_of(coins, &registry().names().collect::<Vec<_>>()).to_string());
    let run = RunOptions::within(budget.epsilon()).delta(budget.delta()).relation(one_of(coins, &RELATIONS));
    let method = method.map_or_else(MethodOptions::default, MethodOptions::of);
    let options = FitOptions::default().schema(Schema::from_toml(&bounds)?).method(method).regression(numbers);
    let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default())?;
    Fit::new(table, "y", run.account(Arc::new(account)), options)?.run().map(drop)
}

/// What is charged has secret noise. Nothing here hangs on it: whatever it is, a run ends or says that nothing could be found.
#[test]
fn nothing_refuses_after_the_charge_but_what_records_decide() {
    let cases = cases("DPOPT_WALK_FITS", 60);
    let count = cases.end - cases.start;
    let results: Vec<(u64, Option<String>)> = cases
        .into_par_iter()
        .map(|case| {
            let account = Arc::new(Counts(AtomicU64::new(0)));
            let ended = fit(&mut Coins(case), account.clone());
            let charged = account.0.load(Ordering::Relaxed);
            let failed = ended.err().filter(|why| charged > 0 && !why.is_an_answer());
            (charged, failed.map(|why| format!("case {case}: {why}")))
        })
        .collect();
    let failed: Vec<&String> = results.iter().filter_map(|(_, failed)| failed.as_ref()).collect();
    assert!(failed.is_empty(), "{} of {count}: {failed:#?}", failed.len());
    let charged: u64 = results.iter().map(|(charged, _)| charged).sum();
    assert!(count < 50 || 5 * charged > count, "{charged} of {count} were charged");
}
