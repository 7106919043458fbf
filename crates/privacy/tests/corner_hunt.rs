//! A hunt for answers below the truth: random events that love corners, every accountant against every other one's lower bound and
//! against one part alone, whose exact profile is worked out here once more.
//!
//! `DPOPT_CORNER_CASES` says how many (`make audit` asks for 100,000, `make test-slow` for 1,000, `make test` for 200); the case's number is its seed, so that a
//! long hunt can be cut in pieces: `DPOPT_CORNER_FROM` is the first number. Every 5,000 cases it says how far it is.

mod corners;

use corners::{Corners, truth};
use dpopt_privacy::accountant::pld::{Pld, Quality};
use dpopt_privacy::accountant::{self, Accountant, AccountingError, Bound};
use dpopt_privacy::{Event, Relation};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest that one accountant may think about one question: a hang, and not a machine that others use too.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Counts {
    answers: u64,
    refusals: u64,
    /// Questions to which the exact profile of a part is known here.
    truths: u64,
    /// Certified lower bounds above 0.
    lower: u64,
    below: Vec<String>,
    by_accountant: BTreeMap<&'static str, u64>,
    slowest: (Duration, String),
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.answers += other.answers;
        self.refusals += other.refusals;
        self.truths += other.truths;
        self.lower += other.lower;
        self.below.extend(other.below);
        for (name, n) in other.by_accountant {
            *self.by_accountant.entry(name).or_default() += n;
        }
        if other.slowest.0 > self.slowest.0 {
            self.slowest = other.slowest;
        }
    }

    /// One question to every accountant. `wrong`(bound) says what is wrong with an answer by the truth known here.
    fn ask(
        &mut self,
        what: &str,
        ask: impl Fn(&dyn Accountant) -> Result<Bound, AccountingError>,
        wrong: impl Fn(&Bound) -> Option<String>,
        lattice: &dyn Accountant,
    ) {
        let mut lower = 0.0f64;
        let mut answers = vec![];
        for a in accountant::all() {
            let a = if a.name() == "pld" { lattice } else { *a };
            let clock = Clock::start();
            let answer = ask(a);
            let time = clock.elapsed();
            if time > self.slowest.0 {
                self.slowest = (time, format!("{} of {what}", a.name()));
            }
            if time > Duration::from_secs(20) {
                println!("{time:?}: {} of {what}", a.name());
            }
            if time > PATIENCE {
                self.below.push(format!("{} thinks {time:?} about {what}", a.name()));
            }
            match answer {
                Ok(bound) => {
                    self.answers += 1;
                    *self.by_accountant.entry(a.name()).or_default() += 1;
                    if let Some(why) = wrong(&bound) {
                        self.below.push(format!("{} of {what}: {bound:?} {why}", a.name()));
                    }
                    lower = lower.max(bound.lower.unwrap_or(0.0));
                    answers.push(bound);
                }
                Err(AccountingError::Contradicted { reason, .. }) => {
                    self.below.push(format!("{} of {what}: {reason}", a.name()));
                }
                Err(_) => self.refusals += 1,
            }
        }
        self.lower += u64::from(lower > 0.0);
        for bound in answers.iter().filter(|b| b.upper * (1.0 + 1e-9) + 1e-307 < lower) {
            self.below
                .push(format!("{} of {what}: {} is below {lower}, which is attained", bound.accountant, bound.upper));
        }
    }
}

/// What a question costs: time on a processor where the system tells it, which other programs do not lengthen; time otherwise.
struct Clock {
    processor: Option<Duration>,
    wall: Instant,
}

impl Clock {
    fn start() -> Self {
        Self { processor: Self::processor(), wall: Instant::now() }
    }

    /// Processor time of this thread so far.
    fn processor() -> Option<Duration> {
        let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        line.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }

    fn elapsed(&self) -> Duration {
        match (Self::processor(), self.processor) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ => self.wall.elapsed(),
        }
    }
}

fn case(number: u64) -> Counts {
    let mut corners = Corners::new(number);
    let relation = corners.relation();
    let event = corners.event(relation);
    let (delta, epsilon) = (corners.delta(), corners.epsilon());
    // a certified lower bound costs as much again
    let bracket = number.is_multiple_of(4);
    let lattice = Pld { quality: Quality { bracket, ..Quality::COARSE } };
    let mut counts = Counts::default();
    let what = |question: &str| format!("case {number}, {question} of {event} under {relation}");
    counts.truths += u64::from(truth(&event, relation, epsilon) > 0.0);
    let parts_delta = |epsilon: f64| truth(&event, relation, epsilon);
    counts.ask(
        &what(&format!("epsilon at {delta:e}")),
        |a| a.epsilon(&event, relation, delta),
        |bound| {
            let sound = bound.upper >= 0.0 && bound.upper.is_finite() && bound.upper.is_sign_positive();
            let least = parts_delta(bound.upper);
            let lower = bound.lower.is_some_and(|l| !(l <= bound.upper));
            (!sound || lower || least > delta * (1.0 + 1e-8) + 1e-307)
                .then(|| format!("one part has delta {least:e} there"))
        },
        &lattice,
    );
    let least = parts_delta(epsilon);
    counts.ask(
        &what(&format!("delta at {epsilon:e}")),
        |a| a.delta(&event, relation, epsilon),
        |bound| {
            let sound = (0.0..=1.0).contains(&bound.upper) && bound.upper.is_sign_positive();
            let lower = bound.lower.is_some_and(|l| !(l <= bound.upper));
            (!sound || lower || least > bound.upper * (1.0 + 1e-8)).then(|| format!("one part alone has {least:e}"))
        },
        &lattice,
    );
    counts
}

/// Cases after which a hunt says how far it is.
const STRIDE: u64 = 5000;

fn hunt(numbers: std::ops::Range<u64>) -> Counts {
    let (next, done, all) = (AtomicU64::new(numbers.start), AtomicU64::new(0), Mutex::new(Counts::default()));
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        break;
                    }
                    let counts = std::panic::catch_unwind(|| case(number)).unwrap_or_else(|_| Counts {
                        below: vec![format!("case {number} panics")],
                        ..Counts::default()
                    });
                    // at once: a long hunt may be ended before its end
                    counts.below.iter().for_each(|found| println!("found: {found}"));
                    let mut all = all.lock().unwrap();
                    all.add(counts);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(STRIDE) {
                        let (below, end) = (all.below.len(), numbers.end - numbers.start);
                        println!("{done} of {end} cases from {} on, below the truth {below}", numbers.start);
                    }
                }
            });
        }
    });
    all.into_inner().unwrap()
}

#[test]
fn nothing_is_below_the_truth() {
    let given = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |n| n.parse().unwrap_or_else(|_| panic!("{name} is a count")))
    };
    hunted(given("DPOPT_CORNER_FROM", 0), given("DPOPT_CORNER_CASES", 200));
}

#[test]
#[ignore = "long by nature: make test-slow"]
fn nothing_is_below_the_truth_in_a_thousand_cases() {
    hunted(0, 1000);
}

fn hunted(from: u64, cases: u64) {
    let counts = hunt(from..from + cases);
    println!("answers {}, refusals {}, by accountant {:?}", counts.answers, counts.refusals, counts.by_accountant);
    println!("questions with an exact truth {}, with a certified lower bound {}", counts.truths, counts.lower);
    println!("slowest: {:?}, {}", counts.slowest.0, counts.slowest.1);
    println!("corner hunt: cases {cases} from {from} on, below the truth {}", counts.below.len());
    assert!(counts.below.is_empty());
    // the hunt sees something: truths, lower bounds and answers are not rare
    assert!(counts.truths > cases / 5 && counts.lower > cases / 3 && counts.answers > cases);
}

/// The hunt notices an accountant that is a thousandth too low.
#[test]
fn an_injected_shortfall_is_noticed() {
    struct Low;
    impl Accountant for Low {
        fn name(&self) -> &'static str {
            "pld"
        }
        fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError> {
            Pld::default().supports(event, relation)
        }
        fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
            let bound = Pld::default().claim_epsilon(event, relation, delta)?;
            Ok(Bound { upper: 0.999 * bound.upper, ..bound })
        }
        fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
            let bound = Pld::default().claim_delta(event, relation, epsilon)?;
            Ok(Bound { upper: 0.999 * bound.upper, ..bound })
        }
    }
    let event = Event::gaussian(1.0).poisson_sampled(0.1);
    let mut counts = Counts::default();
    let never = |_: &Bound| None;
    counts.ask("epsilon", |a| a.epsilon(&event, Relation::ZeroOut, 1e-6), never, &Low);
    counts.ask("delta", |a| a.delta(&event, Relation::ZeroOut, 1.0), never, &Low);
    assert_eq!(counts.below.len(), 2, "{:?}", counts.below);
}
