//! Runs the catalogue: a pilot freezes each event, then independent audits count (spec 20 §1.5).

use super::{Check, Code, DELTA, PlantedBug, Run, Source, Tier, all};
use crate::audit::attack::{CHUNK, sample};
use crate::audit::statistics::Counts;
use crate::audit::statistics::threshold::{Choice, Event, choose};
use crate::progress::{Progress, Silent};
use rayon::prelude::*;
use serde::Serialize;
use std::time::Instant;

/// False alarm of one audit of one correct mechanism.
const ALPHA: f64 = 1e-6;
/// Nanoseconds of CPU that one entry may use by its stated cost, and the largest number of seeds.
fn allowance(tier: Tier) -> (u64, u64) {
    match tier {
        Tier::Short => (200_000_000, 3),
        Tier::Long => (8_000_000_000, 100),
    }
}

/// What became of one entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Its number in the catalogue.
    pub number: &'static str,
    /// How much of it is shipped code.
    pub source: Source,
    /// The mistake.
    pub bug: &'static str,
    /// What was looked at.
    pub statistic: &'static str,
    /// ε claimed at δ = 1e-5; none for entries caught by looking.
    pub claimed: Option<f64>,
    /// Proved lower bound on the planted bug's ε at δ = 1e-5 over all seeds together.
    pub lower_bound: Option<f64>,
    /// The same for the correct code.
    pub lower_bound_correct: Option<f64>,
    /// Runs per world of one audit (twice the stated number).
    pub runs: u64,
    /// Runs per world after which the expected counts reject, from the pilot.
    pub runs_needed: Option<u64>,
    /// Independent audits of the planted bug.
    pub seeds: u64,
    /// How many of them rejected.
    pub rejected: u64,
    /// At least 99 % of them did (or looking found it).
    pub caught: bool,
    /// The correct code was rejected: a false alarm, or a bug that nobody planted.
    pub violation: bool,
    /// What was found, in words.
    pub evidence: String,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Caught by counting runs, rather than by looking.
    pub fn by_counting(&self) -> bool {
        self.runs > 0
    }
}

/// The whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How much was run.
    pub tier: Tier,
    /// Seed of the run.
    pub seed: u64,
    /// One per entry.
    pub outcomes: Vec<Outcome>,
}

impl Summary {
    /// Entries whose bug was caught.
    pub fn caught(&self) -> usize {
        self.outcomes.iter().filter(|o| o.caught).count()
    }

    /// Entries whose correct code was rejected.
    pub fn violations(&self) -> usize {
        self.outcomes.iter().filter(|o| o.violation).count()
    }

    /// The two closing lines.
    pub fn verdict(&self) -> String {
        format!("caught {} of {} planted bugs\nviolations {}", self.caught(), self.outcomes.len(), self.violations())
    }
}

/// Runs all entries; one tick of progress each.
pub fn run(tier: Tier, seed: u64, progress: &dyn Progress) -> Summary {
    let bugs = all();
    progress.start("planted bugs", bugs.len() as u64);
    let outcomes = bugs
        .iter()
        .enumerate()
        .map(|(index, bug)| {
            let outcome = run_one(bug, tier, seed.wrapping_mul(1000).wrapping_add(index as u64));
            progress.tick();
            outcome
        })
        .collect();
    progress.finish();
    Summary { tier, seed, outcomes }
}

/// Runs one entry.
pub fn run_one(bug: &PlantedBug, tier: Tier, seed: u64) -> Outcome {
    let started = Instant::now();
    let outcome = judge(bug, tier, seed);
    Outcome { seconds: started.elapsed().as_secs_f64(), ..outcome }
}

fn judge(bug: &PlantedBug, tier: Tier, seed: u64) -> Outcome {
    let blank = Outcome {
        number: bug.number,
        source: bug.source,
        bug: bug.bug,
        statistic: bug.statistic,
        claimed: None,
        lower_bound: None,
        lower_bound_correct: None,
        runs: 0,
        runs_needed: None,
        seeds: 1,
        rejected: 0,
        caught: false,
        violation: false,
        evidence: String::new(),
        seconds: 0.0,
    };
    match &bug.check {
        Check::Looking(check) => {
            let (correct, planted) = (check(Code::Correct), check(Code::Planted));
            Outcome {
                rejected: u64::from(planted.is_err()),
                caught: planted.is_err(),
                violation: correct.is_err(),
                evidence: match (correct, planted) {
                    (Err(e), _) => format!("correct code: {e}"),
                    (_, Err(e)) => e,
                    _ => "nothing found".into(),
                },
                ..blank
            }
        }
        Check::Counting { claim: Err(reason), .. } => Outcome { evidence: format!("no claim: {reason}"), ..blank },
        Check::Counting { claim: Ok(claim), runs, cost, run } => {
            let planned = 2 * runs;
            let (time, most) = allowance(tier);
            // two worlds, two variants
            let seeds = (time / (4 * planned * cost).max(1)).clamp(1, most);

            // a larger pilot finds an event nearer to the best one
            let pilot_runs = planned.max(4000) * if tier == Tier::Long { 4 } else { 1 };
            let world = Worlds { run, seed };
            let (with, without) = (world.sample(Code::Planted, true, pilot_runs, 0), world.sample(Code::Planted, false, pilot_runs, 0));
            let Choice { event, runs_needed, bound, .. } = choose(&with, &without, claim, DELTA, planned, ALPHA);

            let rejects = |c: &Counts| c.rates(ALPHA).rejects(claim);
            let audits = |code| -> Vec<[Counts; 2]> {
                (1..=seeds).into_par_iter().map(|s| world.count(code, [event, bound], planned, s)).collect()
            };
            let (planted, correct) = (audits(Code::Planted), audits(Code::Correct));
            let pool = |all: &[[Counts; 2]], i: usize| all.iter().fold(Counts::default(), |a, b| a.merge(b[i]));
            let proved = |all: &[[Counts; 2]]| Some(pool(all, 1).rates(ALPHA).epsilon_lower(DELTA));
            let rejected = planted.iter().filter(|c| rejects(&c[0])).count() as u64;
            // one audit per seed, and all seeds together as a sharper one
            let false_alarm = correct.iter().any(|c| rejects(&c[0])) || rejects(&pool(&correct, 0)) || rejects(&pool(&correct, 1));
            let pooled = pool(&planted, 0);
            let side = |p: bool| if p { "D" } else { "D'" };
            Outcome {
                claimed: Some(claim.epsilon(DELTA)),
                lower_bound: proved(&planted),
                lower_bound_correct: proved(&correct),
                runs: planned,
                runs_needed,
                seeds,
                rejected,
                caught: rejected * 100 >= seeds * 99,
                violation: false_alarm,
                evidence: format!(
                    "{} {:.4}: {:.4} on {}, {:.4} on {}",
                    if event.above { ">" } else { "<=" },
                    event.threshold,
                    pooled.true_positives as f64 / pooled.positives as f64,
                    side(event.positive_with),
                    pooled.false_positives as f64 / pooled.negatives as f64,
                    side(!event.positive_with),
                ),
                ..blank
            }
        }
    }
}

/// Independent streams per variant, world and seed.
struct Worlds<'a> {
    run: &'a Run,
    seed: u64,
}

impl Worlds<'_> {
    fn sample(&self, code: Code, with: bool, runs: u64, round: u64) -> Vec<f64> {
        // a stream per chunk; 2^24 chunks of 1024 runs fit below the next world
        debug_assert!(runs.div_ceil(CHUNK) < 1 << 24);
        let place = (round * 4 + 2 * u64::from(code == Code::Correct) + u64::from(with)) << 24;
        sample(runs, self.seed, place, &Silent, |draws| (self.run)(code, with, draws))
    }

    fn count(&self, code: Code, events: [Event; 2], runs: u64, round: u64) -> [Counts; 2] {
        let (with, without) = (self.sample(code, true, runs, round), self.sample(code, false, runs, round));
        events.map(|e| e.count(&with, &without))
    }
}
