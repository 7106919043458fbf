//! Normal variables as fixed-point numbers: the accepted point of the ziggurat itself, not rounded to a grid
//! (docs/proofs/rounded-gaussian.md).
use crate::stream::Stream;
use crate::ziggurat::{WIDTH_BITS, table};

/// Fraction bits of a draw of [`WideNormal`].
pub const FRACTION_BITS: u32 = 112;

/// Normal variables as fixed-point numbers.
pub struct WideNormal {
    /// Ends of the cores and widths of the pieces, for the quick path.
    pieces: Box<[(u64, u64); 256]>,
}

impl Default for WideNormal {
    fn default() -> Self {
        Self::new()
    }
}

impl WideNormal {
    /// A sampler, with its tables read from the certified ziggurat.
    pub fn new() -> Self {
        let mut pieces = Box::new([(0, 0); 256]);
        for (slot, piece) in pieces.iter_mut().zip(table().cores_and_widths()) {
            *slot = piece;
        }
        Self { pieces }
    }

    /// A standard normal variable in units of 2^-112, at most one unit off the exact one (but with probability 2^-180).
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> i128 {
        let (negative, size) = self.sign_and_size(stream);
        if negative { -(size as i128) } else { size as i128 }
    }

    /// A standard normal variable in units of 2^-112: whether it is negative, and its size, below 2^117.
    ///
    /// In a core (98.5%) the point is W·u with 119 digits of u: 2^-117 off, then cut to a unit.
    #[inline]
    pub fn sign_and_size(&self, stream: &mut Stream) -> (bool, u128) {
        let word = stream.word();
        let (core, width) = self.pieces[(word & 255) as usize];
        if word < core {
            let (w, u1, u0) = (u128::from(width), u128::from(word >> 9), u128::from(stream.word()));
            // W·u in units of 2^-(61 + 119), of which 112 fraction bits stay
            return (word >> 8 & 1 == 1, (w * u1 + ((w * u0) >> 64)) >> (WIDTH_BITS + 55 - FRACTION_BITS));
        }
        self.outside(word, stream)
    }

    #[cold]
    fn outside(&self, word: u64, stream: &mut Stream) -> (bool, u128) {
        let (mut point, negative) = match table().point(word, stream) {
            Some(point) => (point, word >> 8 & 1 == 1),
            None => table().signed(stream),
        };
        let x = point.interval::<4>(stream).low; // 192 fraction bits, digits known to 2^-125 and better
        (negative, u128::from(x.0[3]) << 112 | u128::from(x.0[2]) << 48 | u128::from(x.0[1] >> 16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

    #[test]
    fn quick_and_exact_points_agree() {
        // the same digits through the interval arithmetic of the exact path
        let normal = WideNormal::new();
        let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
        for _ in 0..20_000 {
            let (word, low) = (stream.word(), stream.word());
            let (core, width) = normal.pieces[(word & 255) as usize];
            if word >= core {
                continue;
            }
            let quick =
                (u128::from(width) * u128::from(word >> 9) + ((u128::from(width) * u128::from(low)) >> 64)) >> 4;
            let u = crate::fixed::Fixed::<4>([0, low << 9, word >> 9 << 9 | low >> 55, 0]);
            let x = u.times_integer(width).shifted_right(WIDTH_BITS);
            let exact = u128::from(x.0[3]) << 112 | u128::from(x.0[2]) << 48 | u128::from(x.0[1] >> 16);
            assert!(quick.abs_diff(exact) <= 1, "{quick} {exact}");
        }
    }

    #[test]
    fn moments_and_tails() {
        let normal = WideNormal::new();
        let mut stream = NoiseSource::insecure(2).stream(Purpose::Audit, 0);
        let n = 1_000_000;
        let (mut sums, mut beyond) = ([0.0; 4], 0.0);
        for _ in 0..n {
            let x = normal.sample(&mut stream) as f64 * 2f64.powi(-112);
            for (k, sum) in sums.iter_mut().enumerate() {
                *sum += x.powi(k as i32 + 1);
            }
            beyond += f64::from(u8::from(x.abs() > 3.0));
        }
        // 5 standard deviations each: false alarm 6e-7; variances of x, x², x³, x⁴: 1, 2, 15, 96
        for ((sum, expected), variance) in sums.iter().zip([0.0, 1.0, 0.0, 3.0]).zip([1.0f64, 2.0, 15.0, 96.0]) {
            assert!((sum / n as f64 - expected).abs() < 5.0 * (variance / n as f64).sqrt(), "{sums:?}");
        }
        let p = 2.699_796_063_260_19e-3;
        assert!((beyond - n as f64 * p).abs() < 5.0 * (n as f64 * p).sqrt(), "{beyond}");
    }
}
