//! Randomness of the audits themselves: fast, seeded and reproducible. Never used for a release.
//!
//! Run `i` of an audit belongs to chunk `i / CHUNK`, and a chunk has its own ChaCha8 stream, so the outcome does not
//! depend on the number of threads.

use dpopt_noise::{NoiseSource, Purpose, Stream};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of test randomness.
pub struct Draws {
    bits: ChaCha8Rng,
    spare: Option<f64>,
    noise: Option<Stream>,
}

impl Draws {
    /// Stream `stream` of `seed`; different streams are independent.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut bits = ChaCha8Rng::seed_from_u64(seed);
        bits.set_stream(stream);
        Self { bits, spare: None, noise: None }
    }

    /// 64 random bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.bits.next_u64()
    }

    /// A stream of the library's own noise generator (insecure seed), for audits of the library's samplers.
    pub fn noise(&mut self) -> &mut Stream {
        let bits = &mut self.bits;
        self.noise.get_or_insert_with(|| NoiseSource::insecure(bits.next_u64()).stream(Purpose::Audit, 0))
    }

    /// Uniform on (0, 1), 53 bits, never 0 or 1.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability p.
    #[inline]
    pub fn coin(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Uniform on 0..n.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        // 64-bit multiply-shift: bias below n/2^64
        ((u128::from(self.word()) * n as u128) >> 64) as usize
    }

    /// N(0, 1) (Marsaglia's polar method).
    #[inline]
    pub fn gaussian(&mut self) -> f64 {
        if let Some(z) = self.spare.take() {
            return z;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// Exponential with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Laplace with scale b.
    #[inline]
    pub fn laplace(&mut self, b: f64) -> f64 {
        let u = self.uniform();
        if u < 0.5 { b * (2.0 * u).ln() } else { -b * (2.0 - 2.0 * u).ln() }
    }

    /// Gumbel with scale b.
    #[inline]
    pub fn gumbel(&mut self, b: f64) -> f64 {
        -b * self.exponential().ln()
    }

    /// A random order of 0..n.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::laws::ks_p_value;
    use dpopt_privacy::special::normal_cdf;

    #[test]
    fn laws_are_the_stated_ones() {
        // four tests, false alarm at most 1e-6 each
        let mut draws = Draws::new(1, 2);
        let n = 100_000;
        let mut check = |name: &str, draw: &mut dyn FnMut(&mut Draws) -> f64, cdf: &dyn Fn(f64) -> f64| {
            let mut sample: Vec<f64> = (0..n).map(|_| draw(&mut draws)).collect();
            let p = ks_p_value(&mut sample, cdf);
            assert!(p > 1e-6, "{name}: {p}");
        };
        check("gaussian", &mut |d| d.gaussian(), &normal_cdf);
        check("laplace", &mut |d| d.laplace(2.0), &|x| {
            if x < 0.0 { 0.5 * (x / 2.0).exp() } else { 1.0 - 0.5 * (-x / 2.0).exp() }
        });
        check("gumbel", &mut |d| d.gumbel(1.0), &|x| (-(-x).exp()).exp());
        check("uniform", &mut |d| d.uniform(), &|x| x.clamp(0.0, 1.0));
    }

    #[test]
    fn streams_repeat_and_differ() {
        let first: Vec<u64> = (0..4).map(|s| Draws::new(5, s).word()).collect();
        assert_eq!(first, (0..4).map(|s| Draws::new(5, s).word()).collect::<Vec<_>>());
        assert!(first.windows(2).all(|w| w[0] != w[1]));
        let mut order = Draws::new(5, 9).permutation(50);
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
