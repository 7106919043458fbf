//! The mean of answers that agree: one answer per group, those far from most are left out, and nothing is released where too few
//! agree (a certified form of Liu 2024, Algorithms 28 and 31; docs/proofs/agreed-mean.md).
//!
//! A record is in one group, so it can change one answer, to anything. Answers lie on a public grid, and distances, weights and the
//! mean are exact integers: what rounding would do to "close to each other" is part of the proof otherwise.
//!
//! Covers: thesis algorithm 28 (part: one round, of answers of groups, with weights in place of coins; for sessions see Theorem 9.3.2)
//! Covers: thesis algorithm 31 (part: the mean of one phase, with weights in place of coins; phases are not built)

use super::counts::Counts;
use dpopt_kernel::beside::{Expose, Sealed, add_rounded_gaussian};
use dpopt_kernel::{CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{DiscreteLaplace, Grid, NoiseSource, Purpose};
use dpopt_privacy::{Event, Relation};

/// log2 of the steps of the grid: coordinates are at most 1 in size.
const STEPS: i32 = 44;
/// Coordinates of an answer at most: sums of squared differences stay below 2^126.
const MAX_COORDINATES: usize = 1 << 24;
/// Groups at most: so far the law of the test is known.
const MAX_GROUPS: usize = 50_000;

/// What groups of records answered: vectors of numbers in [-1, 1], or nothing.
pub struct Answers {
    dimension: usize,
    rows: Vec<Option<Vec<i64>>>,
}

impl Answers {
    /// The grid that answers lie on.
    pub fn grid() -> Grid {
        Grid::new(-STEPS)
    }

    /// One answer for each group. Numbers are clipped to [-1, 1]; an answer of another length, or with what is not a number, is none.
    ///
    /// # Errors
    /// If there are too many groups or coordinates, which are public.
    pub fn new<'a>(dimension: usize, answers: impl Iterator<Item = Option<&'a [f64]>>) -> Result<Self, CuratorError> {
        let step = Self::grid().step();
        let snapped = |answer: &[f64]| {
            let whole = answer.len() == dimension && answer.iter().all(|v| !v.is_nan());
            whole.then(|| answer.iter().map(|v| (v.clamp(-1.0, 1.0) / step).round_ties_even() as i64).collect())
        };
        let rows: Vec<Option<Vec<i64>>> = answers.map(|answer| answer.and_then(snapped)).collect();
        if rows.len() > MAX_GROUPS || dimension == 0 || dimension > MAX_COORDINATES {
            return Err(CuratorError::Shape);
        }
        Ok(Self { dimension, rows })
    }

    /// How many groups were asked.
    pub fn groups(&self) -> usize {
        self.rows.len()
    }

    /// How many answers lie within `radius` steps of each, itself among them; of none, none.
    fn near(&self, radius: u64) -> Vec<u64> {
        let most = i128::from(radius) * i128::from(radius);
        let mut near: Vec<u64> = self.rows.iter().map(|row| u64::from(row.is_some())).collect();
        for (j, row) in self.rows.iter().enumerate() {
            let Some(row) = row else { continue };
            for (k, other) in self.rows.iter().enumerate().skip(j + 1) {
                if other.as_ref().is_some_and(|other| square_distance(row, other) <= most) {
                    near[j] += 1;
                    near[k] += 1;
                }
            }
        }
        near
    }

    /// For each of `radii`, in steps: ordered pairs of answers within it of each other, an answer and itself among them. One record
    /// moves each by [`moved_pairs`] times what the relation makes of one.
    pub fn close_pairs(answers: &Sensitive<Self>, radii: &[u64], relation: Relation) -> Vec<Sensitive<Counts>> {
        let answers = answers.expose();
        let squares: Vec<i128> = radii.iter().map(|&radius| i128::from(radius) * i128::from(radius)).collect();
        let there: Vec<&[i64]> = answers.rows.iter().flatten().map(Vec::as_slice).collect();
        let mut pairs = vec![there.len() as i64; radii.len()];
        for (j, row) in there.iter().enumerate() {
            for other in &there[j + 1..] {
                let distance = square_distance(row, other);
                squares.iter().zip(&mut pairs).for_each(|(most, pairs)| *pairs += 2 * i64::from(distance <= *most));
            }
        }
        let moved = moved_pairs(answers.groups() as u64, relation) as f64;
        pairs.into_iter().map(|pairs| Counts::declared(vec![pairs], moved)).collect()
    }
}

/// ‖a − b‖² in squared steps, exactly.
fn square_distance(a: &[i64], b: &[i64]) -> i128 {
    let square = |(a, b): (&i64, &i64)| i128::from(a - b) * i128::from(a - b);
    a.iter().zip(b).map(square).sum()
}

/// What one record's presence moves the number of close pairs among `groups` answers by, as `relation` counts presence: an answer that
/// changes moves it by 2·groups − 1 at most, however that came about.
pub fn moved_pairs(groups: u64, relation: Relation) -> u64 {
    if relation == Relation::ReplaceOne { groups } else { 2 * groups }
}

/// Public facts of an agreed mean. Event: [`DiscreteLaplace`](Event::DiscreteLaplace) for the question whether enough answers agree, `Gaussian(z)` for
/// their mean, and `EpsilonDelta(0, π)` for answers that pass though too few agree.
#[derive(Clone, Debug)]
pub struct AgreedMean {
    groups: u64,
    core: u64,
    threshold: u64,
    radius: u64,
    dimension: usize,
    noise_multiplier: f64,
    relation: Relation,
    test: DiscreteLaplace,
}

/// How many answers have to agree, and what follows from that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// C: number of groups.
    pub groups: u64,
    /// Answers near one of them without which nothing is released, at least two thirds of all.
    pub core: u64,
    /// Close pairs, with noise, from which on answers agree.
    pub threshold: u64,
    /// Decay of the noise of that, per pair.
    pub decay: f64,
    /// Probability with which answers pass though fewer than the core agree.
    pub miss: f64,
    /// Share of answers that may be far from the others.
    pub outliers: f64,
}

impl Agreement {
    /// The agreement of `groups` answers, tested with `epsilon`: the largest core whose miss is at most `miss`, with which a mean is released but for
    /// a probability of 1/1000 where all but a share of `outliers` agree. `None` where that is less than two thirds of the groups: there are too few.
    ///
    /// ```
    /// use dpopt_mechanism::Agreement;
    /// // ε = 2 with half of it for this, δ = 1e-6: 329 groups for a core of .8
    /// let miss = 1e-6 / (2.0 * (1.0 + 2f64.exp()));
    /// let core = |groups, outliers| Agreement::of(groups, 1.0, miss, outliers).map(|a| a.core as f64 / groups as f64);
    /// assert!(core(329, 0.0).unwrap() > 0.8 && core(800, 0.05).unwrap() > 0.8 && core(100, 0.0).is_none());
    /// ```
    pub fn of(groups: u64, epsilon: f64, miss: f64, outliers: f64) -> Option<Self> {
        let decay = test_noise(groups, epsilon)?.decay();
        let gap = least_gap(decay, miss)?;
        let together = (groups as f64 * (1.0 - outliers)).ceil();
        let together = if together >= 0.0 { (together as u64).min(groups) } else { return None };
        // a bad phase has at most C(core + 1) − 1 close pairs, and passes if noise adds the gap
        let most = (together * together + 1).checked_sub(gap)?.checked_sub(least_gap(decay, HALTS)?)?;
        let core = (most / groups).checked_sub(1)?.min(groups.checked_sub(2)?);
        let threshold = groups * (core + 1) - 1 + gap;
        (3 * core >= 2 * groups).then(|| Self { groups, core, threshold, decay, miss: tail(decay, gap), outliers })
    }

    /// How far the mean of those that agree moves with one answer, over the radius: 4/core·(1 + (C − core − 1)/(core − (C + 1)/2)).
    pub fn moved_mean(&self) -> f64 {
        moved_mean(self.groups as f64, self.core as f64)
    }
}

/// Probability that nothing is released though enough answers agree.
const HALTS: f64 = 1e-3;

/// The least gap with a tail of at most `miss`.
fn least_gap(decay: f64, miss: f64) -> Option<u64> {
    let about = (-(miss * (1.0 + (-decay).exp())).ln() / decay).ceil();
    if !about.is_finite() {
        return None;
    }
    let mut gap = about.max(1.0) as u64;
    while tail(decay, gap) > miss {
        gap += 1;
    }
    Some(gap)
}

fn moved_mean(groups: f64, core: f64) -> f64 {
    (4.0 / core * (1.0 + (groups - core - 1.0) / (core - (groups + 1.0) / 2.0))) * (1.0 + 1e-14)
}

/// P[Z ≥ gap] for Z with P(z) ∝ e^(−λ|z|), which is e^(−λ·gap)/(1 + e^(−λ)), or more. `decay` is λ rounded up.
fn tail(decay: f64, gap: u64) -> f64 {
    let least = decay * (1.0 - 2.0 * f64::EPSILON);
    (-least * gap as f64).exp() / (1.0 + (-decay).exp()) * (1.0 + 1e-14)
}

/// Noise for close pairs, which one answer moves by 2·groups at most.
fn test_noise(groups: u64, epsilon: f64) -> Option<DiscreteLaplace> {
    DiscreteLaplace::with_scale(2.0 * groups as f64 / epsilon).ok()
}

impl AgreedMean {
    /// A mean of answers of `dimension` coordinates, of those that have more than half of all within twice the `radius` (in steps of [`Answers::grid`]); noise of
    /// standard deviation z times what one record's presence moves their mean by. `epsilon` is that of the agreement.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(
        agreement: Agreement,
        epsilon: f64,
        radius: u64,
        dimension: usize,
        noise_multiplier: f64,
        relation: Relation,
    ) -> Result<Self, CuratorError> {
        let refuse = |what: &str| CuratorError::Noise(format!("an agreed mean needs {what}"));
        let Agreement { groups, core, threshold, .. } = agreement;
        let test = test_noise(groups, epsilon).ok_or_else(|| refuse("an epsilon above 0"))?;
        // a smaller core, or a lower threshold, is another sensitivity or another miss
        if Agreement::of(groups, epsilon, agreement.miss, agreement.outliers) != Some(agreement) {
            return Err(refuse("the agreement of its epsilon"));
        }
        if radius == 0 || radius > 1 << (STEPS + 14) || !(noise_multiplier > 0.0) {
            return Err(refuse("a radius of at least one step, and noise"));
        }
        Ok(Self { groups, core, threshold, radius, dimension, noise_multiplier, relation, test })
    }

    /// l2 sensitivity of the mean to a record's presence, with the rounding of both means to the grid.
    pub fn sensitivity(&self) -> f64 {
        let step = Answers::grid().step();
        let moved = moved_mean(self.groups as f64, self.core as f64) * self.radius as f64 * step
            + step * (self.dimension as f64).sqrt();
        moved / self.relation.sum_sensitivity() * (1.0 + 1e-12)
    }

    /// Standard deviation of each coordinate's noise.
    pub fn standard_deviation(&self) -> f64 {
        self.noise_multiplier * self.sensitivity()
    }

    /// The exact law of what is released; [`sampler_error`](Mechanism::sampler_error) says how far the code is from it. Pairs of worlds in which too few
    /// agree tell (0, π)-DP apart, others by the noise.
    fn law(groups: u64, decay: f64, miss: f64, noise_multiplier: f64, relation: Relation) -> Event {
        let by_chance = Event::EpsilonDelta { epsilon: 0.0, delta: miss };
        let test = Event::DiscreteLaplace { noise_parameter: decay, sensitivity: moved_pairs(groups, relation) };
        Event::composed(vec![by_chance, test, Event::gaussian(noise_multiplier)])
    }

    /// What is released with `noise_multiplier`, for calibration: samplers within.
    pub fn planned(agreement: &Agreement, dimension: usize, noise_multiplier: f64, relation: Relation) -> Event {
        let Agreement { groups, decay, miss, .. } = *agreement;
        Self::error(dimension).on(Self::law(groups, decay, miss, noise_multiplier, relation))
    }

    fn error(dimension: usize) -> SamplerError {
        SamplerError::rounded(dimension as f64) + SamplerError::fine(1.0)
    }

    /// π: the probability with which answers pass though fewer than the core agree.
    fn miss(&self) -> f64 {
        tail(self.test.decay(), self.threshold + 1 - self.groups * (self.core + 1))
    }

    /// Twice a weight's ramp: answers with (C + 1)/2 near them weigh nothing, with the core near them all.
    fn ramp(&self) -> i128 {
        i128::from(2 * self.core - (self.groups + 1))
    }

    /// The mean of the answers that agree, in steps, rounded to the nearest.
    fn mean(&self, answers: &Answers) -> Vec<i64> {
        let near = answers.near(2 * self.radius);
        let weight = |near: u64| (2 * i128::from(near) - i128::from(self.groups + 1)).clamp(0, self.ramp());
        let weights: Vec<i128> = near.into_iter().map(weight).collect();
        let all: i128 = weights.iter().sum();
        let mut sums = vec![0i128; self.dimension];
        for (row, weight) in answers.rows.iter().zip(&weights) {
            if let (Some(row), 1..) = (row, *weight) {
                sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += weight * i128::from(*v));
            }
        }
        // to the nearest step: floor((2s + w)/2w)
        sums.into_iter().map(|sum| if all == 0 { 0 } else { (2 * sum + all).div_euclid(2 * all) as i64 }).collect()
    }
}

impl Sealed for AgreedMean {}

impl Mechanism for AgreedMean {
    type Input = Answers;
    /// `None`: too few answers agree.
    type Output = Option<Vec<f64>>;

    fn event(&self) -> Event {
        Self::law(self.groups, self.test.decay(), self.miss(), self.noise_multiplier, self.relation)
    }

    fn sampler_error(&self, input: &Answers) -> f64 {
        Self::error(input.dimension).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "mean of answers that agree"
    }

    fn check(&self, input: &Answers) -> Result<(), CuratorError> {
        let fits = input.groups() as u64 == self.groups && input.dimension == self.dimension;
        if fits { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Self::Output) -> Option<&[f64]> {
        output.as_deref()
    }

    fn apply(&self, input: &Answers, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError> {
        let pairs: u64 = input.near(self.radius).iter().sum();
        let noisy = i128::from(pairs) + i128::from(self.test.sample(&mut noise.stream(Purpose::Selection, 0)));
        // the same work on either side of the answer
        let mut mean = self.mean(input);
        add_rounded_gaussian(&mut mean, self.standard_deviation(), Answers::grid(), noise)?;
        let released = || mean.iter().map(|&units| Answers::grid().to_f64(units)).collect();
        Ok((noisy >= i128::from(self.threshold)).then(released))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_privacy::{Budget, Neighbours, certify};

    /// The miss that is paid for at ε = 2 and δ = 1e-6.
    fn miss() -> f64 {
        1e-6 / (2.0 * (1.0 + 2f64.exp()))
    }

    fn answers(rows: &[Option<Vec<f64>>]) -> Answers {
        let dimension = rows.iter().flatten().next().map_or(1, Vec::len);
        Answers::new(dimension, rows.iter().map(Option::as_deref)).unwrap()
    }

    fn steps(length: f64) -> u64 {
        (length / Answers::grid().step()) as u64
    }

    #[test]
    fn the_numbers_are_those_of_the_specification() {
        // ε = 2, δ = 1e-6, ε_s = 1: M* = 31.885; a gap of M*·C pairs
        let agreement = Agreement::of(329, 1.0, miss(), 0.0).unwrap();
        let gap = agreement.threshold + 1 - 329 * (agreement.core + 1);
        assert!((gap as f64 / 329.0 - 31.885).abs() < 0.004, "{}", gap as f64 / 329.0);
        // Δ/τ of the three rows
        for (share, groups, moved) in [(2.0 / 3.0, 198.0, 0.090909), (0.7, 220.0, 0.064786), (0.8, 329.0, 0.025226)] {
            assert!((moved_mean(groups, share * groups) - moved).abs() < 1e-6);
        }
        // μ = .232445 for a coin of ε_s beside the Gaussian; the discrete test costs a little less than that coin
        let terms = Neighbours::of_users(Relation::ReplaceOne).within(Budget::new(2.0, 1e-6).unwrap());
        let fits =
            |mu: f64| certify(&AgreedMean::planned(&agreement, 1, 2.0 / mu, Relation::ReplaceOne), terms).is_ok();
        assert!(fits(0.232445) && !fits(0.25));
        // fewest groups for δ_AT = δ/(4(1 + e^ε))
        for (epsilon, fewest) in [(1f64, 386), (2.0, 206), (4.0, 118), (8.0, 74)] {
            let miss = 1e-6 / (4.0 * (1.0 + epsilon.exp()));
            assert!(Agreement::of(fewest, epsilon / 2.0, miss, 0.0).is_some(), "{epsilon}");
            // that form leaves as much again to all that agree as to those that pass by chance, this one a thousandth
            assert!(Agreement::of(fewest * 6 / 10, epsilon / 2.0, miss, 0.0).is_none(), "{epsilon}");
        }
    }

    #[test]
    fn answers_far_from_most_weigh_nothing_and_few_stop_it() {
        let agreement = Agreement::of(300, 1.0, miss(), 0.06).unwrap();
        let mechanism = AgreedMean::new(agreement, 1.0, steps(0.1), 2, 1e-6, Relation::ReplaceOne).unwrap();
        let release = |rows: &[Option<Vec<f64>>], seed| {
            let mut curator = uncharged(&mechanism.event(), NoiseSource::insecure(seed));
            curator.release(&mechanism, &Sensitive::new(answers(rows))).unwrap().into_inner()
        };
        let mut rows = vec![Some(vec![0.25, -0.5]); 300];
        rows[..10].fill(Some(vec![1e300, f64::NEG_INFINITY]));
        rows[10..15].fill(None);
        rows[15] = Some(vec![f64::NAN, 0.0]);
        rows[16] = Some(vec![0.0]);
        let mean = release(&rows, 1).unwrap();
        assert!((mean[0] - 0.25).abs() < 1e-5 && (mean[1] + 0.5).abs() < 1e-5, "{mean:?}");
        rows[..150].fill(Some(vec![-1.0, 1.0]));
        assert!((0..20).all(|seed| release(&rows, seed).is_none()));
        let other = Sensitive::new(answers(&rows[..299]));
        let mut curator = uncharged(&mechanism.event(), NoiseSource::insecure(1));
        assert!(matches!(curator.release(&mechanism, &other), Err(CuratorError::Shape)));
    }

    #[test]
    fn a_made_up_agreement_is_refused() {
        let agreement = Agreement::of(300, 1.0, miss(), 0.0).unwrap();
        let new =
            |agreement, epsilon, radius| AgreedMean::new(agreement, epsilon, radius, 1, 1.0, Relation::ZeroOut).is_ok();
        assert!(new(agreement, 1.0, 1));
        assert!(!new(Agreement { core: agreement.core - 1, ..agreement }, 1.0, 1));
        assert!(!new(Agreement { threshold: agreement.threshold - 1, ..agreement }, 1.0, 1));
        assert!(!new(Agreement { groups: 299, ..agreement }, 1.0, 1));
        assert!(!new(Agreement { outliers: f64::NAN, ..agreement }, 1.0, 1));
        assert!(!new(agreement, 0.9, 1) && !new(agreement, 1.0, 0));
        assert!(Agreement::of(300, 1e-9, miss(), 0.0).is_none() && Agreement::of(1, 1.0, miss(), 0.0).is_none());
        assert!(Agreement::of(300, f64::NAN, miss(), 0.0).is_none() && Agreement::of(300, 1.0, 0.0, 0.0).is_none());
    }

    /// Two worlds that differ in one answer: if enough pairs are close in either, means are within the bound, by exact arithmetic.
    #[test]
    fn one_answer_moves_pairs_and_the_mean_as_little_as_is_documented() {
        // a core of about three quarters
        let agreement = Agreement::of(30, 3.5, 1e-3, 0.0).unwrap();
        let mechanism = AgreedMean::new(agreement, 3.5, 1 << 20, 2, 1.0, Relation::ReplaceOne).unwrap();
        let (mut source, step) = (NoiseSource::insecure(9), (1u64 << 20) as f64 * Answers::grid().step());
        let mut coins = source.stream(Purpose::Other(1), 0);
        let (mut worst, mut passed) = (0f64, 0);
        for _ in 0..4000 {
            // clusters at distances around the radius, which is where weights change
            let mut point = |spread: f64| {
                vec![spread * step * (coins.below(7) as f64 - 3.0), spread * step * (coins.below(7) as f64 - 3.0)]
            };
            let spread = [0.05, 0.08, 0.1, 0.34];
            let mut rows: Vec<Option<Vec<f64>>> = (0..30).map(|i| Some(point(spread[i % 4]))).collect();
            let first = answers(&rows);
            rows[0] = Some(point(1.0));
            let second = answers(&rows);
            let pairs = |a: &Answers| a.near(mechanism.radius).iter().sum::<u64>();
            let moved = pairs(&first).abs_diff(pairs(&second));
            assert!(moved < 2 * 30);
            if pairs(&first).max(pairs(&second)) >= 30 * (agreement.core + 1) {
                passed += 1;
                let (a, b) = (mechanism.mean(&first), mechanism.mean(&second));
                let distance = (square_distance(&a, &b) as f64).sqrt() * Answers::grid().step();
                worst = worst.max(distance / (2.0 * mechanism.sensitivity()));
            }
        }
        assert!(passed > 300 && worst <= 1.0 && worst > 0.05, "{passed} {worst}");
    }

    #[test]
    fn the_worst_known_instance_is_within_the_bound() {
        // ρ = 1, n = 300, c = 2/3: 145 at 0, 55 at 1, 99 at 3, and one at 3 or at −1: n·|g − g'| = 9.870 against 18
        let mechanism = AgreedMean {
            groups: 300,
            core: 200,
            threshold: 0,
            radius: steps(0.125),
            dimension: 1,
            noise_multiplier: 1.0,
            relation: Relation::ReplaceOne,
            test: test_noise(300, 1.0).unwrap(),
        };
        let world = |last: f64| {
            let at = [(145, 0.0), (55, 1.0), (99, 3.0), (1, last)];
            let rows: Vec<_> = at.iter().flat_map(|&(n, v)| vec![Some(vec![0.125 * v]); n]).collect();
            mechanism.mean(&answers(&rows))[0] as f64 * Answers::grid().step() / 0.125
        };
        let moved = 300.0 * (world(3.0) - world(-1.0)).abs();
        assert!((moved - 9.870).abs() < 1e-3, "{moved}");
        assert!((300.0 * 2.0 * mechanism.sensitivity() / 0.125 - 18.0).abs() < 0.1);
    }

    #[test]
    fn one_more_answer_at_a_point_is_a_row_more_for_all_of_them() {
        // 12 groups, six at 0 and the others apart
        let rows: Vec<_> = (0..12).map(|i| Some(vec![if i < 6 { 0.0 } else { 0.08 * i as f64 }])).collect();
        let six = answers(&rows);
        let mut more = rows.clone();
        more[11] = Some(vec![0.0]);
        assert_eq!(six.near(10).iter().sum::<u64>(), 36 + 6);
        assert_eq!(answers(&more).near(10).iter().sum::<u64>(), 49 + 5);
    }
}
