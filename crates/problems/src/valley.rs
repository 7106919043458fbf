//! A valley that narrows again and again: where noise that has heated a walker keeps it from going on (docs/decisions/0031-where-spider-wins.md).
//!
//! z = (x, y), x ∈ R along the floor and y ∈ R^(d−1) across it, q = ‖y‖²:
//! F(z) = f(x) + (M/4)·q + (M/4)·a·w²·cos φ·q/(w² + q), −f′ = g, w = λg/M, φ′ = k/w.
//! Where cos φ grows, the valley narrows within πw/k, and what is hot is pushed back by −∂ₓ: where that force exceeds g, descent stops. A plain valley has the wall
//! (M/2)·q and no gates.

use crate::draws::Draws;
use dpopt_objective::objective::{Facts, Gradient, Objective, Point};
use std::convert::Infallible;

/// How the floor falls, from x = 0 on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floor {
    /// g = g₀/(1 + x/x₀), f = −g₀x₀·ln(1 + x/x₀): each factor of the slope has the same energy g₀x₀, and there is no end.
    Logarithmic {
        /// g₀: slope of the floor at its start.
        slope: f64,
        /// x₀: distance at which the slope has halved.
        length: f64,
    },
    /// g = g₀·e^(−x/R), f = g₀R·e^(−x/R).
    Exponential {
        /// g₀: slope of the floor at its start.
        slope: f64,
        /// R: distance in which the slope falls by a factor of e.
        length: f64,
    },
}

/// The gates across a floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gates {
    /// λ: width w of the valley over g/M.
    pub width: f64,
    /// a < 1: how much curvature a gate adds or takes.
    pub depth: f64,
    /// k: φ′·w, turns of the gates' phase per width of the valley.
    pub turn: f64,
}

/// The floor and its slope at one place x.
struct Place {
    fall: f64,
    slope: f64,
    /// dg/dx: change of the slope along the floor.
    bend: f64,
    /// ∫(M/λg) dx: phase of the gates.
    turns: f64,
}

impl Floor {
    /// (g₀, x₀ or R).
    fn scales(self) -> (f64, f64) {
        match self {
            Self::Logarithmic { slope, length } | Self::Exponential { slope, length } => (slope, length),
        }
    }

    fn at(self, x: f64) -> Place {
        let (g0, length) = self.scales();
        // beyond these the floor is a straight slope
        let (least, most) = match self {
            Self::Logarithmic { .. } => (-0.5, 1e12),
            Self::Exponential { .. } => (-1.0, 300.0),
        };
        let t = x / length;
        let s = t.clamp(least, most);
        let (fall, slope, bend, turns) = match self {
            Self::Logarithmic { .. } => {
                let u = 1.0 + s;
                (-g0 * length * libm::log(u), g0 / u, -g0 / (length * u * u), length * u * u / (2.0 * g0))
            }
            Self::Exponential { .. } => {
                let e = libm::exp(s);
                (g0 * length / e, g0 / e, -g0 / (length * e), length * e / g0)
            }
        };
        if s == t {
            return Place { fall, slope, bend, turns };
        }
        let beyond = (t - s) * length;
        Place { fall: fall - slope * beyond, slope, bend: 0.0, turns: turns + beyond / slope }
    }
}

/// A valley in d dimensions, of curvature at most M.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Valley {
    floor: Floor,
    gates: Option<Gates>,
    smoothness: f64,
    dimension: usize,
}

/// One of the records whose mean loss is F: (1 + κ)F(z) + ⟨ζ, z⟩.
#[derive(Clone, Debug, PartialEq)]
pub struct Pull {
    /// κ: the record's loss has 1 + κ times F.
    pub scale: f64,
    /// ζ: slope that the record adds, d numbers.
    pub along: Vec<f64>,
}

/// ‖ζ‖ of every record.
const PULL: f64 = 0.95;

impl Valley {
    /// A valley with a quadratic wall, M = 1.
    pub fn plain(floor: Floor, dimension: usize) -> Self {
        Self { floor, gates: None, smoothness: 1.0, dimension }
    }

    /// With gates of width λ, depth .9 and turn 2, M = 1.
    pub fn gated(floor: Floor, width: f64, dimension: usize) -> Self {
        Self { gates: Some(Gates { width, depth: 0.9, turn: 2.0 }), ..Self::plain(floor, dimension) }
    }

    /// g₀ = .018, x₀ = .55.
    pub fn logarithmic() -> Floor {
        Floor::Logarithmic { slope: 0.018, length: 0.55 }
    }

    /// g₀ = .01, R = .3.
    pub fn exponential() -> Floor {
        Floor::Exponential { slope: 0.01, length: 0.3 }
    }

    /// d: number of coordinates.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// M: bound on the curvature of F.
    pub fn smoothness(&self) -> f64 {
        self.smoothness
    }

    /// G: bound on the gradients of the [records](Self::records), where ‖∇F‖·(1 + |κ|) is at most .05.
    pub fn lipschitz(&self) -> f64 {
        1.0
    }

    /// How far F falls on the floor from z = 0 to x: for x = ∞ the whole Δ, which a logarithmic floor has not.
    pub fn drop_to(&self, x: f64) -> f64 {
        match self.floor {
            Floor::Exponential { slope, length } if x == f64::INFINITY => slope * length,
            Floor::Logarithmic { .. } if x == f64::INFINITY => f64::INFINITY,
            floor => floor.at(0.0).fall - floor.at(x).fall,
        }
    }

    /// Slope at which descent with noise c = z·G√d/n of one release is held up by the gates, in the mean: the force (M/4)akws of a walker with ‖y‖² = uw², s = u/(1 + u),
    /// is g, and ‖y‖² = Sc²/M after the time S = ηT on the way. None without gates.
    pub fn stuck_slope(&self, c: f64) -> Option<f64> {
        let Gates { width, depth, turn } = self.gates?;
        let s = 4.0 / (depth * turn * width);
        if s >= 1.0 {
            return None;
        }
        let wide = s / (1.0 - s) * width * width;
        let (g0, length) = self.floor.scales();
        let m = self.smoothness;
        Some(match self.floor {
            // S = g₀x₀/(2g²)
            Floor::Logarithmic { .. } => (m * g0 * length * c * c / (2.0 * wide)).powf(0.25),
            // S = R/g
            Floor::Exponential { .. } => (m * length * c * c / wide).cbrt(),
        })
    }

    /// F and its derivatives by x and, over y, by y, where ‖y‖² = `across`. For simulations that keep y by its norm.
    pub fn parts(&self, x: f64, across: f64) -> (f64, f64, f64) {
        let place = self.floor.at(x);
        let (m, q) = (self.smoothness, across);
        let Some(Gates { width, depth, turn }) = self.gates else {
            return (place.fall + 0.5 * m * q, -place.slope, m);
        };
        let w = width * place.slope / m;
        let (bend, phase) = (width * place.bend / m, turn * m / width * place.turns);
        let u = q / (w * w);
        let (s, flat) = (u / (1.0 + u), 1.0 / ((1.0 + u) * (1.0 + u)));
        let (cos, sin) = (libm::cos(phase), libm::sin(phase));
        let value = place.fall + 0.25 * m * (q + depth * w * w * cos * s);
        let along = -place.slope + 0.25 * m * depth * (2.0 * w * bend * s * s * cos - w * turn * sin * s);
        (value, along, 0.5 * m * (1.0 + depth * cos * flat))
    }

    /// Value F(z) at `z` of length d.
    pub fn value(&self, z: &[f64]) -> f64 {
        self.parts(z[0], squared(&z[1..])).0
    }

    /// ∇F(z) into `gradient`. `z`, `gradient`: d.
    pub fn gradient(&self, z: &[f64], gradient: &mut [f64]) {
        let (_, along, curvature) = self.parts(z[0], squared(&z[1..]));
        gradient[0] = along;
        gradient[1..].iter_mut().zip(&z[1..]).for_each(|(g, y)| *g = curvature * y);
    }

    /// Norm ‖∇F(z)‖ of the gradient at `z` of length d.
    pub fn slope(&self, z: &[f64]) -> f64 {
        let q = squared(&z[1..]);
        let (_, along, curvature) = self.parts(z[0], q);
        (along * along + curvature * curvature * q).sqrt()
    }

    /// `count` records whose mean loss is F, with ‖ζ‖ = .95 in random directions, two and two opposite, and κ = ±`scale`. What four does not divide has neither.
    pub fn records(&self, count: usize, scale: f64, seed: u64) -> Vec<Pull> {
        let mut draws = Draws::from_seed(seed);
        let mut all = Vec::with_capacity(count);
        while all.len() + 4 <= count {
            for scale in [scale, -scale] {
                let mut along: Vec<f64> = (0..self.dimension).map(|_| draws.normal()).collect();
                let length = squared(&along).sqrt();
                along.iter_mut().for_each(|v| *v *= PULL / length);
                let opposite = along.iter().map(|v| -v).collect();
                all.extend([Pull { scale, along }, Pull { scale, along: opposite }]);
            }
        }
        all.resize(count, Pull { scale: 0.0, along: vec![0.0; self.dimension] });
        all
    }
}

fn squared(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum()
}

impl Objective<Vec<Pull>> for Valley {
    type Scratch = (Vec<f64>, Vec<f64>);

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn value(&self, z: &[f64], records: &Vec<Pull>, i: usize, _: &mut Self::Scratch) -> Result<f64, Infallible> {
        let Pull { scale, along } = &records[i];
        Ok((1.0 + scale) * Self::value(self, z) + along.iter().zip(z).map(|(a, z)| a * z).sum::<f64>())
    }

    fn gradient<'a>(
        &self,
        z: &mut impl Point,
        records: &'a Vec<Pull>,
        i: usize,
        (point, gradient): &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, Infallible> {
        let Pull { scale, along } = &records[i];
        gradient.resize(self.dimension, 0.0);
        Self::gradient(self, z.whole(self.dimension, point), gradient);
        gradient.iter_mut().zip(along).for_each(|(g, a)| *g = (1.0 + scale) * *g + a);
        Ok(Gradient::Dense(gradient))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valleys(dimension: usize) -> [Valley; 5] {
        [
            Valley::gated(Valley::logarithmic(), 12.0, dimension),
            Valley::gated(Valley::exponential(), 12.0, dimension),
            Valley::gated(Valley::logarithmic(), 6.0, dimension),
            Valley::plain(Valley::logarithmic(), dimension),
            Valley::plain(Valley::exponential(), dimension),
        ]
    }

    /// Along the floor from behind the start, and across it by up to some widths.
    fn points(valley: &Valley, count: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut draws = Draws::from_seed(seed);
        (0..count)
            .map(|_| {
                let x = -1.0 + 4.0 * draws.uniform();
                let width = 0.5 * valley.floor.at(x).slope * 12.0 * draws.uniform();
                let mut z = vec![x];
                z.extend((1..valley.dimension).map(|_| width * draws.normal()));
                z
            })
            .collect()
    }

    #[test]
    fn gradients_are_the_derivatives_of_the_values() {
        for valley in valleys(5) {
            let mut gradient = vec![0.0; 5];
            for z in points(&valley, 200, 3) {
                valley.gradient(&z, &mut gradient);
                for j in 0..5 {
                    let moved = |h: f64| {
                        let mut y = z.clone();
                        y[j] += h;
                        valley.value(&y)
                    };
                    let slope = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    assert!((slope - gradient[j]).abs() < 2e-6 * (1.0 + gradient[j].abs()), "{slope} {}", gradient[j]);
                }
                assert!((valley.slope(&z) - squared(&gradient).sqrt()).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn gradients_change_by_at_most_m_times_the_way() {
        let mut largest = 0.0f64;
        for valley in valleys(5) {
            let (mut here, mut there) = (vec![0.0; 5], vec![0.0; 5]);
            let mut draws = Draws::from_seed(8);
            for z in points(&valley, 4000, 7) {
                let mut step: Vec<f64> = (0..5).map(|_| draws.normal()).collect();
                let length = squared(&step).sqrt();
                step.iter_mut().for_each(|v| *v *= 1e-6 / length);
                let moved: Vec<f64> = z.iter().zip(&step).map(|(z, v)| z + v).collect();
                valley.gradient(&z, &mut here);
                valley.gradient(&moved, &mut there);
                let change = here.iter().zip(&there).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / 1e-6;
                assert!(change <= valley.smoothness() * (1.0 + 1e-6), "{valley:?} {z:?} {change}");
                largest = largest.max(if valley.gates.is_some() { change } else { 0.0 });
            }
        }
        // largest eigenvalue found: .949
        assert!(largest > 0.8, "{largest}");
    }

    #[test]
    fn records_have_the_valley_as_mean_and_bounded_gradients() {
        for (valley, scale) in
            [(Valley::gated(Valley::logarithmic(), 12.0, 7), 0.5), (Valley::plain(Valley::exponential(), 7), 0.0)]
        {
            for count in [12, 15] {
                let records = valley.records(count, scale, 5);
                assert_eq!(records.len(), count);
                let z = [0.2, 0.003, -0.002, 0.01, 0.0, 0.004, -0.001];
                let (mut mean, mut expected) = ([0.0; 7], [0.0; 7]);
                valley.gradient(&z, &mut expected);
                let mut value = 0.0;
                for i in 0..count {
                    let mut scratch = Default::default();
                    let Ok(own) = Objective::value(&valley, &z, &records, i, &mut scratch);
                    value += own / count as f64;
                    let Ok(gradient) = Objective::gradient(&valley, &mut &z[..], &records, i, &mut scratch);
                    let mut one = [0.0; 7];
                    gradient.add_to(&mut one);
                    assert!(squared(&one).sqrt() <= valley.lipschitz());
                    mean.iter_mut().zip(one).for_each(|(m, g)| *m += g / count as f64);
                }
                assert!((value - valley.value(&z)).abs() < 1e-15);
                assert!(mean.iter().zip(expected).all(|(m, g)| (m - g).abs() < 1e-15));
            }
        }
    }

    #[test]
    fn facts_are_those_of_the_decision() {
        let start = vec![0.0; 401];
        for (valley, slope) in [
            (Valley::gated(Valley::logarithmic(), 6.0, 401), 0.018),
            (Valley::gated(Valley::exponential(), 6.0, 401), 0.01),
        ] {
            assert!((valley.slope(&start) - slope).abs() < 1e-15);
        }
        let gated = |floor, width, d| Valley::gated(floor, width, d);
        assert!((gated(Valley::exponential(), 12.0, 101).drop_to(f64::INFINITY) - 0.003).abs() < 1e-15);
        // to x = 10⁴x₀: .091
        assert!((gated(Valley::logarithmic(), 12.0, 101).drop_to(5500.0) - 0.0912).abs() < 1e-4);
        // c = 2G√d/(nμ) with μ(1, 1e-6) = .236704: (MBc²/42)^(1/4) = .0051, .0016, .00051 for n = 1e5, 1e6, 1e7
        for (n, published) in [(1e5, 0.0051), (1e6, 0.0016), (1e7, 0.00051)] {
            let c = 2.0 * 401f64.sqrt() / (n * 0.236_704);
            let stuck = gated(Valley::logarithmic(), 6.0, 401).stuck_slope(c).unwrap();
            assert!((stuck / published - 1.0).abs() < 0.012, "{n} {stuck}");
        }
        // 65 in the place of 42 for λ = 12; g³ = Rc²/21 for the exponential floor
        let c = 1e-3f64;
        let wide = gated(Valley::logarithmic(), 12.0, 101).stuck_slope(c).unwrap();
        assert!((0.0099 * c * c / wide.powi(4) - 65.0).abs() < 0.5);
        let exponential = gated(Valley::exponential(), 6.0, 101).stuck_slope(c).unwrap();
        assert!((0.3 * c * c / exponential.powi(3) - 21.0).abs() < 0.3);
        assert_eq!(Valley::plain(Valley::logarithmic(), 3).stuck_slope(c), None);
    }

    #[test]
    fn it_is_not_convex_and_no_place_breaks_it() {
        let valley = Valley::gated(Valley::exponential(), 12.0, 3);
        // the curvature along the floor at y off its middle has both signs
        let curvature = |x: f64| {
            let along = |x: f64| valley.parts(x, 0.01).1;
            (along(x + 1e-6) - along(x - 1e-6)) / 2e-6
        };
        let all: Vec<f64> = (0..200).map(|i| curvature(f64::from(i) * 0.005)).collect();
        assert!(all.iter().any(|c| *c < -0.1) && all.iter().any(|c| *c > 0.1));
        for valley in valleys(3) {
            for x in [-1e9, -1.0, -0.275, 0.0, 1e3, 1e9, 1e12] {
                for y in [0.0, 1e-12, 1.0, 1e6] {
                    assert!(valley.value(&[x, y, 0.0]).is_finite() && valley.slope(&[x, y, 0.0]).is_finite());
                }
            }
        }
    }
}
