//! Half-normal noise that is known to lie between two of 72 levels (docs/proofs/largest-coordinates.md): its probability, and a draw.
//!
//! With it a vector's largest coordinates, or those above a level, are found without drawing the noise of the others.
use crate::fixed::{Fixed, Interval};
use crate::gaussian::RoundedGaussian;
use crate::geometric::{L, exp_minus};
use crate::lazy_uniform::LazyUniform;
use crate::stream::Stream;
use crate::ziggurat::{Point, over_eighths, table};
use std::sync::OnceLock;

/// Levels are 0, 1/8, 2/8, …, 9 standard deviations.
pub const LEVELS: usize = 72;
/// Levels to a standard deviation.
pub const PER_SIGMA: u64 = 8;

/// √(2/π)·2^384, rounded down; checked against Machin's formula for π.
const ROOT_TWO_OVER_PI: Fixed<L> = Fixed([
    0x47eb_a757_66e9_d11b,
    0x3bf1_58aa_88fa_7b6e,
    0x808e_3690_04c7_3a5d,
    0xa705_3e60_a24e_0db1,
    0x7e59_e280_5d5c_717f,
    0xcc42_299e_a1b2_8468,
    0,
]);

/// P(|N(0,1)| > j/8) for j = 0..=72, to within 2^-290: 1 − √(2/π)·e^(−x²/2)·Σ x^(2k+1)/(1·3·…·(2k+1)).
pub fn tail_probabilities() -> &'static [Fixed<L>] {
    static TABLE: OnceLock<Vec<Fixed<L>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        (0..=LEVELS as u64)
            .map(|j| {
                // all terms are positive, so the sum keeps its relative error, about 2^-360; it is below e^40.5·√(π/2) < 2^60
                let x = Fixed::<L>::integer(j).over_integer(PER_SIGMA);
                let mut term = x;
                let mut sum = Fixed::ZERO;
                for k in 1.. {
                    if term == Fixed::ZERO {
                        break;
                    }
                    sum = sum.plus(&term);
                    // divide first: the product could overflow
                    term = term.over_integer(PER_SIGMA * PER_SIGMA * (2 * k + 1)).times_integer(j * j);
                }
                // e^(−x²/2) is good to 2^-365, times 2^60
                let density = exp_minus(&x.times_down(&x).half()).times_down(&ROOT_TWO_OVER_PI);
                Fixed::integer(1).minus(&density.times_down(&sum))
            })
            .collect()
    })
}

impl RoundedGaussian {
    /// The size of a sample given that the noise, before it is rounded, is above `low`/8 and at most `high`/8 standard
    /// deviations; `None` stands for no upper level.
    pub fn size_between(&self, low: u64, high: Option<u64>, stream: &mut Stream) -> i64 {
        self.round_point(&mut between(low, high, stream), stream)
    }
}

/// A half-normal point given low/8 < x (≤ high/8); undecided comparisons (probability below 2^-180) reject.
fn between(low: u64, high: Option<u64>, stream: &mut Stream) -> Point {
    loop {
        let mut point = if low < PER_SIGMA {
            let mut point = table().signed(stream).0;
            if !beyond(&mut point, low, stream) {
                continue;
            }
            point
        } else {
            // x = l + E1/l, kept iff E2 > a²/2: the envelope e^(−l·a) touches the tail at l
            let (mut u1, mut u2) = (LazyUniform::new(), LazyUniform::new());
            let kept = match envelope_kept::<4>(low, &mut u1, &mut u2, stream) {
                Some(decided) => decided,
                None => envelope_kept::<6>(low, &mut u1, &mut u2, stream).unwrap_or(false),
            };
            if !kept {
                continue;
            }
            Point::Beyond { eighths: low, u: u1 }
        };
        if high.is_none_or(|high| !beyond(&mut point, high, stream)) {
            return point;
        }
    }
}

/// Whether the point x lies above eighths/8.
fn beyond(point: &mut Point, eighths: u64, stream: &mut Stream) -> bool {
    fn decide<const M: usize>(x: &Interval<M>, eighths: u64) -> Option<bool> {
        Interval::point(Fixed::integer(eighths).over_integer(PER_SIGMA)).less_than(x)
    }
    let short = point.interval::<4>(stream);
    decide(&short, eighths).unwrap_or_else(|| decide(&point.interval::<6>(stream), eighths).unwrap_or(false))
}

fn envelope_kept<const M: usize>(
    eighths: u64,
    u1: &mut LazyUniform,
    u2: &mut LazyUniform,
    stream: &mut Stream,
) -> Option<bool> {
    let a = over_eighths(&u1.exponential::<M>(stream), eighths);
    a.times(&a).half().less_than(&u2.exponential::<M>(stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_is_root_two_over_pi() {
        // Machin: π = 16·atan(1/5) − 4·atan(1/239); c²·π ≤ 2 < (c + 2 units)²·π up to the rounding of a few units
        let atan = |n: u64| {
            let mut power = Fixed::<L>::integer(1).over_integer(n);
            let mut sum = Fixed::<L>::ZERO;
            let mut k = 0;
            loop {
                let term = power.over_integer(2 * k + 1);
                if term == Fixed::ZERO {
                    break sum;
                }
                sum = if k % 2 == 0 { sum.plus(&term) } else { sum.minus(&term) };
                power = power.over_integer(n * n);
                k += 1;
            }
        };
        let pi = atan(5).times_integer(16).minus(&atan(239).times_integer(4));
        let product = ROOT_TWO_OVER_PI.times_down(&ROOT_TWO_OVER_PI).times_down(&pi);
        let two = Fixed::<L>::integer(2);
        let difference = two.minus(&product).plus(&product.minus(&two));
        assert!(difference < Fixed::ulps(1 << 14), "{difference:?}");
    }

    #[test]
    fn tails() {
        let tails = tail_probabilities();
        assert_eq!(tails[0], Fixed::integer(1));
        for (j, expected) in [
            (1, 0.900_523_550_339_774_2),
            (8, 0.317_310_507_862_914_1),
            (24, 2.699_796_063_260_189e-3),
            (48, 1.973_175_290_075_396_3e-9),
            (72, 2.257_176_811_907_681_3e-19),
        ] {
            let seen = tails[j].to_f64();
            assert!((seen / expected - 1.0).abs() < 1e-15, "{j}: {seen}");
        }
    }
}
