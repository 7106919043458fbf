//! Audits that stop as soon as the claim has fallen: a betting test around any mechanism
//! (docs/proofs/sequential-audit.md).
//!
//! Runs come in pairs, one per world. After a short pilot an event and a point (ε, δ) of the claim are chosen and frozen
//! for a stretch of pairs, then chosen again from all pairs before: every bet is made on what comes next, so the wealth is a
//! non-negative supermartingale under the claim, and the audit may stop, or be looked at, at any time. Two ladders of bets
//! on fixed rungs give lower bounds on ε and μ that are valid at the same stopping time.

use super::super::draws::Draws;
use super::super::statistics::Claim;
use super::super::statistics::claim::gaussian_points_near;
use super::super::statistics::sequential::{Bet, Stake, best_bet, best_point, imagined, largest_epsilon};
use super::super::statistics::threshold::{Choice, Event, choose};
use super::{AuditError, CHUNK, Options, Pair, Report, Verdict, roc, sample};
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_privacy::special::gaussian_epsilon;
use serde::Serialize;

/// Pairs before the first bet: enough to see which side of the outputs is which.
const PILOT: u64 = 64;
/// The event is chosen again when there are this many times as many pairs.
const STRETCH: f64 = 1.5;
/// What a pilot's pair is worth against a fresh one: the event was the best of many on them.
const PILOT_WEIGHT: f64 = 0.5;
/// Number of candidate lower bounds that are tested at once, for ε and for μ.
const RUNGS: u32 = 256;
/// e^ε beyond this is more than any number of runs refutes.
const LARGEST_EPSILON: f64 = 60.0;

/// When and how a sequential audit ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stopping {
    /// Runs per world that it was allowed.
    pub maximum: u64,
    /// Runs per world, the pilot included, after which the claim had fallen; none if it stands.
    pub refuted_after: Option<u64>,
    /// The p-value of the three bets on the claim together, valid at any time; at most α where the claim has fallen.
    pub p_value: f64,
    /// The point (ε, δ) of the claim that the last stretch bet against.
    pub point: (f64, f64),
}

/// The end of the stretch that begins after so many pairs.
fn stretched(pairs: u64) -> u64 {
    ((pairs as f64 * STRETCH) as u64).max(pairs + 1)
}

/// One rung of a ladder: a number that the audit tries to prove exceeded.
struct Rung {
    value: f64,
    bet: Bet,
}

/// Rungs in ascending order, all on one event. What is proved is the highest of those below which all have fallen: if that
/// is wrong then the first rung above the truth has fallen, one bet, so the bound fails with probability at most α.
struct Ladder {
    rungs: Vec<Rung>,
    event: Event,
}

impl Ladder {
    /// Rungs up to `highest`, and at `claimed` if that is finite.
    fn new(highest: f64, claimed: f64, event: Event) -> Self {
        let mut values: Vec<f64> = (0..=RUNGS).map(|i| highest * f64::from(i) / f64::from(RUNGS)).collect();
        if claimed.is_finite() && claimed < LARGEST_EPSILON {
            values.push(claimed);
        }
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let rungs = values.into_iter().map(|value| Rung { value, bet: Bet::new(0.0, 0.0, Stake::Adaptive) }).collect();
        Self { rungs, event }
    }

    /// Another event from here on; `point` says which (ε, δ) a rung bets against.
    fn turn_to(
        &mut self,
        event: Event,
        rates: (f64, f64),
        weights: [f64; 4],
        point: impl Fn(f64, (f64, f64)) -> (f64, f64),
    ) {
        self.event = event;
        for rung in &mut self.rungs {
            rung.bet.turn_to(point(rung.value, rates), weights);
        }
    }

    fn observe(&mut self, with: f64, without: f64, alpha: f64) {
        let (positive, negative) = oriented(self.event, with, without);
        for rung in self.rungs.iter_mut().filter(|r| !r.bet.refuted(alpha)) {
            rung.bet.observe(positive, negative);
        }
    }

    fn proved(&self, alpha: f64) -> f64 {
        self.rungs.iter().take_while(|r| r.bet.refuted(alpha)).last().map_or(0.0, |r| r.value)
    }
}

/// Whether the event happened where it should be likelier, and in the other world.
fn oriented(event: Event, with: f64, without: f64) -> (bool, bool) {
    let (a, b) = (event.happened(with), event.happened(without));
    if event.positive_with { (a, b) } else { (b, a) }
}

/// An audit that takes pairs of runs as they come.
///
/// ```
/// use dpopt_audit::attack::{Options, Sequential, Verdict};
/// use dpopt_audit::{draws::Draws, statistics::Claim};
///
/// // noise of standard deviation 1/2 on a count, claimed to be 1
/// let mut draws = Draws::new(1, 0);
/// let mut audit = Sequential::new(&Claim::gaussian(1.0), &Options::default())?;
/// while let Some(runs) = audit.wanted() {
///     let mut world = |count: f64| (0..runs).map(|_| count + 0.5 * draws.gaussian()).collect::<Vec<f64>>();
///     audit.observe(&world(1.0), &world(0.0));
/// }
/// let report = audit.conclude();
/// assert_eq!(report.verdict, Verdict::Violated);
/// assert!(report.runs < 1000);
/// # Ok::<(), dpopt_audit::attack::AuditError>(())
/// ```
pub struct Sequential {
    claim: Claim,
    points: Vec<(f64, f64)>,
    options: Options,
    with: Vec<f64>,
    without: Vec<f64>,
    event: Event,
    point: (f64, f64),
    bet: Bet,
    epsilons: Ladder,
    mus: Ladder,
    next_choice: u64,
    refuted_after: Option<u64>,
}

impl Sequential {
    /// `options.runs` is the maximum per world.
    ///
    /// # Errors
    /// An option or the claim is out of range.
    pub fn new(claim: &Claim, options: &Options) -> Result<Self, AuditError> {
        options.check()?;
        claim.check().map_err(AuditError::Option)?;
        let nothing = Event { threshold: 0.0, above: true, positive_with: true };
        let share = options.alpha / 3.0;
        let highest = largest_epsilon(options.runs, share);
        // a rate of 1 against one of 1/N: no curve of a larger μ can fall
        let steepest = 2.0 * (2.0 * (options.runs as f64).ln()).sqrt();
        let claimed_mu = if let Claim::Gaussian { mu } = claim { *mu } else { f64::INFINITY };
        let points: Vec<(f64, f64)> = claim.points().into_iter().filter(|p| p.0 < LARGEST_EPSILON).collect();
        Ok(Self {
            point: points.first().copied().unwrap_or((0.0, 1.0)),
            points,
            options: *options,
            with: Vec::new(),
            without: Vec::new(),
            event: nothing,
            bet: Bet::new(0.0, 1.0, Stake::Adaptive),
            epsilons: Ladder::new(highest, claim.epsilon(options.delta), nothing),
            mus: Ladder::new(steepest, claimed_mu, nothing),
            next_choice: options.pilot_runs().min(PILOT),
            refuted_after: None,
            claim: claim.clone(),
        })
    }

    /// Pairs that are wanted next; none when the audit is over. Fewer or more may be given.
    pub fn wanted(&self) -> Option<u64> {
        let done = self.runs();
        // up to the next choice: few calls of a program that is slow to start
        let until = if done < self.next_choice { self.next_choice } else { stretched(done) };
        let batch = until - done;
        (self.refuted_after.is_none() && done < self.options.runs).then(|| batch.min(self.options.runs - done))
    }

    /// Runs per world so far.
    pub fn runs(&self) -> u64 {
        self.with.len() as u64
    }

    /// Takes independent runs on each world, as many as the shorter list has. Those after the claim has fallen are not counted.
    pub fn observe(&mut self, with: &[f64], without: &[f64]) {
        for (&w, &o) in with.iter().zip(without) {
            if self.refuted_after.is_some() || self.runs() >= self.options.runs {
                return;
            }
            self.take(w, o);
        }
    }

    fn share(&self) -> f64 {
        self.options.alpha / 3.0
    }

    fn take(&mut self, with: f64, without: f64) {
        if self.runs() >= self.next_choice {
            self.choose_again();
        }
        let betting = self.runs() >= self.options.pilot_runs().min(PILOT);
        self.with.push(with);
        self.without.push(without);
        if !betting {
            return;
        }
        let share = self.share();
        let (positive, negative) = oriented(self.event, with, without);
        self.bet.observe(positive, negative);
        self.epsilons.observe(with, without, share);
        self.mus.observe(with, without, share);
        if self.fallen() {
            self.refuted_after = Some(self.runs());
        }
    }

    /// The three bets on the claim, each at α/3: on the claim as it stands, and the rungs at the claim itself (that ε, or μ, is at
    /// most this).
    fn bets(&self) -> impl Iterator<Item = &Bet> {
        let claimed_mu = if let Claim::Gaussian { mu } = self.claim { mu } else { f64::INFINITY };
        let rungs = |ladder: &'_ Ladder, claimed: f64| {
            ladder.rungs.iter().position(|r| claimed.is_finite() && r.value == claimed)
        };
        let epsilon = rungs(&self.epsilons, self.claim.epsilon(self.options.delta));
        let mu = rungs(&self.mus, claimed_mu);
        std::iter::once(&self.bet)
            .chain(epsilon.map(|at| &self.epsilons.rungs[at].bet))
            .chain(mu.map(|at| &self.mus.rungs[at].bet))
    }

    fn fallen(&self) -> bool {
        self.bets().any(|bet| bet.refuted(self.share()))
    }

    /// From the pairs so far and nothing else: events, points and stakes of the next stretch.
    fn choose_again(&mut self) {
        let done = self.runs();
        self.next_choice = stretched(done);
        let rest = (self.options.runs - done).max(1);
        let Choice { event, bound, model, .. } =
            choose(&self.with, &self.without, &self.claim, self.options.delta, rest, self.share());
        let seen = |event: Event| {
            let counts = event.count(&self.with, &self.without);
            // half an imagined run on either side: no rate is 0 or 1
            let rate = |k: u64| (k as f64 + 0.5) / (done as f64 + 1.0);
            (rate(counts.true_positives), rate(counts.false_positives))
        };
        let weights = |rates: (f64, f64)| imagined(rates.0, rates.1, PILOT_WEIGHT * done as f64);
        if let Some((event, rates, point)) = best_bet(event, seen(event), &self.points) {
            (self.event, self.point) = (event, point);
            self.bet.turn_to(point, weights(rates));
        }

        let delta = self.options.delta;
        let rates = seen(bound);
        self.epsilons.turn_to(bound, rates, weights(rates), |epsilon, _| (epsilon, delta));
        // the side on which the slope of the curve is above 1
        let rates = seen(model);
        let model = if rates.0 + rates.1 > 1.0 { model.complement() } else { model };
        let rates = seen(model);
        self.mus.turn_to(model, rates, weights(rates), |mu, (tpr, fpr)| {
            best_point(gaussian_points_near(mu, fpr), tpr, fpr).map_or((0.0, 1.0), |p| p.0)
        });
    }

    /// What is known now; at any time.
    pub fn conclude(&self) -> Report {
        let share = self.share();
        let (mu, delta) = (self.mus.proved(share), self.options.delta);
        // a point that has fallen is a bound itself: not (ε, δ)-DP is ε(δ′) > ε for every δ′ up to δ
        let fallen = match self.claim {
            Claim::ApproxDp { epsilon, delta: claimed } if self.bet.refuted(share) && delta <= claimed => epsilon,
            _ => 0.0,
        };
        Report {
            lower_bound: self.epsilons.proved(share).max(fallen),
            lower_bound_gaussian_model: if mu > 0.0 { gaussian_epsilon(delta, mu) } else { 0.0 },
            mu_lower: mu,
            claimed: self.claim.epsilon(delta),
            delta,
            confidence: 1.0 - self.options.alpha,
            runs: self.runs(),
            event: self.event,
            counts: self.event.count(&self.with, &self.without),
            roc: roc(&self.with, &self.without),
            verdict: if self.refuted_after.is_some() { Verdict::Violated } else { Verdict::NotRefuted },
            stopping: Some(Stopping {
                maximum: self.options.runs,
                refuted_after: self.refuted_after,
                p_value: (3.0 * self.bets().map(Bet::p_value).fold(1.0, f64::min)).min(1.0),
                point: self.point,
            }),
        }
    }
}

/// [`audit`](super::audit) that stops when the claim has fallen, after at most `options.runs` runs per world; progress ticks
/// once per run, out of twice the maximum.
///
/// The report does not depend on the number of threads.
///
/// # Errors
/// An option or the claim is out of range.
pub fn audit_until<D: Sync>(
    claim: &Claim,
    mechanism: impl Fn(&D, &mut Draws) -> f64 + Sync,
    pair: &Pair<D>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, AuditError> {
    let mut audit = Sequential::new(claim, options)?;
    progress.start("auditing", 2 * options.runs);
    let mut chunk = 0;
    while let Some(runs) = audit.wanted() {
        let world = |data: &D, first: u64| {
            sample(runs, options.seed, first + chunk, &Silent, |draws| {
                let statistic = mechanism(data, draws);
                progress.tick();
                statistic
            })
        };
        // streams 0.. for D, 2^32.. for D′: never shared
        audit.observe(&world(&pair.with, 0), &world(&pair.without, 1 << 32));
        chunk += runs.div_ceil(CHUNK);
    }
    progress.finish();
    Ok(audit.conclude())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    fn laplace(shift: &f64, draws: &mut Draws) -> f64 {
        shift + draws.laplace(1.0)
    }

    fn gaussian(shift: &f64, draws: &mut Draws) -> f64 {
        shift + draws.gaussian()
    }

    fn run(claim: &Claim, mechanism: fn(&f64, &mut Draws) -> f64, shift: f64, runs: u64, seed: u64) -> Report {
        let options = Options { runs, seed, delta: 1e-5, ..Options::default() };
        audit_until(claim, mechanism, &Pair { with: shift, without: 0.0 }, &options, &Silent).expect("valid options")
    }

    #[test]
    #[ignore = "long by nature: make test-slow"]
    fn bugs_fall_long_before_the_maximum() {
        // with the best event and stake 127, 59 and 603 pairs on average; a pilot of 64 is made, and event,
        // point and stake are learnt. Caught in all of 40 seeds; the mean is checked
        for (claimed, truth, most) in [(1.0, 2.0, 320), (0.5, 2.0, 200), (1.0, 2f64.sqrt(), 1200)] {
            let runs = |seed: u64| {
                let report = run(&Claim::gaussian(claimed), gaussian, truth, 20_000, seed);
                let stopping = report.stopping.expect("sequential");
                assert_eq!(report.verdict, Verdict::Violated, "{claimed} -> {truth}, seed {seed}");
                assert_eq!(stopping.refuted_after, Some(report.runs));
                // whichever of the bets it was that fell
                assert!(stopping.p_value <= Options::default().alpha * (1.0 + 1e-9), "{}", stopping.p_value);
                report.runs
            };
            let total: u64 = (0..40).into_par_iter().map(runs).sum();
            println!("{claimed} -> {truth}: {} pairs on average", total / 40);
            assert!(total / 40 < most, "{claimed} -> {truth}: {}", total / 40);
        }
    }

    #[test]
    #[ignore = "long by nature: make test-slow"]
    fn true_claims_stand_however_often_they_are_looked_at() {
        // at alpha = .05, where a fault would show: rejected in more than 27 of 200 audits of a true claim has probability
        // below 1e-6 if each is at most .05. Laplace noise meets its curve exactly
        let is_rejected = |seed: u64| {
            let options = Options { runs: 1500, seed, alpha: 0.05, delta: 0.0, ..Options::default() };
            let pair = Pair { with: 1.0, without: 0.0 };
            let report = audit_until(&Claim::pure(1.0), laplace, &pair, &options, &Silent).expect("valid options");
            report.verdict == Verdict::Violated || report.lower_bound >= 1.0
        };
        let rejected = (0..200).into_par_iter().filter(|&seed| is_rejected(seed)).count();
        println!("{rejected} of 200 at .05");
        assert!(rejected <= 27, "{rejected}");
        // and at 1e-6: 20 audits of each claim, false alarm at most 4e-5 over all
        (0..20).into_par_iter().for_each(|seed| {
            let report = run(&Claim::pure(1.0), laplace, 1.0, 4000, seed);
            assert_eq!((report.verdict, report.runs), (Verdict::NotRefuted, 4000));
            assert!(report.lower_bound < 1.0);
            let report = run(&Claim::gaussian(1.0), gaussian, 1.0, 4000, seed);
            assert_eq!(report.verdict, Verdict::NotRefuted);
            assert!(report.mu_lower < 1.0 && report.lower_bound_gaussian_model < report.claimed);
        });
    }

    #[test]
    fn bounds_come_near_those_of_counting() {
        let options = Options { runs: 20_000, delta: 0.0, ..Options::default() };
        let pair = Pair { with: 1.0, without: 0.0 };
        let fixed = super::super::audit(&Claim::pure(1.0), laplace, &pair, &options, &Silent).expect("valid options");
        let bets = audit_until(&Claim::pure(1.0), laplace, &pair, &options, &Silent).expect("valid options");
        println!("epsilon: counting {}, bets {}", fixed.lower_bound, bets.lower_bound);
        assert!(bets.lower_bound > 0.8 && bets.lower_bound < 1.0);
        let options = Options { delta: 1e-5, ..options };
        let fixed =
            super::super::audit(&Claim::gaussian(1.0), gaussian, &pair, &options, &Silent).expect("valid options");
        let bets = audit_until(&Claim::gaussian(1.0), gaussian, &pair, &options, &Silent).expect("valid options");
        println!(
            "mu: counting {}, bets {}; epsilon: {} and {}",
            fixed.mu_lower, bets.mu_lower, fixed.lower_bound, bets.lower_bound
        );
        assert!(bets.mu_lower > 0.85 && bets.lower_bound > 0.8 * fixed.lower_bound);
    }

    #[test]
    fn the_same_report_on_any_number_of_threads_and_in_any_batches() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| run(&Claim::gaussian(1.0), gaussian, 1.0, 3000, 5))
        };
        assert_eq!(run(1), run(3));
        let mut draws = Draws::new(3, 3);
        let mut world = |shift: f64| (0..900).map(|_| shift + draws.gaussian()).collect::<Vec<f64>>();
        let (with, without) = (world(1.0), world(0.0));
        let options = Options { runs: 900, ..Options::default() };
        let mut at_once = Sequential::new(&Claim::gaussian(1.0), &options).expect("valid options");
        at_once.observe(&with, &without);
        let mut one_by_one = Sequential::new(&Claim::gaussian(1.0), &options).expect("valid options");
        with.iter().zip(&without).for_each(|(&a, &b)| one_by_one.observe(&[a], &[b]));
        assert_eq!(at_once.conclude(), one_by_one.conclude());
        assert_eq!(at_once.wanted(), None);
    }

    #[test]
    fn atoms_and_constants_do_no_harm() {
        // randomized response, a constant, and NaN
        let coin = |p: &f64, draws: &mut Draws| if draws.coin(*p) { 1.0 } else { 0.0 };
        let options = Options { runs: 5000, delta: 0.0, ..Options::default() };
        let pair = Pair { with: 0.9, without: 0.1 };
        let report = audit_until(&Claim::pure(1.0), coin, &pair, &options, &Silent).expect("valid options");
        assert_eq!(report.verdict, Verdict::Violated);
        assert!(report.runs < 500, "{}", report.runs);
        for value in [3.0, f64::NAN] {
            let pair = Pair { with: value, without: value };
            let report = audit_until(&Claim::pure(0.0), |x: &f64, _: &mut Draws| *x, &pair, &options, &Silent);
            assert_eq!(report.expect("valid options").verdict, Verdict::NotRefuted);
        }
    }
}
