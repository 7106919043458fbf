//! Counts, means and variances of bounded columns, class by class, from one noisy sum (docs/proofs/class-moments.md).
//!
//! A record with numbers t in [−1, 1]^d adds (α, β·t_j, γ·(c − t_j²)) to the entries of its class. With c = 1/γ and β² = γ(2 − γ), times b, every column has
//! norm at most b whatever t_j is: the squares come without a price in sensitivity, which they would have as (t_j, t_j²).

use crate::plan::NotApplicable;
use crate::planning::sum_grid;
use dpopt_mechanism::{ClippedVectors, Curator, CuratorError, Gaussian, Released, SamplerError};
use dpopt_noise::Grid;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, calibrate};
use serde::Serialize;

/// Public facts about records with d numbers in [−1, 1] and, where there are classes, one of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MomentsProblem {
    /// Number of records; a public guess under add-or-remove.
    pub records: u64,
    /// d: numbers of a record.
    pub columns: usize,
    /// Number of classes; 1 where records have none.
    pub classes: usize,
    /// How many records a class has is released too. Without it a class has `records` of them.
    pub counted: bool,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

/// What a record's statistics are multiplied by: α² + d·b² = 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MomentWeights {
    /// α: of the record itself; 0 where the count is not released.
    pub count: f64,
    /// Of a number t.
    pub first: f64,
    /// Of `centre` − t².
    pub second: f64,
    /// c in (½, 1].
    pub centre: f64,
}

/// A planned and certified release of moments.
#[derive(Clone, Debug)]
pub struct MomentsPlan {
    /// What it was planned for.
    pub problem: MomentsProblem,
    /// Weights of the statistics.
    pub weights: MomentWeights,
    /// Standard deviation of the noise of each entry of the sum, whose terms have norm at most 1.
    pub noise_multiplier: f64,
    /// Kullback–Leibler divergence that noise is expected to put between a class's bell curves and those released, where classes are of one size and
    /// columns as in [`REFERENCE`].
    pub divergence: f64,
    /// The certified privacy event of the plan.
    pub certificate: Certificate,
}

/// What was released of one class, in units in which numbers are in [−1, 1], with the standard deviations of its noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassMoments {
    /// How many records it has, at least `count_noise` and 1.
    pub count: f64,
    /// Noise of the count, 0 where it is public.
    pub count_noise: f64,
    /// Means of the columns, in [−1, 1].
    pub means: Vec<f64>,
    /// Noise of the means.
    pub mean_noise: Vec<f64>,
    /// Variances of the columns, at least `variance_noise` (one standard deviation of it) and at most 1.
    pub variances: Vec<f64>,
    /// Noise of the variances.
    pub variance_noise: Vec<f64>,
}

/// A column as weights are chosen for: E μ², E μ⁴ and the variance in a class, of means spread evenly over half of the bounds and a standard deviation of
/// an eighth of their width (bounds four standard deviations to either side). Other columns get more noise than they might, never less privacy.
pub const REFERENCE: [f64; 3] = [1.0 / 12.0, 1.0 / 80.0, 1.0 / 16.0];

impl MomentWeights {
    /// The weights with the least expected divergence for `columns` numbers, and that divergence where noise and count are 1.
    ///
    /// Of noise dμ, dv and dN in mean, variance and count the divergence of a class is Σ_j (dμ_j²/2v + dv_j²/4v²) + dN²/2N², with dμ = (dS₁ − μ·dN)/N and
    /// dv = (−dS₂ − 2μ·dS₁ + (c + μ² − v)·dN)/N. Averaged over [`REFERENCE`] it is d·P(γ)/b² + (d·Q(γ) + ½)/α², least at b² ∝ √P and α² ∝ √(d·Q + ½), where it is
    /// (d·√P + √(d·Q + ½))²; γ is found among hundredths.
    pub fn best(columns: usize, counted: bool) -> (Self, f64) {
        let [square, fourth, variance] = REFERENCE;
        let d = columns as f64;
        let (of_mean, of_variance) = (0.5 / variance, 0.25 / (variance * variance));
        let parts = |gamma: f64| {
            let (first, centre) = (gamma * (2.0 - gamma), 1.0 / gamma);
            let p = of_mean / first + of_variance * (gamma.powi(-2) + 4.0 * square / first);
            let away = centre - variance;
            let q = of_mean * square + of_variance * (away * away + 2.0 * away * square + fourth);
            (p.sqrt(), if counted { (d * q + 0.5).sqrt() } else { 0.0 })
        };
        let cost = |gamma: f64| {
            let (p, q) = parts(gamma);
            (d * p + q).powi(2)
        };
        let gamma =
            (100..200).map(|k| f64::from(k) / 100.0).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(1.0);
        let (p, q) = parts(gamma);
        let whole = d * p + q;
        let (count, column) = ((q / whole).sqrt(), (p / whole).sqrt());
        let first = column * (gamma * (2.0 - gamma)).sqrt();
        (Self { count, first, second: column * gamma, centre: 1.0 / gamma }, cost(gamma))
    }

    /// Appends what a record adds to its class. Numbers beyond [−1, 1] count as its ends, what is none as 0.
    fn push(&self, counted: bool, numbers: &[f64], out: &mut Vec<f64>) {
        if counted {
            out.push(self.count);
        }
        let within = |t: f64| if t.is_nan() { 0.0 } else { t.clamp(-1.0, 1.0) };
        out.extend(numbers.iter().map(|t| self.first * within(*t)));
        out.extend(numbers.iter().map(|t| self.second * (self.centre - within(*t).powi(2))));
    }
}

impl MomentsProblem {
    /// Numbers that are released of a class.
    fn width(&self) -> usize {
        2 * self.columns + usize::from(self.counted)
    }

    /// All numbers that are released.
    fn coordinates(&self) -> usize {
        self.width().saturating_mul(self.classes)
    }
}

/// Most numbers of a release: what one thread adds up in half a gigabyte.
const MOST: usize = 1 << 26;

impl MomentsPlan {
    /// Chooses weights and the least noise within the budget. Reads no record.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(problem: &MomentsProblem, budget: Budget) -> Result<Self, NotApplicable> {
        if budget.delta() == 0.0 {
            return Err(NotApplicable::Problem(
                "Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into(),
            ));
        }
        if problem.records == 0 || problem.columns == 0 || problem.classes == 0 {
            return Err(NotApplicable::Problem("moments are of at least one record with at least one number".into()));
        }
        let coordinates = problem.coordinates();
        if coordinates > MOST {
            return Err(NotApplicable::Problem(
                format!("there are {coordinates} moments, and at most {MOST} are released at once; give fewer columns")
                    .into(),
            ));
        }
        let (weights, divergence) = MomentWeights::best(problem.columns, problem.counted);
        let terms = problem.neighbours.within(budget);
        let event = |z: f64| SamplerError::rounded(coordinates as f64).on(Event::gaussian(z));
        let (noise_multiplier, certificate) =
            calibrate::noise(event, terms).map_err(|why| NotApplicable::Problem(why.to_string().into()))?;
        sum_grid(1.0, noise_multiplier, problem.records, coordinates)?;
        let of_a_class = problem.records as f64 / problem.classes as f64;
        let divergence = divergence * (noise_multiplier / of_a_class).powi(2);
        Ok(Self { problem: *problem, weights, noise_multiplier, divergence, certificate })
    }

    /// Releases the moments of each class of so many records: `numbers(i, out)` appends the d numbers of the i-th to the empty `out`, and `class(i)` is its
    /// class. A record of no class contributes nothing. A number that is none counts as 0, the middle.
    ///
    /// # Errors
    /// If `curator` has not been opened for the plan's certificate.
    pub fn run(
        &self,
        records: usize,
        class: impl Fn(usize) -> Option<usize> + Sync,
        numbers: impl Fn(usize, &mut Vec<f64>) + Sync,
        curator: &mut Curator,
    ) -> Result<Released<Vec<ClassMoments>>, CuratorError> {
        let problem = self.problem;
        let coordinates = problem.coordinates();
        let term = |i: usize, out: &mut Vec<f64>| {
            let Some(class) = class(i).filter(|class| *class < problem.classes) else { return };
            let mut own = Vec::with_capacity(problem.columns);
            numbers(i, &mut own);
            own.resize(problem.columns, 0.0);
            out.resize(class * problem.width(), 0.0);
            self.weights.push(problem.counted, &own, out);
            out.resize(coordinates, 0.0);
        };
        let grid = Grid::for_sum(1.0, self.noise_multiplier, problem.records, coordinates);
        // each term is clipped to norm 1 once more, in exact integers
        let sum = ClippedVectors::new(1.0, grid)?.sum(records, coordinates, term);
        let mechanism = Gaussian::new(self.noise_multiplier, 1.0, grid, coordinates, "moments of classes");
        let released = curator.release(&mechanism, &sum)?;
        Ok(released.map(|sums| sums.chunks_exact(problem.width()).map(|of| self.settled(of)).collect()))
    }

    /// What the noisy sums of a class say: post-processing.
    fn settled(&self, sums: &[f64]) -> ClassMoments {
        let (z, d, w) = (self.noise_multiplier, self.problem.columns, &self.weights);
        let (counts, columns) = sums.split_at(usize::from(self.problem.counted));
        let (firsts, seconds) = columns.split_at(d);
        let (count, count_noise) = match counts.first() {
            Some(noisy) => ((noisy / w.count).max(z / w.count).max(1.0), z / w.count),
            None => (self.problem.records as f64, 0.0),
        };
        let share = z / count;
        let (first, second, of_count) = (share / w.first, share / w.second, count_noise / count);
        let means: Vec<f64> = firsts.iter().map(|sum| (sum / (w.first * count)).clamp(-1.0, 1.0)).collect();
        let mean_noise: Vec<f64> = means.iter().map(|mean| first.hypot(mean * of_count)).collect();
        let raw: Vec<f64> = seconds
            .iter()
            .zip(firsts.iter().zip(&mean_noise))
            .map(|(sum, (mean, noise))| {
                // the square of a noisy mean is larger than that of the mean by the variance of its noise
                w.centre - sum / (w.second * count) - (mean / (w.first * count)).powi(2) + noise * noise
            })
            .collect();
        let variance_noise: Vec<f64> = means
            .iter()
            .zip(&raw)
            .map(|(mean, raw)| {
                let square = mean * mean;
                let slope = w.centre + square - raw.clamp(0.0, 1.0);
                (second * second + 4.0 * square * first * first + (slope * of_count).powi(2)).sqrt()
            })
            .collect();
        // numbers in [−1, 1] have a variance of at most 1
        let variances = raw.iter().zip(&variance_noise).map(|(raw, noise)| raw.max(*noise).min(1.0)).collect();
        ClassMoments { count, count_noise, means, mean_noise, variances, variance_noise }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};
    use dpopt_privacy::Relation;
    use proptest::prelude::*;

    fn problem(records: u64, columns: usize, classes: usize, counted: bool) -> MomentsProblem {
        let neighbours = Neighbours::of_records(Relation::ZeroOut);
        MomentsProblem { records, columns, classes, counted, neighbours }
    }

    fn budget(epsilon: f64) -> Budget {
        Budget::new(epsilon, 1e-6).unwrap()
    }

    proptest! {
        #[test]
        fn whatever_a_record_holds_its_term_has_norm_at_most_one(
            numbers in prop::collection::vec(prop_oneof![4 => -1.0..1.0f64, 1 => Just(f64::NAN), 1 => Just(1e300), 1 => Just(f64::NEG_INFINITY), 1 => Just(0.0)], 1..40),
            counted in any::<bool>(),
        ) {
            let (weights, _) = MomentWeights::best(numbers.len(), counted);
            let mut term = Vec::new();
            weights.push(counted, &numbers, &mut term);
            let squares: f64 = term.iter().map(|v| v * v).sum();
            prop_assert!(term.len() == 2 * numbers.len() + usize::from(counted) && squares <= 1.0 + 1e-12, "{squares}");
        }
    }

    #[test]
    fn records_in_the_middle_and_at_the_ends_reach_the_bound() {
        for (columns, counted) in [(1, false), (1, true), (7, true), (100, false)] {
            let (weights, _) = MomentWeights::best(columns, counted);
            for t in [0.0, 1.0, -1.0] {
                let mut term = Vec::new();
                weights.push(counted, &vec![t; columns], &mut term);
                assert!((term.iter().map(|v| v * v).sum::<f64>() - 1.0).abs() < 1e-12, "{columns} {counted} {t}");
            }
        }
    }

    #[test]
    fn no_other_weights_have_a_smaller_expected_divergence() {
        // the divergence of given weights by its definition, on a grid of the family's weights of sensitivity 1
        let [square, fourth, v] = REFERENCE;
        let divergence = |d: f64, w: &MomentWeights| {
            let (alpha, beta, gamma) = (w.count.powi(-2), w.first.powi(-2), w.second.powi(-2));
            let away = w.centre - v;
            let of_mean = beta + square * alpha;
            let of_variance = gamma + 4.0 * square * beta + (away * away + 2.0 * away * square + fourth) * alpha;
            d * (of_mean / (2.0 * v) + of_variance / (4.0 * v * v)) + alpha / 2.0
        };
        for columns in [1, 10, 300] {
            let d = columns as f64;
            let (best, cost) = MomentWeights::best(columns, true);
            assert!((divergence(d, &best) / cost - 1.0).abs() < 1e-9);
            for (a, g) in (1..100).flat_map(|a| (100..200).map(move |g| (f64::from(a) / 100.0, f64::from(g) / 100.0))) {
                let b = ((1.0 - a) / d).sqrt();
                let other = MomentWeights {
                    count: a.sqrt(),
                    first: b * (g * (2.0 - g)).sqrt(),
                    second: b * g,
                    centre: 1.0 / g,
                };
                assert!(divergence(d, &other) >= cost * (1.0 - 1e-9), "{columns} {a} {g}");
            }
            // (1, t, t²), all of one weight, as they come
            let plain = (1.0 + 2.0 * d).sqrt().recip();
            let plain = MomentWeights { count: plain, first: plain, second: plain, centre: 0.0 };
            let gain = divergence(d, &plain) / cost;
            assert!(gain > if columns == 1 { 1.1 } else { 1.6 }, "{columns}: {gain}");
        }
    }

    /// 12,000 records of three classes (shares ½, ⅓ and ⅙) and four columns.
    fn records() -> Vec<(usize, [f64; 4])> {
        let mut coins = NoiseSource::insecure(5).stream(Purpose::Other(1), 0);
        (0..12_000)
            .map(|i| {
                let class = [0, 0, 0, 1, 1, 2][i % 6];
                let at = |j: usize| 0.2 * class as f64 - 0.1 * j as f64;
                let spread = 0.1 + 0.05 * class as f64;
                (class, std::array::from_fn(|j| (at(j) + spread * coins.standard_normal()).clamp(-1.0, 1.0)))
            })
            .collect()
    }

    #[test]
    fn what_is_released_is_as_far_off_as_it_says() {
        let rows = records();
        for counted in [true, false] {
            let problem = problem(12_000, 4, if counted { 3 } else { 1 }, counted);
            let plan = MomentsPlan::new(&problem, budget(1.0)).unwrap();
            let (mut squares, mut numbers, runs) = ([0.0; 3], [0.0; 3], 60);
            for seed in 0..runs {
                let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(seed));
                let class = |i: usize| Some(if counted { rows[i].0 } else { 0 });
                let found = plan.run(rows.len(), class, |i, out| out.extend(rows[i].1), &mut curator).unwrap();
                assert!(curator.is_spent());
                for (k, class) in found.get().iter().enumerate() {
                    let own: Vec<_> = rows.iter().filter(|row| !counted || row.0 == k).map(|row| row.1).collect();
                    let n = own.len() as f64;
                    let mut held = |at: usize, found: f64, true_value: f64, noise: f64| {
                        squares[at] += ((found - true_value) / noise).powi(2);
                        numbers[at] += 1.0;
                    };
                    if counted {
                        held(0, class.count, n, class.count_noise);
                    } else {
                        assert_eq!((class.count, class.count_noise), (n, 0.0));
                    }
                    for j in 0..4 {
                        let mean = own.iter().map(|row| row[j]).sum::<f64>() / n;
                        let variance = own.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / n;
                        held(1, class.means[j], mean, class.mean_noise[j]);
                        held(2, class.variances[j], variance, class.variance_noise[j]);
                    }
                }
            }
            // sums of squares of normal variables, of which the entries of one class share their count's noise: at least 60 independent ones, whose mean leaves
            // (.35, 2) with probability below 1e-6
            for (at, (sum, number)) in squares.iter().zip(numbers).enumerate() {
                if number > 0.0 {
                    assert!((0.35..2.0).contains(&(sum / number)), "{counted} {at}: {}", sum / number);
                }
            }
        }
    }

    #[test]
    fn a_class_that_nobody_has_is_wide_and_rare() {
        let plan = MomentsPlan::new(&problem(1000, 2, 3, true), budget(1.0)).unwrap();
        let mut curator = Curator::new(&plan.certificate, NoiseSource::insecure(3));
        let class = |i: usize| [Some(0), Some(7), None][i % 3];
        let found = plan.run(1000, class, |_, out| out.extend([0.5, f64::NAN]), &mut curator).unwrap().into_inner();
        assert!((found[0].count - 334.0).abs() < 6.0 * found[0].count_noise);
        for empty in &found[1..] {
            assert!(empty.count < 6.0 * empty.count_noise);
            assert!(
                empty.variances.iter().zip(&empty.variance_noise).all(|(v, noise)| *v >= noise.min(1.0) && *v <= 1.0)
            );
            assert!(empty.means.iter().all(|mean| mean.abs() <= 1.0));
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let refused = |problem: MomentsProblem, delta| {
            MomentsPlan::new(&problem, Budget::new(1.0, delta).unwrap()).unwrap_err().to_string()
        };
        assert!(refused(problem(10, 2, 2, true), 0.0).contains("delta > 0"));
        assert!(refused(problem(0, 2, 2, true), 1e-6).contains("at least one record"));
        assert!(refused(problem(10, 1 << 20, 64, true), 1e-6).contains("at once"));
    }
}
