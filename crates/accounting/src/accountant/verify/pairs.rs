//! Connect-the-dots laws of single draws, every number enclosed: Gaussian, Poisson-sampled Gaussian and Laplace pairs.

use super::interval::{Interval, exactly, normal_mass};
use super::law::Law;

/// One order of the neighbours of one draw.
#[derive(Clone, Debug)]
pub(super) enum Pair {
    /// (1−q)·N(0,1) + q·N(μ,1) against N(0,1); the Gaussian mechanism at q = 1.
    Present { q: f64, mu: f64 },
    /// The absent record's side first: N(0,1) against (1−q)·N(0,1) + q·N(μ,1).
    Absent { q: f64, mu: f64 },
    /// Laplace laws at distance `shift` in units of the scale; the same in both orders.
    Laplace { shift: f64 },
}

/// P-mass from above and Q-mass from below of a cell of losses, the Q-mass as if losses below the cell were at its lower end.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    p: f64,
    q: f64,
}

/// Deviations beyond which no border is looked for; what lies there still counts.
const FAR: f64 = 60.0;

/// ln(1 − q + q·e^(μz − μ²/2)): the loss of presence at z.
fn loss(q: f64, mu: f64, z: f64) -> Interval {
    let x = exactly(mu) * exactly(z) - exactly(0.5) * exactly(mu) * exactly(mu);
    if q == 1.0 { x } else { (exactly(1.0) - exactly(q) + exactly(q) * x.exp()).ln() }
}

/// A z whose loss is certainly at most `wanted` and hardly less; −∞ where the loss exceeds `wanted` everywhere or nearly so. The
/// z found need not be trusted: its loss is enclosed afterwards.
fn position(q: f64, mu: f64, wanted: f64) -> f64 {
    let ratio = if q == 1.0 { wanted } else { ((wanted.exp() - (1.0 - q)) / q).ln() };
    let mut z = ratio / mu + 0.5 * mu;
    if !z.is_finite() || z < -FAR {
        return f64::NEG_INFINITY;
    }
    let mut stride = 4.0 * f64::EPSILON * (1.0 + z.abs());
    for _ in 0..80 {
        if loss(q, mu, z).hi <= wanted {
            return z;
        }
        z -= stride;
        stride *= 2.0;
    }
    f64::NEG_INFINITY
}

impl Pair {
    /// Cells of the lattice `first..=last` of spacing 2^exponent: below the first point, between points, above the last.
    fn cells(&self, first: i64, last: i64, exponent: i32) -> Vec<Cell> {
        let step = 2f64.powi(exponent);
        let at = |k: i64| k as f64 * step;
        match *self {
            Self::Present { q, mu } => {
                // borders at positions whose losses do not exceed their lattice points
                let z: Vec<f64> = (first..=last).map(|k| position(q, mu, at(k))).collect();
                let least = if q == 1.0 { f64::NEG_INFINITY } else { (exactly(1.0) - exactly(q)).ln().lo };
                let below = |k: usize| {
                    let reached = if z[k].is_infinite() { least } else { loss(q, mu, z[k]).lo };
                    short(at(first + k as i64), reached)
                };
                let cell = |low: f64, high: f64, lost: Interval| {
                    let (own, moved) = (normal_mass(low, high), normal_mass(low - mu, high - mu));
                    // z − μ is rounded: a tail may be larger by its density
                    let moved = widened(moved, low, high, mu);
                    Cell {
                        p: ((exactly(1.0) - exactly(q)) * own + exactly(q) * moved).hi.clamp(0.0, 1.0),
                        q: (own * lost).lo.max(0.0),
                    }
                };
                ends(&z, cell, below)
            }
            Self::Absent { q, mu } => {
                // the loss −ln(…) falls with z: the largest z first
                let z: Vec<f64> = (first..=last)
                    .map(|k| -> f64 {
                        // a position whose presence loss is at least −at(k): its own loss is at most at(k)
                        raised(q, mu, position(q, mu, -at(k)).max(-FAR), -at(k))
                    })
                    .collect();
                let below = |k: usize| {
                    let reached = if z[k].is_infinite() { f64::NEG_INFINITY } else { -loss(q, mu, z[k]).hi };
                    short(at(first + k as i64), reached)
                };
                // mirrored, so that losses grow from left to right
                let mirrored: Vec<f64> = z.iter().map(|z| -z).collect();
                let cell = |low: f64, high: f64, lost: Interval| {
                    let (a, b) = (-high, -low);
                    let (own, moved) = (normal_mass(a, b), normal_mass(a - mu, b - mu));
                    let moved = widened(moved, a, b, mu);
                    let mixed = (exactly(1.0) - exactly(q)) * own + exactly(q) * moved;
                    Cell { p: own.hi.clamp(0.0, 1.0), q: (mixed * lost).lo.max(0.0) }
                };
                ends(&mirrored, cell, below)
            }
            Self::Laplace { shift: s } => {
                let mut cells = vec![];
                let mut low = f64::NEG_INFINITY;
                for k in first..=last + 1 {
                    let high = if k > last { f64::INFINITY } else { at(k) };
                    let (a, b) = (low.clamp(-s, s), high.clamp(-s, s));
                    let half = exactly(0.5);
                    let grow = |x: f64| half * (half * (exactly(x) - exactly(s))).exp();
                    let fall = |x: f64| half * (-(half * (exactly(x) + exactly(s)))).exp();
                    // beyond the ends there is nothing, which a difference of enclosures would not know
                    let (mut p, mut q) = match a < b {
                        true => ((grow(b) - grow(a)).not_negative(), (fall(a) - fall(b)).not_negative()),
                        false => (exactly(0.0), exactly(0.0)),
                    };
                    let small = half * exactly(-s).exp();
                    if low < -s && high >= -s {
                        (p, q) = (p + small, q + half);
                    }
                    if low < s && high >= s {
                        (p, q) = (p + half, q + small);
                    }
                    cells.push(Cell { p: p.hi.min(1.0), q: q.lo.max(0.0) });
                    low = high;
                }
                cells
            }
        }
    }

    /// Losses between which all mass but about `negligible` lies. Only the size of the lattice depends on it.
    fn range(&self, negligible: f64) -> (f64, f64) {
        let z = (-2.0 * negligible.ln()).sqrt();
        match *self {
            Self::Present { q, mu } => (loss(q, mu, -z).lo, loss(q, mu, z + mu).hi),
            Self::Absent { q, mu } => (-loss(q, mu, z).hi, -loss(q, mu, -z).lo),
            Self::Laplace { shift } => (-shift, shift),
        }
    }

    /// The law on a lattice of at most about `most` points whose profile is nowhere below the pair's; `None` where losses are so
    /// large that e^loss overflows.
    pub fn law(&self, most: usize, negligible: f64) -> Option<Law> {
        let (low, high) = self.range(negligible);
        if !(low > -600.0 && high < 600.0 && low < high) {
            return None;
        }
        // finer lattices tell nothing, and the spacing must not underflow
        let exponent = (((high - low) / most as f64).log2().ceil() as i32).max(-900);
        let step = 2f64.powi(exponent);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let cells = self.cells(first, last, exponent);
        let mut law = Law { first, exponent, mass: vec![0.0; cells.len() - 1], infinite: 0.0 };
        let add = |sum: &mut f64, x: f64| *sum = (*sum + x).next_up();
        add(&mut law.mass[0], cells[0].p);
        let width = exactly(step).exp() - exactly(1.0);
        for i in 1..cells.len() - 1 {
            let Cell { p, q } = cells[i];
            let top = exactly((first + i as i64) as f64 * step).exp();
            // the share at the lower end, rounded down: what is missing there is at the upper one
            let lower = ((exactly(q) * top - exactly(p)) / width).lo.clamp(0.0, p);
            add(&mut law.mass[i - 1], lower);
            add(&mut law.mass[i], (p - lower).next_up());
        }
        law.infinite = cells[cells.len() - 1].p;
        let total: f64 = law.mass.iter().sum::<f64>() + law.infinite;
        (total.is_finite() && total >= 1.0 - 1e-9).then_some(law)
    }
}

/// A z whose presence loss is certainly at least `wanted`, starting from one at or below it.
fn raised(q: f64, mu: f64, start: f64, wanted: f64) -> f64 {
    let (mut z, mut stride) = (start, 4.0 * f64::EPSILON * (1.0 + start.abs()));
    for _ in 0..80 {
        if loss(q, mu, z).lo >= wanted {
            return z;
        }
        z += stride;
        stride *= 2.0;
    }
    f64::INFINITY
}

/// e^−η: the losses of a cell may reach down to `reached`, η below its lower end `point` (a border's loss is at most the lattice
/// point's, not equal); raised to that end they have at least e^−η of their Q-mass.
fn short(point: f64, reached: f64) -> Interval {
    let gap = (exactly(point) - exactly(reached)).hi.max(0.0);
    exactly(-gap).exp()
}

/// Cells between the borders `z`: from −∞, between, to +∞. Borders that are not in order by rounding make an empty cell, whose mass
/// the next one has: losses there are higher than its lower end asks for.
fn ends(z: &[f64], cell: impl Fn(f64, f64, Interval) -> Cell, below: impl Fn(usize) -> Interval) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(z.len() + 1);
    cells.push(cell(f64::NEG_INFINITY, z[0], exactly(1.0)));
    let mut low = z[0];
    for i in 1..z.len() {
        cells.push(if low < z[i] { cell(low, z[i], below(i - 1)) } else { Cell::default() });
        low = low.max(z[i]);
    }
    cells.push(cell(low, f64::INFINITY, exactly(1.0)));
    cells
}

/// The mass of N(μ, 1) on (low, high] given that of N(0, 1) between the *rounded* low − μ and high − μ: each border is off by at
/// most one unit of its size, which moves a tail by at most that times the density.
fn widened(mass: Interval, low: f64, high: f64, mu: f64) -> Interval {
    let slack = |z: f64| {
        if z.is_infinite() {
            return 0.0;
        }
        let x = z - mu;
        let off = f64::EPSILON * x.abs();
        // the density is largest at the end that is nearer to 0
        let near = (x.abs() - off).max(0.0);
        let density = (exactly(-0.5) * exactly(near) * exactly(near)).exp().hi;
        (off * density).next_up()
    };
    let slack = (slack(low) + slack(high)).next_up();
    Interval { lo: (mass.lo - slack).next_down().max(0.0), hi: (mass.hi + slack).next_up() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_event::special::gaussian_ln_delta;

    #[test]
    fn laws_are_nowhere_below_their_pairs() {
        let gaussian = Pair::Present { q: 1.0, mu: 1.0 }.law(4096, 1e-20).unwrap();
        for e in [0.0, 0.5, 1.0, 3.0, 6.0] {
            let exact = gaussian_ln_delta(e, 1.0).exp();
            let got = gaussian.delta(e);
            assert!(got >= exact * (1.0 - 1e-14) && got < exact * (1.0 + 1e-4) + 1e-18, "{e}: {got} {exact}");
        }
        let laplace = Pair::Laplace { shift: 1.0 }.law(4096, 1e-20).unwrap();
        for e in [0.0, 0.3, 0.9] {
            let exact = -f64::exp_m1(0.5 * (e - 1.0));
            assert!(laplace.delta(e) >= exact && laplace.delta(e) < exact * (1.0 + 1e-4));
        }
        // reference values for q = .01, σ = 1; the other order ends at −ln(.99)
        let present = Pair::Present { q: 0.01, mu: 1.0 }.law(8192, 1e-20).unwrap();
        let exact = 2.214519013153e-7;
        assert!(present.delta(0.5) >= exact * (1.0 - 1e-12) && present.delta(0.5) < exact * 1.001);
        // all losses that matter lie within a hundredth of a long range
        let absent = Pair::Absent { q: 0.01, mu: 1.0 }.law(1 << 15, 1e-20).unwrap();
        let exact = 9.631443353053e-4;
        assert!(
            absent.delta(0.005) >= exact * (1.0 - 1e-12) && absent.delta(0.005) < exact * 1.001,
            "{}",
            absent.delta(0.005)
        );
        assert!(absent.delta(0.0102) < 1e-6);
        for law in [gaussian, laplace, present, absent] {
            let total: f64 = law.mass.iter().sum::<f64>() + law.infinite;
            assert!((total - 1.0).abs() < 1e-9, "{total}");
        }
    }
}
