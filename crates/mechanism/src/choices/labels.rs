//! Private selection of class labels: noisy counts above a threshold (docs/proofs/label-selection.md).
//!
//! Which labels occur is itself sensitive: a label that occurs once names its record. Each occurring label's count gets
//! discrete Laplace noise; it is shown only if the noisy count reaches a threshold so high that a label of one record
//! does so with probability at most δ₀.

use dpopt_kernel::beside::Sealed;
use dpopt_kernel::{CuratorError, Mechanism, NotApplicable, SamplerError};
use dpopt_noise::{DiscreteLaplace, NoiseSource, Purpose};
use dpopt_privacy::{Certificate, Event, Neighbours, Relation, Terms, certify};
use dpopt_process::stop::paced;
use std::collections::BTreeMap;

/// Total variation of all draws together: below 2^-110 each, and a table has fewer than 2^40 labels. A public bound: the
/// number of labels that occur is not public.
const SAMPLER_ERROR: f64 = 1.0 / (1u128 << 70) as f64;

/// Noise of a smaller scale is hardly ever anything but 0.
const LEAST_SCALE: f64 = 1.0 / 64.0;

/// Releases the labels whose noisy count reaches the threshold, sorted by name.
#[derive(Clone, Debug)]
pub struct LabelSelection {
    scale: f64,
    threshold: i64,
    /// Probability that a label of a single record is shown.
    single_label_probability: f64,
    relation: Relation,
    certificate: Certificate,
}

impl LabelSelection {
    /// Scale and threshold that meet `budget`; half of δ pays for labels of a single record.
    pub fn plan(terms: Terms) -> Result<Self, NotApplicable> {
        let Terms { budget, neighbours: Neighbours { relation, .. } } = terms;
        if budget.delta() <= 0.0 {
            return Err(NotApplicable::Problem(
                "finding labels privately needs delta > 0; give a small delta, or declare the labels".into(),
            ));
        }
        // under replace-one two labels move and two may be unique
        let labels = relation.sum_sensitivity();
        // a billionth more leaves room for the accountant's rounding
        let scale = (labels / budget.epsilon() * (1.0 + 1e-9)).max(LEAST_SCALE);
        if scale > 2f64.powi(40) {
            return Err(NotApplicable::Problem(
                "the epsilon for finding labels is too small; raise epsilon, or \
                                               declare the labels"
                    .into(),
            ));
        }
        let single = 0.5 * budget.delta() / labels;
        // P(X ≥ m) = e^{−m/t}/(1 + e^{−1/t}); 1 + X ≥ threshold must have probability at most `single`
        let beyond = scale * -(single * (1.0 + (-1.0 / scale).exp())).ln();
        let threshold = 2 + (beyond * (1.0 + 1e-12)).ceil() as i64;
        let mut plan = Self {
            scale,
            threshold,
            single_label_probability: single,
            relation,
            certificate: certify(&Event::NoOp, terms)?,
        };
        plan.can_draw()?;
        plan.certificate = certify(&SamplerError::proved(SAMPLER_ERROR).on(plan.event()), terms)?;
        Ok(plan)
    }

    /// What a curator must be opened for.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The smallest noisy count that is shown.
    pub fn threshold(&self) -> i64 {
        self.threshold
    }

    /// Scale of the noise on each count.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

impl Sealed for LabelSelection {}

impl Mechanism for LabelSelection {
    type Input = BTreeMap<String, u64>;
    type Output = Vec<String>;

    fn event(&self) -> Event {
        let parts = vec![
            Event::DiscreteLaplace { noise_parameter: DiscreteLaplace::decay_of(self.scale), sensitivity: 1 },
            Event::ApproxDp { epsilon: 0.0, delta: self.single_label_probability * self.relation.sum_sensitivity() },
        ];
        Event::composed(parts)
    }

    fn sampler_error(&self, _input: &BTreeMap<String, u64>) -> f64 {
        SAMPLER_ERROR
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "class labels"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        DiscreteLaplace::with_scale(self.scale).map(drop).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    fn check(&self, _input: &BTreeMap<String, u64>) -> Result<(), CuratorError> {
        Ok(())
    }

    fn apply(&self, input: &BTreeMap<String, u64>, noise: &mut NoiseSource) -> Result<Vec<String>, CuratorError> {
        let laplace = DiscreteLaplace::with_scale(self.scale).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut stream = noise.stream(Purpose::Noise, 0);
        let mut shown = Vec::new();
        for (label, &count) in paced(input) {
            let noisy = i64::try_from(count).unwrap_or(i64::MAX / 2).saturating_add(laplace.sample(&mut stream));
            if noisy >= self.threshold {
                shown.push(label.clone());
            }
        }
        if shown.len() < 2 {
            return Err(CuratorError::Unusable(format!(
                "fewer than two class labels are frequent enough to be released privately (about {} records each are \
                 needed); declare the labels, or raise the budget; for a target that is a number choose regression \
                 and declare lower and upper",
                self.threshold
            ).into()));
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::{Curator, Sensitive};
    use dpopt_privacy::Budget;

    fn budget(epsilon: f64, delta: f64) -> Budget {
        Budget::new(epsilon, delta).unwrap()
    }

    #[test]
    fn a_single_record_is_shown_with_probability_at_most_delta_zero() {
        for (epsilon, delta) in [(0.05, 1e-7), (1.0, 1e-6), (5.0, 1e-9)] {
            let plan =
                LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(budget(epsilon, delta))).unwrap();
            let h = 1.0 / plan.scale;
            // by summation, not by the closed form
            let tail: f64 =
                (plan.threshold - 1..plan.threshold + 200_000).map(|k| (0.5 * h).tanh() * (-h * k as f64).exp()).sum();
            assert!(tail <= plan.single_label_probability, "{tail}");
            // and not wastefully rare: a threshold lower by two would be too low
            assert!(tail * (2.0 * h).exp() * (1.0 + 1e-9) > plan.single_label_probability, "{tail}");
            assert!(plan.certificate.bound().upper <= epsilon);
        }
    }

    #[test]
    fn replace_one_doubles_scale_and_halves_the_single_label_probability() {
        let zero = LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(budget(0.1, 1e-6))).unwrap();
        let replace =
            LabelSelection::plan(Neighbours::of_records(Relation::ReplaceOne).within(budget(0.1, 1e-6))).unwrap();
        assert!((zero.scale / 10.0 - 1.0).abs() < 1e-8 && zero.scale >= 10.0, "{}", zero.scale);
        assert_eq!(replace.scale, 2.0 * zero.scale);
        assert_eq!(replace.single_label_probability, 0.5 * zero.single_label_probability);
    }

    /// A scale is what ε asks for, not the next whole number: at ε = 4 a fourth of the noise.
    #[test]
    fn scales_need_not_be_whole() {
        let thresholds: Vec<i64> = [1.0, 2.0, 4.0]
            .map(|epsilon| {
                let plan =
                    LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(budget(epsilon, 1e-6)))
                        .unwrap();
                assert!((plan.scale * epsilon - 1.0).abs() < 1e-8);
                plan.threshold
            })
            .into();
        assert!(thresholds[0] > thresholds[1] && thresholds[1] > thresholds[2], "{thresholds:?}");
    }

    #[test]
    fn frequent_labels_come_out_sorted_and_rare_ones_do_not() {
        let plan = LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(budget(0.5, 1e-6))).unwrap();
        let counts: BTreeMap<String, u64> =
            [("spam", 700u64), ("ham", 4000), ("typo", 1)].map(|(l, c)| (l.to_string(), c)).into();
        let mut curator = Curator::new(plan.certificate(), NoiseSource::insecure(1));
        let shown = curator.release(&plan, &Sensitive::new(counts.clone())).unwrap();
        assert_eq!(shown.get(), &["ham", "spam"]);
        // the plan foresees one selection only
        assert!(curator.release(&plan, &Sensitive::new(counts)).is_err());
    }

    #[test]
    fn too_few_labels_say_what_to_do() {
        let plan = LabelSelection::plan(Neighbours::of_records(Relation::ZeroOut).within(budget(0.5, 1e-6))).unwrap();
        let counts = BTreeMap::from([("only".to_string(), 5000u64)]);
        let mut curator = Curator::new(plan.certificate(), NoiseSource::insecure(1));
        let error = curator.release(&plan, &Sensitive::new(counts)).unwrap_err();
        assert!(error.to_string().contains("declare the labels"), "{error}");
    }
}
