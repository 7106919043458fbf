//! What a private search costs, and the largest budget that each of its runs may have (docs/proofs/private-search.md).
//!
//! K runs, K drawn in secret from a public law, and only the best leaves. With runs that are (ε₁, δ₁)-DP the search is
//! ((2+η)ε₁, E[K]·δ₁)-DP for truncated negative binomial K of shape η (geometric: η = 1, logarithmic: η = 0; Liu and Talwar
//! 2019, Papernot and Steinke 2022). With a Rényi curve of the runs it is often much less (Papernot and Steinke 2022, Theorem 2;
//! for Poisson K without zero their Theorem 6). Both are computed and the smaller is taken.
//!
//! Covers: sparse-v2 algorithm 5

use super::error::FitError;
use dpopt_draws::{Repetitions, RepetitionsError};
use dpopt_mechanism::SamplerError;
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::accountant::rdp;
use dpopt_privacy::{Budget, Certificate, Event, Relation, Terms, calibrate, certify};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rounding up of sums and logarithms in this file, far above the error of a few dozen operations.
const UP: f64 = 1.0 + 1e-12;

/// The public law of the number of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchLaw {
    /// η of a truncated negative binomial law: 0 logarithmic, 1 geometric; infinity is Poisson without zero.
    pub shape: f64,
    /// Mean number of runs; for Poisson before zero is cut off.
    pub mean: f64,
}

/// Which bound on a search was smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchTheorem {
    /// From the (ε₁, δ₁) of one run.
    Approximate,
    /// From the Rényi curve of one run.
    Renyi,
}

/// What a search would do, from public facts only.
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// What a run may spend on training, and on its score.
    pub run: Budget,
    /// Standard deviation of the noise in the sum of the validation scores, each in [0, 1].
    pub score_noise: f64,
    /// The certified privacy event of the whole search.
    pub certificate: Certificate,
    /// The theorem that bounds the cost of the search.
    pub theorem: SearchTheorem,
}

impl SearchLaw {
    /// The sampler of the law.
    ///
    /// # Errors
    /// If there is no such law.
    pub fn sampler(self) -> Result<Repetitions, RepetitionsError> {
        if self.shape == f64::INFINITY {
            Repetitions::truncated_poisson(self.mean)
        } else {
            Repetitions::negative_binomial(self.shape, self.mean)
        }
    }

    fn name(self) -> &'static str {
        match self.shape {
            0.0 => "logarithmic",
            1.0 => "geometric",
            f64::INFINITY => "poisson",
            _ => "negative binomial",
        }
    }

    /// ln(1/γ) of the truncated negative binomial law with this mean, rounded up; γ falls as the mean rises.
    fn ln_inverse_gamma(self, mean: f64) -> f64 {
        let mean_of = |t: f64| match self.shape {
            0.0 => t.exp_m1() / t,
            shape => shape * t.exp_m1() / -(-shape * t).exp_m1(),
        };
        let (mut low, mut high) = (1e-12, 60.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if mean_of(middle) < mean { low = middle } else { high = middle }
        }
        high * (1.0 + 1e-9)
    }

    /// Rényi curve of the best of K runs that each have `curve`.
    fn selected(self, mean: f64, curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
        if self.shape == f64::INFINITY {
            // the stated mean is that before zero is cut off
            let ln_mean = (self.mean / -(-self.mean).exp_m1()).ln();
            let cost = |order: f64, rho: f64| {
                let least = delta(curve, (1.0 / (order - 1.0)).ln_1p());
                (rho + self.mean * least + ln_mean / (order - 1.0)) * UP
            };
            return curve.iter().map(|&(order, rho)| (order, cost(order, rho))).collect();
        }
        let ln_gamma = self.ln_inverse_gamma(mean);
        // a second order of 1 is allowed: the run's own curve then does not enter
        let extra = curve.iter().map(|(order, rho)| (1.0 - 1.0 / order) * rho + ln_gamma / order);
        let extra = extra.fold(ln_gamma, f64::min);
        let cost = |order: f64, rho: f64| (rho + (1.0 + self.shape) * extra + mean.ln() / (order - 1.0)) * UP;
        curve.iter().map(|&(order, rho)| (order, cost(order, rho))).collect()
    }

    /// The event of a whole search within `terms`, certified by the smaller of both bounds; `None` if it costs more.
    ///
    /// `runs`: what a run may be: the training of each candidate, and the score. `run`: the budget that each of them meets.
    ///
    /// # Errors
    /// If there is no such law.
    pub fn certified(
        self,
        runs: &[Event],
        run: Budget,
        terms: Terms,
    ) -> Result<Option<(Certificate, SearchTheorem)>, RepetitionsError> {
        let sampler = self.sampler()?;
        let (mean, error) = (sampler.mean(), sampler.total_variation());
        let mut found: Vec<(Certificate, SearchTheorem)> = Vec::new();
        let mut offer = |total_variation: f64, event: Event, theorem| {
            let event = Event::Approximate { total_variation, event: Box::new(event) };
            found.extend(certify(&event, terms).ok().map(|certificate| (certificate, theorem)));
        };
        if self.shape.is_finite() {
            let price =
                Event::ApproxDp { epsilon: (2.0 + self.shape) * run.epsilon() * UP, delta: mean * run.delta() * UP };
            offer(error, price, SearchTheorem::Approximate);
        }
        let Curve { costs, failure, total_variation } = Curve::of(runs, terms.neighbours.relation);
        if !costs.is_empty() {
            // P(some run fails) ≤ E[K]·P(a run fails); Poisson without zero has a larger mean than before
            let counted = if self.shape.is_finite() { mean } else { mean / -(-mean).exp_m1() };
            let (orders, divergences) = self.selected(mean, &costs).into_iter().unzip();
            let mut event = Event::Rdp { orders, divergences };
            if failure > 0.0 {
                let failed = Event::ApproxDp { epsilon: 0.0, delta: counted * failure * UP };
                event = Event::composed(vec![event, failed]);
            }
            offer((error + counted * total_variation) * UP, event, SearchTheorem::Renyi);
        }
        Ok(found.into_iter().min_by(|a, b| a.0.bound().upper.total_cmp(&b.0.bound().upper)))
    }

    /// The largest run budget for which the whole search stays within `terms`. `train` gives the training event of every
    /// candidate at a run's budget.
    ///
    /// # Errors
    /// If the search does not fit however little a run spends, δ is 0, or what `train` says.
    pub fn plan<E: From<FitError>>(
        self,
        terms: Terms,
        mut train: impl FnMut(Budget) -> Result<Vec<Event>, E>,
    ) -> Result<SearchPlan, E> {
        let option = |why: String| FitError::Option(why.into());
        let (epsilon, delta) = (terms.budget.epsilon(), terms.budget.delta());
        if delta <= 0.0 {
            return Err(
                option("the validation score needs delta > 0; give a small delta, for example 1e-6".into()).into()
            );
        }
        let mean = self.sampler().map_err(|e| option(e.to_string()))?.mean();
        // a share of δ is left for the samplers' errors and for rounding
        let run_delta = 0.999 * delta / mean.max(1.0);
        let mut at = |run_epsilon: f64| -> Result<Option<SearchPlan>, E> {
            let run = Budget::new(run_epsilon, run_delta).map_err(FitError::from)?;
            let score = calibrate::noise(score_event, terms.neighbours.within(run));
            let (score_noise, score) = score.map_err(|e| FitError::from(NotApplicable::from(e)))?;
            let mut runs = train(run)?;
            runs.push(score.event().clone());
            let found = self.certified(&runs, run, terms).map_err(|e| option(e.to_string()))?;
            Ok(found.map(|(certificate, theorem)| SearchPlan { run, score_noise, certificate, theorem }))
        };
        // one run alone may spend all; a third of it always fits a geometric search
        if let Some(whole) = at(epsilon)? {
            return Ok(whole);
        }
        let (mut low, mut high, mut step) = (0.0, epsilon, epsilon / 3.01);
        let mut best = None;
        while best.is_none() && step > epsilon * 1e-3 {
            best = at(step)?;
            (low, high, step) = if best.is_some() { (step, high, step) } else { (0.0, step, step / 2.0) };
        }
        let Some(mut best) = best else {
            return Err(option(format!(
                "a {} search with {} expected runs does not fit epsilon {epsilon} and delta {delta}; lower expected_runs, or \
                 raise epsilon",
                self.name(),
                self.mean
            ))
            .into());
        };
        for _ in 0..5 {
            let middle = (low + high) / 2.0;
            match at(middle)? {
                Some(more) => (best, low) = (more, middle),
                None => high = middle,
            }
        }
        Ok(best)
    }
}

/// One noisy sum of validation scores, each in [0, 1].
pub fn score_event(noise_multiplier: f64) -> Event {
    SamplerError::rounded(1.0).on(Event::gaussian(noise_multiplier))
}

/// The pointwise largest Rényi curve of several events.
struct Curve {
    /// Pairs (order, Rényi divergence), by increasing order.
    costs: Vec<(f64, f64)>,
    /// The largest probability that is set aside.
    failure: f64,
    /// The largest distance of a sampler.
    total_variation: f64,
}

impl Curve {
    /// Orders from 1.1 to 1001.
    fn of(events: &[Event], relation: Relation) -> Self {
        let mut costs: Vec<(f64, f64)> = (0..49).map(|k| (1.0 + 10f64.powf(-1.0 + f64::from(k) / 12.0), 0.0)).collect();
        let (mut failure, mut total_variation) = (0.0f64, 0.0f64);
        // candidates that only differ in what costs no privacy are one event
        let distinct: BTreeMap<String, &Event> = events.iter().map(|event| (format!("{event:?}"), event)).collect();
        for event in distinct.into_values() {
            costs.retain_mut(|(order, most)| match rdp::cost(event, relation, *order) {
                Ok(cost) if cost.divergence.is_finite() => {
                    *most = most.max(cost.divergence);
                    failure = failure.max(cost.delta);
                    total_variation = total_variation.max(cost.total_variation);
                    true
                }
                _ => false,
            });
        }
        Self { costs, failure, total_variation }
    }
}

/// δ at `epsilon` from a Rényi curve (Balle et al. 2020), rounded up.
fn delta(curve: &[(f64, f64)], epsilon: f64) -> f64 {
    let exponents =
        curve.iter().map(|(order, rho)| (order - 1.0) * (rho - epsilon + (-1.0 / order).ln_1p()) - order.ln());
    (exponents.fold(0.0, f64::min).exp() * (1.0 + 1e-9)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::Neighbours;

    const GEOMETRIC: f64 = 1.0;

    fn terms(epsilon: f64) -> Terms {
        Neighbours::of_records(Relation::ZeroOut).within(Budget::new(epsilon, 1e-6).unwrap())
    }

    /// dp_accounting's repeat-and-select at δ = 1e-6; its Poisson law allows zero runs, this one does not.
    #[test]
    fn prices_agree_with_published_ones() {
        for (sigma, mean, published) in [
            (4.2247, 10.0, [1.798, 2.150, 2.362]),
            (10.0, 10.0, [0.743, 0.898, 0.962]),
            (20.0, 3.0, [0.315, 0.364, 0.290]),
        ] {
            for (shape, value) in [0.0, GEOMETRIC, f64::INFINITY].into_iter().zip(published) {
                let run = Budget::new(99.0, 1e-9).unwrap();
                let found = SearchLaw { shape, mean }.certified(&[Event::gaussian(sigma)], run, terms(50.0)).unwrap();
                let (certificate, theorem) = found.unwrap();
                let ratio = certificate.bound().upper / value;
                // ours has a grid of orders, and no empty search under Poisson
                assert!((0.99..1.015).contains(&ratio), "{sigma} {shape}: {ratio}");
                assert_eq!(theorem, SearchTheorem::Renyi);
            }
        }
    }

    /// Pure runs have no finite Rényi gain: (2 + η)·ε₁.
    #[test]
    fn a_search_in_terms_of_its_runs_alone() {
        let (law, run) = (SearchLaw { shape: GEOMETRIC, mean: 10.0 }, Budget::new(1.0, 1e-8).unwrap());
        let runs = [Event::ApproxDp { epsilon: 1.0, delta: 1e-8 }];
        let (certificate, _) = law.certified(&runs, run, terms(3.1)).unwrap().unwrap();
        assert!(certificate.bound().upper <= 3.0 * (1.0 + 1e-9));
        assert!(law.certified(&runs, run, terms(0.9)).unwrap().is_none());
    }

    #[test]
    fn a_run_gets_the_most_that_fits() {
        let train = |run: Budget| -> Result<Vec<Event>, FitError> {
            let noise = |z: f64| Event::gaussian(z);
            Ok(vec![calibrate::noise(noise, terms(1.0).neighbours.within(run)).unwrap().1.event().clone()])
        };
        let law = SearchLaw { shape: GEOMETRIC, mean: 5.0 };
        let plan = law.plan(terms(3.0), train).unwrap();
        assert!(plan.certificate.bound().upper <= 3.0 && plan.run.epsilon() > 1.0, "{:?}", plan.run);
        let more = Budget::new(plan.run.epsilon() * 1.2, plan.run.delta()).unwrap();
        let mut runs = train(more).unwrap();
        runs.push(score_event(plan.score_noise));
        assert!(law.certified(&runs, more, terms(3.0)).unwrap().is_none());
        let pure = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 0.0).unwrap());
        assert!(law.plan(pure, train).is_err());
        let refused = law.plan(terms(1.0), |_| Err::<Vec<Event>, _>(FitError::Option("no".into())));
        assert!(refused.unwrap_err().to_string() == "no");
    }
}
