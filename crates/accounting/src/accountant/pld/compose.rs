//! ε(δ) and δ(ε) of a composition in one direction: setting, lattice, spectrum, reading (docs/proofs/accounting-pld.md).

use super::alias::Copies;
use super::grid::{LARGEST_LOSS, common_divisor};
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
    /// Slack of some 1e-6 of ε (1e-3 where a rare sample's large losses are all of δ), about a millisecond.
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
        let exceeds = |delta: f64| !(delta <= left);
        let zero = s.delta(0);
        // strictly below by the rounding of losses, so that δ(0) itself is certified
        if zero.0 + s.loss_error <= left {
            return Ok(self.reading(0.0, 0.0, zero.1));
        }
        let top = (renyi / self.step).ceil();
        if !(1.0..9e15).contains(&top) {
            return finish(renyi.max(0.0), 0.0);
        }
        let (top, (value, rounding)) = (top as i64, s.delta(top as i64));
        if exceeds(value) {
            return finish(renyi, 0.0);
        }
        let mut bracket = Bracket { low: (0, zero.0), high: (top, value, rounding), left };
        // ln δ falls by about λ per unit of ε there
        let mut next = Some(top as f64 + (value / left).ln() / (self.lambda * self.step));
        for round in 0.. {
            let Some(at) = bracket.inside(next) else { break };
            let (value, rounding) = s.delta(at);
            if exceeds(value) {
                bracket.low = (at, value);
            } else {
                bracket.high = (at, value, rounding);
            }
            // what chords do not find soon is found by halves
            next = (round < 10).then(|| bracket.chord());
        }
        let Bracket { low: (low, above), high: (_, below, rounding), .. } = bracket;
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

/// Two lattice points with δ above and not above `left`, while they come together.
struct Bracket {
    low: (i64, f64),
    /// With the rounding that is in its δ.
    high: (i64, f64, f64),
    left: f64,
}

impl Bracket {
    /// The lattice point at or below `wanted` that is strictly between both ends, or else their middle; `None` where they are neighbours.
    fn inside(&self, wanted: Option<f64>) -> Option<i64> {
        let (low, high) = (self.low.0, self.high.0);
        let point = match wanted {
            Some(at) if at.is_finite() => (at.floor() as i64).clamp(low + 1, (high - 1).max(low + 1)),
            _ => low + (high - low) / 2,
        };
        (high - low > 1).then_some(point)
    }

    /// Where the chord of ln δ meets ln `left`; no number where δ is none.
    fn chord(&self) -> f64 {
        let (above, below) = ((self.low.1 / self.left).ln(), (self.left / self.high.1).ln());
        self.low.0 as f64 + (self.high.0 - self.low.0) as f64 * (above / (above + below))
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

/// How far from a border a loss may lie that rounding takes to its other side, in 1 + |ε|: 1024u, as losses are at most some 600 and a sampled
/// one is worked out from the other in a few steps.
const MISPLACED: f64 = 1024.0 * U;

/// δ(ε) = P{L > ε} − e^ε Q{L > ε} of one pair, rounded up; 1 where it cannot be told.
///
/// δ is what the losses above ε give; to count losses above an ε′ instead takes at most P{L between both}·|e^(ε′−ε) − 1| off. Pairs whose borders
/// are rounded may do that: what lies that near is added, which matters for point losses only.
pub(crate) fn single_delta(pair: &dyn Pair, epsilon: f64) -> f64 {
    let width = if pair.compares_exactly() { 0.0 } else { MISPLACED * (1.0 + epsilon.abs()) };
    let borders = if width > 0.0 { vec![epsilon - width, epsilon, epsilon + width] } else { vec![epsilon] };
    let m = pair.masses(&borders);
    let (above, at) = (borders.len().div_ceil(2), borders.len() / 2);
    let p: f64 = m.p[above..].iter().zip(&m.p_error[above..]).map(|(p, error)| p + error).sum();
    let q: f64 = m.q[above..].iter().zip(&m.q_error[above..]).map(|(q, error)| q - error).sum();
    let near: f64 = (at..=above).filter(|_| width > 0.0).map(|cell| m.p[cell] + m.p_error[cell]).sum();
    // rounding of e^ε and of the difference
    let delta = p - q.max(0.0) * epsilon.exp() + (16.0 * (1.0 + epsilon.abs())) * U * p + 2.0 * width * near;
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

/// About what δ is at `epsilon`, and a coarse composition there. `None` as for [`prepare`].
fn guessed(draws: &Draws, epsilon: f64) -> Option<(PreparedPart, f64)> {
    let mut guess = 1e-9;
    let prepare = |guess: f64| prepare(draws, Target::Epsilon(epsilon), guess, Quality::COARSE);
    let mut prepared = prepare(guess)?;
    for _ in 0..5 {
        let estimate = prepared.spectrum.renyi_delta(epsilon).clamp(1e-290, 0.5);
        let settled = estimate > 0.02 * guess && estimate < 50.0 * guess;
        guess = estimate;
        if settled {
            break;
        }
        prepared = prepare(guess)?;
    }
    Some((prepared, guess))
}

/// Smallest certified δ at `epsilon`.
pub(crate) fn delta(draws: &Draws, epsilon: f64, quality: Quality) -> Reading {
    if let Some(pair) = only(draws).filter(|_| epsilon <= LARGEST_LOSS) {
        return single(single_delta(pair, epsilon));
    }
    // where to truncate depends on δ, which is not known yet: a coarse reading first
    let Some((coarse, guess)) = guessed(draws, epsilon) else { return single(1.0) };
    let coarse = coarse.delta(epsilon);
    let fine = |guess: f64| {
        let reading = prepare(draws, Target::Epsilon(epsilon), guess, quality).map(|fine| fine.delta(epsilon));
        reading.filter(|fine| fine.value <= coarse.value).unwrap_or_else(|| coarse.clone())
    };
    let reading = fine(guess);
    // the Rényi bound is up to some hundred times δ, and what was cut off was chosen by it
    if reading.infinite > CUT * reading.value && reading.value > 0.0 && reading.value < 0.5 * guess {
        let again = fine(reading.value);
        return if again.value < reading.value { again } else { reading };
    }
    reading
}

/// By how much δ may fall within what one composition is read for.
const BAND: f64 = 100.0;
/// A share of δ at which what was cut off is worth another composition.
const CUT: f64 = 1e-5;
/// Rounding and copies beyond this share of δ make a composition of its own worth while.
const LOOSE: f64 = 1e-6;

/// Whether δ has kinks that are seen and that no lattice holds: few draws, all with point losses, which have no common divisor.
fn has_sharp_kinks(draws: &Draws) -> bool {
    const FEW: u64 = 16;
    let count = draws.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let losses: Vec<_> = draws.iter().map(|(pair, _)| pair.atoms().losses).collect();
    // a draw without them rounds the kinks of all others off
    if count > FEW || losses.iter().any(Vec::is_empty) {
        return false;
    }
    let all: Vec<f64> = losses.into_iter().flatten().filter(|loss| loss.is_finite() && *loss != 0.0).collect();
    !all.is_empty() && common_divisor(&all).is_none()
}

/// Certified δ at each of `epsilons`, which ascend. Every composition is a bound at every ε; one of them is tight while δ falls
/// by [`BAND`].
pub(crate) fn deltas(draws: &Draws, epsilons: &[f64], quality: Quality) -> Vec<Reading> {
    if epsilons.len() < 2 || only(draws).is_some() || has_sharp_kinks(draws) {
        return epsilons.iter().map(|epsilon| delta(draws, *epsilon, quality)).collect();
    }
    // bounds on copies are asked for
    let aware = Quality { bracket: true, ..quality };
    let tight = |reading: &Reading| reading.rounding + reading.alias.unwrap_or(f64::INFINITY) <= LOOSE * reading.value;
    // with the least δ that it is meant for
    let mut band: Option<(PreparedPart, f64)> = None;
    let read = |&epsilon: &f64| {
        let known = band.as_ref().map(|(prepared, least)| (prepared.delta(epsilon), *least));
        let about = match known {
            Some((reading, least)) if reading.value >= least && tight(&reading) => return reading,
            Some((reading, _)) => Some(reading.value),
            None => guessed(draws, epsilon).map(|(_, guess)| guess),
        };
        // truncated for the least δ, tilted for one in the middle, wide enough for the first
        let about = about.unwrap_or(1.0).clamp(1e-290, 0.5);
        let least = (about / BAND).max(1e-290);
        let target = Target::Range { from: epsilon, middle: about / BAND.sqrt() };
        band = prepare(draws, target, least, aware).map(|prepared| (prepared, least));
        match &band {
            Some((prepared, _)) => {
                Some(prepared.delta(epsilon)).filter(tight).unwrap_or_else(|| delta(draws, epsilon, quality))
            }
            None => delta(draws, epsilon, quality),
        }
    };
    epsilons.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lattice::Lattice;
    use super::*;
    use crate::accountant::Accountant;
    use dpopt_event::Event;

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

    /// A product that rounds down, and a border of a sampled pair that rounds up, do not take the largest loss off.
    #[test]
    fn a_single_draw_keeps_its_largest_loss() {
        use super::super::poisson::PoissonPair;
        use super::super::{closed, pair::Reversed};
        use dpopt_event::Relation;
        // 30·(the float 0.1) = 3 + 1.665e-16
        let event = Event::DiscreteLaplace { noise_parameter: 0.1, sensitivity: 30 };
        let value = super::super::Pld::default().delta(&event, Relation::ZeroOut, 3.0).unwrap().upper;
        assert!((0.524 * 1.665e-16..1e-14).contains(&value), "{value:e}");
        let mut rounded_up = 0;
        for i in 1..400 {
            let (q, loss) = (f64::from(i) / 401.0, 0.37 + f64::from(i) * 0.0131);
            let coin = super::super::atoms::Atoms::symmetric(&[loss], &[0.0]);
            let p = coin.p[1];
            // the sampled loss ln(1 + q(e^l − 1)), to 3u of it, and an ε that is 4u below
            let top = (q * loss.exp_m1()).ln_1p();
            let epsilon = top * (1.0 - 4.0 * U);
            let truth = (q * p + (1.0 - q) * p * (-loss).exp()) * top * U;
            let pair = PoissonPair { probability: q, base: coin };
            let m = pair.masses(&[epsilon]);
            rounded_up += usize::from(m.p[1] == 0.0);
            assert!(single_delta(&pair, epsilon) >= truth, "{q} {loss}");
            // the other order's largest loss, -ln(1 + q(e^-l − 1)), to 6u of it and with mass p
            let less = -q * (-loss).exp_m1();
            let top = if less < 0.5 { -(-less).ln_1p() } else { -(1.0 - q + q * (-loss).exp()).ln() };
            assert!(single_delta(&Reversed(pair), top * (1.0 - 8.0 * U)) >= p * top * U, "{q} {loss}");
        }
        assert!(rounded_up > 0, "no border was rounded above its loss");
        let (forward, _) = closed::randomized_response(0.5, 2, Relation::ReplaceOne);
        assert!(forward.raised().loss[2] > 3f64.ln());
    }

    /// One composition for a range of δ is as tight as one for each of them, to what a lattice is off by: 2e-6 of ε, and so λε·2e-6 of δ.
    #[test]
    fn many_readings_are_what_each_would_be() {
        use super::super::closed::LaplacePair;
        use super::super::pair::{GaussianPair, Reversed};
        use super::super::poisson::PoissonPair;
        let sampled = |probability: f64, mu: f64| PoissonPair { probability, base: GaussianPair { mu } };
        let lists: [Vec<(Arc<dyn Pair>, u64)>; 4] = [
            vec![(Arc::new(sampled(0.01, 1.0)), 1000)],
            vec![(Arc::new(Reversed(sampled(0.2, 0.5))), 40)],
            vec![(Arc::new(sampled(0.05, 1.2)), 6)],
            vec![(Arc::new(LaplacePair { shift: 0.1 }), 100), (Arc::new(sampled(0.02, 0.7)), 50)],
        ];
        for draws in &lists {
            let end = epsilon(draws, 1e-12, Quality::FINE).unwrap().value;
            let epsilons: Vec<f64> = (0..40).map(|k| end * f64::from(k) / 39.0).collect();
            let (mut seen, mut settings, mut far) = (0, vec![], vec![]);
            for (reading, at) in deltas(draws, &epsilons, Quality::FINE).iter().zip(&epsilons) {
                let alone = delta(draws, *at, Quality::FINE);
                let off = reading.value / alone.value - 1.0;
                let allowed = 2e-6 * (1.0 + 4.0 * alone.lambda * at);
                if !(off.abs() < allowed) {
                    far.push((*at, reading.value, alone.value, off / allowed));
                }
                seen += usize::from(reading.value < 1e-3);
                settings.push((reading.step, reading.points));
            }
            settings.dedup();
            assert!(far.is_empty(), "{far:?}");
            assert!(seen > 5 && settings.len() < 15, "{seen} {settings:?}");
        }
    }

    /// Below the largest of a few point losses one lattice for many ε was 14 % above each one's own.
    #[test]
    fn a_curve_keeps_the_kinks_of_few_point_losses() {
        use super::super::closed::LaplacePair;
        let part = |scale: f64| -> (Arc<dyn Pair>, u64) { (Arc::new(LaplacePair { shift: 1.0 / scale }), 1) };
        let draws = [part(0.5335), part(0.5087), part(4.487)];
        let epsilons = [0.0, 2.0, 4.063058971120712];
        for (reading, at) in deltas(&draws, &epsilons, Quality::FINE).iter().zip(epsilons) {
            let alone = delta(&draws, at, Quality::FINE).value;
            assert!((reading.value / alone - 1.0).abs() < 1e-3, "{at}: {} {alone}", reading.value);
        }
        // kinks that a lattice holds, that many draws blur, or that others round off, need no lattice of their own
        assert!(!has_sharp_kinks(&[part(0.5), part(4.0)]) && !has_sharp_kinks(&[(part(0.5).0, 40), part(0.5087)]));
        let smooth: Arc<dyn Pair> = Arc::new(super::super::pair::GaussianPair { mu: 0.5 });
        assert!(has_sharp_kinks(&draws) && !has_sharp_kinks(&[part(0.5335), part(0.5087), (smooth, 1)]));
    }

    /// By convolution at steps of 1.1e-5 and 5.7e-6 ε is .0201061 and .0201054; a coarse look at the small losses gave .02045.
    #[test]
    fn small_losses_of_a_rare_sample_are_looked_at_closely() {
        use super::super::pair::GaussianPair;
        use super::super::poisson::PoissonPair;
        let pair = PoissonPair { probability: 1.202e-6, base: GaussianPair { mu: 1.0 / 0.4706 } };
        let found = epsilon(&[(Arc::new(pair), 1504)], 1.379e-7, Quality::FINE).unwrap().value;
        assert!(found > 0.0201052 && found < 0.02013, "{found}");
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
