//! How the width of prediction intervals is searched: which widths, how many noisy sums, for which share of the budget, and by how much a sum has to be above 0
//! (docs/proofs/prediction-intervals.md).

use dpopt_objective::objective::Coverage;

/// That half the width of prediction intervals is found by a few noisy sums after the method has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervals {
    level: f64,
    declared: bool,
    /// Share of μ² that the sums may spend.
    share: f64,
    /// What the method and what comes after it may spend, as μ of Gaussian differential privacy.
    mu: f64,
}

/// Half widths that are looked at: 256, the widest 2, which holds every target in [−1, 1].
const WIDTHS: u32 = 1 << Intervals::ROUNDS;
/// The widest over the narrowest, as a power of two: neighbours are 3.3 % apart.
const OCTAVES: f64 = 12.0;
/// c: noise of a sum, in standard deviations, beyond which it is made up for on average and not every time.
const CUT: f64 = 1.15;
/// E(N − c)₊ of a standard normal N, rounded up: φ(c) − c(1 − Φ(c)) = .06212.
const BEYOND_CUT: f64 = 0.0622;
/// Standard deviations of noise that a sum has to be above 0, so that after all rounds the share of targets that is held is the level or more on average.
const MARGIN: f64 = CUT + Intervals::ROUNDS as f64 * BEYOND_CUT;
/// Part of the targets that may be missed by which intervals are made wider for noise: what shares of the budget are chosen for.
const USUAL: f64 = 0.25;
/// The largest such part.
const MOST: f64 = 0.5;

impl Intervals {
    /// Sums, each over all records.
    pub const ROUNDS: u64 = 8;
    /// Shares of μ²: the first that is enough for so many records is taken.
    pub const SHARES: [f64; 4] = [0.02, 0.05, 0.1, Self::LARGEST_SHARE];
    /// The largest share.
    pub const LARGEST_SHARE: f64 = 0.2;

    /// Intervals at `level` for `share` of `mu` squared. `declared`: every target lies in the declared range; otherwise one at an end may have been cut.
    pub fn new(level: f64, declared: bool, share: f64, mu: f64) -> Self {
        Self { level, declared, share, mu }
    }

    /// Share of targets that are to be held.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Whether every target lies in the declared range.
    pub fn declared(&self) -> bool {
        self.declared
    }

    /// Share of μ² that the sums may spend.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Bound on what a record adds to a sum.
    pub fn clip_norm(&self) -> f64 {
        Coverage::most(self.level)
    }

    /// Half width number `at`, in halves of the target's range.
    pub fn half_width(at: u32) -> f64 {
        let below = f64::from(WIDTHS - 1 - at.min(WIDTHS - 1)) / f64::from(WIDTHS - 1);
        2.0 * (-OCTAVES * below).exp2()
    }

    /// Number of the widest.
    pub fn widest() -> u32 {
        WIDTHS - 1
    }

    /// Noise multiplier of each sum, where a neighbour moves it by `sensitivity` times the bound.
    pub fn noise_multiplier(&self, sensitivity: f64) -> f64 {
        sensitivity / (self.mu * (self.share / Self::ROUNDS as f64).sqrt())
    }

    /// How far above 0 a noisy sum has to be.
    pub fn margin(&self, sensitivity: f64) -> f64 {
        MARGIN * self.noise_multiplier(sensitivity) * self.clip_norm()
    }

    /// The margin that shares of the budget are chosen for.
    pub fn usual_margin(&self, rows: u64) -> f64 {
        USUAL * (1.0 - self.level) * rows as f64
    }

    /// The least number of records with which intervals are of use.
    pub fn least_rows(&self, sensitivity: f64) -> u64 {
        (self.margin(sensitivity) / (MOST * (1.0 - self.level))).ceil() as u64
    }

    /// What of `mu` squared the sums take.
    pub fn taken_of(&self, mu: f64) -> f64 {
        self.share * mu.min(self.mu).powi(2)
    }

    /// What the sums cost, as gradients.
    pub fn gradients(&self, rows: u64) -> f64 {
        Self::ROUNDS as f64 * rows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_reach_from_a_4096th_of_the_range_to_all_of_it() {
        assert_eq!(Intervals::half_width(Intervals::widest()), 2.0);
        assert!((Intervals::half_width(0) - 2.0 / 4096.0).abs() < 1e-15);
        for at in 0..Intervals::widest() {
            let ratio = Intervals::half_width(at + 1) / Intervals::half_width(at);
            assert!((ratio - 2f64.powf(12.0 / 255.0)).abs() < 1e-12);
        }
    }

    /// The expected excess of a normal number over the cut, by quadrature: what the margin makes up for.
    #[test]
    fn the_margin_makes_up_for_noise_beyond_the_cut() {
        let (steps, to) = (200_000, 12.0);
        let step = (to - CUT) / f64::from(steps);
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let excess: f64 = (0..steps)
            .map(|i| {
                let x = CUT + (f64::from(i) + 0.5) * step;
                (x - CUT) * density(x) * step
            })
            .sum();
        assert!(excess <= BEYOND_CUT && excess > BEYOND_CUT - 2e-4, "{excess}");
    }

    #[test]
    fn twice_the_records_or_half_the_noise_are_enough() {
        let of = |share: f64, mu: f64| Intervals::new(0.9, true, share, mu);
        assert!((of(0.05, 1.0).noise_multiplier(1.0) - (8f64 / 0.05).sqrt()).abs() < 1e-12);
        assert_eq!(of(0.05, 1.0).noise_multiplier(2.0), 2.0 * of(0.05, 1.0).noise_multiplier(1.0));
        let rows = of(0.2, 0.12).least_rows(1.0);
        let with = of(0.2, 0.12);
        assert!(with.margin(1.0) <= MOST * (1.0 - 0.9) * rows as f64);
        assert!(with.margin(1.0) > MOST * (1.0 - 0.9) * (rows - 1) as f64);
        assert!((of(0.2, 0.24).least_rows(1.0) as f64 / rows as f64 - 0.5).abs() < 1e-2);
        assert_eq!(of(0.05, 0.5).taken_of(2.0), 0.05 * 0.25);
    }
}
