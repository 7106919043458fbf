//! ε(δ) and δ(ε) of a composition in one direction: setting, lattice, spectrum, reading (docs/proofs/accounting-pld.md).

use super::alias::Copies;
use super::grid::LARGEST_LOSS;
#[cfg(test)]
use super::injected::{Bug, is as injected};
use super::lattice::connect_the_dots;
use super::pair::{Pair, U};
use super::setting::{Draws, Setting};
use super::spectrum::Spectrum;
use super::tilt::Target;
use std::sync::Arc;

/// How much numerical slack is worth how much time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Slack in ε aimed at, relative to ε (but no finer than for ε = 1e-4); of more than 64 different parts at most ten times as
    /// much.
    pub tolerance: f64,
    /// Points of the Fourier transform at most; a window that needs more gets a coarser lattice.
    pub most_points: usize,
    /// Whether [`Bound::lower`](crate::Bound::lower) and the slack of aliasing are worked out too; half as much time again.
    pub bracket: bool,
}

impl Quality {
    /// Slack of some 1e-6 of ε, about a millisecond.
    pub const FINE: Self = Self { tolerance: 2e-6, most_points: 1 << 21, bracket: false };
    /// For searches: slack of 1e-4 of ε.
    pub const COARSE: Self = Self { tolerance: 1e-4, most_points: 1 << 18, bracket: false };
    /// What certificates and reports are made with: the upper bound of `FINE`, with a certified lower bound.
    pub const BRACKET: Self = Self { bracket: true, ..Self::FINE };
}

/// A reading with its slack.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// ε or δ, rounded up.
    pub value: f64,
    pub infinite: f64,
    pub rounding: f64,
    /// Bound on what aliasing added to δ, where it was asked for.
    pub alias: Option<f64>,
    pub step: f64,
    pub points: usize,
    pub lambda: f64,
}

/// No finite ε: losses beyond the grid weigh more than δ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unreachable {
    pub infinite: f64,
}

struct PreparedPart {
    spectrum: Spectrum,
    copies: Option<Copies>,
    step: f64,
    points: usize,
    lambda: f64,
}

/// Lattice and spectrum for `target`; `delta` is (a guess of) δ there. `None` if a draw's loss is beyond the grid for sure, or its
/// masses are no law.
fn prepare(draws: &Draws, target: Target, delta: f64, quality: Quality) -> Option<PreparedPart> {
    let setting = Setting::new(draws, target, delta, quality.tolerance, quality.most_points)?;
    let parts = setting.parts(|pair, step, index, _| connect_the_dots(pair, step, index))?;
    let Setting { step, points, fold_tilt: lambda, .. } = setting;
    #[cfg(test)]
    let lambda = if injected(Bug::NoTilt) { 1e-3 } else { lambda };
    let copies = quality.bracket.then(|| Copies::new(&parts, lambda, points as f64 * step));
    Some(PreparedPart { spectrum: Spectrum::new(&parts, lambda, points), copies, step, points, lambda })
}

impl PreparedPart {
    fn reading(&self, value: f64, epsilon: f64, rounding: f64) -> Reading {
        Reading {
            value,
            infinite: self.spectrum.infinite,
            rounding,
            alias: self.copies.as_ref().map(|c| c.bound(epsilon)),
            step: self.step,
            points: self.points,
            lambda: self.lambda,
        }
    }

    /// Smallest ε with certified δ(ε) ≤ `delta`.
    fn epsilon(&self, delta: f64) -> Result<Reading, Unreachable> {
        let s = &self.spectrum;
        // the mass at infinity comes off first; below what rounding leaves nothing can be certified
        let left = (delta - s.infinite) * (1.0 - 4.0 * U);
        if !(left > 0.0) {
            return Err(Unreachable { infinite: s.infinite });
        }
        // a NaN certifies nothing
        let renyi = match s.renyi_epsilon(left) {
            x if x.is_nan() => f64::INFINITY,
            x => x,
        };
        let finish = |epsilon: f64, rounding: f64| {
            let epsilon = epsilon.min(renyi) + s.loss_error;
            if epsilon.is_finite() {
                Ok(self.reading((epsilon * (1.0 + 4.0 * U)).max(0.0), epsilon, rounding))
            } else {
                Err(Unreachable { infinite: s.infinite })
            }
        };
        // a NaN exceeds everything
        let exceeds = |index: i64| !(s.delta(index).0 <= left);
        let zero = s.delta(0);
        // strictly below by the rounding of losses, so that δ(0) itself is certified
        if zero.0 + s.loss_error <= left {
            return Ok(self.reading(0.0, 0.0, zero.1));
        }
        let top = (renyi / self.step).ceil();
        if !(1.0..9e15).contains(&top) {
            return finish(renyi.max(0.0), 0.0);
        }
        let (mut low, mut high) = (0, top as i64);
        if exceeds(high) {
            return finish(renyi, 0.0);
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if exceeds(middle) { low = middle } else { high = middle }
        }
        let (above, (below, rounding)) = (s.delta(low).0, s.delta(high));
        finish(between(low as f64 * self.step, self.step, above, below, left), rounding)
    }

    /// Certified δ at `epsilon`.
    fn delta(&self, epsilon: f64) -> Reading {
        let s = &self.spectrum;
        let at = epsilon - s.loss_error;
        let position = at / self.step;
        let renyi = s.renyi_delta(at);
        let (mut value, mut rounding) = (renyi, 0.0);
        if position.abs() < 9e15 {
            let low = position.floor() as i64;
            let (d0, (d1, e)) = (s.delta(low).0, s.delta(low + 1));
            // a lattice profile is linear in e^ε between its points
            let share = ((at - low as f64 * self.step).exp_m1() / self.step.exp_m1()).clamp(0.0, 1.0);
            let chord = d0 + share * (d1 - d0);
            if chord < value {
                (value, rounding) = (chord, e);
            }
        }
        let value = (value + s.infinite) * (1.0 + 8.0 * U);
        self.reading(if value.is_nan() { 1.0 } else { value.min(1.0) }, epsilon, rounding)
    }
}

/// ε where the chord (in e^ε) from `above` at `low` to `below` at `low + step` meets `delta`.
fn between(low: f64, step: f64, above: f64, below: f64, delta: f64) -> f64 {
    if !above.is_finite() {
        return low + step;
    }
    let share = ((above - delta) / (above - below)).clamp(0.0, 1.0);
    #[cfg(test)]
    if injected(Bug::LinearInEpsilon) {
        return low + share * step;
    }
    let e = low + (share * step.exp_m1()).ln_1p();
    (e * (1.0 + 8.0 * U)).min(low + step)
}

/// The one draw of a composition that has no more: its profile needs no lattice.
fn only(draws: &Draws) -> Option<&Arc<dyn Pair>> {
    match draws {
        [(pair, 1)] => Some(pair),
        _ => None,
    }
}

/// δ(ε) = P{L > ε} − e^ε Q{L > ε} of one pair, rounded up; 1 where it cannot be told.
pub(crate) fn single_delta(pair: &dyn Pair, epsilon: f64) -> f64 {
    let m = pair.masses(&[epsilon]);
    let p = m.p[1] + m.p_error[1];
    let q = (m.q[1] - m.q_error[1]).max(0.0) * epsilon.exp();
    // rounding of the border, of e^ε and of the difference
    let delta = p - q + (16.0 * (1.0 + epsilon.abs())) * U * p;
    if delta.is_nan() { 1.0 } else { delta.clamp(0.0, 1.0) }
}

pub(crate) fn single(value: f64) -> Reading {
    Reading { value, infinite: 0.0, rounding: 0.0, alias: Some(0.0), step: 0.0, points: 0, lambda: 0.0 }
}

fn single_epsilon(pair: &dyn Pair, delta: f64) -> Result<Reading, Unreachable> {
    if single_delta(pair, 0.0) <= delta {
        return Ok(single(0.0));
    }
    let (mut low, mut high) = (0.0, 1e-9);
    while single_delta(pair, high) > delta {
        if high >= LARGEST_LOSS {
            return Err(Unreachable { infinite: single_delta(pair, high) });
        }
        (low, high) = (high, (4.0 * high).min(LARGEST_LOSS));
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if single_delta(pair, middle) > delta { low = middle } else { high = middle }
    }
    Ok(single(high))
}

/// A composition that is worked out once, near some δ, and read at any.
pub(crate) struct Composition<'a> {
    law: Law<'a>,
    /// The δ that it is worked out for.
    near: f64,
}

enum Law<'a> {
    /// No draw: nothing is lost.
    Nothing,
    /// One draw, which needs no lattice.
    Single(&'a dyn Pair),
    /// `None` where a loss is beyond the grid for sure, or the masses are no law.
    Many(Option<PreparedPart>),
}

impl<'a> Composition<'a> {
    pub fn new(draws: &'a Draws, delta: f64, quality: Quality) -> Self {
        let law = match (draws, only(draws)) {
            ([], _) => Law::Nothing,
            (_, Some(pair)) => Law::Single(&**pair),
            _ => Law::Many(prepare(draws, Target::Delta(delta), delta, quality)),
        };
        Self { law, near: delta }
    }

    /// Whether a reading at `delta` is as tight as one of a composition worked out for it.
    pub fn is_near(&self, delta: f64) -> bool {
        !matches!(self.law, Law::Many(_)) || (delta <= 2.0 * self.near && delta >= 0.5 * self.near)
    }

    /// Smallest certified ε at `delta` in (0, 1).
    pub fn epsilon(&self, delta: f64) -> Result<Reading, Unreachable> {
        match &self.law {
            Law::Nothing => Ok(single(0.0)),
            Law::Single(pair) => single_epsilon(*pair, delta),
            Law::Many(Some(prepared)) => prepared.epsilon(delta),
            Law::Many(None) => Err(Unreachable { infinite: 1.0 }),
        }
    }
}

/// Smallest certified ε at `delta` in (0, 1).
#[cfg(test)]
pub(crate) fn epsilon(draws: &Draws, delta: f64, quality: Quality) -> Result<Reading, Unreachable> {
    Composition::new(draws, delta, quality).epsilon(delta)
}

/// Smallest certified δ at `epsilon`.
pub(crate) fn delta(draws: &Draws, epsilon: f64, quality: Quality) -> Reading {
    if let Some(pair) = only(draws).filter(|_| epsilon <= LARGEST_LOSS) {
        return single(single_delta(pair, epsilon));
    }
    // where to truncate depends on δ, which is not known yet: a coarse reading first
    let mut guess = 1e-9;
    let prepare = |guess: f64, quality: Quality| prepare(draws, Target::Epsilon(epsilon), guess, quality);
    let Some(mut prepared) = prepare(guess, Quality::COARSE) else {
        return single(1.0);
    };
    for _ in 0..5 {
        let estimate = prepared.spectrum.renyi_delta(epsilon).clamp(1e-290, 0.5);
        let settled = estimate > 0.02 * guess && estimate < 50.0 * guess;
        guess = estimate;
        if settled {
            break;
        }
        match prepare(guess, Quality::COARSE) {
            Some(next) => prepared = next,
            None => return single(1.0),
        }
    }
    let coarse = prepared.delta(epsilon);
    match prepare(guess, quality).map(|fine| fine.delta(epsilon)) {
        Some(fine) if fine.value <= coarse.value => fine,
        _ => coarse,
    }
}

#[cfg(test)]
mod tests {
    use super::super::lattice::Lattice;
    use super::*;

    /// Between lattice points δ is linear in e^ε and concave in ε: a chord in ε would fall below it.
    #[test]
    fn interpolation_never_falls_below_the_profile() {
        let lattice = Lattice {
            step: 1.0,
            index: vec![-1, 0, 1, 2],
            mass: vec![0.2, 0.3, 0.3, 0.2],
            infinite: 0.0,
            loss_error: 0.0,
        };
        let (above, below) = (lattice.profile(0.0), lattice.profile(1.0));
        let target = 0.5 * (above + below);
        let sound = between(0.0, 1.0, above, below, target);
        assert!(lattice.profile(sound) <= target * (1.0 + 1e-14) && sound < 0.7);
        let wrong = super::super::injected::with(Bug::LinearInEpsilon, || between(0.0, 1.0, above, below, target));
        assert!(lattice.profile(wrong) > target * 1.01, "the injected fault was not noticed: {wrong}");
    }

    #[test]
    fn a_single_draw_needs_no_lattice() {
        let pair: Arc<dyn Pair> = Arc::new(super::super::pair::GaussianPair { mu: 1.0 });
        let reading = epsilon(&[(pair.clone(), 1)], 1e-6, Quality::FINE).unwrap();
        assert!((reading.value / 4.886554117462 - 1.0).abs() < 1e-9 && reading.value >= 4.886554117462);
        let value = delta(&[(pair, 1)], 1.0, Quality::FINE).value;
        assert!((value / 0.1269367375066 - 1.0).abs() < 1e-10 && value >= 0.1269367375066);
    }
}
