//! Which coordinates of a noisy vector exceed a level, without drawing the noise of the others
//! (docs/proofs/embeddings.md, docs/proofs/largest-coordinates.md).
//!
//! y = μ + noise in d coordinates, μ an integer vector that is zero outside a small *touched* set. A touched coordinate is
//! compared as it is. Of the others a random subset has real noise above the level, each coordinate with a known
//! probability; it is found by geometric skips, and only its members get a value. The set that comes out has, exactly, the
//! law of the dense comparison, at a cost that follows the size of the set and not d.
//!
//! Time and memory depend on how much of μ is touched, which is private: the claim is about outputs only.
use crate::order_statistics::indices_of;
use dpopt_noise::parts::{Fixed, L, LEVELS, PER_SIGMA, tail_probabilities};
use dpopt_noise::{Geometric, RoundedGaussian, Stream};

/// The coordinates of a noisy vector that exceed a level, for many vectors with one noise.
///
/// ```
/// use dpopt_draws::Exceedances;
/// use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
/// // counts of ten million buckets, three of them touched by data, against 5 standard deviations of the noise
/// let level = Exceedances::new(RoundedGaussian::new(1.0, Grid::new(-10))?, 40).expect("40/8 = 5");
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Noise, 0);
/// let chosen = level.draw(10_000_000, &[(7, 20 << 10), (99, 1 << 10), (4_000_000, 0)], &mut stream);
/// assert!(chosen.contains(&7) && chosen.len() < 20); // 2.87 others are expected
/// # Ok::<(), dpopt_noise::NoiseScaleError>(())
/// ```
#[derive(Clone)]
pub struct Exceedances {
    noise: RoundedGaussian,
    eighths: u64,
    /// Least value, in grid steps, that exceeds the level: beyond it only points above the level are rounded to.
    least: i64,
    /// Untouched coordinates between two whose half-normal noise is above the level.
    gap: Geometric,
}

impl Exceedances {
    /// The level is `eighths`/8 standard deviations of `noise`, from 1 to 72 eighths; `None` beyond.
    pub fn new(noise: RoundedGaussian, eighths: u32) -> Option<Self> {
        let eighths = u64::from(eighths);
        if !(1..=LEVELS as u64).contains(&eighths) {
            return None;
        }
        let below = Fixed::<L>::integer(1).minus(&tail_probabilities()[eighths as usize]);
        let least = noise.units_at(eighths, PER_SIGMA) as i64 + 1;
        Some(Self { noise, eighths, least, gap: Geometric::from_ratio(below) })
    }

    /// The least value that exceeds the level, in grid steps.
    pub fn least(&self) -> i64 {
        self.least
    }

    /// Upper bound on the total-variation distance of one [`draw`](Self::draw) from the exact law: a rounded Gaussian, a gap
    /// and a conditional point per coordinate at most.
    pub fn total_variation(&self, dimension: u64) -> f64 {
        dimension as f64 * (self.noise.total_variation_per_sample() + 2f64.powi(-170))
    }

    /// The indices below `dimension` whose value exceeds the level, increasing; `touched` are the coordinates that are not
    /// zero before noise, by increasing index. Any superset of them may be given: the law does not depend on it.
    ///
    /// # Panics
    /// If the indices of `touched` are not increasing or not below `dimension`.
    pub fn draw(&self, dimension: u64, touched: &[(u64, i64)], stream: &mut Stream) -> Vec<u64> {
        assert!(touched.windows(2).all(|pair| pair[0].0 < pair[1].0), "indices increase");
        assert!(touched.last().is_none_or(|last| last.0 < dimension), "indices are below the dimension");
        let known: Vec<u64> = touched.iter().map(|entry| entry.0).collect();
        let mut chosen: Vec<u64> = touched
            .iter()
            .filter(|(_, mean)| mean.wrapping_add(self.noise.sample(stream)) >= self.least)
            .map(|entry| entry.0)
            .collect();
        // half-normal noise above the level; of those, the positive ones that round to a value above it
        let unknown = dimension - known.len() as u64;
        let (mut found, mut position) = (Vec::new(), 0);
        while let Some(skipped) = self.gap.sample_below(unknown - position, stream) {
            let size = self.noise.size_between(self.eighths, None, stream);
            if stream.coin() && size >= self.least {
                found.push(position + skipped);
            }
            position += skipped + 1;
        }
        indices_of(&mut found, &known);
        chosen.extend(found);
        chosen.sort_unstable();
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{Grid, NoiseSource, Purpose};

    fn level(eighths: u32, exponent: i32) -> Exceedances {
        Exceedances::new(RoundedGaussian::new(1.0, Grid::new(exponent)).unwrap(), eighths).unwrap()
    }

    #[test]
    fn false_positives_have_the_published_frequency() {
        // c·Φ̄(x) for ten million buckets: 317 at 4, 2.87 at 5, .0099 at 6; mean of n draws within 6.2 standard deviations
        // (false alarm 6e-10 each)
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        for (eighths, expected, draws) in [(32, 316.712_418, 400), (40, 2.866_516, 4_000), (48, 0.009_865_877, 60_000)]
        {
            let level = level(eighths, -20);
            let total: usize = (0..draws).map(|_| level.draw(10_000_000, &[], &mut stream).len()).sum();
            let mean = total as f64 / f64::from(draws);
            let deviation = (expected / f64::from(draws)).sqrt();
            assert!((mean - expected).abs() < 6.2 * deviation, "{eighths}: {mean}, not {expected}");
        }
    }

    #[test]
    fn the_law_is_that_of_the_dense_comparison() {
        // a coarse grid, so that rounding at the level matters; mean and variance of the number, and every coordinate's own
        // frequency, against 60 000 dense draws; 14 comparisons at 6 standard deviations: false alarm 3e-8
        let (dimension, n) = (12u64, 60_000);
        for (eighths, exponent, touched) in
            [(9, 0, vec![(3, 2), (8, -1)]), (1, -1, vec![(0, 0), (11, 5)]), (17, -6, vec![(5, 100)])]
        {
            let level = level(eighths, exponent);
            let mut stream = NoiseSource::insecure(u64::from(eighths)).stream(Purpose::Audit, 1);
            let mut mean = vec![0i64; dimension as usize];
            touched.iter().for_each(|&(j, value)| mean[j as usize] = value);
            let mut tallies = [[0.0; 14]; 2];
            for _ in 0..n {
                let lazy = level.draw(dimension, &touched, &mut stream);
                assert!(lazy.is_sorted_by(|a, b| a < b));
                let dense: Vec<u64> = (0..dimension)
                    .filter(|&j| mean[j as usize] + level.noise.sample(&mut stream) >= level.least)
                    .collect();
                for (tally, chosen) in tallies.iter_mut().zip([lazy, dense]) {
                    chosen.iter().for_each(|&j| tally[j as usize] += 1.0);
                    tally[12] += chosen.len() as f64;
                    tally[13] += (chosen.len() as f64).powi(2);
                }
            }
            for (k, (a, b)) in tallies[0].iter().zip(&tallies[1]).enumerate() {
                // a coordinate's indicator has variance below 1/4; counts are below 12
                let variance = [0.25, 12.0, 12.0 * 144.0][k.saturating_sub(11).min(2)];
                let deviation = (2.0 * f64::from(n) * variance).sqrt();
                assert!((a - b).abs() < 6.0 * deviation, "{eighths} {k}: {a} {b}");
            }
        }
    }

    #[test]
    fn levels_out_of_range_are_refused() {
        let noise = RoundedGaussian::new(1.0, Grid::new(-4)).unwrap();
        assert!(Exceedances::new(noise.clone(), 0).is_none());
        assert!(Exceedances::new(noise.clone(), 73).is_none());
        assert_eq!(Exceedances::new(noise, 40).unwrap().least(), 5 * 16 + 1);
    }
}
