//! Which method errs least where: every certified method for linear models at equal (ε, δ), over rows, features, strong directions, ε and the norm in which rows
//! are bounded; and what is taken where nobody names a method.

use super::yardstick::norm;
use crate::{Compared, Entry, Failure, Fidelity, Lab, Outcome, Summary, Table, Trial, Verdict, cell};
use dpopt::Sensitive;
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::model::probability::of_margin;
use dpopt::noise::{NoiseSource, Purpose};
use dpopt::optimize::{Candidate, MethodOptions, Run};
use dpopt::plan::{Grade, Problem};
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::{Examples, Rows};
use dpopt::report::chart::{Axis, Chart, Panel, Series};
use dpopt_methods::registry;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The winners, and how far behind them what is taken is.
pub const ENTRY: Entry = Entry {
    name: "map",
    source: "no source compares them: all certified methods for linear models at equal (ε, δ)",
    shows: "which method errs least on fresh records, over n, d, s, ε and the norm of rows, and where what is taken by itself is more than a tenth behind",
    fidelity: Fidelity::Theory,
    revision: 2,
    run,
};

const DELTA: f64 = 1e-6;
const LOSS: Loss = Loss::Logistic { shift: 0.0 };
/// Directions that matter where few do.
const FEW: usize = 4;
/// Standard deviation of the true scores.
const SIGNAL: f64 = 2.0;
/// Records that risks are measured on.
const FRESH: usize = 4000;
/// Work from which a method is not run: about a second. A gradient of a record of d entries counts as 2d + 60.
const MAX_WORK: f64 = 2e9;
/// What a risk may be above the least one.
const NEAR: f64 = 1.1;
const NOTHING: &str = "weights 0";

/// How rows are bounded.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Rowed {
    /// Of norm 1, strong in few directions: p = 2.
    Round,
    /// Signs over √d: entries are bounded, p = 1.
    Signs,
}

#[derive(Clone, Copy, Serialize)]
struct Setting {
    rowed: Rowed,
    few: bool,
    features: usize,
    rows: usize,
    epsilon: f64,
    tables: u64,
}

/// What an answer leaves on fresh records, in the mean.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Left {
    /// Probability that a label is not the predicted one: given the row, by the truth.
    error: f64,
    standard_error: f64,
    log_loss: f64,
}

/// Which of the two a map is of.
#[derive(Clone, Copy, PartialEq)]
enum Risk {
    Error,
    LogLoss,
}

/// Mean risks of a cell.
#[derive(Clone, Serialize, Deserialize)]
struct Measured {
    /// Risks of each method, by its name.
    risks: BTreeMap<String, Left>,
    taken: String,
    /// Risks of the true weights.
    floor: Left,
    /// Certified methods that would have taken too long.
    passed_over: Vec<String>,
}

impl Left {
    fn of(&self, risk: Risk) -> f64 {
        match risk {
            Risk::Error => self.error,
            Risk::LogLoss => self.log_loss,
        }
    }
}

impl Measured {
    fn of(&self, method: &str, risk: Risk) -> f64 {
        self.risks.get(method).map_or(f64::INFINITY, |left| left.of(risk))
    }

    /// The method with the least; of equals the one that is taken, or the first in the tie-break order.
    fn best(&self, risk: Risk) -> (&str, f64) {
        let mut best = (self.taken.as_str(), self.of(&self.taken, risk));
        for name in registry().names().chain([NOTHING]) {
            let found = self.of(name, risk);
            if found < best.1 {
                best = (name, found);
            }
        }
        best
    }

    /// Of what is taken over the least.
    fn ratio(&self, risk: Risk) -> f64 {
        self.of(&self.taken, risk) / self.best(risk).1
    }

    /// Excess over the truth's risk of the method that is taken, over the least; what is as good as the truth counts as a billionth above it.
    fn ratio_of_excess(&self, risk: Risk) -> f64 {
        let above = |found: f64| (found - self.floor.of(risk)).max(1e-9);
        above(self.of(&self.taken, risk)) / above(self.best(risk).1)
    }
}

/// Records of one table: to learn from, and fresh ones with the chance that their label is 1.
struct Records {
    learnt: Examples,
    fresh: Examples,
    chances: Vec<f64>,
}

impl Records {
    fn new(s: &Setting, seed: u64) -> Self {
        let d = s.features;
        let mut stream = NoiseSource::insecure(seed).stream(Purpose::Other(0), 0);
        let support = if s.few { FEW.min(d) } else { d };
        let mut truth = vec![0.0; d];
        for k in 0..support {
            truth[k * d / support] = if stream.uniform() < 0.5 { -1.0 } else { 1.0 };
        }
        let mut row = || -> Vec<f64> {
            let raw: Vec<f64> = (0..d)
                .map(|j| {
                    let z = stream.standard_normal();
                    match s.rowed {
                        Rowed::Round => z / (1.0 + j as f64).sqrt(),
                        Rowed::Signs => z.signum(),
                    }
                })
                .collect();
            let length = norm(&raw).max(f64::MIN_POSITIVE);
            raw.iter().map(|x| x / length).collect()
        };
        let all: Vec<Vec<f64>> = (0..s.rows + FRESH).map(|_| row()).collect();
        let scores: Vec<f64> = all.iter().map(|row| row.iter().zip(&truth).map(|(a, w)| a * w).sum()).collect();
        let size = norm(&scores) / (scores.len() as f64).sqrt();
        let none = || Examples { rows: Rows::new(d), targets: Vec::new() };
        let mut made = Self { learnt: none(), fresh: none(), chances: Vec::new() };
        for (i, (row, score)) in all.iter().zip(&scores).enumerate() {
            let chance = 1.0 / (1.0 + (-SIGNAL / size * score).exp());
            let to = if i < s.rows { &mut made.learnt } else { &mut made.fresh };
            let mut entries: Vec<(u32, f32)> = (0..).zip(row.iter().map(|&x| x as f32)).collect();
            to.rows.push_clipped(&mut entries, 1.0);
            to.targets.push(if stream.uniform() < chance { 1.0 } else { -1.0 });
            if i >= s.rows {
                made.chances.push(chance);
            }
        }
        made
    }

    /// Error and log loss of scores on the fresh records, labels averaged out; `loss` says what probability a score stands for.
    fn left(&self, loss: &Loss, score: impl Fn(usize) -> f64) -> [f64; 2] {
        let mut both = [0.0; 2];
        for (i, &chance) in self.chances.iter().enumerate() {
            let score = score(i);
            // a score of 0 guesses
            let wrong = match score.partial_cmp(&0.0) {
                Some(Ordering::Greater) => 1.0 - chance,
                Some(Ordering::Less) => chance,
                _ => 0.5,
            };
            both[0] += wrong;
            // the other class's probability by itself: 1 − p would be 0 for high scores
            let [yes, no] = [score, -score].map(|s| of_margin(loss, s).max(f64::MIN_POSITIVE).ln());
            both[1] -= chance * yes + (1.0 - chance) * no;
        }
        both.map(|sum| sum / self.chances.len() as f64)
    }

    fn of_weights(&self, loss: &Loss, weights: &[f64]) -> [f64; 2] {
        self.left(loss, |i| {
            let (columns, values) = self.fresh.rows.row(i);
            columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum()
        })
    }

    fn of_truth(&self) -> [f64; 2] {
        self.left(&LOSS, |i| (self.chances[i] / (1.0 - self.chances[i])).ln())
    }
}

fn mean_of(found: &[[f64; 2]]) -> Left {
    let errors = Summary::of(found.iter().map(|both| both[0]));
    let log_loss = Summary::of(found.iter().map(|both| both[1])).mean;
    Left { error: errors.mean, standard_error: errors.standard_error(), log_loss }
}

fn problem(s: &Setting) -> Problem {
    Problem {
        directions: None,
        prior_release: None,
        calibrated: None,
        intervals: None,
        record: Default::default(),
        rows: s.rows as u64,
        features: s.features,
        nonzeros: s.features,
        row_norm: 1.0,
        loss: LOSS,
        neighbours: Neighbours::of_records(Relation::ZeroOut),
    }
}

fn measure(s: &Setting, trial: Trial) -> Result<Measured, Failure> {
    let problem = problem(s);
    let budget = Budget::new(s.epsilon, DELTA).map_err(Failure::of)?;
    let certified = |c: &Candidate| c.plan.as_ref().is_ok_and(|plan| plan.summary().grade() == Grade::Certified);
    let all: Vec<Candidate> =
        registry().candidates(&problem, budget, &MethodOptions::default()).into_iter().filter(certified).collect();
    let taken = all.first().map_or(NOTHING, |c| c.method).to_string();
    let work = |c: &Candidate| {
        c.plan.as_ref().map_or(f64::INFINITY, |plan| plan.summary().gradients * (2.0 * s.features as f64 + 60.0))
    };
    let (affordable, passed_over): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|c| work(c) <= MAX_WORK || c.method == taken);
    let mut found: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
    let mut floors = Vec::new();
    for table in 0..s.tables {
        let records = Records::new(s, trial.shared_seed.wrapping_add(table));
        floors.push(records.of_truth());
        let mut note = |name: &str, loss: &Loss, weights: &[f64]| {
            found.entry(name.into()).or_default().push(records.of_weights(loss, weights));
        };
        note(NOTHING, &LOSS, &vec![0.0; s.features]);
        let held = Sensitive::new(records.learnt.clone());
        for Candidate { method, plan } in &affordable {
            let Ok(plan) = plan else { continue };
            let mut curator = Curator::new(&plan.summary().certificate, NoiseSource::insecure(trial.seed ^ table));
            let run = Run::new(&problem, &held, &mut curator, &Silent).map_err(Failure::of)?;
            let solution = plan.run(run).map_err(Failure::of)?.into_inner();
            note(method, &plan.summary().loss, &solution.weights);
        }
    }
    let risks = found.into_iter().map(|(method, found)| (method, mean_of(&found))).collect();
    let passed_over = passed_over.iter().map(|c| c.method.into()).collect();
    Ok(Measured { risks, taken, floor: mean_of(&floors), passed_over })
}

fn title(rowed: Rowed, few: bool, features: usize) -> String {
    let norm = if rowed == Rowed::Round { "p = 2" } else { "p = 1" };
    let support = if few { format!("s = {}", FEW.min(features)) } else { "s = d".into() };
    format!("{norm}, d = {features}, {support}")
}

fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let dimensions = lab.pick(vec![5], vec![5, 40]);
    let rows = lab.pick(vec![200, 800], vec![300, 1500, 7500]);
    let epsilons = lab.pick(vec![0.5, 2.0], vec![0.1, 0.4, 1.6, 6.4]);
    let count = lab.pick(1, 4);
    lab.setting("delta (zero-out)", DELTA)?;
    lab.setting("tables of a cell", count)?;
    lab.setting("fresh rows of a table", FRESH)?;
    lab.setting("standard deviation of true scores", SIGNAL)?;
    let mut settings: Vec<Setting> = Vec::new();
    for (rowed, few) in [(Rowed::Round, false), (Rowed::Round, true), (Rowed::Signs, false), (Rowed::Signs, true)] {
        for &features in &dimensions {
            for &rows in &rows {
                settings.extend(epsilons.iter().map(|&epsilon| Setting {
                    rowed,
                    few,
                    features,
                    rows,
                    epsilon,
                    tables: count,
                }));
            }
        }
    }
    let results: Vec<Measured> = lab.trials("map", &settings, 1, measure)?.into_iter().flatten().collect();
    let names: Vec<&str> = std::iter::once(NOTHING).chain(registry().names()).collect();
    let share = |risk: Risk, within: &dyn Fn(&Measured, Risk) -> f64| {
        results.iter().filter(|f| within(f, risk) <= NEAR).count() as f64 / results.len() as f64
    };
    let near = [Risk::Error, Risk::LogLoss].map(|risk| share(risk, &Measured::ratio));
    let near_excess = share(Risk::Error, &Measured::ratio_of_excess);
    let compared = [("error", near[0]), ("log loss", near[1])]
        .map(|(risk, share)| {
            let what = format!("share of cells in which what is taken has at most 1.1 times the least {risk}");
            Compared::within(what, 0.9..=1.0, share)
        })
        .to_vec();
    let mut leaders: Vec<(usize, &str)> =
        names.iter().map(|name| (results.iter().filter(|f| f.best(Risk::Error).0 == *name).count(), *name)).collect();
    leaders.sort_by_key(|(best, _)| std::cmp::Reverse(*best));
    let wins: Vec<String> =
        leaders.iter().take(5).filter(|(best, _)| *best > 0).map(|(best, name)| format!("{name} {best}")).collect();
    let sentence = format!(
        "What is taken where nobody names a method has at most 1.1 times the least error in {:.0} % of {} cells (log loss: {:.0} %), and of the least error above the truth's in {:.0} %. Least error most often: {}.",
        100.0 * near[0],
        results.len(),
        100.0 * near[1],
        100.0 * near_excess,
        wins.join(", "),
    );
    let picture = |risk: Risk| {
        let size = rows.len() * epsilons.len();
        let groups = settings.chunks(size).zip(results.chunks(size));
        Chart::of(groups.map(|(group, found)| panel(group, found, &names, risk)))
    };
    Ok(Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![winners(&settings, &results), methods(&names, &results), risks(&settings, &results)],
        charts: vec![("error".into(), picture(Risk::Error)), ("log-loss".into(), picture(Risk::LogLoss))],
        compared,
        notes: vec![
            format!("Errors are those on {FRESH} fresh rows with the labels averaged out, a mean over {count} tables of each cell; methods see the same tables. The best of many is a little lucky: its error is below its mean by about a standard error (table risks). Weights 0, which guess, count as a method that is never taken."),
            "Log loss is that of the probabilities that predictions have: a score of the shifted logistic loss, which objective perturbation, the exponential mechanism and output perturbation fit by default, stands for another probability than one of the plain loss.".into(),
            "p = 2: rows of norm 1 whose columns have falling size 1/√j; p = 1: signs over √d. s: columns that the truth has weights in, of equal size, spread over all. Methods have their defaults and are told n, d and ε, not s nor p.".into(),
            format!("A method whose plan needs more than {MAX_WORK:.0e} operations is not run, unless it is taken. References of the literature and methods of research grade are not in the map."),
        ],
    })
}

/// n, ε, s, d and p of a cell as tables show them.
fn place(s: &Setting) -> [String; 5] {
    let support = if s.few { FEW.min(s.features) } else { s.features };
    let p = if s.rowed == Rowed::Round { "2" } else { "1" };
    [p.into(), support.to_string(), s.features.to_string(), s.rows.to_string(), s.epsilon.to_string()]
}

fn risks(settings: &[Setting], results: &[Measured]) -> Table {
    let columns = [
        "p",
        "s",
        "d",
        "n",
        "epsilon",
        "method",
        "error",
        "standard error",
        "log loss",
        "error of the truth",
        "its log loss",
    ];
    let mut table = Table::new("risks", columns);
    for (s, found) in settings.iter().zip(results) {
        for (method, left) in &found.risks {
            let numbers = [left.error, left.standard_error, left.log_loss, found.floor.error, found.floor.log_loss];
            table.row(place(s).into_iter().chain([method.clone()]).chain(numbers.map(cell)));
        }
    }
    table
}

fn winners(settings: &[Setting], results: &[Measured]) -> Table {
    let columns = [
        "p",
        "s",
        "d",
        "n",
        "epsilon",
        "least error",
        "its error",
        "taken",
        "its error over the least",
        "above the truth's",
        "its log loss over the least",
    ];
    let mut table = Table::new("winners", columns);
    for (s, found) in settings.iter().zip(results) {
        let (best, least) = found.best(Risk::Error);
        let ratios = [found.ratio(Risk::Error), found.ratio_of_excess(Risk::Error), found.ratio(Risk::LogLoss)];
        let texts = [best.to_string(), cell(least), found.taken.clone()];
        table.row(place(s).into_iter().chain(texts).chain(ratios.map(cell)));
    }
    table
}

fn methods(names: &[&str], results: &[Measured]) -> Table {
    let columns = [
        "method",
        "cells it was run in",
        "least error",
        "at most 1.1 times the least error",
        "least log loss",
        "taken",
        "too slow",
    ];
    let mut table = Table::new("methods", columns);
    let count = |of: &dyn Fn(&Measured) -> bool| results.iter().filter(|f| of(f)).count();
    for name in names {
        let ran = count(&|f| f.risks.contains_key(*name));
        let slow = count(&|f| f.passed_over.iter().any(|m| m == name));
        if ran + slow > 0 {
            let counts = [
                ran,
                count(&|f| f.best(Risk::Error).0 == *name),
                count(&|f| f.of(name, Risk::Error) <= NEAR * f.best(Risk::Error).1),
                count(&|f| f.best(Risk::LogLoss).0 == *name),
                count(&|f| f.taken == *name),
                slow,
            ];
            table.row(std::iter::once((*name).to_string()).chain(counts.map(|c| c.to_string())));
        }
    }
    table
}

/// Winners over n and ε.
fn panel(group: &[Setting], found: &[Measured], names: &[&str], risk: Risk) -> Panel {
    let ends = |of: fn(&Setting) -> f64| {
        let values = || group.iter().map(of);
        (values().fold(f64::INFINITY, f64::min) / 1.6, values().fold(0.0, f64::max) * 1.6)
    };
    let ((left, right), (low, high)) = (ends(|s| s.rows as f64), ends(|s| s.epsilon));
    let mut panel = Panel::new(
        group.first().map_or(String::new(), |s| title(s.rowed, s.few, s.features)),
        Axis::log("rows n").from_to(left, right),
        Axis::log("ε").from_to(low, high),
    );
    let those = |chosen: &dyn Fn(&Measured) -> bool| -> Vec<(f64, f64)> {
        group.iter().zip(found).filter(|(_, f)| chosen(f)).map(|(s, _)| (s.rows as f64, s.epsilon)).collect()
    };
    for name in names {
        let won = those(&|f| f.best(risk).0 == *name);
        if !won.is_empty() {
            panel = panel.with(Series::cells(*name, won));
        }
    }
    panel.with(Series::dots("what is taken is more than a tenth behind", those(&|f| f.ratio(risk) > NEAR)))
}
