//! Private selection: the best of several runs for little more than the price of one (Ghazi, Guzmán, Kamath,
//! Kumar, Manurangsi 2024, Theorem 6.1 of its second version; docs/proofs/private-selection.md).
//!
//! [`AssumedSearch::select`] makes a *random and secret* number K of runs and releases the best; K, the losers and their number
//! stay inside, and the whole search is charged before the first run. [`RandomStopping`] is its plan when the runs are
//! (ε₁, δ₁)-DP: K geometric, (3ε₁, δ₁/γ)-DP in total. [`FixedRuns`] is the older way, a public number of runs and a noisy
//! choice among their scores.
//!
//! Covers: sparse-v1 algorithm 7, theorem 7.1 (part: twice the printed noise of the minimum; what a run is, the caller vouches for)
//! Covers: sparse-v2 algorithm 5, theorem 6.1 (part: the law of the best run; what a run is, the caller vouches for. For models the whole search is certified)

use super::counts::{Choice, ChoiceLaw};
use super::search::{AssumedRun, AssumedSearch};
use dpopt_draws::Repetitions;
use dpopt_kernel::{Curator, CuratorError, Released, SamplerError, Sensitive};
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Terms, certify};

/// Best of K runs with P(K = k) = γ(1−γ)^{k−1}, secret: the plan.
#[derive(Clone, Debug)]
pub struct RandomStopping {
    /// Law of K; its mean is 1/γ.
    law: Repetitions,
    run: Budget,
    certificate: Certificate,
}

impl RandomStopping {
    /// (ε₁, δ₁): what one run, its score included, may cost.
    pub fn run(&self) -> Budget {
        self.run
    }

    /// The certificate of the whole selection.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The largest run budget for which the best of a geometric number of runs with mean `mean` stays within `budget`:
    /// ε₁ = ε/3, δ₁ = γδ.
    ///
    /// # Errors
    /// If the mean is not in 1..=10000 or δ is 0 (the number of runs is sampled with a small error).
    pub fn plan(mean: f64, terms: Terms) -> Result<Self, CuratorError> {
        let budget = terms.budget;
        let law = Repetitions::negative_binomial(1.0, mean).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let unusable = |e: &dyn std::fmt::Display| CuratorError::Noise(e.to_string());
        // rounding of the two products below; the sampler of K takes (1 + e^ε)·TV of δ
        let slack = 1.0 - 1e-12;
        let sampler = (1.0 + budget.epsilon().exp()) * law.total_variation();
        let run = Budget::new(budget.epsilon() / 3.0 * slack, (budget.delta() - sampler) / law.mean() * slack)
            .map_err(|e| unusable(&e))?;
        if run.delta() <= 0.0 {
            return Err(CuratorError::Noise(
                "random stopping needs delta > 0; give a small delta, for example 1e-6".into(),
            ));
        }
        let whole = Event::ApproxDp { epsilon: 3.0 * run.epsilon(), delta: run.delta() * law.mean() };
        let certificate =
            certify(&whole.approximate(law.total_variation()), terms).map_err(|e: CertifyError| unusable(&e))?;
        Ok(Self { law, run, certificate })
    }

    /// Runs it. **The caller vouches** that each `run` is certified within [`run`](Self::run), as for
    /// [`AssumedSearch::select`].
    ///
    /// # Errors
    /// As [`AssumedSearch::select`].
    pub fn select_assumed<T, E: From<CuratorError>>(
        &self,
        curator: &mut Curator,
        run: impl FnMut(u64) -> Result<AssumedRun<T>, E>,
    ) -> Result<Released<T>, E> {
        AssumedSearch::select(curator, self.certificate.event(), &self.law, run)
    }
}

/// A public number K of runs and a report-noisy-max among their integer scores: the plan. Kept for comparison; it costs K+1
/// shares of the budget where random stopping costs three.
#[derive(Clone, Debug)]
pub struct FixedRuns {
    run: Budget,
    /// The choice: ε/(K+1), Laplace noise of scale 2Δ/ε′. (The published scale Δ/ε′ is only 2ε′-DP.)
    choice: Choice,
    certificate: Certificate,
}

impl FixedRuns {
    /// What one run may cost: (ε, δ)/(K+1), as published.
    pub fn run(&self) -> Budget {
        self.run
    }

    /// The certificate of all runs and the choice.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Plans K ≥ 1 runs whose scores move by at most `sensitivity` units with one record.
    ///
    /// # Errors
    /// If K is 0 or the budget can't be split.
    pub fn plan(runs: u64, sensitivity: u64, terms: Terms) -> Result<Self, CuratorError> {
        let Terms { budget, neighbours: Neighbours { relation, .. } } = terms;
        let unusable = |e: &dyn std::fmt::Display| CuratorError::Noise(e.to_string());
        let share = (runs + 1) as f64 * (1.0 + 1e-12);
        let run = Budget::new(budget.epsilon() / share, budget.delta() / share).map_err(|e| unusable(&e))?;
        if runs == 0 {
            return Err(CuratorError::Noise("the number of runs is 0; give at least 1".into()));
        }
        let choice = Choice::new(ChoiceLaw::NoisyMaximum, run.epsilon(), sensitivity, false, relation)?;
        let one = Event::ApproxDp { epsilon: run.epsilon(), delta: run.delta() };
        // runs are as their makers draw them; the choice is among all of them
        let choosing = SamplerError::fine(runs as f64).paid(crate::Mechanism::event(&choice), budget.delta());
        let event = Event::composed(vec![one.self_composed(runs), choosing]);
        let certificate = certify(&event, terms).map_err(|e: CertifyError| unusable(&e))?;
        Ok(Self { run, choice, certificate })
    }

    /// Index of the chosen run among the *exact* integer scores of all K (larger is better).
    ///
    /// # Errors
    /// As [`Curator::release`].
    pub fn choose(
        &self,
        curator: &mut Curator,
        scores: &Sensitive<crate::Counts>,
    ) -> Result<Released<usize>, CuratorError> {
        curator.release(&self.choice, scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counts, RunScore};
    use dpopt_noise::NoiseSource;
    use dpopt_privacy::Relation;

    fn budget() -> Budget {
        Budget::new(1.0, 1e-6).unwrap()
    }

    #[test]
    fn a_third_of_epsilon_and_gamma_times_delta_for_each_run() {
        // γ = .025: δ1 = 2.5e-8 (the published constants give ε1 = ε/6 and δ1 = 3.37e-19)
        let plan = RandomStopping::plan(40.0, Neighbours::of_records(Relation::ZeroOut).within(budget())).unwrap();
        assert!((plan.run.epsilon() - 1.0 / 3.0).abs() < 1e-9);
        assert!((plan.run.delta() / 2.5e-8 - 1.0).abs() < 1e-5, "{}", plan.run.delta());
        assert!(plan.certificate.bound().upper <= 1.0);
        let t: f64 = 609.0;
        assert!((1e-12 / (8.0 * t * t) / 3.37e-19 - 1.0).abs() < 1e-3);
        assert!(
            RandomStopping::plan(
                40.0,
                Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 0.0).unwrap())
            )
            .is_err()
        );
        assert!(RandomStopping::plan(0.5, Neighbours::of_records(Relation::ZeroOut).within(budget())).is_err());
    }

    /// The theorem's exact output law on the canonical (ε₁, δ₁) pair: δ(3ε₁) is the bound δ₁/(δ₁ + γ(1−δ₁)).
    #[test]
    fn the_bound_is_attained_by_the_canonical_pair() {
        let (e1, d1, gamma) = (0.1f64, 1e-6, 0.025);
        // outcomes best first: a point that only one side has, then a better and a worse answer, e^ε₁ apart
        let base = |with: bool| {
            let half = (1.0 - d1) / (1.0 + e1.exp());
            if with { [d1, half * e1.exp(), half] } else { [0.0, half, half * e1.exp()] }
        };
        let spare = |p: [f64; 3]| 1.0 - p.iter().sum::<f64>();
        let best = |p: [f64; 3]| {
            // P(best is at least as good as j) = 1 − E[(1 − P(at least j))^K]
            let tail = |better: f64| better / (better + gamma * (1.0 - better));
            let mut from = 0.0;
            p.map(|mass| {
                let before = tail(from);
                from += mass;
                tail(from) - before
            })
        };
        let (p, q) = (best(base(true)), best(base(false)));
        let delta: f64 = p.iter().zip(&q).map(|(a, b)| (a - (3.0 * e1).exp() * b).max(0.0)).sum();
        let bound = d1 / (d1 + gamma * (1.0 - d1));
        assert!(delta <= bound * (1.0 + 1e-9) && delta > 0.999 * bound, "{delta} {bound}");
        assert!((bound / 3.9998e-5 - 1.0).abs() < 1e-4);
        assert!(spare(base(true)).abs() < 1e-12 && spare(base(false)).abs() <= d1 * 1.1);
        // the injected fault: K shown. All k runs gave the worse answer: ratio e^{kε₁}, not e^{3ε₁}
        let k = 40;
        let worse = |p: f64| k as f64 * p.ln();
        assert!((worse(0.5) - worse(0.5 * (-e1).exp()) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_best_run_leaves_once_and_is_charged_before_the_first() {
        let plan = RandomStopping::plan(5.0, Neighbours::of_records(Relation::ZeroOut).within(budget())).unwrap();
        let mut made = Vec::new();
        for seed in 0..200 {
            let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
            let mut runs = 0;
            let best = plan.select_assumed(&mut curator, |k| {
                runs += 1;
                // the score rises and falls: the best is run 2 if it is made
                let score = -(k as f64 - 2.0).abs();
                Ok::<_, CuratorError>(AssumedRun { run: RunScore { score, tie: k }, output: k })
            });
            assert_eq!(*best.unwrap().get(), (runs as u64 - 1).min(2));
            // one line in the ledger, whatever K was
            assert_eq!((curator.records().len(), curator.records()[0].count), (1, 1));
            assert!(curator.is_spent());
            let mut again = 0;
            let refused = plan.select_assumed(&mut curator, |k| {
                again += 1;
                Ok::<_, CuratorError>(AssumedRun { run: RunScore { score: 0.0, tie: k }, output: k })
            });
            assert!(refused.is_err() && again == 0);
            made.push(runs as f64);
        }
        // mean 5, variance 20: five and a half standard deviations of the mean of 200
        let mean = made.iter().sum::<f64>() / 200.0;
        assert!((mean - 5.0).abs() < 5.5 * (20.0f64 / 200.0).sqrt(), "{mean}");
    }

    #[test]
    fn fixed_runs_share_the_budget_and_choose_with_twice_the_published_noise() {
        let plan = FixedRuns::plan(4, 10, Neighbours::of_records(Relation::ReplaceOne).within(budget())).unwrap();
        assert!((plan.run.epsilon() - 0.2).abs() < 1e-9 && (plan.run.delta() - 2e-7).abs() < 1e-15);
        assert!(plan.certificate.bound().upper <= 1.0);
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(1));
        let scores = Counts::declared(vec![0, 4000, 10], 10.0);
        assert_eq!(*plan.choose(&mut curator, &scores).unwrap().get(), 1);
        assert!(FixedRuns::plan(0, 1, Neighbours::of_records(Relation::ZeroOut).within(budget())).is_err());
    }

    /// Two candidates whose scores move by Δ = 1 in opposite directions: log-ratio of the probabilities that the one
    /// behind by `gap` noise scales wins, with Laplace noise of `scale`.
    #[test]
    fn report_noisy_max_at_the_published_scale_is_twice_as_costly() {
        let loss = |scale: f64, gap: f64| {
            let tail = |t: f64| 0.5 * (1.0 + 0.5 * t / scale) * (-t / scale).exp();
            (tail(gap * scale) / tail(gap * scale + 2.0)).ln()
        };
        for (gap, published, doubled) in
            [(0.0, 1.307, 0.595), (2.0, 1.595, 0.777), (5.0, 1.749, 0.866), (10.0, 1.846, 0.920), (30.0, 1.939, 0.969)]
        {
            assert!((loss(1.0, gap) - published).abs() < 6e-4, "{}", loss(1.0, gap));
            assert!((loss(2.0, gap) - doubled).abs() < 6e-4, "{}", loss(2.0, gap));
        }
    }
}
