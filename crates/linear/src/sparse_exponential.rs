//! Exponential mechanism over a public net of sparse weights: pure differential privacy without smoothness, by exact
//! enumeration (Ghazi, Guzmán, Kamath, Kumar, Manurangsi 2024, Theorem 5.5 of the first version; docs/proofs/sparse-exponential.md).
//!
//! Truncating the minimiser to its entries above τ costs L·√s·τ and leaves at most D²/τ² of them, so a net of sparse
//! points is enough. It is a reference: the net is enumerated in full, and refused beyond 10⁷ points.
//!
//! Covers: sparse-v1 algorithm 4 (certified: nets of at most 10⁷ points, enumerated; the printed exponent is mended)
//! Covers: sparse-v2 algorithm 7 (certified: nets of at most 10⁷ points, enumerated; the printed exponent is mended)
//! Covers: sparse-v1 theorem 5.5 (part: the mechanism is certified; the rate is not claimed)
//! Covers: sparse-v2 theorem 7.5 (part: the mechanism is certified; the rate is not claimed)

use dpopt_mechanism::{Choice, ChoiceLaw, CuratorError, Mechanism, NET_QUANTA, net_scores};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::OfRows;
use dpopt_optimize::options::OptionReader;
use dpopt_optimize::options::common::DISTANCE;
use dpopt_optimize::plan::{Assumption, NotApplicable, Plan, Problem, Summary};
use dpopt_optimize::planning::{SamplerError, TARGET_BOUND, check_problem, noise, positive};
use dpopt_optimize::risk::RiskModel;
use dpopt_optimize::{Algorithm, Run, RunResult};
use dpopt_privacy::{Budget, Event};
use serde::Serialize;

/// Largest net that is enumerated.
pub const LARGEST_NET: f64 = 1e7;
/// Most losses that are evaluated.
const MAX_EVALUATIONS: f64 = 1e11;
/// Most losses that are evaluated where the user chose no spacing: some twelve seconds of processor time. A net that would need more is made coarser.
const USUAL_EVALUATIONS: f64 = 1e9;

/// Options of the sparse exponential mechanism. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct SparseExponential {
    /// D > 0: the net covers the l2 ball of this radius. Default: the norm that the risk model expects.
    pub radius: Option<f64>,
    /// k ≥ 1: most non-zeros of a point. Default: ⌊D²/τ²⌋ with the published τ.
    pub support: Option<usize>,
    /// Distance between values of a coordinate, > 0. Default: 2τ/√k, so that rounding costs at most L·τ; more where the net would have
    /// more than 10⁹/n points.
    pub spacing: Option<f64>,
}

/// The schedule of the sparse exponential mechanism.
#[derive(Clone, Debug, Serialize)]
pub struct SparseExponentialSchedule {
    /// The loss that is minimised.
    pub loss: Loss,
    /// D: radius of the ball that holds the weights.
    pub radius: f64,
    /// τ: entries of the minimiser below it may be lost.
    pub truncation: f64,
    /// k: most non-zero weights of a point of the net.
    pub support: usize,
    /// Distance between values of a coordinate.
    pub spacing: f64,
    /// Upper bound on the number of points of the net.
    pub net: f64,
    /// L·D: the loss of one record at a point differs from that at 0 by at most this; enforced by clipping.
    pub loss_range: f64,
    /// ε of the choice.
    pub choice_epsilon: f64,
}

/// τ with τ³/ln(d/(τβ)) = B/(L·√s·ε·n), by bisection: the left side grows with τ.
fn truncation(range: f64, lipschitz: f64, sparsity: f64, epsilon: f64, rows: f64, dimension: f64) -> f64 {
    const FAILURE: f64 = 0.05;
    let target = range / (lipschitz * sparsity.sqrt() * epsilon * rows);
    let excess = |tau: f64| tau.powi(3) - target * (dimension / (tau * FAILURE)).ln().max(1.0);
    let (mut low, mut high) = (1e-12f64, 1e12f64);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if excess(middle) > 0.0 { high = middle } else { low = middle }
    }
    high
}

/// Σ_{j ≤ k} C(d, j)·(values)^j: points with at most k non-zeros, each of `values` non-zero values.
fn net_size(dimension: usize, support: usize, values: f64) -> f64 {
    let mut term = 1.0;
    let mut total = 1.0;
    for j in 0..support.min(dimension) {
        term *= (dimension - j) as f64 / (j + 1) as f64 * values;
        total += term;
    }
    total
}

/// Positive multiples of the spacing within the radius, as [`net`] counts them: a rounded quotient may miss one.
fn values_within(radius: f64, spacing: f64) -> f64 {
    let quotient = (radius / spacing).floor();
    let value = (quotient + 1.0) * spacing;
    if value * value > radius * radius { quotient } else { quotient + 1.0 }
}

/// All points of the net, as (column, value) lists: at most `support` non-zeros, values multiples of `spacing`, norm at most
/// `radius`. A public list in a public order.
fn net(dimension: usize, support: usize, spacing: f64, radius: f64) -> Vec<Vec<(u32, f64)>> {
    let mut points = vec![Vec::new()];
    let mut open: Vec<(Vec<(u32, f64)>, f64)> = vec![(Vec::new(), 0.0)];
    for _ in 0..support {
        let mut next = Vec::new();
        for (point, squares) in &open {
            let first = point.last().map_or(0, |entry| entry.0 + 1);
            for column in first..dimension as u32 {
                for step in 1.. {
                    let value = f64::from(step) * spacing;
                    let grown = squares + value * value;
                    if grown > radius * radius {
                        break;
                    }
                    for signed in [value, -value] {
                        let mut more = point.clone();
                        more.push((column, signed));
                        points.push(more.clone());
                        next.push((more, grown));
                    }
                }
            }
        }
        open = next;
    }
    points
}

/// Most positive values of a coordinate whose net has at most `most` points; at least one.
fn values_for(dimension: usize, support: usize, most: f64) -> f64 {
    let fits = |values: &u32| net_size(dimension, support, 2.0 * f64::from(*values)) <= most;
    f64::from((2u32..=1 << 20).take_while(fits).last().unwrap_or(1))
}

fn chosen_by(epsilon: f64, problem: &Problem) -> Result<Choice, CuratorError> {
    Choice::new(ChoiceLaw::Exponential, epsilon, NET_QUANTA, false, problem.relation())
}

impl Algorithm for SparseExponential {
    type Schedule = SparseExponentialSchedule;
    const NAME: &'static str = "sparse-exponential";
    const ABOUT: &'static str = "releases one point of a public net of sparse weight vectors; a reference for tiny problems, also with delta \
         = 0";

    fn read(options: &OptionReader<'_>) -> Self {
        Self { radius: options.get(&DISTANCE), support: None, spacing: None }
    }

    fn plan(&self, problem: &Problem, budget: Budget) -> Result<Plan<SparseExponentialSchedule>, NotApplicable> {
        check_problem(problem)?;
        let loss = problem.loss;
        let Some(slope) = loss.facts().lipschitz.filter(|_| loss.outputs() == 1) else {
            return Err(NotApplicable::Problem(
                "it needs a loss with one score and bounded gradient; use huber instead of squared".into(),
            ));
        };
        let model = RiskModel::usual(problem);
        let radius = positive("the radius", self.radius.unwrap_or_else(|| model.squared_norm().sqrt()))?;
        let (n, dimension) = (problem.rows as f64, problem.features);
        let lipschitz = slope * problem.row_norm;
        let loss_range = lipschitz * radius;
        let sparsity = problem.nonzeros.clamp(1, dimension) as f64;
        let tau = truncation(2.0 * loss_range, lipschitz, sparsity, budget.epsilon(), n, dimension as f64);
        let most = ((radius / tau).powi(2).floor().min(dimension as f64) as usize).max(1);
        let support = self.support.unwrap_or(most).clamp(1, dimension);
        let spacing = positive("the spacing", self.spacing.unwrap_or(2.0 * tau / (support as f64).sqrt()))?.min(radius);
        let published = net_size(dimension, support, 2.0 * values_within(radius, spacing));
        let usual = USUAL_EVALUATIONS / n;
        let enumerated = published <= LARGEST_NET && published * n <= MAX_EVALUATIONS;
        let coarser = self.spacing.is_none() && published > usual && enumerated;
        // the last value lies on the ball's surface
        let spacing = if coarser { radius / values_for(dimension, support, usual) } else { spacing };
        let points = net_size(dimension, support, 2.0 * values_within(radius, spacing));
        if points > LARGEST_NET || points * n > MAX_EVALUATIONS {
            return Err(NotApplicable::Problem(
                format!(
                    "its net of {support}-sparse weight vectors has up to {:.3e} points, and at most \
                     {LARGEST_NET:.0e} (and {MAX_EVALUATIONS:.0e} losses) can be enumerated; give a smaller \
                     max_features, or choose another method",
                    points.min(1e300)
                )
                .into(),
            ));
        }
        // noise grows as ε falls
        let drawn = SamplerError::fine(points);
        let event = |inverse: f64| drawn.paid(Event::ExponentialMechanism { epsilon: 1.0 / inverse }, budget.delta());
        let (inverse, certificate) = noise(problem, budget, event)?;
        let choice_epsilon = 1.0 / inverse;
        chosen_by(choice_epsilon, problem)?.can_draw()?;
        // expected score lost to randomness: ln|N| units of 2·sensitivity/ε; truncation L√s·τ; rounding L·√k·spacing/2
        let random = 2.0 * problem.relation().sum_sensitivity() * loss_range / choice_epsilon * points.ln() / n;
        let rounding = lipschitz * 0.5 * spacing * (support as f64).sqrt();
        let kept = radius / (support as f64).sqrt();
        let lost = if support >= dimension { 0.0 } else { lipschitz * sparsity.sqrt() * kept };
        Ok(Plan {
            summary: Summary {
                method: Self::NAME,
                loss,
                noise_multiplier: inverse,
                steps: 1,
                gradients: points * n,
                weight_noise: Some(radius),
                predicted_excess_risk: (random + rounding + lost).min(loss_range),
                certificate,
                assumptions: vec![
                    Assumption::enforced(
                        "the loss of a record is counted relative to weights 0 and clipped to L·D: enforced in integers",
                    ),
                    Assumption::proved("the net is public and enumerated in full"),
                ],
                warnings: Vec::new(),
            },
            schedule: SparseExponentialSchedule {
                loss,
                radius,
                truncation: tau,
                support,
                spacing,
                net: points,
                loss_range,
                choice_epsilon,
            },
        })
    }

    fn run<R: OfRows + 'static>(&self, plan: &Plan<SparseExponentialSchedule>, run: Run<'_, R>) -> RunResult {
        let Run { problem, examples, curator, progress } = run.in_memory(Self::NAME)?;
        let s = &plan.schedule;
        progress.start(Self::NAME, 1);
        let points = net(problem.features, s.support, s.spacing, s.radius);
        let scores = net_scores(examples, (s.loss, TARGET_BOUND), s.loss_range, &points);
        // under replace-one one record may raise one score by as much as it lowers another: the choice doubles
        let choice = chosen_by(s.choice_epsilon, problem)?;
        let chosen = curator.release(&choice, &scores)?;
        progress.tick();
        progress.finish();
        Ok(chosen.map(|index| {
            let mut weights = vec![0.0; problem.features];
            points[index].iter().for_each(|&(j, w)| weights[j as usize] = w);
            weights.into()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{LOGISTIC, facts, fit};
    use dpopt_mechanism::Curator;
    use dpopt_mechanism::progress::Silent;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::records::Examples;
    use dpopt_objective::synthetic::{mean_loss, table};
    use dpopt_optimize::plan::certify;
    use dpopt_privacy::{Neighbours, Relation};

    #[test]
    fn nets_are_complete_and_counted() {
        // d = 3, one non-zero out of ±1, ±2, and the zero point
        assert_eq!(net(3, 1, 1.0, 2.5).len(), 13);
        // a quotient that rounds below a whole number
        let spacing = 0.333_333_333_333_333_37;
        assert_eq!(((1.0f64 / spacing).floor(), values_within(1.0, spacing)), (2.0, 3.0));
        assert_eq!(net(2, 1, spacing, 1.0).len() as f64, net_size(2, 1, 2.0 * values_within(1.0, spacing)));
        assert_eq!(net_size(3, 1, 4.0), 13.0);
        // two non-zeros: of the 4·4 pairs per pair of columns only (±1, ±1), (±1, ±2), (±2, ±1) are short enough
        assert_eq!(net(3, 2, 1.0, 2.5).len(), 13 + 3 * 12);
        assert_eq!(net_size(3, 2, 4.0), 13.0 + 3.0 * 16.0);
        // the count is never below the enumeration
        for (d, k, spacing) in [(5, 2, 0.4), (4, 3, 0.3), (2, 2, 0.11)] {
            let values = 2.0 * (1.0f64 / spacing).floor();
            assert!(net(d, k, spacing, 1.0).len() as f64 <= net_size(d, k, values));
        }
    }

    /// 4,000 rows of 4 features: the published net has 2.8 million points, and took minutes.
    #[test]
    fn a_net_that_would_take_minutes_is_made_coarser_by_public_numbers() {
        let problem =
            |rows| Problem { rows, features: 4, nonzeros: 4, ..facts(&table(3, 20, 1, 3, 3.0, LOGISTIC), LOGISTIC) };
        let schedule = |rows, options: &SparseExponential| {
            options.plan(&problem(rows), Budget::new(1.0, 1e-6).unwrap()).unwrap().schedule
        };
        let (small, large) =
            (schedule(300, &SparseExponential::default()), schedule(4000, &SparseExponential::default()));
        let published = |s: &SparseExponentialSchedule| 2.0 * s.truncation / (s.support as f64).sqrt();
        assert_eq!(small.spacing, published(&small));
        assert!(large.spacing > published(&large) && large.spacing < large.radius / 4.0, "{large:?}");
        assert!(large.net * 4000.0 <= USUAL_EVALUATIONS, "{large:?}");
        // of all coarser ones the finest
        let values = (large.radius / large.spacing).round();
        assert!(net_size(4, large.support, 2.0 * (values + 1.0)) * 4000.0 > USUAL_EVALUATIONS);
        // who says a spacing gets it
        let asked = SparseExponential { spacing: Some(0.2), ..SparseExponential::default() };
        assert_eq!(schedule(4000, &asked).spacing, 0.2);
    }

    #[test]
    fn the_truncation_solves_its_equation() {
        let (range, l, s, epsilon, n, d) = (2.0, 1.0, 4.0, 1.0, 1e5, 1e4);
        let tau = truncation(range, l, s, epsilon, n, d);
        let left = tau.powi(3) / (d / (tau * 0.05)).ln();
        assert!((left / (range / (l * s.sqrt() * epsilon * n)) - 1.0).abs() < 1e-9);
        // the printed reciprocal would ask for a τ far beyond the ball
        assert!(tau < 0.1 && truncation(1.0 / range, 1.0 / l, 1.0 / s, 1.0 / epsilon, 1.0 / n, d) > 10.0);
    }

    #[test]
    fn two_points_are_chosen_by_the_corrected_exponent() {
        // d = 1, weights −D, 0, D; ten records with row 1 and label 1. P ∝ exp(ε·gain/(2LD)) under zero-out
        let mut rows = dpopt_objective::records::Rows::new(1);
        (0..10).for_each(|_| rows.push_clipped(&mut [(0, 1.0)], 1.0));
        let examples = Examples { rows, targets: vec![1.0; 10] };
        let problem = Problem { rows: 10, nonzeros: 1, ..facts(&examples, LOGISTIC) };
        let options = SparseExponential { radius: Some(1.0), support: Some(1), spacing: Some(1.0) };
        let budget = Budget::new(1.0, 0.0).unwrap();
        let plan = options.plan(&problem, budget).unwrap();
        let epsilon = plan.schedule.choice_epsilon;
        assert!(epsilon <= 1.0 && epsilon > 0.999_99);
        let examples = dpopt_mechanism::Sensitive::new(examples);
        let runs = 20_000;
        let mut seen = [0.0; 3];
        for seed in 0..runs {
            let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(seed));
            let run = Run::new(&problem, &examples, &mut curator, &Silent).unwrap();
            let weight = options.run(&plan, run).unwrap().into_inner().weights[0];
            seen[(weight + 1.0) as usize] += 1.0;
        }
        let gain = |w: f64| 10.0 * (2f64.ln() - LOGISTIC.scalar_value(w, 1.0));
        let weights: Vec<f64> = [-1.0, 0.0, 1.0].iter().map(|w| (epsilon * gain(*w) / 2.0).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (count, weight) in seen.iter().zip(weights) {
            let p = weight / total;
            // five and a half standard deviations: false alarm 4e-8 each
            let spread = (p * (1.0 - p) * runs as f64).sqrt();
            assert!((count - p * runs as f64).abs() < 5.5 * spread, "{seen:?} {p}");
        }
    }

    #[test]
    fn large_nets_are_refused_and_small_ones_learn() {
        let examples = table(3, 2000, 1, 3, 3.0, LOGISTIC);
        let p = facts(&examples, LOGISTIC);
        let pure = Budget::new(2.0, 0.0).unwrap();
        let refused =
            SparseExponential::default().plan(&Problem { features: 100_000, nonzeros: 20, ..p.clone() }, pure);
        assert!(matches!(refused, Err(NotApplicable::Problem(text)) if text.to_string().contains("enumerated")));
        let options = SparseExponential { radius: Some(4.0), support: Some(4), spacing: Some(1.0) };
        let weights = fit(&options, &examples, &p, pure, 1);
        let at = |w: &[f64]| mean_loss(&examples, LOGISTIC, w);
        assert!(at(&weights) < at(&[0.0; 4]) - 0.01, "{weights:?}");
        // replace-one doubles the sensitivity, so the answer is noisier but still certified
        let replaced = Problem { neighbours: Neighbours::of_records(Relation::ReplaceOne), ..p };
        let plan = options.plan(&replaced, pure).unwrap();
        assert!(certify(plan.summary.certificate.event(), &replaced, pure).is_ok());
    }
}
