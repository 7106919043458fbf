//! Restricted Gaussian oracle C: exact rejection from the tangent of the potential (docs/proofs/proximal-sampler.md).
//!
//! Around a reference w with g ∈ ∂F(w), convexity gives F(x) ≥ F(w) + ⟨g, x − w⟩. So x ~ N(c, Λ⁻¹I) on the domain with
//! Λ = m + 1/η, c = (m·x_c + y/η − g)/Λ, accepted with probability e^(−b), b = F(x) − F(w) − ⟨g, x − w⟩ ≥ 0, has exactly
//! the law ∝ e^(−F(x) − m‖x − x_c‖²/2 − ‖x − y‖²/(2η)), for every w and η. The code adds a public slack to b, so that b
//! stays non-negative when F is computed: that changes the number of proposals only.

use super::{Exhausted, Proximal, Tally};
use crate::sampler::potential::Potential;
use crate::sampler::wide::Wide;
use dpopt_noise::Stream;

/// Exact rejection from the tangent of a convex potential.
#[derive(Clone, Debug, PartialEq)]
pub struct Convexity {
    /// Added to b: at least the error of the computed potential and tangent (public).
    pub slack: f64,
    /// Strong convexity m_F of F itself, if its losses have one: the lower bound then has a parabola around **w**, and
    /// proposals are narrower. 0 otherwise.
    pub loss_convexity: f64,
    /// The reference is improved, w ← c(w), until ‖c − w‖ is at most this: with a β_s-smooth F and 1/η ≥ 2β_s each time
    /// halves the distance, so that E b ≤ β_s(d/Λ + ‖c − w‖²)/2 holds for every data set. Infinite: w is y.
    pub reference_distance: f64,
    /// References that are tried at most.
    pub references: u32,
    /// Largest number of proposals, after which the draw is [`Exhausted`]. The caller accounts for it.
    pub proposals: Option<u64>,
    /// Evaluate all of [`proposals`](Self::proposals) and [`references`](Self::references), whatever is accepted.
    pub constant_time: bool,
}

impl Default for Convexity {
    fn default() -> Self {
        Self {
            slack: 0.0,
            loss_convexity: 0.0,
            reference_distance: f64::INFINITY,
            references: 40,
            proposals: None,
            constant_time: false,
        }
    }
}

impl Convexity {
    pub(super) fn draw<P: Potential>(
        &self,
        prox: &Proximal<'_, P>,
        y: &[Wide],
        x: &mut [Wide],
        stream: &mut Stream,
        tally: &mut Tally,
    ) -> Result<(), Exhausted> {
        let d = y.len();
        let beta = prox.potential.scale();
        let m = self.loss_convexity;
        let precision = Wide::from(prox.convexity).plus(prox.inverse_eta).plus(m);
        let variance = precision.inverse();
        let std = variance.root();
        let mut w: Vec<f64> = y.iter().map(|y| y.on_grid(prox.grid)).collect();
        prox.domain.project(&mut w);
        let mut g = vec![0.0; d];
        let mut centre = vec![Wide::default(); d];
        let mut at_reference;
        let mut references = 0;
        loop {
            at_reference = prox.potential.value_and_subgradient(&w, &mut g);
            tally.gradients += 1;
            for j in 0..d {
                let pull = Wide::from(prox.convexity).times(prox.centre[j]).plus(prox.inverse_eta.times(y[j]));
                let slope = Wide::from(g[j]).times(beta);
                centre[j] = pull.plus(Wide::from(m).times(w[j])).minus(slope).times(variance);
            }
            references += 1;
            if self.reference_distance == f64::INFINITY || references >= self.references {
                break;
            }
            let distance = centre.iter().zip(&w).map(|(c, w)| (c.rounded() - w).powi(2)).sum::<f64>().sqrt();
            if distance <= self.reference_distance && !self.constant_time {
                break;
            }
            w.iter_mut().zip(&centre).for_each(|(w, c)| *w = c.on_grid(prox.grid));
            prox.domain.project(&mut w);
        }
        let mut accepted = false;
        let mut proposal = vec![Wide::default(); d];
        let mut count = 0;
        while self.proposals.is_none_or(|most| count < most) {
            count += 1;
            prox.domain.gaussian(&centre, std, &mut proposal, stream);
            let cell: Vec<f64> = proposal.iter().map(|x| x.on_grid(prox.grid)).collect();
            tally.values += 1;
            let gap = self.gap(prox, &proposal, &cell, &w, &g, at_reference);
            let inside = prox.domain.admits(&proposal);
            // outside nothing is known of the arithmetic
            if inside && (gap < 0.0 || gap.is_nan()) {
                tally.not_convex = true;
            }
            // no proposal is ever accepted against what is no number
            if inside && gap.is_nan() && !self.constant_time {
                return Err(Exhausted);
            }
            let heads = stream.bernoulli_exp(gap) && inside;
            if heads && !accepted {
                accepted = true;
                x.copy_from_slice(&proposal);
            }
            if accepted && !self.constant_time {
                break;
            }
        }
        if accepted { Ok(()) } else { Err(Exhausted) }
    }

    /// b = β(S(x) − S(w)) − β⟨g, x − w⟩ − (m_F/2)‖x − w‖² + slack: the differences before the products, with twice the
    /// digits, because both halves can be thousands of times b.
    fn gap<P: Potential>(
        &self,
        prox: &Proximal<'_, P>,
        proposal: &[Wide],
        cell: &[f64],
        w: &[f64],
        g: &[f64],
        at_reference: f64,
    ) -> f64 {
        let difference = Wide::difference(prox.potential.value(cell), at_reference);
        let (mut tangent, mut square) = (Wide::default(), Wide::default());
        for j in 0..w.len() {
            let step = proposal[j].minus(w[j]);
            tangent = tangent.plus(step.times(g[j]));
            if self.loss_convexity > 0.0 {
                square = square.plus(step.times(step));
            }
        }
        let bregman = difference.minus(tangent).times(prox.potential.scale());
        bregman.minus(square.times(0.5 * self.loss_convexity)).plus(self.slack).rounded()
    }
}
