//! Where to cut the loss axis: a fine core, coarse tails, and the Fourier window (docs/proofs/accounting-pld.md).

#[cfg(test)]
use super::injected::{Bug, is as injected};
use super::pair::{Pair, PointLosses, U};
use super::tilt::{Cumulants, View, total};

/// Largest one-step loss kept on a grid: e^loss must stay far from overflow.
pub(crate) const LARGEST_LOSS: f64 = 600.0;
/// No lattice point lies higher: e^loss is finite there, with room for a mass's error. What is above counts as +∞.
const HIGHEST_POINT: f64 = LARGEST_LOSS + 1.0;
/// Borders per part; a grid that needs more is made coarser in its tails.
const MAX_CELLS: f64 = 400_000.0;

/// Smallest x > 0 (within 10 %, from above) with `tail(x) <= mass`; `LARGEST_LOSS` if there is none below.
fn quantile(mass: f64, tail: impl Fn(f64) -> f64) -> f64 {
    let (mut outside, mut inside) = (1.0, 1.0);
    if tail(1.0) <= mass {
        while outside > 1e-18 && tail(outside) <= mass {
            inside = outside;
            outside *= 0.1;
        }
    } else {
        while tail(inside) > mass {
            if inside >= LARGEST_LOSS {
                return LARGEST_LOSS;
            }
            outside = inside;
            inside = (inside * 4.0).min(LARGEST_LOSS);
        }
    }
    while inside > 1.1 * outside {
        let middle = (inside * outside).sqrt();
        if tail(middle) <= mass { inside = middle } else { outside = middle }
    }
    inside
}

/// Borders per decade of a close look.
pub(crate) const PER_DECADE: f64 = 28.0;

/// A sample is rare where its losses below 0 are smaller than this share of the largest.
const RARE: f64 = 1e-4;

/// Borders in geometric progression on both sides of 0, which see every scale between the small side's
/// hundred-thousandth and the largest loss that `tail_mass` leaves.
/// `detail` 1 for a close look, less where many parts share the work; `small` borders per decade of losses below a fiftieth of the largest.
pub(crate) fn coarse_borders(pair: &dyn Pair, tail_mass: f64, detail: f64, small: f64) -> Vec<f64> {
    let above = quantile(tail_mass, |x| pair.masses(&[x]).p[1]);
    // far below, the tilt removes what is left
    let below = quantile(1e-18, |x| pair.masses(&[-x]).p[0]);
    let smallest = above.min(below) * 1e-5;
    // where losses are large only rarely δ is theirs, a small part of what the tilt weighs: how the small ones lie decides on what is left
    let small = if below < RARE * above { small.max(2.0 * PER_DECADE) } else { small };
    let side = |largest: f64| {
        // what a tilt weighs up lies within a factor 50 of the largest loss; of the smaller ones only how dense they are counts
        let spread = |from: f64, to: f64, per_decade: f64| {
            let n = ((from / to).log10() * per_decade * detail).ceil().max(1.0) as usize;
            (0..n).map(move |i| from * (to / from).powf(i as f64 / n as f64))
        };
        let middle = (0.02 * largest).max(smallest);
        spread(largest, middle, PER_DECADE).chain(spread(middle, smallest, small)).chain(std::iter::once(smallest))
    };
    let mut borders: Vec<f64> = side(below).map(|x| -x).collect();
    borders.push(0.0);
    let mut positive: Vec<f64> = side(above).collect();
    positive.reverse();
    borders.extend(positive);
    borders
}

/// Widths proportional to (tilted density)^(−1/3), the allocation that minimises Σ mass·width² for a given
/// number of cells; but where the tilted mass matters never wider than a tenth of 1/(1+λ), as a chord over
/// a wider cell inflates e^(λL).
pub(crate) struct Widths<'a> {
    view: &'a View,
    /// Width limit of each cell of the view that does not depend on the scale.
    limit: Vec<f64>,
    /// (Tilted density)^(−1/3) of each cell: its width before scaling.
    shape: Vec<f64>,
    /// Tilted mass of each cell.
    mass: Vec<f64>,
}

impl<'a> Widths<'a> {
    /// `negligible`: a tilted mass that may be inflated to without harm.
    pub fn new(view: &'a View, lambda: f64, negligible: f64) -> Self {
        #[cfg(test)]
        let lambda = if injected(Bug::UntiltedWidths) { 1e-6 } else { lambda };
        let c = view.cumulants(lambda);
        let cells = view.loss.len();
        let (mut limit, mut shape, mut mass) =
            (Vec::with_capacity(cells), Vec::with_capacity(cells), Vec::with_capacity(cells));
        for i in 0..cells {
            let ln_mass = view.ln_p[i] + lambda * view.loss[i] - c.value;
            let room = (negligible.ln() - ln_mass).max(0.0);
            let cap = (0.1f64).max(room) / (1.0 + lambda);
            limit.push(cap);
            let length = (view.high[i] - view.low[i]).max(f64::MIN_POSITIVE);
            shape.push(((length.ln() - ln_mass) / 3.0).min(200.0).exp());
            mass.push(ln_mass.exp());
        }
        // at an extreme tilt the caps alone would take too many cells
        let needed: f64 = (0..cells).map(|i| (view.high[i] - view.low[i]) / limit[i]).sum();
        let relax = (needed / (0.25 * MAX_CELLS)).max(1.0);
        limit.iter_mut().for_each(|l| *l *= relax);
        Self { view, limit, shape, mass }
    }

    fn width(&self, i: usize, scale: f64, finest: f64) -> f64 {
        (scale * self.shape[i]).min(self.limit[i]).max(finest)
    }

    fn cells(&self, scale: f64, finest: f64) -> f64 {
        let v = self.view;
        (0..v.loss.len()).map(|i| (v.high[i] - v.low[i]) / self.width(i, scale, finest)).sum()
    }

    /// Scale at which the coarse cells add as much bias (Σ mass·width²) as half of that of a uniform grid,
    /// or larger if that took too many cells.
    fn scale_for(&self, finest: f64) -> f64 {
        let excess = |scale: f64| -> f64 {
            (0..self.mass.len()).map(|i| self.mass[i] * (self.width(i, scale, finest).powi(2) - finest * finest)).sum()
        };
        // from every cell at its finest to every cell as wide as the whole range
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (i, shape) in self.shape.iter().enumerate() {
            if self.view.high[i] > self.view.low[i] {
                low = low.min((finest / shape).ln());
                high = high.max((LARGEST_LOSS / shape).ln());
            }
        }
        if !(low < high) {
            return finest;
        }
        // a scale within 2 % of the best one costs nothing that is seen
        let largest = |mut low: f64, mut high: f64, allowed: &dyn Fn(f64) -> bool| {
            while high - low > 0.02 {
                let middle = 0.5 * (low + high);
                if allowed(middle.exp()) { low = middle } else { high = middle }
            }
            low
        };
        let scale = largest(low, high, &|scale| excess(scale) < 0.5 * finest * finest);
        if self.cells(scale.exp(), finest) <= MAX_CELLS {
            return scale.exp();
        }
        largest(scale, high, &|scale| self.cells(scale, finest) > MAX_CELLS).exp()
    }

    /// About `cells` borders for a second look at the pair.
    pub fn refined(&self, cells: usize) -> Vec<f64> {
        let (mut low, mut high) = (-100.0, 100.0);
        while high - low > 0.02 {
            let middle: f64 = 0.5 * (low + high);
            if self.cells(middle.exp(), 0.0) > cells as f64 { low = middle } else { high = middle }
        }
        let scale = f64::exp(high);
        let mut borders = vec![self.view.low[0]];
        for i in 0..self.view.loss.len() {
            let (a, b) = (self.view.low[i], self.view.high[i]);
            let n = ((b - a) / self.width(i, scale, 0.0)).ceil().clamp(1.0, 4.0 * cells as f64);
            borders.extend((1..=n as usize).map(|k| a + (b - a) * k as f64 / n));
        }
        borders.dedup();
        borders
    }

    /// Lattice points of spacing `step` for the final discretisation; 0 is always one of them, and so are the
    /// neighbours of point losses.
    pub fn lattice(&self, step: f64, atoms: &PointLosses) -> Vec<i64> {
        let v = self.view;
        let (low, high) = (v.low[0], v.high[v.high.len() - 1]);
        let mut knots = vec![0];
        for loss in atoms.losses.iter().filter(|l| **l >= low && **l <= high) {
            let at = loss / step;
            // one that lies above a point by rounding still has a point above it
            knots.extend([at.floor() as i64, at.ceil() as i64, at.round() as i64 + 1]);
        }
        let mut index = if atoms.only { vec![] } else { self.spread(step) };
        knots.sort_unstable();
        index.extend(knots);
        // a coarse step, or the neighbour of a point loss, may lie beyond
        index.retain(|k| *k as f64 * step <= HIGHEST_POINT);
        // two ascending runs, which the stable sort merges
        index.sort();
        index.dedup();
        index
    }

    fn spread(&self, step: f64) -> Vec<i64> {
        let v = self.view;
        let scale = self.scale_for(step);
        let first = (v.low[0] / step).floor() as i64;
        let last = ((v.high[v.high.len() - 1] / step).ceil() as i64).max(first + 1);
        let mut index = vec![first];
        let (mut k, mut cell) = (first, 0);
        let wanted = |cell: usize| (self.width(cell, scale, step) / step).floor().max(1.0);
        let mut here_wanted = wanted(0);
        while k < last {
            let here = k as f64 * step;
            while cell + 1 < v.high.len() && v.high[cell] <= here {
                cell += 1;
                here_wanted = wanted(cell);
            }
            // not beyond the end of the cell whose density was used, unless that is nearer than one step
            let room = || ((v.high[cell] - here) / step).ceil().max(1.0);
            // whatever the widths say, the number of points is bounded
            let stride = match here_wanted {
                _ if index.len() as f64 > 2.0 * MAX_CELLS => room(),
                1.0 => 1.0,
                wanted => wanted.min(room()),
            };
            let next = k.saturating_add(stride as i64).min(last);
            k = if k < 0 && next > 0 { 0 } else { next };
            index.push(k);
        }
        index
    }
}

/// A number of which all `losses` are multiples, within a billionth of the largest, and not too small a one.
pub(crate) fn common_divisor(losses: &[f64]) -> Option<f64> {
    let largest = losses.iter().fold(0.0f64, |m, l| m.max(l.abs()));
    let mut divisor = largest;
    for loss in losses {
        let (mut a, mut b) = (divisor.max(loss.abs()), divisor.min(loss.abs()));
        while b > 1e-9 * largest {
            let rest = (a - b * (a / b).round()).abs();
            (a, b) = (b, rest);
        }
        divisor = a;
    }
    // no loss above its multiple: what rounding leaves above it would weigh most under an extreme tilt
    (divisor > 1e-6 * largest)
        .then(|| losses.iter().map(|l| l.abs() / (l.abs() / divisor).round()).fold(0.0, f64::max) * (1.0 + 8.0 * U))
}

/// Lattice step near `wanted` and at least `least` that has the point losses of the parts on lattice points: all of them
/// if they have a common divisor, else the one that weighs most. Off the lattice an atom is split, which
/// rounds the kinks of δ(ε) off. Where all parts take point losses only, a common divisor itself is exact.
pub(crate) fn aligned_step(wanted: f64, least: f64, parts: &[(PointLosses, u64)]) -> f64 {
    let plain = wanted.max(least);
    let usable = |l: &f64| *l != 0.0 && l.abs() <= LARGEST_LOSS;
    let losses: Vec<f64> = parts.iter().flat_map(|(a, _)| a.losses.iter().copied().filter(usable)).collect();
    if losses.is_empty() {
        return plain;
    }
    // within a factor 16 a finer lattice is worth its time
    let finest = least.max(wanted / 16.0);
    if let Some(divisor) = common_divisor(&losses)
        && divisor >= finest
    {
        let exact = parts.iter().all(|(a, _)| a.only);
        return if exact || divisor <= plain { divisor } else { divisor / (divisor / plain).ceil() }.max(least);
    }
    let weight = |(a, count): &(PointLosses, u64)| {
        let largest = a.losses.iter().copied().filter(usable).fold(0.0f64, |m, l| m.max(l.abs()));
        (largest * (*count as f64).sqrt(), largest)
    };
    let heaviest = parts.iter().map(weight).max_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |w| w.1);
    let cells = heaviest / plain;
    // a coarser lattice if a finer one is not allowed
    let cells = if heaviest / cells.ceil() >= finest { cells.ceil() } else { cells.floor() };
    if cells >= 1.0 { heaviest / cells * (1.0 + 8.0 * U) } else { plain }
}

/// Lattice step for a bias of `tolerance` in ε: T(λ+1)·Δ²/12 while Δ is small against one draw's spread, and at
/// most T(λ+1)·Δ·E|L|/2 beyond.
pub(crate) fn step_for(tolerance: f64, lambda: f64, parts: &[(Cumulants, u64)]) -> f64 {
    let bias = |step: f64| -> f64 {
        let sum: f64 = parts
            .iter()
            .map(|(c, count)| {
                let spread = (c.variance + c.mean * c.mean).sqrt();
                *count as f64 * (step * step / 12.0).min(0.5 * step * spread)
            })
            .sum();
        (1.0 + lambda) * sum
    };
    let mut step = 1.0;
    while bias(step) > tolerance && step > 1e-300 {
        step *= 0.5;
    }
    // between step and 2·step, where the bias is at most quadratic
    step * (tolerance / bias(step)).sqrt().clamp(1.0, 2.0)
}

/// ln of the relative excess that aliasing may add: e^-16 on each side.
const ALIAS: f64 = 16.0;

/// Length W of the Fourier window and the tilt λ' to fold with. The copy on the left weighs e^(−λ'W)δ(ε−W)/δ(ε)
/// ≤ e^(−λ'W)/δ, the one on the right e^(λ'W)δ(ε+W)/δ(ε), at most e^((λ'−θ)W + K(θ) − θε)/δ for every θ (Chernoff).
/// A loss with a heavy right tail wants a λ' below the saddle point. A short window costs tightness, never validity.
pub(crate) fn window(views: &[(View, u64)], lambda: f64, epsilon: f64, ln_inverse_delta: f64) -> (f64, f64) {
    let left = ALIAS + ln_inverse_delta;
    // (θ, ln of the Chernoff bound at θ)
    let orders = [1.0, 1.15, 1.35, 1.7, 2.2, 3.0, 5.0].map(|factor| {
        let theta = factor * lambda;
        (theta, total(views, theta).value - theta * epsilon)
    });
    // folding above the saddle point costs digits: at most e^5 of them
    let steepest = orders.iter().filter(|(_, ln)| *ln <= orders[0].1 + 5.0).map(|o| o.0).fold(lambda, f64::max);
    let shortest = orders.iter().map(|(theta, ln)| (left + (ALIAS + ln + ln_inverse_delta).max(0.0)) / theta);
    let length = shortest.fold(f64::INFINITY, f64::min).max(left / steepest);
    (length, (left / length).min(steepest))
}

#[cfg(test)]
mod tests {
    use super::super::pair::GaussianPair;
    use super::super::poisson::PoissonPair;
    use super::*;

    #[test]
    fn borders_see_small_and_large_losses() {
        let pair = PoissonPair { probability: 1e-6, base: GaussianPair { mu: 1.0 } };
        let borders = coarse_borders(&pair, 1e-20, 1.0, PER_DECADE);
        assert!(borders.windows(2).all(|w| w[0] < w[1]));
        assert!(borders[0] >= -1.2e-6 && borders[0] <= -1e-6 && *borders.last().unwrap() > 1e-5);
        assert!(borders.len() < 1000);
    }

    #[test]
    fn lattice_holds_zero_and_is_fine_where_the_mass_is() {
        let pair = PoissonPair { probability: 0.01, base: GaussianPair { mu: 1.0 } };
        let view = View::new(&pair, &coarse_borders(&pair, 1e-14, 1.0, PER_DECADE));
        let index = Widths::new(&view, 17.0, 1e-12).lattice(1e-3, &PointLosses::default());
        assert!(index.binary_search(&0).is_ok() && index.windows(2).all(|w| w[0] < w[1]));
        assert!(index.len() < ((index[index.len() - 1] - index[0]) as usize) / 2);
    }

    #[test]
    fn step_meets_the_tolerance() {
        let c = Cumulants { value: 0.0, mean: 0.0, variance: 1.0 };
        let step = step_for(1e-4, 9.0, &[(c, 100)]);
        assert!((1000.0 * step * step / 12.0 / 1e-4 - 1.0).abs() < 1e-9);
    }
}
