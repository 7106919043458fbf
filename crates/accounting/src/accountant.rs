//! Accountants: upper bounds on ε(δ) and δ(ε) of an event.

pub mod conversion;
mod gate;
pub mod gdp;
mod integer_shift;
mod memo;
pub mod pld;
pub mod pure;
pub mod rdp;
pub(crate) mod sampler_error;
pub mod split;
mod trade_off;
pub mod verify;
pub mod zcdp;

pub use trade_off::{gdp_estimate, true_positive_rates};

use dpopt_event::{Budget, Event, Relation, group};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A certified upper bound, with what is known about its slack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The bound: ε for [`Accountant::epsilon`], δ for [`Accountant::delta`]. Rounded up. +∞ (`"inf"` in JSON) for an event with a
    /// part that is released without protection.
    #[serde(with = "number")]
    pub upper: f64,
    /// A certified lower bound: what a mechanism that the event describes attains, where one is known.
    pub lower: Option<f64>,
    /// Name of the accountant: `gdp`, `pure`, `zcdp`, `rdp`, `pld`, `split`.
    pub accountant: String,
    /// The bound for (with the record ‖ without it), where directions are told apart.
    #[serde(default)]
    pub with_to_without: Option<f64>,
    /// The bound for (without the record ‖ with it), where directions are told apart.
    #[serde(default)]
    pub without_to_with: Option<f64>,
    /// Numerical slack of a lattice computation.
    #[serde(default)]
    pub slack: Option<Slack>,
}

/// Numbers of which infinity is one: JSON has no name for it.
mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(x: &f64, to: S) -> Result<S::Ok, S::Error> {
        if *x == f64::INFINITY { to.serialize_str("inf") } else { to.serialize_f64(*x) }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Name(String),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(x) => Ok(x),
            Written::Name(name) if name == "inf" => Ok(f64::INFINITY),
            Written::Name(name) => Err(D::Error::custom(format!("`{name}` is no number"))),
        }
    }
}

/// What a lattice computation added to stay on the safe side; all of it is already inside [`Bound::upper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slack {
    /// δ of losses beyond the grid.
    pub inf_mass: f64,
    /// δ added for rounding of the Fourier transform.
    pub fft: f64,
    /// Bound on δ added by aliasing (losses that wrap around the window), where it was worked out.
    #[serde(default)]
    pub alias: Option<f64>,
    /// Total variation charged by [`Event::Approximate`].
    pub total_variation: f64,
    /// Lattice step in ε.
    pub grid_interval: f64,
    /// Points of the Fourier window.
    pub window_points: usize,
    /// Exponential tilt λ (Rényi order minus one).
    pub tilt: f64,
}

impl Bound {
    /// A bound with nothing known about its slack.
    pub fn new(upper: f64, accountant: &str) -> Self {
        Self {
            upper,
            lower: None,
            accountant: accountant.into(),
            with_to_without: None,
            without_to_with: None,
            slack: None,
        }
    }

    /// A closed form: exact up to rounding, so that `lower` is known too.
    pub fn exact(lower: f64, upper: f64, accountant: &str) -> Self {
        Self { lower: Some(lower), ..Self::new(upper, accountant) }
    }
}

/// Why an accountant gives no number.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum AccountingError {
    /// The accountant has no valid bound for this event under this relation.
    #[error("the {accountant} accountant does not support this event under {relation}: {reason}")]
    Unsupported {
        /// The accountant that was asked.
        accountant: &'static str,
        /// The neighbouring relation that was asked for.
        relation: Relation,
        /// Why, and what to do.
        reason: String,
    },
    /// A parameter is outside its range.
    #[error("{0}")]
    Parameter(String),
    /// The accountant's answer is below what is certainly attained (or no number): a defect, so that it is not used.
    #[error(
        "the result of the {accountant} accountant was rejected, since it contradicts a proved bound: {reason}; \
         please report the event"
    )]
    Contradicted {
        /// The accountant that gave the answer.
        accountant: String,
        /// Its answer and what it contradicts.
        reason: String,
    },
    /// No finite ε exists at this δ (or no δ < 1 at this ε).
    #[error("{0}")]
    Unreachable(String),
}

/// One way to bound the privacy loss of an event.
pub trait Accountant: Sync {
    /// `gdp`, `pure`, `zcdp`, `rdp`, `pld`, `split`.
    fn name(&self) -> &'static str;
    /// Honest: `Ok` only if [`epsilon`](Self::epsilon) is a theorem for this event and relation.
    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError>;
    /// What this accountant says ε is at `delta`, before the gate: what [`epsilon`](Self::epsilon) asks for.
    fn claim_epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError>;
    /// What this accountant says δ is at `epsilon`, before the gate: what [`delta`](Self::delta) asks for.
    fn claim_delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError>;

    /// Smallest ε this accountant can certify at `delta`. The answer has passed the gate: it is not below what is attained, and
    /// at δ = 0 there is one for purely private events only.
    fn epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
        gate::epsilon(self, event, relation, delta)
    }

    /// Smallest δ this accountant can certify at `epsilon`, in [0, 1]. The answer has passed the gate: it is not below what is
    /// attained, and 0 only where that is proved.
    fn delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
        gate::delta(self, event, relation, epsilon)
    }
}

/// Every accountant, cheapest first.
pub fn all() -> &'static [&'static dyn Accountant] {
    &[
        &gdp::GdpAccountant,
        &split::SplitAccountant,
        &pure::PureAccountant,
        &zcdp::ZcdpAccountant,
        &pld::Pld { quality: pld::Quality::BRACKET },
        &rdp::RdpAccountant,
    ]
}

/// δ must lie in [0, 1]; everything is (0, 1)-private.
pub(crate) fn check_delta(delta: f64) -> Result<(), AccountingError> {
    if (0.0..=1.0).contains(&delta) {
        return Ok(());
    }
    Err(AccountingError::Parameter(format!("delta is {delta}; give a number in [0, 1], for example 1e-6")))
}

/// ε must be finite and at least 0.
pub(crate) fn check_epsilon(epsilon: f64) -> Result<(), AccountingError> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(AccountingError::Parameter(format!("epsilon is {epsilon}; give a finite number, at least 0")))
}

/// The tightest ε that can be certified at `delta`.
pub fn epsilon(event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
    epsilon_at(event, relation, delta, pld::Quality::FINE)
}

/// Proof by an accountant that needs no lattice that the event fits the budget, if there is one: exact for trees of
/// Gaussians; for objective perturbation one evaluation of δ at the budget's ε, which is then the bound.
pub fn closed_form(event: &Event, relation: Relation, budget: Budget) -> Option<Bound> {
    if let Ok(bound) = gdp::GdpAccountant.epsilon(event, relation, budget.delta()) {
        return (bound.upper <= budget.epsilon()).then_some(bound);
    }
    let spent = split::SplitAccountant.delta(event, relation, budget.epsilon()).ok()?;
    (spent.upper <= budget.delta()).then(|| Bound::new(budget.epsilon(), split::SplitAccountant.name()))
}

/// The tightest δ that can be certified at `epsilon`.
pub fn delta(event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
    delta_at(event, relation, epsilon, pld::Quality::FINE)
}

/// [`delta`] at a chosen quality of the lattice computation.
pub fn delta_at(
    event: &Event,
    relation: Relation,
    epsilon: f64,
    quality: pld::Quality,
) -> Result<Bound, AccountingError> {
    delta_with(event, relation, epsilon, || pld::Pld { quality }.delta(event, relation, epsilon))
}

/// [`delta_at`] with the answer of the lattice.
fn delta_with(
    event: &Event,
    relation: Relation,
    epsilon: f64,
    lattice: impl FnOnce() -> Result<Bound, AccountingError>,
) -> Result<Bound, AccountingError> {
    let renyi = |order: f64, cost: &rdp::Cost| {
        // the factor between the two is far from 1 in δ
        0.5 * (conversion::ln_delta(order, cost.divergence, epsilon).exp() + cost.delta)
    };
    automatic(event, relation, lattice, None, |a| a.delta(event, relation, epsilon), renyi)
}

/// An answer of the lattice that was worked out together with others, on its way through the gate.
struct Claimed(Bound);

impl Accountant for Claimed {
    fn name(&self) -> &'static str {
        "pld"
    }

    fn supports(&self, _: &Event, _: Relation) -> Result<(), AccountingError> {
        Ok(())
    }

    fn claim_epsilon(&self, _: &Event, _: Relation, _: f64) -> Result<Bound, AccountingError> {
        Ok(self.0.clone())
    }

    fn claim_delta(&self, _: &Event, _: Relation, _: f64) -> Result<Bound, AccountingError> {
        Ok(self.0.clone())
    }
}

/// The tightest δ at each of `epsilons`, in their order. δ never grows with ε, so what is certified at a smaller ε of the list
/// holds at a larger one.
///
/// ```
/// use dpopt_privacy::{Event, Relation, accountant};
/// let curve = accountant::privacy_curve(&Event::gaussian(1.0), Relation::ZeroOut, &[2.0, 0.5, 1.0])?;
/// assert!(curve[0].upper < curve[2].upper && curve[2].upper < curve[1].upper);
/// # Ok::<(), dpopt_privacy::accountant::AccountingError>(())
/// ```
pub fn privacy_curve(event: &Event, relation: Relation, epsilons: &[f64]) -> Result<Vec<Bound>, AccountingError> {
    curve_at(event, relation, epsilons, pld::Quality::BRACKET)
}

/// The upper bounds of [`privacy_curve`], in a fraction of the time: for pictures.
pub fn deltas(event: &Event, relation: Relation, epsilons: &[f64]) -> Result<Vec<f64>, AccountingError> {
    Ok(curve_at(event, relation, epsilons, pld::Quality::FINE)?.into_iter().map(|bound| bound.upper).collect())
}

/// [`privacy_curve`] at a chosen quality of the lattice, whose compositions are read at many ε each.
fn curve_at(
    event: &Event,
    relation: Relation,
    epsilons: &[f64],
    quality: pld::Quality,
) -> Result<Vec<Bound>, AccountingError> {
    let mut order: Vec<usize> = (0..epsilons.len()).collect();
    order.sort_by(|a, b| epsilons[*a].total_cmp(&epsilons[*b]));
    let sorted: Vec<f64> = order.iter().map(|place| epsilons[*place]).collect();
    let lattice = std::cell::OnceCell::new();
    let mut curve = vec![Bound::new(1.0, "none"); epsilons.len()];
    for (rank, &place) in order.iter().enumerate() {
        let epsilon = epsilons[place];
        let read = || {
            let all = lattice.get_or_init(|| pld::Pld { quality }.claim_deltas(event, relation, &sorted));
            let claimed = Claimed(all.as_ref().map_err(Clone::clone)?[rank].clone());
            claimed.delta(event, relation, epsilon)
        };
        curve[place] = delta_with(event, relation, epsilon, read)?;
    }
    // upper bounds from the left, lower bounds from the right
    for pair in order.windows(2) {
        curve[pair[1]].upper = curve[pair[1]].upper.min(curve[pair[0]].upper);
    }
    for pair in order.windows(2).rev() {
        // None is below every number
        if curve[pair[1]].lower > curve[pair[0]].lower {
            curve[pair[0]].lower = curve[pair[1]].lower;
        }
    }
    Ok(curve)
}

/// [`epsilon`] at a chosen quality of the lattice computation.
pub fn epsilon_at(
    event: &Event,
    relation: Relation,
    delta: f64,
    quality: pld::Quality,
) -> Result<Bound, AccountingError> {
    // numbers as text are exact
    let question = (event.fingerprint(), format!("{relation:?} {delta:?} {quality:?}"));
    memo::known(question, || automatic_epsilon(event, relation, delta, quality))
}

fn automatic_epsilon(
    event: &Event,
    relation: Relation,
    delta: f64,
    quality: pld::Quality,
) -> Result<Bound, AccountingError> {
    let renyi = |order: f64, cost: &rdp::Cost| match delta - cost.delta {
        rest if rest > 0.0 => conversion::epsilon(order, cost.divergence, rest),
        _ => f64::INFINITY,
    };
    let lattice = || pld::Pld { quality }.epsilon(event, relation, delta);
    // a search need not know what a Rényi bound would take off
    let renyi = |order: f64, cost: &rdp::Cost| match quality.tolerance < pld::Quality::COARSE.tolerance {
        true => renyi(order, cost),
        false => f64::INFINITY,
    };
    automatic(event, relation, lattice, Some(delta), |a| a.epsilon(event, relation, delta), renyi)
}

/// Every accountant's answer, for reports: those that do not support the event say why.
pub fn compare(event: &Event, relation: Relation, delta: f64) -> Vec<(&'static str, Result<Bound, AccountingError>)> {
    let mut answers: Vec<_> = all().iter().map(|a| (a.name(), a.epsilon(event, relation, delta))).collect();
    gate::reconcile(answers.iter_mut().map(|(_, answer)| answer));
    answers
}

/// [`compare`] for δ at `epsilon`.
pub fn compare_delta(
    event: &Event,
    relation: Relation,
    epsilon: f64,
) -> Vec<(&'static str, Result<Bound, AccountingError>)> {
    let mut answers: Vec<_> = all().iter().map(|a| (a.name(), a.delta(event, relation, epsilon))).collect();
    gate::reconcile(answers.iter_mut().map(|(_, answer)| answer));
    answers
}

/// Whether the lattice has envelopes for a part of the event, pairs above all mechanisms of a kind, where a Rényi curve may know
/// more: choices of bounded range, stated curves, integer noise on several sums, groups of which only their records are known.
fn has_envelope(event: &Event, relation: Relation) -> bool {
    let here = match event {
        Event::ExponentialMechanism { .. }
        | Event::Zcdp { .. }
        | Event::Rdp { .. }
        | Event::DiscreteGaussian { .. } => true,
        Event::UserUnit { event, records_per_user } => is_converted(event, *records_per_user, relation),
        _ => false,
    };
    here || event.children().iter().any(|child| has_envelope(child, relation))
}

/// Whether what is known of a group comes from what is known of one record, and not from the group's own law.
fn is_converted(event: &Event, records: u64, relation: Relation) -> bool {
    match event {
        Event::Composed { .. } | Event::SelfComposed { .. } | Event::Approximate { .. } => {
            event.children().iter().any(|child| is_converted(child, records, relation))
        }
        Event::NoOp | Event::DiscreteGaussian { .. } | Event::Zcdp { .. } => false,
        other => {
            group::of_kind(records, other).is_none()
                && gdp::mu(other, relation).is_err()
                && !pld::has_group_pair(records, other, relation)
        }
    }
}

/// Below this a divergence may have lost digits, or all of them, by underflow: of (α − 1)·D with α − 1 from 1e-16 and of squares
/// nothing is lost above it. The total variation that it allows is 1e-145.
pub const LEAST_DIVERGENCE: f64 = 1e-290;

/// A computed divergence of `part`, at least [`LEAST_DIVERGENCE`] unless nothing is released.
fn not_underflown(part: &Event, divergence: f64) -> f64 {
    if divergence < LEAST_DIVERGENCE && !tells_nothing(part) { LEAST_DIVERGENCE } else { divergence }
}

/// Whether the divergence (outside of a δ that is set aside) is exactly 0.
fn tells_nothing(event: &Event) -> bool {
    match event {
        Event::NoOp => true,
        Event::ApproxDp { epsilon, .. } | Event::EpsilonDelta { epsilon, .. } => *epsilon == 0.0,
        Event::Zcdp { rho, xi } => *rho == 0.0 && *xi == 0.0,
        Event::Rdp { divergences, .. } => divergences.iter().all(|d| *d == 0.0),
        other => !other.children().is_empty() && other.children().iter().all(tells_nothing),
    }
}

/// Whether something is released without protection. (Sampling before it is given no credit.)
fn unprotected(event: &Event, relation: Relation) -> bool {
    fn released(event: &Event) -> bool {
        *event == Event::NonPrivate || event.children().iter().any(released)
    }
    event.exact(relation).is_ok_and(|exact| exact.parts.iter().any(|(part, _)| released(part)))
}

/// Whether the lattice composes the very pairs whose divergences the Rényi accountant adds up, so that no Rényi bound is below what these attain:
/// noise, alone or on Poisson samples, without another release that is only stated.
fn has_exact_pairs(event: &Event, relation: Relation) -> bool {
    match event {
        Event::Gaussian { .. } | Event::Laplace { .. } | Event::DiscreteLaplace { .. } => true,
        Event::PoissonSampled { event, .. } => {
            relation != Relation::ReplaceOne && matches!(**event, Event::Gaussian { .. } | Event::Laplace { .. })
        }
        Event::Composed { .. } | Event::SelfComposed { .. } => {
            event.children().iter().all(|child| has_exact_pairs(child, relation))
        }
        _ => false,
    }
}

/// How far above the lattice's bound a Rényi bound at the lattice's own tilt may lie for the best order to be looked for: integer
/// orders near it are read, which cost little.
const NEAR: f64 = 1.05;
/// A share of δ at which the rounding of a transform counts.
const ROUNDED: f64 = 1e-3;

/// Whether the Rényi bound may come near the lattice's. It is above it wherever the pairs are exact, but for the lattice's
/// numerical slack.
/// `delta` is what the lattice's bound is about.
fn renyi_is_near(
    event: &Event,
    relation: Relation,
    lattice: &Bound,
    delta: f64,
    at: impl Fn(f64, &rdp::Cost) -> f64,
) -> bool {
    let Some(slack) = lattice.slack.as_ref().filter(|s| s.window_points > 0 && s.tilt < 1e6) else { return false };
    // the same pair, to 2e-6 of ε unless the lattice is coarser than was wanted or its rounding is seen
    let fine = slack.window_points < pld::Quality::FINE.most_points && slack.fft < ROUNDED * delta;
    if fine && has_exact_pairs(event, relation) {
        return false;
    }
    let order = (slack.tilt + 1.0).round().max(2.0);
    rdp::cost(event, relation, order).is_ok_and(|cost| at(order, &cost) <= NEAR * lattice.upper)
}

/// A closed form where there is one; else the best of all accountants that support the event. The Rényi accountant is
/// left out where it cannot come near: where a lattice of exact pairs has a number, it is never below but for rounding. `delta` is
/// given where ε is asked for.
fn automatic(
    event: &Event,
    relation: Relation,
    lattice: impl FnOnce() -> Result<Bound, AccountingError>,
    delta: Option<f64>,
    ask: impl Fn(&dyn Accountant) -> Result<Bound, AccountingError>,
    renyi: impl Fn(f64, &rdp::Cost) -> f64,
) -> Result<Bound, AccountingError> {
    let named = |name: &str| all().iter().copied().find(|a| a.name() == name);
    if let Some(Ok(bound)) = named("gdp").map(&ask) {
        return Ok(bound);
    }
    let lattice = lattice();
    let mut found = vec![lattice.clone()];
    found.extend(["pure", "split", "zcdp"].into_iter().filter_map(named).map(&ask));
    let more = match &lattice {
        Err(_) => true,
        Ok(bound) => {
            has_envelope(event, relation) || renyi_is_near(event, relation, bound, delta.unwrap_or(bound.upper), renyi)
        }
    };
    if more {
        found.extend(named("rdp").map(&ask));
    }
    gate::reconcile(&mut found);
    let least = found.into_iter().flatten().min_by(|a, b| a.upper.total_cmp(&b.upper));
    // the lattice accountant's reason is the most telling, unless it is that nothing is protected: then the number is known
    match (least, lattice) {
        (Some(least), _) => Ok(least),
        (None, Err(AccountingError::Unsupported { .. })) if unprotected(event, relation) => {
            Ok(Bound::new(if delta.is_some() { f64::INFINITY } else { 1.0 }, "none"))
        }
        (None, lattice) => lattice,
    }
}

#[cfg(test)]
mod integers_and_choices_tests;
#[cfg(test)]
mod tightness_tests;
