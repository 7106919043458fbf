//! Means of heavy-tailed columns: whether intervals hold, of what the mean is, and what is refused.

use super::heavy_tailed_plan::{ColumnMean, HeavyTailedProblem, heavy_tailed_candidates};
use super::{HeavyTailedMean, HeavyTailedMeans, HeavyTailedOptions, HeavyTailedPlan};
use crate::model::FitError;
use crate::moment::Moment;
use crate::run::{RunOptions, UnitOptions};
use dpopt_data::{BadCells, Format, ReadOptions, open_bytes};
use dpopt_mechanism::{Curator, CuratorError, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::records::Columns;
use dpopt_objective::synthetic::Lcg;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

fn moment(text: &str) -> Moment {
    text.parse().unwrap()
}

fn problem(records: u64, moments: &[&str]) -> HeavyTailedProblem {
    HeavyTailedProblem {
        records,
        moments: moments.iter().map(|text| moment(text)).collect(),
        spread_factor: 2.0,
        confidence: 0.95,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn best(problem: &HeavyTailedProblem, epsilon: f64, delta: f64) -> HeavyTailedPlan {
    heavy_tailed_candidates(problem, Budget::new(epsilon, delta).unwrap()).swap_remove(0).plan.unwrap()
}

type Draw = fn(&mut Lcg) -> f64;

/// Name, how to draw, mean.
fn laws() -> [(&'static str, Draw, f64); 3] {
    let pareto: Draw = |random| (1.0 - random.uniform()).powf(-1.0 / 3.0);
    let student: Draw = |random| {
        let chi = (0..3).map(|_| random.normal().powi(2)).sum::<f64>();
        random.normal() / (chi / 3.0).sqrt()
    };
    let log_normal: Draw = |random| random.normal().exp();
    [("Pareto(3)", pareto, 1.5), ("t(3)", student, 0.0), ("log-normal", log_normal, 0.5f64.exp())]
}

fn estimate(plan: &HeavyTailedPlan, problem: &HeavyTailedProblem, draw: Draw, seed: u64) -> ColumnMean {
    let mut random = Lcg::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let mut rows = Columns::new(1);
    (0..problem.records).for_each(|_| rows.push(&[draw(&mut random)]));
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
    plan.run(problem, &Sensitive::new(rows), &mut curator).unwrap().into_inner()[0]
}

/// 300 tables: more than 38 misses have a probability below 1e-6 if each is one of 5 %, and below 1e-3 of not being there if each is one of 20 %.
const TABLES: u64 = 300;
const MISSES: usize = 38;

#[test]
fn intervals_hold_as_often_as_they_say() {
    for (name, draw, mean) in laws() {
        // second moments 3, 3 and e²
        let known = if name == "log-normal" { "2:2.71829" } else { "2:1.7320509" };
        for (asked, records, epsilon, delta) in [
            (known, 1000, 1.0, 1e-6),
            (known, 1000, 1.0, 0.0),
            (known, 200, 0.1, 1e-6),
            ("2", 6000, 1.0, 1e-6),
            ("2", 6000, 1.0, 0.0),
        ] {
            let problem = problem(records, &[asked]);
            let plan = best(&problem, epsilon, delta);
            let means: Vec<ColumnMean> = (0..TABLES).map(|seed| estimate(&plan, &problem, draw, seed)).collect();
            let misses = means.iter().filter(|m| mean < m.interval.0 || m.interval.1 < mean).count();
            let half = means.iter().map(|m| 0.5 * (m.interval.1 - m.interval.0)).sum::<f64>() / TABLES as f64;
            let parts = means[0].parts;
            println!(
                "{name} {asked} n={records} ε={epsilon} δ={delta}: {misses} of {TABLES} missed, half width {half:.4}, {parts:?}"
            );
            assert!(misses <= MISSES, "{name} {asked}: {misses}");
            assert!(half <= parts.half_width() * 3.0 && half > 0.0);
        }
    }
}

#[test]
fn an_untrue_moment_loses_the_coverage_and_nothing_else() {
    let problem = problem(1000, &["2:0.3"]);
    let plan = best(&problem, 1.0, 1e-6);
    let (_, draw, mean) = laws()[0];
    let missed = (0..30).filter(|&seed| estimate(&plan, &problem, draw, seed).interval.1 < mean).count();
    assert_eq!(missed, 30, "the tests can tell");
}

#[test]
fn two_columns_hold_at_once_and_cost_more() {
    let both = problem(3000, &["2:1.8", "2:1.8"]);
    let plan = best(&both, 1.0, 1e-6);
    let one = best(&problem(3000, &["2:1.8"]), 1.0, 1e-6);
    assert!(plan.mean_width() > one.mean_width());
    let (draw, mean) = (laws()[0].1, 1.5);
    let mut missed = 0;
    for seed in 0..TABLES {
        let mut random = Lcg::new(seed + 77);
        let mut rows = Columns::new(2);
        (0..3000).for_each(|_| rows.push(&[draw(&mut random), -draw(&mut random)]));
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
        let means = plan.run(&both, &Sensitive::new(rows), &mut curator).unwrap().into_inner();
        let holds = |m: &ColumnMean, mean: f64| m.interval.0 <= mean && mean <= m.interval.1;
        missed += usize::from(!(holds(&means[0], mean) && holds(&means[1], -mean)));
        assert!(curator.is_spent());
    }
    assert!(missed <= MISSES, "{missed}");
}

#[test]
fn noise_is_what_is_certified_and_doubles_where_a_record_is_replaced() {
    let zero_out = problem(1000, &["2:1"]);
    let replaced = HeavyTailedProblem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..zero_out.clone() };
    let laplace = best(&zero_out, 1.0, 0.0);
    assert_eq!(laplace.method, "clipped-laplace");
    let (once, twice) = (laplace.noise_multiplier, best(&replaced, 1.0, 0.0).noise_multiplier);
    assert!((once - 1.0).abs() < 1e-6 && (0.5 * twice - 1.0).abs() < 1e-6, "{once} {twice}");
    assert!(matches!(laplace.certificate.event(), Event::Laplace { .. }));
    // one column with Laplace noise, many with normal noise: √d against d
    assert_eq!(best(&zero_out, 1.0, 1e-6).method, "clipped-laplace");
    let many = HeavyTailedProblem { moments: vec![moment("2:1"); 60], ..zero_out.clone() };
    let gaussian = best(&many, 1.0, 1e-6);
    assert_eq!(gaussian.method, "clipped-gaussian");
    // μ(1, 1e-6) = .236704, and every column has 1/60 of the squared norm
    assert!((gaussian.noise_multiplier * 0.236_704 - 1.0).abs() < 1e-4);
    let column = &gaussian.schedule.columns[0];
    assert!((column.noise_std / (60f64.sqrt() / 0.236_704 / 1000.0 * column.threshold) - 1.0).abs() < 1e-4);
    // the same of a block, which pays with the whole budget
    let with_ranges = best(&problem(20_000, &["2"]), 1.0, 0.0);
    assert!((with_ranges.noise_multiplier - 1.0).abs() < 1e-6);
    assert!(matches!(with_ranges.certificate.event(), Event::Parallel { blocks } if blocks.len() == 2));
    assert!(with_ranges.certificate.bound().upper <= 1.0 + 1e-9);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let budget = Budget::new(1.0, 1e-6).unwrap();
    let why = |problem: HeavyTailedProblem| {
        let all = heavy_tailed_candidates(&problem, budget);
        all[0].plan.as_ref().expect_err("a refusal").to_string()
    };
    assert!(why(problem(500, &["2"])).contains("records at this budget"));
    let of = |neighbours| HeavyTailedProblem { neighbours, ..problem(100_000, &["2"]) };
    assert!(why(of(Neighbours::of_records(Relation::AddOrRemove))).contains("borders"));
    assert!(why(of(Neighbours::of_users(Relation::ZeroOut))).contains("which others have rows"));
    for confidence in [0.0, 1.0, f64::NAN] {
        assert!(why(HeavyTailedProblem { confidence, ..problem(100, &["2:1"]) }).contains("confidence"));
    }
    for spread_factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(why(HeavyTailedProblem { spread_factor, ..problem(100, &["2:1"]) }).contains("spread factor"));
    }
    assert!(why(problem(1, &["2:1"])).contains("fewer than two"));
    let pure = heavy_tailed_candidates(&problem(100, &["2:1"]), Budget::new(1.0, 0.0).unwrap());
    assert!(pure[0].plan.is_ok() && pure[1].plan.is_err());
    // another number of records than was planned for
    let (asked, plan) = (problem(100, &["2:1"]), best(&problem(100, &["2:1"]), 1.0, 1e-6));
    let mut rows = Columns::new(1);
    (0..99).for_each(|_| rows.push(&[1.0]));
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(1));
    assert!(matches!(plan.run(&asked, &Sensitive::new(rows), &mut curator), Err(CuratorError::Shape)));
}

const HUGE: f64 = 1e6;

/// Options of a run and of its means.
type Options = (RunOptions, HeavyTailedOptions);

/// Options of a mean, at the ε that [`with`] is given.
fn options() -> Options {
    let run = RunOptions::within(1.0).delta(0.0).insecure_seed(4);
    (run, HeavyTailedOptions::default().bad_cells(BadCells::Missing))
}

fn made(text: &str, columns: &[(&str, &str)], options: Options) -> Result<HeavyTailedMean, FitError> {
    with(HUGE, text, columns, options)
}

fn with(
    epsilon: f64,
    text: &str,
    columns: &[(&str, &str)],
    (run, options): Options,
) -> Result<HeavyTailedMean, FitError> {
    let table = open_bytes(text.as_bytes().to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
    let columns = columns.iter().map(|(name, text)| (name.to_string(), moment(text))).collect();
    HeavyTailedMean::new(table, columns, RunOptions { epsilon, ..run }, options)
}

fn run(text: &str, columns: &[(&str, &str)], options: Options) -> HeavyTailedMeans {
    made(text, columns, options).unwrap().run().unwrap()
}

const TABLE: &str = "x,id,y,t\n1,7,20,a\n-1,b,0,a\n4, 7,30,a\n9,,9,a\n0,c,oops,a\n,d,40,a\n1,\"7 \",40,a\n";

#[test]
fn a_missing_number_counts_as_the_centre() {
    // thresholds are far beyond the numbers: nothing is clipped. Seven rows
    let answer = run(TABLE, &[("y", "2:1e3"), ("x", "3:1e3@1")], options());
    assert_eq!(answer.columns, ["y", "x"]);
    let [y, x] = &answer.means[..] else { panic!() };
    assert!((y.mean - 139.0 / 7.0).abs() < 0.1, "{y:?}");
    // (0 − 2 + 3 + 8 − 1 + 0 + 0)/7 above 1
    assert!((x.mean - (1.0 + 8.0 / 7.0)).abs() < 0.1 && x.centre == 1.0, "{x:?}");
    for mean in [y, x] {
        assert!(mean.interval.0 <= mean.mean && mean.mean <= mean.interval.1);
        assert!(mean.interval.1 - mean.interval.0 <= 2.0 * mean.parts.half_width() * (1.0 + 1e-9));
    }
    assert!(answer.guarantee.recompute().faults.is_empty());
    let html = answer.report.html();
    assert!(html.contains("Means and intervals") && html.contains("clip bias") && html.contains("<svg"), "{html}");
    assert!(html.contains("declared") && !html.contains("ASSUMED"));
    let json = answer.report.json().unwrap();
    assert!(json.contains("\"intervals\"") && json.contains("\"sampling\""));
}

#[test]
fn by_unit_each_has_the_mean_of_its_rows() {
    let by_unit = || (options().0.unit(UnitOptions::of("id")), options().1);
    let answer = run(TABLE, &[("x", "2:1e3"), ("y", "2:1e3")], by_unit());
    // x: 2, −1, 0 and none; y: 30, 0, none and 40
    assert!(
        (answer.means[0].mean - 0.25).abs() < 0.1 && (answer.means[1].mean - 17.5).abs() < 0.1,
        "{:?}",
        answer.means
    );
    assert_eq!(
        (answer.guarantee.protected(), answer.report.facts.rows, answer.report.facts.units),
        ("id", None, Some(4))
    );
    assert!(answer.rests_on.iter().any(|reason| reason.contains("Jensen")));
    let refused =
        |columns: &[(&str, &str)], options| made(TABLE, columns, options).err().expect("a refusal").to_string();
    assert!(refused(&[("id", "2:1")], by_unit()).contains("numbers that are averaged"));
    let shared = UnitOptions::of_all(["id", "t"]).most_rows(1.try_into().unwrap());
    assert!(refused(&[("x", "2:1")], (options().0.unit(shared), options().1)).contains("not independent"));
    assert!(refused(&[("x", "2:1"), ("x", "2:1")], options()).contains("twice"));
    assert!(refused(&[("z", "2:1")], options()).contains('z'));
    let method = (options().0, options().1.method("median".to_string()));
    assert!(refused(&[("x", "2:1")], method).contains("clipped-laplace"));
    // the order alone, of too few rows: by its name or not, before anything is read
    for method in [None, Some("clipped-laplace".to_string())] {
        let asked = (options().0, options().1.method(method));
        let error = with(1.0, TABLE, &[("x", "2")], asked).unwrap().run().err().unwrap();
        assert!(error.to_string().contains("the bound of the moment as well"), "{error}");
    }
}

#[test]
fn where_the_number_of_rows_is_protected_it_is_released_and_a_guess_changes_no_mean() {
    let text = (0..4000).fold("x\n".to_string(), |text, i| format!("{text}{}\n", 10 + i % 3));
    for guess in [1000, 4000, 16_000] {
        let (run, options) = options();
        let asked = (run.relation(Relation::AddOrRemove).delta(1e-6), options.rows(guess));
        let answer = made(&text, &[("x", "2:12")], asked).unwrap().run().unwrap();
        let mean = answer.means[0];
        assert!((mean.mean - 11.0).abs() < 0.05, "{guess}: {mean:?}");
        assert!(mean.interval.0 <= 11.0 && 11.0 <= mean.interval.1);
    }
    let asked = (options().0.relation(Relation::AddOrRemove), options().1);
    assert!(made(&text, &[("x", "2:12")], asked).err().unwrap().to_string().contains("`rows`"));
    // at a small ε the interval holds although the number is off by some hundreds
    let problem = HeavyTailedProblem {
        neighbours: Neighbours::of_records(Relation::AddOrRemove),
        ..problem(4000, &["2:1.7320509"])
    };
    let plan = best(&problem, 0.05, 0.0);
    let missed = (0..TABLES).filter(|&seed| {
        let mean = estimate(&plan, &problem, laws()[0].1, seed);
        1.5 < mean.interval.0 || mean.interval.1 < 1.5
    });
    assert!(missed.count() <= MISSES);
    // and where it cannot be distinguished from 0 there is no answer
    let plan = best(&HeavyTailedProblem { records: 20, ..problem.clone() }, 0.05, 0.0);
    let mut rows = Columns::new(1);
    (0..20).for_each(|_| rows.push(&[1.0]));
    let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(1));
    assert!(matches!(plan.run(&problem, &Sensitive::new(rows), &mut curator), Err(CuratorError::Unusable(_))));
}

#[test]
fn centre_and_scale_are_released_where_they_are_not_known_and_the_answer_says_what_it_rests_on() {
    let mut random = Lcg::new(5);
    let text = (0..8000).fold("x\n".to_string(), |text, _| format!("{text}{}\n", 50_000.0 + 3000.0 * random.normal()));
    let table = open_bytes(text.clone().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let asked = vec![("x".to_string(), moment("4"))];
    let run = RunOptions::within(1.0).insecure_seed(1);
    let answer = HeavyTailedMean::new(table, asked, run, HeavyTailedOptions::default());
    let answer = answer.unwrap().run().unwrap();
    let mean = answer.means[0];
    assert!((mean.mean - 50_000.0).abs() < 500.0 && (mean.centre - 50_000.0).abs() < 2000.0, "{mean:?}");
    assert!((2.0 * 6000.0..2.0 * 14_000.0).contains(&mean.root), "{mean:?}");
    assert!(
        answer.rests_on.iter().any(|reason| reason.contains("ASSUMED")) && answer.report.html().contains("ASSUMED")
    );
    assert_eq!(answer.report.releases[0].len(), 1, "the blocks, as one");
    // beyond the grid there is no range: an answer of its own, after the charge
    let far = "x\n".to_string() + &"1e12\n".repeat(8000);
    let table = open_bytes(far.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let asked = vec![("x".to_string(), moment("4"))];
    let error = HeavyTailedMean::new(table, asked, options().0, options().1).unwrap().run().err().unwrap();
    assert!(error.is_an_answer() && error.to_string().contains("exceed 1e9"), "{error}");
}
