//! Floating-point draws for algorithms that need randomness but do not publish it as noise: starting points, proposals of
//! samplers, random directions. Exact laws on the grid 2^-44·Z.
//!
//! Never add one of these to a sensitive sum: floats leak through their low bits. Noise for releases is
//! [`RoundedGaussian`] and its kin.
use crate::gaussian::RoundedGaussian;
use crate::geometric::Geometric;
use crate::grid::Grid;
use crate::stream::Stream;
use crate::wide_normal::{FRACTION_BITS, WideNormal};
use std::sync::OnceLock;

/// Resolution of the draws: 2^-44.
const BITS: i32 = 44;

impl Stream {
    /// A standard normal number, a multiple of 2^-44.
    pub fn standard_normal(&mut self) -> f64 {
        normal().sample(self) as f64 * 2f64.powi(-BITS)
    }

    /// Fills `out` with independent standard normal numbers.
    pub fn fill_standard_normal(&mut self, out: &mut [f64]) {
        let normal = normal();
        for x in out {
            *x = normal.sample(self) as f64 * 2f64.powi(-BITS);
        }
    }

    /// A standard normal number as head + tail, a multiple of 2^-112 but for 106 significant bits: for chains whose own
    /// arithmetic must not show in their law. Within 2^-112 + 2^-105·|x| of an exact one, but with probability 2^-180.
    pub fn wide_standard_normal(&mut self) -> (f64, f64) {
        static NORMAL: OnceLock<WideNormal> = OnceLock::new();
        let units = NORMAL.get_or_init(WideNormal::new).sample(self);
        let head = units as f64;
        let tail = (units - head as i128) as f64;
        (head * 2f64.powi(-(FRACTION_BITS as i32)), tail * 2f64.powi(-(FRACTION_BITS as i32)))
    }

    /// A standard exponential number: odd multiple of 2^-45, never 0.
    pub fn standard_exponential(&mut self) -> f64 {
        static SIZE: OnceLock<Option<Geometric>> = OnceLock::new();
        let steps = SIZE.get_or_init(|| Geometric::new(2f64.powi(BITS)).ok()).as_ref().map_or(0, |g| g.sample(self));
        (steps as f64 + 0.5) * 2f64.powi(-BITS)
    }

    /// A standard Gumbel number −ln(E), E standard exponential.
    pub fn standard_gumbel(&mut self) -> f64 {
        -self.standard_exponential().ln()
    }

    /// A uniform number: midpoint of one of 2^52 equal cells of (0, 1); never 0 or 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.word() >> 12) as f64 + 0.5) * 2f64.powi(-52)
    }

    /// True with probability e^(−x), for x ≥ 0; the f64 x is taken exactly, the law is within 2^-180 of exact. Negative x
    /// count as 0, NaN as infinite: what has no number is not accepted.
    pub fn bernoulli_exp(&mut self, x: f64) -> bool {
        use crate::fixed::{Fixed, Interval};
        use crate::lazy_uniform::LazyUniform;
        if x <= 0.0 {
            return true;
        }
        if x.is_nan() || x > 2000.0 {
            return false; // e^-2000 < 2^-2885
        }
        // E > x, x rounded down and up to the resolution (exact for x ≥ 2^-75)
        fn bounds<const L: usize>(x: f64) -> Interval<L> {
            let (mantissa, exponent) = crate::grid::dyadic(x);
            if exponent >= 0 {
                return Interval::point(Fixed::integer(mantissa << exponent));
            }
            let unit = -exponent as usize;
            if unit <= Fixed::<L>::BITS {
                return Interval::point(Fixed::negative_power_of_two(unit).times_integer(mantissa));
            }
            // x < 2^53·2^-BITS-…: between 0 and 2^(53 - unit)
            Interval {
                low: Fixed::ZERO,
                high: Fixed::negative_power_of_two(unit.saturating_sub(54)).plus(&Fixed::ulps(1)),
            }
        }
        let mut u = LazyUniform::new();
        let short = u.exponential::<4>(self);
        match bounds::<4>(x).less_than(&short) {
            Some(decided) => decided,
            None => bounds::<6>(x).less_than(&u.exponential::<6>(self)).unwrap_or(true),
        }
    }
}

/// Standard normal numbers on the grid 2^-44·Z.
fn normal() -> &'static RoundedGaussian {
    static NORMAL: OnceLock<RoundedGaussian> = OnceLock::new();
    NORMAL.get_or_init(|| match RoundedGaussian::new(1.0, Grid::new(-BITS)) {
        Ok(normal) => normal,
        Err(_) => unreachable!("2^44 grid steps are within the sampler's range"),
    })
}

#[cfg(test)]
mod tests {
    use crate::tests::assert_multinomial;
    use crate::{NoiseSource, Purpose};

    #[test]
    fn laws() {
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        let n = 40_000;
        // each variable through its own distribution function: 16 equal cells
        let mut check = |mut draw: Box<dyn FnMut(&mut crate::Stream) -> f64>| {
            let mut counts = [0.0; 16];
            for _ in 0..n {
                let u = draw(&mut stream);
                assert!(u > 0.0 && u < 1.0);
                counts[(16.0 * u) as usize] += 1.0;
            }
            assert_multinomial(&counts, |_| 1.0 / 16.0);
        };
        check(Box::new(|s| s.uniform()));
        check(Box::new(|s| (-s.standard_exponential()).exp()));
        check(Box::new(|s| (-(-s.standard_gumbel()).exp()).exp()));
        // the squared length of two normals is exponential
        check(Box::new(|s| (-0.5 * (s.standard_normal().powi(2) + s.standard_normal().powi(2))).exp()));
    }

    #[test]
    fn wide_normals_are_normal_and_their_tails_are_roundings_of_the_heads() {
        let mut stream = NoiseSource::insecure(4).stream(Purpose::Audit, 0);
        let n = 40_000;
        let (mut counts, mut used) = ([0.0; 16], 0);
        for _ in 0..n {
            let ((a, ta), (b, tb)) = (stream.wide_standard_normal(), stream.wide_standard_normal());
            assert!(a + ta == a && b + tb == b);
            used += u32::from(ta != 0.0);
            counts[(16.0 * (-0.5 * (a * a + b * b)).exp()) as usize] += 1.0;
        }
        assert_multinomial(&counts, |_| 1.0 / 16.0);
        assert!(used > 39_000, "{used}");
    }

    #[test]
    fn coins_with_exponential_probability() {
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        for x in [0.1f64, 1.0, 3.0] {
            let heads = (0..40_000).filter(|_| stream.bernoulli_exp(x)).count() as f64;
            assert_multinomial(&[heads, 40_000.0 - heads], |i| if i == 0 { (-x).exp() } else { -(-x).exp_m1() });
        }
        assert!(stream.bernoulli_exp(0.0) && stream.bernoulli_exp(5e-324) && stream.bernoulli_exp(-1.0));
        assert!(!stream.bernoulli_exp(1e4));
        // a comparison that failed must not accept
        assert!(!stream.bernoulli_exp(f64::NAN) && !stream.bernoulli_exp(f64::INFINITY));
    }
}
