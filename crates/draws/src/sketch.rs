//! A random matrix of independent normal entries, rounded to a coarse grid, whose columns can be drawn again: a public
//! random projection that need not be kept in memory (docs/proofs/l1-recovery.md).
use dpopt_noise::{Grid, RoundedGaussian, Stream};

/// Entries are multiples of 2^-20: exact in an `f32` up to 8.
pub const SKETCH_EXPONENT: i32 = -20;

/// An m × d matrix with entries round(N(0, 1)·2^20)·2^-20, a pure function of a key of 256 bits. Column j depends on the key and j
/// only, so whoever has the value can draw any column any number of times. It is *public* randomness; it must be fresh
/// for each release, because later data may depend on it.
///
/// ```
/// use dpopt_draws::Sketch;
/// use dpopt_noise::{NoiseSource, Purpose};
/// let mut source = NoiseSource::insecure(1);
/// let sketch = Sketch::draw(3, &mut source.stream(Purpose::Sampling, 0))?;
/// let (mut a, mut b) = ([0i32; 3], [0i32; 3]);
/// sketch.column(1_000_000, &mut a);
/// sketch.column(1_000_000, &mut b);
/// assert_eq!(a, b);
/// # Ok::<(), dpopt_noise::NoiseScaleError>(())
/// ```
pub struct Sketch {
    key: [u8; 32],
    rows: usize,
    normal: RoundedGaussian,
}

impl Sketch {
    /// A fresh matrix with `rows` rows; its key is drawn from `stream`.
    ///
    /// # Errors
    /// Never for this scale; the type is that of the sampler.
    pub fn draw(rows: usize, stream: &mut Stream) -> Result<Self, dpopt_noise::NoiseScaleError> {
        let mut key = [0u8; 32];
        for part in key.chunks_exact_mut(8) {
            part.copy_from_slice(&stream.word().to_le_bytes());
        }
        Ok(Self { key, rows, normal: RoundedGaussian::new(1.0, Grid::new(SKETCH_EXPONENT))? })
    }

    /// Number m of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Column `index`, in units of 2^-20, into `out` (length m).
    pub fn column(&self, index: u64, out: &mut [i32]) {
        let mut hash = blake3::Hasher::new_keyed(&self.key);
        hash.update(&index.to_le_bytes());
        // a keyed counter stream: replayable, as a public matrix should be
        let mut stream = Stream::insecure(&mut hash.finalize().into());
        for entry in out {
            // beyond ±2^31 only from 2048 standard deviations on
            *entry = self.normal.sample(&mut stream).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_noise::{NoiseSource, Purpose};

    #[test]
    fn columns_are_normal_independent_and_fresh_for_each_sketch() {
        let mut source = NoiseSource::insecure(2);
        let (m, d) = (64usize, 2000u64);
        let one = Sketch::draw(m, &mut source.stream(Purpose::Sampling, 0)).unwrap();
        let other = Sketch::draw(m, &mut source.stream(Purpose::Sampling, 0)).unwrap();
        assert_eq!(one.rows(), m);
        let unit = 2f64.powi(SKETCH_EXPONENT);
        let column = |s: &Sketch, j: u64| {
            let mut units = vec![0i32; m];
            s.column(j, &mut units);
            units.iter().map(|&u| f64::from(u) * unit).collect::<Vec<f64>>()
        };
        let (mut square, mut neighbours, mut across) = (0.0, 0.0, 0.0);
        for j in 0..d {
            let (a, next, b) = (column(&one, j), column(&one, j + 1), column(&other, j));
            square += a.iter().map(|x| x * x).sum::<f64>();
            neighbours += a.iter().zip(&next).map(|(x, y)| x * y).sum::<f64>();
            across += a.iter().zip(&b).map(|(x, y)| x * y).sum::<f64>();
        }
        let n = m as f64 * d as f64;
        // variances 2n and n: five and a half standard deviations, false alarm below 2e-7 in total
        assert!((square - n).abs() < 5.5 * (2.0 * n).sqrt(), "{square} {n}");
        assert!(neighbours.abs() < 5.5 * n.sqrt() && across.abs() < 5.5 * n.sqrt(), "{neighbours} {across}");
    }
}
