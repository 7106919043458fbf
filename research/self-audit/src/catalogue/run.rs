//! Runs the catalogue: a pilot freezes each event, then independent audits bet pair by pair (docs/proofs/sequential-audit.md).
//!
//! An audit of an injected fault ends when the claim has fallen, at the latest after twice the stated number of pairs; the correct
//! code is always run to that end.

use super::{Check, Code, DELTA, InjectedFault, Run, Source, Tier, all};
use crate::kept::Kept;
use dpopt_audit::attack::{CHUNK, sample};
use dpopt_audit::statistics::sequential::{Bet, Stake, best_bet, imagined};
use dpopt_audit::statistics::threshold::{Choice, Event, choose};
use dpopt_audit::statistics::{Claim, Counts};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_process::in_threads;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// False alarm of one audit of one correct mechanism.
const ALPHA: f64 = 1e-6;
/// Points of a claim beyond this ε can't be refuted by counting.
const LARGEST_EPSILON: f64 = 60.0;

/// Audits of the injected fault and of the correct code.
struct Seeds {
    injected: u64,
    /// So many of the injected ones go on to the end after the claim has fallen, for a lower bound by counting.
    to_the_end: u64,
    correct: u64,
}

impl Seeds {
    /// 100 in the long tier, and as many of the correct code as 40 s of CPU allow; in the short tier what 0.2 s allow, up to 3.
    fn of(tier: Tier, runs: u64, cost: u64) -> Self {
        let within = |nanoseconds: u64, most| (nanoseconds / (2 * runs * cost).max(1)).clamp(1, most);
        match tier {
            Tier::Short => {
                let seeds = within(100_000_000, 3);
                Self { injected: seeds, to_the_end: 1, correct: seeds }
            }
            Tier::Long => Self { injected: 100, to_the_end: 10, correct: within(40_000_000_000, 100).max(10) },
        }
    }
}

/// What became of one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the fault in the catalogue.
    pub number: String,
    /// How much of it is shipped code.
    pub source: Source,
    /// The mistake, in words.
    pub bug: String,
    /// What was looked at.
    pub statistic: String,
    /// ε claimed at δ = 1e-5; none for entries caught by looking.
    pub claimed: Option<f64>,
    /// Proved lower bound on the injected fault's ε at δ = 1e-5, by counting in ten audits that went on to the end.
    pub lower_bound: Option<f64>,
    /// Proved lower bound on the correct code's ε at δ = 1e-5, over all its audits together.
    pub lower_bound_correct: Option<f64>,
    /// Most pairs of runs of one audit (twice the stated number).
    pub runs: u64,
    /// Pairs after which the claim fell, on average over the audits in which it did.
    pub pairs: Option<u64>,
    /// Independent audits of the injected fault.
    pub seeds: u64,
    /// How many of them rejected.
    pub rejected: u64,
    /// At least 99 % of them did (or looking found it).
    pub caught: bool,
    /// The correct code was rejected: a false alarm, or a fault that nobody injected.
    pub violation: bool,
    /// What was found, in words.
    pub evidence: String,
    /// Wall-clock seconds of the audits.
    pub seconds: f64,
}

impl Outcome {
    /// Caught by counting runs, rather than by looking.
    pub fn by_counting(&self) -> bool {
        self.runs > 0
    }
}

/// What became of all entries of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How much was run.
    pub tier: Tier,
    /// Seed of the run.
    pub seed: u64,
    /// One outcome per entry.
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
        format!("caught {} of {} injected faults\nviolations {}", self.caught(), self.outcomes.len(), self.violations())
    }
}

/// Runs all entries; one tick of progress each.
pub fn run(tier: Tier, seed: u64, progress: &dyn Progress) -> Summary {
    run_some(tier, seed, |_| true, &Kept::nothing(), progress)
}

/// Runs the entries of the given numbers as [`run`] does, with the same outcomes; those that are kept are not run again.
pub fn run_some(tier: Tier, seed: u64, wanted: impl Fn(&str) -> bool, kept: &Kept, progress: &dyn Progress) -> Summary {
    let bugs = all();
    progress.start("injected faults", bugs.iter().filter(|b| wanted(b.number)).count() as u64);
    let outcomes = bugs
        .iter()
        .enumerate()
        .filter(|(_, bug)| wanted(bug.number))
        .map(|(index, bug)| {
            let seed = seed.wrapping_mul(1000).wrapping_add(index as u64);
            let outcome = kept.or_run("fault", bug.number, || run_one(bug, tier, seed));
            progress.tick();
            outcome
        })
        .collect();
    progress.finish();
    Summary { tier, seed, outcomes }
}

/// Runs all audits of one entry of the catalogue.
pub fn run_one(bug: &InjectedFault, tier: Tier, seed: u64) -> Outcome {
    let started = Instant::now();
    let outcome = judge(bug, tier, seed);
    Outcome { seconds: started.elapsed().as_secs_f64(), ..outcome }
}

fn judge(bug: &InjectedFault, tier: Tier, seed: u64) -> Outcome {
    let blank = Outcome {
        number: bug.number.into(),
        source: bug.source,
        bug: bug.bug.into(),
        statistic: bug.statistic.into(),
        claimed: None,
        lower_bound: None,
        lower_bound_correct: None,
        runs: 0,
        pairs: None,
        seeds: 1,
        rejected: 0,
        caught: false,
        violation: false,
        evidence: String::new(),
        seconds: 0.0,
    };
    match &bug.check {
        Check::Looking(check) => {
            let (correct, injected) = (check(Code::Correct), check(Code::Injected));
            Outcome {
                rejected: u64::from(injected.is_err()),
                caught: injected.is_err(),
                violation: correct.is_err(),
                evidence: match (correct, injected) {
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
            let seeds = Seeds::of(tier, planned, *cost);
            // a larger pilot finds an event nearer to the best one
            let pilot_runs = planned.max(4000) * if tier == Tier::Long { 4 } else { 1 };
            let world = Worlds { run, seed };
            let (with, without) =
                (world.sample(Code::Injected, true, pilot_runs, 0), world.sample(Code::Injected, false, pilot_runs, 0));
            let Choice { event, bound, .. } = choose(&with, &without, claim, DELTA, planned, ALPHA);
            let (event, bet) = opening(claim, event, event.count(&with, &without));

            let audits = |code, count: u64, to_the_end: u64| -> Vec<Audit> {
                let one = |s| world.audit(code, [event, bound], &bet, (planned, s <= to_the_end), s);
                in_threads(|| (1..=count).into_par_iter().map(one).collect())
            };
            let injected = audits(Code::Injected, seeds.injected, seeds.to_the_end);
            let correct = audits(Code::Correct, seeds.correct, seeds.correct);
            let pool = |all: &[Audit], i: usize| all.iter().fold(Counts::default(), |a, b| a.merge(b.counts[i]));
            // a fixed number of audits of fixed size: what was chosen by stopping bounds nothing by counting
            let whole = &injected[..seeds.to_the_end.min(seeds.injected) as usize];
            let proved = |all: &[Audit]| Some(pool(all, 1).rates(ALPHA).epsilon_lower(DELTA));
            let fallen: Vec<u64> = injected.iter().filter_map(|a| a.fallen_after).collect();
            let rejected = fallen.len() as u64;
            let seeds = seeds.injected;
            // one audit per seed, and all seeds together as a sharper one
            let rejects = |c: &Counts| c.rates(ALPHA).rejects(claim);
            let false_alarm = correct.iter().any(|a| a.fallen_after.is_some())
                || rejects(&pool(&correct, 0))
                || rejects(&pool(&correct, 1));
            let pooled = pool(whole, 0);
            let side = |p: bool| if p { "D" } else { "D'" };
            Outcome {
                claimed: Some(claim.epsilon(DELTA)),
                lower_bound: proved(whole),
                lower_bound_correct: proved(&correct),
                runs: planned,
                pairs: fallen.iter().sum::<u64>().checked_div(rejected),
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
        self.sample_from(code, with, runs, round, 0)
    }

    fn sample_from(&self, code: Code, with: bool, runs: u64, round: u64, chunk: u64) -> Vec<f64> {
        // a stream per chunk; 2^24 chunks of 1024 runs fit below the next world
        debug_assert!(chunk + runs.div_ceil(CHUNK) < 1 << 24);
        let place = ((round * 4 + 2 * u64::from(code == Code::Correct) + u64::from(with)) << 24) + chunk;
        sample(runs, self.seed, place, &Silent, |draws| (self.run)(code, with, draws))
    }

    /// Bets pair by pair; counts both events over all pairs made.
    fn audit(&self, code: Code, events: [Event; 2], bet: &Bet, (most, to_the_end): (u64, bool), round: u64) -> Audit {
        let mut bet = bet.clone();
        let mut counts = [Counts::default(); 2];
        let mut fallen_after = None;
        let mut done = 0;
        while done < most && (to_the_end || fallen_after.is_none()) {
            // small audits in one piece, large ones by chunks that the stopping rule looks at
            let runs = if to_the_end { most } else { (most - done).min(CHUNK) };
            let world = |with| self.sample_from(code, with, runs, round, done / CHUNK);
            let (with, without) = (world(true), world(false));
            for (&w, &o) in with.iter().zip(&without) {
                if fallen_after.is_some() {
                    break;
                }
                let (a, b) = (events[0].happened(w), events[0].happened(o));
                if events[0].positive_with {
                    bet.observe(a, b)
                } else {
                    bet.observe(b, a)
                }
                fallen_after = bet.refuted(ALPHA).then(|| bet.pairs());
            }
            counts = [0, 1].map(|i| counts[i].merge(events[i].count(&with, &without)));
            done += runs;
        }
        Audit { fallen_after, counts }
    }
}

/// One audit of an entry.
struct Audit {
    fallen_after: Option<u64>,
    counts: [Counts; 2],
}

/// A bet on the event or its complement, against the point of the claim that falls fastest at the rates of the pilot, with stakes that
/// start from them.
fn opening(claim: &Claim, event: Event, pilot: Counts) -> (Event, Bet) {
    let rate = |k: u64, n: u64| (k as f64 + 0.5) / (n as f64 + 1.0);
    let (tpr, fpr) = (rate(pilot.true_positives, pilot.positives), rate(pilot.false_positives, pilot.negatives));
    let points: Vec<(f64, f64)> = claim.points().into_iter().filter(|p| p.0 < LARGEST_EPSILON).collect();
    let mut bet = Bet::new(0.0, 1.0, Stake::Adaptive);
    let Some((event, rates, point)) = best_bet(event, (tpr, fpr), &points) else { return (event, bet) };
    // the event was the best of many on the pilot: its runs count half
    bet.turn_to(point, imagined(rates.0, rates.1, 0.5 * pilot.positives as f64));
    (event, bet)
}
