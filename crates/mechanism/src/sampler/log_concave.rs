//! Exact draws from log-concave densities on an interval, by rejection from a hat of three pieces (Devroye 1986, ch. VII):
//! flat around the mode, exponential beyond two points on either side, where concavity puts the chord above the density.

use dpopt_noise::Stream;

/// A density ∝ e^(ln_density) on [low, high] with its mode; either end may be infinite.
pub(crate) struct LogConcave<F> {
    ln_density: F,
    mode: f64,
    /// ln density at the mode.
    top: f64,
    left: Tail,
    right: Tail,
}

/// One side of the mode: flat until `reach`, then e^(−rate·t); `room` is the distance to the end of the interval.
#[derive(Clone, Copy, Debug)]
struct Tail {
    reach: f64,
    /// ln of the hat at `reach`, relative to the mode.
    height: f64,
    rate: f64,
    room: f64,
}

impl Tail {
    fn flat_mass(&self) -> f64 {
        self.reach
    }

    fn tail_mass(&self) -> f64 {
        let room = self.room - self.reach;
        if room <= 0.0 {
            return 0.0;
        }
        if self.rate == 0.0 {
            return self.height.exp() * room;
        }
        -(-self.rate * room).exp_m1() * self.height.exp() / self.rate
    }
}

impl<F: Fn(f64) -> f64> LogConcave<F> {
    /// `mode` maximises `ln_density` on [low, high] (to rounding), `width` is a guess of how far it takes to fall by 1.
    pub(crate) fn new(ln_density: F, (low, high): (f64, f64), mode: f64, width: f64) -> Self {
        let mode = mode.clamp(low, high);
        let top = ln_density(mode);
        let side = |sign: f64, room: f64| -> Tail {
            // a point where the density has fallen by between 0.5 and 2, if there is one
            let fall = |t: f64| top - ln_density(mode + sign * t);
            let (mut inside, mut outside, mut t) = (0.0, room, width.min(room));
            for _ in 0..200 {
                let f = fall(t);
                if f < 0.5 {
                    inside = t;
                    if t >= room {
                        break;
                    }
                    t = if outside.is_finite() && 2.0 * t >= outside { 0.5 * (t + outside) } else { 2.0 * t };
                    t = t.min(room);
                    if outside - inside <= 1e-12 * inside {
                        break;
                    }
                } else if f > 2.0 || f.is_nan() {
                    outside = t;
                    t = 0.5 * (inside + t);
                } else {
                    break;
                }
            }
            let f = fall(t);
            if t >= room || !(f > 0.0) || !f.is_finite() {
                // nothing to gain from a tail: flat to the end, or a fall within rounding of a jump
                return Tail { reach: room.min(outside), height: 0.0, rate: 0.0, room: room.min(outside) };
            }
            // beyond t the density is below the chord from the mode through t
            Tail { reach: t, height: -f, rate: f / t, room }
        };
        let (left, right) = (side(-1.0, mode - low), side(1.0, high - mode));
        Self { ln_density, mode, top, left, right }
    }

    pub(crate) fn sample(&self, stream: &mut Stream) -> f64 {
        let (l, r) = (self.left, self.right);
        let masses = [l.flat_mass(), l.tail_mass(), r.flat_mass(), r.tail_mass()];
        let all: f64 = masses.iter().sum();
        if !(all > 0.0) {
            return self.mode; // the interval is a point
        }
        loop {
            let mut u = stream.uniform() * all;
            let piece = masses.iter().position(|m| {
                u -= m;
                u < 0.0
            });
            let piece = piece.unwrap_or(2);
            let (tail, sign) = if piece < 2 { (l, -1.0) } else { (r, 1.0) };
            let (distance, hat) = if piece % 2 == 0 {
                (tail.reach * stream.uniform(), 0.0)
            } else {
                let room = tail.room - tail.reach;
                let beyond = if tail.rate == 0.0 {
                    room * stream.uniform()
                } else {
                    // exponential, truncated to the room by inversion
                    let share = -(-tail.rate * room).exp_m1();
                    -(-share * stream.uniform()).ln_1p() / tail.rate
                };
                (tail.reach + beyond.min(room), tail.height - tail.rate * beyond)
            };
            let x = self.mode + sign * distance;
            let behind = hat - ((self.ln_density)(x) - self.top);
            // the flat piece touches the density at the mode: rounding may put it a hair below
            if !behind.is_nan() && stream.bernoulli_exp(behind.max(0.0)) {
                return x;
            }
        }
    }
}

/// N(mean, std²) restricted to [low, high].
pub(crate) fn truncated_normal(mean: f64, std: f64, low: f64, high: f64, stream: &mut Stream) -> f64 {
    let (a, b) = ((low - mean) / std, (high - mean) / std);
    let mode = 0f64.clamp(a, b);
    // within one standard deviation of the middle, or e-fold length of the tail
    let width = (1.0 / mode.abs()).min(1.5);
    let density = LogConcave::new(|z: f64| -0.5 * z * z, (a, b), mode, width);
    (mean + std * density.sample(stream)).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::laws::kolmogorov;
    use dpopt_noise::{NoiseSource, Purpose};
    use dpopt_privacy::special::{ln_normal_cdf, normal_cdf};

    #[test]
    fn truncated_normals_follow_their_law() {
        let mut stream = NoiseSource::insecure(5).stream(Purpose::Audit, 0);
        for (mean, std, low, high) in [
            (0.0, 1.0, -1.0, 2.0),
            (0.0, 1.0, -0.01, 0.01),
            (0.0, 1.0, 3.0, f64::INFINITY),
            (5.0, 0.1, -1.0, 1.0),
            (0.3, 2.0, f64::NEG_INFINITY, f64::INFINITY),
            (-40.0, 1.0, 0.0, 10.0),
            (0.0, 1.0, -0.2, 60.0),
        ] {
            // distribution function from the nearer tail, in logarithms
            let flip = mean < 0.5 * (low + high) && low > mean;
            let (a, b) = ((low - mean) / std, (high - mean) / std);
            let cdf = |x: f64| {
                let z = (x - mean) / std;
                let part = |from: f64, to: f64| {
                    let (from, to) = if flip { (-to, -from) } else { (from, to) };
                    let (f, t) = (ln_normal_cdf(from), ln_normal_cdf(to));
                    t + (-(f - t).exp()).ln_1p()
                };
                (part(a, z) - part(a, b)).exp()
            };
            let mut sample: Vec<f64> =
                (0..20_000).map(|_| truncated_normal(mean, std, low, high, &mut stream)).collect();
            assert!(sample.iter().all(|&x| x >= low && x <= high));
            kolmogorov(&mut sample, cdf);
        }
        assert!((normal_cdf(0.0) - 0.5).abs() < 1e-15);
    }

    #[test]
    fn a_density_with_a_corner_and_one_with_a_cut() {
        let mut stream = NoiseSource::insecure(6).stream(Purpose::Audit, 0);
        // e^(−3|x|): the mode is a corner, and the chord is the density itself
        let laplace = LogConcave::new(|x: f64| -3.0 * x.abs(), (-10.0, 10.0), 0.0, 1.0);
        let mut sample: Vec<f64> = (0..20_000).map(|_| laplace.sample(&mut stream)).collect();
        kolmogorov(&mut sample, |x| if x < 0.0 { 0.5 * (3.0 * x).exp() } else { 1.0 - 0.5 * (-3.0 * x).exp() });
        // x²e^(−x) on [0, 1.5]: the mode is the end
        let gamma = LogConcave::new(|x: f64| 2.0 * x.ln() - x, (0.0, 1.5), 1.5, 0.5);
        let mut sample: Vec<f64> = (0..20_000).map(|_| gamma.sample(&mut stream)).collect();
        let part = |x: f64| 2.0 - (x * x + 2.0 * x + 2.0) * (-x).exp();
        kolmogorov(&mut sample, |x| part(x) / part(1.5));
    }
}
