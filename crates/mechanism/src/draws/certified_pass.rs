//! Passes of SGD along clipped gradients, phase by phase, each mean of iterates released only if few enough gradients were clipped: propose, test,
//! release (Dwork, Lei 2009; docs/proofs/certified-clipped-sgd.md).
//!
//! Steps along clipped gradients need not contract. Where so few are clipped that their expansions come to a public factor, one record
//! moves the mean by no more than that factor times its own step. How far a table is from one with too many has sensitivity 1; it
//! is compared with a threshold, with noise, and neither it nor the number of clips ever leaves: only whether it was above.

use super::minimiser::closing_grid;
use super::phased_pass::{ABOVE_SPACING, Phase, ROUNDING};
use super::solved::made_for;
use dpopt_kernel::beside::{Sealed, add_rounded_gaussian, rounded_gaussian};
use dpopt_kernel::{CuratorError, GridSum, Mechanism, SamplerError};
use dpopt_noise::{DiscreteLaplace, Grid, NoiseSource, Purpose};
use dpopt_objective::geometry::project_l2_ball;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::{ClippedPass, UNIT};
use dpopt_privacy::{Event, Relation};

/// Public numbers of the test that decides whether a phase is released.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClipTest {
    /// ε₁ of the test's answer.
    pub epsilon: f64,
    /// δ₁ < ½: most that the chance may be to pass where too many gradients are clipped.
    pub delta: f64,
    /// κ > 1: what clipped steps may do to the distance of two runs.
    pub growth: f64,
    /// K: levels of distance from tables with too many clips that are told apart.
    pub levels: u64,
}

impl ClipTest {
    /// Scale 1/ε₁ of the test's noise, rounded up.
    fn scale(&self) -> f64 {
        (1.0 / self.epsilon).next_up()
    }

    /// t: passed is what is above it. With noise of P(z) ∝ e^(−ε₁|z|) the chance to be above from level 0 is e^(−ε₁(t+1))/(1 + e^(−ε₁)), at most δ₁.
    ///
    /// ```
    /// use dpopt_mechanism::ClipTest;
    /// assert_eq!(ClipTest { epsilon: 0.25, delta: 1e-6, growth: 1.1, levels: 79 }.threshold(), 53);
    /// ```
    pub fn threshold(&self) -> u64 {
        // of the scale that is drawn from, and up
        ((0.5 / self.delta).ln() * self.scale() * (1.0 + 16.0 * UNIT)).ceil() as u64
    }

    /// K with which a table without clips fails the test with probability `spurious` at most: t and the least m with e^(−ε₁m)/(1 + e^(−ε₁)) at most that.
    pub fn levels_for(epsilon: f64, delta: f64, spurious: f64) -> u64 {
        let test = Self { epsilon, delta, growth: 1.0, levels: 0 };
        let ratio = 1.0 / (spurious * (1.0 + (-epsilon).exp()));
        test.threshold().saturating_add((ratio.ln() / epsilon).ceil().max(0.0) as u64)
    }

    /// u: the largest level k ≤ K at which no more than M − k norms are above C − kΔ; 0 if there is none.
    fn level(&self, norms: &[f64], clip_norm: f64, spacing: f64, allowed: u64) -> u64 {
        let mut large: Vec<f64> =
            norms.iter().copied().filter(|n| *n > clip_norm - self.levels as f64 * spacing).collect();
        large.sort_unstable_by(f64::total_cmp);
        let above = |k: u64| {
            let bound = clip_norm - k as f64 * spacing;
            (large.len() - large.partition_point(|n| *n <= bound)) as u64
        };
        (1..=self.levels).rev().find(|&k| k <= allowed && above(k) <= allowed - k).unwrap_or(0)
    }
}

/// The phases one after the other, over records in an order that depends on no record; phase i starts where phase i − 1 was released, and there is none
/// after one that was not. Event: `Parallel` of one `ProposeTestRelease(ε₁, δ₁, z)` per phase.
#[derive(Clone, Debug)]
pub struct CertifiedPass {
    /// φ over rows of at most the norm that noise is made for.
    pub objective: Linear,
    /// The phases in order; together they have all records.
    pub phases: Vec<Phase>,
    /// D: what is released is brought into the ball of this radius around 0, where the next phase starts.
    pub radius: f64,
    /// z: noise over what a record's presence moves, of every phase.
    pub noise_multiplier: f64,
    /// The test of each phase.
    pub test: ClipTest,
    /// Zero-out or replace-one.
    pub relation: Relation,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
}

/// The released points of all phases.
#[derive(Clone, Debug, PartialEq)]
pub struct CertifiedPoints {
    /// Where each phase led, one point after the other; of a phase that was not released, and of those after it, the point before.
    pub points: Vec<f64>,
    /// How many phases were released.
    pub released: u64,
}

impl CertifiedPass {
    fn pass(&self, phase: &Phase) -> ClippedPass {
        let Phase { learning_rate, clip_norm, .. } = *phase;
        ClippedPass { objective: self.objective, learning_rate, clip_norm, target_bound: self.target_bound }
    }

    /// Bound on the norm of where a phase starts.
    fn start(&self) -> f64 {
        self.radius * (1.0 + 2f64.powi(-20))
    }

    /// b̄ of one record's presence.
    fn reach(&self, phase: &Phase) -> f64 {
        self.pass(phase).reach(phase.records, self.start(), self.test.growth)
    }

    /// l2 sensitivity of a phase's mean to one record's presence, its rounding to the grid included, where the test passes for a reason.
    pub fn sensitivity(&self, phase: &Phase) -> f64 {
        let root = (self.objective.weights() as f64).sqrt();
        (self.reach(phase) + self.grid(phase).step() * root) * (1.0 + 1e-12)
    }

    /// Standard deviation of each weight's noise.
    pub fn noise_std(&self, phase: &Phase) -> f64 {
        self.noise_multiplier * self.sensitivity(phase)
    }

    /// Δ: how far the norms of two neighbours' gradients are apart at most, as computed.
    pub fn spacing(&self, phase: &Phase) -> f64 {
        let pass = self.pass(phase);
        let drift = self.relation.sum_sensitivity() * self.reach(phase);
        let of_norms = 2.0 * pass.norm_error(phase.records, self.start());
        (pass.smoothness() * drift + of_norms + 8.0 * UNIT * phase.clip_norm) * (1.0 + 2f64.powi(-40))
    }

    /// M: how many steps of a phase may be clipped for its drift to be bounded.
    pub fn allowed(&self, phase: &Phase) -> u64 {
        // as many as there are, and K more, are as good as any
        self.pass(phase).allowed(self.test.growth).min(phase.records.saturating_add(self.test.levels))
    }

    /// Fine against the noise and against what a record moves.
    fn grid(&self, phase: &Phase) -> Grid {
        let bare = phase.learning_rate * phase.clip_norm;
        closing_grid(self.noise_multiplier * bare, bare, self.objective.weights())
    }

    /// Whether the proof covers a phase: unclipped steps contract, all levels lie above C/2, rounding is small against a record, and the noise is far above the
    /// spacing of numbers of the size of the point it is added to.
    pub fn covers(&self, phase: &Phase) -> bool {
        let ClipTest { epsilon, delta, growth, levels } = self.test;
        let pass = self.pass(phase);
        let tested = epsilon > 0.0
            && DiscreteLaplace::with_scale(self.test.scale()).is_ok()
            && delta > 0.0
            && delta < 0.5
            && growth > 1.0
            && growth.is_finite()
            && levels > 0
            && levels < 1 << 20;
        if !(tested && pass.is_covered() && self.noise_multiplier > 0.0) {
            return false;
        }
        let bare = phase.learning_rate * phase.clip_norm;
        let small = pass.rounding(phase.records, self.start()) <= ROUNDING * 2.0 * bare;
        let fine = self.noise_std(phase) >= ABOVE_SPACING * f64::EPSILON * self.radius;
        let spread = levels as f64 * self.spacing(phase) <= 0.5 * phase.clip_norm;
        small && fine && spread && self.grid(phase).exponent() > -390
    }
}

impl Sealed for CertifiedPass {}

impl Mechanism for CertifiedPass {
    type Input = Examples;
    type Output = CertifiedPoints;

    fn event(&self) -> Event {
        let ClipTest { epsilon, delta, .. } = self.test;
        let one = Event::ProposeTestRelease { epsilon, delta, noise_multiplier: self.noise_multiplier };
        Event::Parallel { blocks: vec![one; self.phases.len()] }
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        let phases = self.phases.len() as f64;
        let noise = SamplerError::rounded(self.objective.weights() as f64) + SamplerError::fine(1.0);
        (noise * phases).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "means of the phases' iterates, where few gradients were clipped"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        if !self.phases.iter().all(|phase| self.covers(phase)) {
            return Err(CuratorError::Noise(
                "the noise of a phase is too small compared with the rounding of its steps, or its steps are too \
                 long; lower epsilon or the learning rate"
                    .into(),
            ));
        }
        self.phases.iter().try_for_each(|phase| rounded_gaussian(self.noise_std(phase), self.grid(phase)).map(drop))
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.objective, input)?;
        let records = self.phases.iter().try_fold(0u64, |sum, phase| sum.checked_add(phase.records));
        // a record that comes or goes would move all later ones into other phases
        let counted = self.relation != Relation::AddOrRemove && records == Some(input.rows.len() as u64);
        let positive = self.radius > 0.0 && self.radius.is_finite() && self.phases.iter().all(|p| p.records > 0);
        let covered = positive && self.phases.iter().all(|phase| self.covers(phase));
        if counted && covered && u32::try_from(input.rows.len()).is_ok() { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &CertifiedPoints) -> Option<&[f64]> {
        Some(&output.points)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<CertifiedPoints, CuratorError> {
        let of_test = DiscreteLaplace::with_scale(self.test.scale()).map_err(|_| CuratorError::Shape)?;
        let mut order: Vec<u32> = (0..input.rows.len() as u32).collect();
        // by coins, so that a table's own order does not decide which phase sees what
        noise.stream(Purpose::Initialisation, 0).shuffle(&mut order);
        let (mut point, mut points, mut left) = (vec![0.0; self.objective.weights()], Vec::new(), &order[..]);
        let (mut released, mut going) = (0, true);
        for phase in &self.phases {
            let (own, later) = left.split_at(phase.records as usize);
            left = later;
            if going {
                let walked = self.pass(phase).walk(input, own, &point);
                let level = self.test.level(&walked.norms, phase.clip_norm, self.spacing(phase), self.allowed(phase));
                let drawn = of_test.sample(&mut noise.stream(Purpose::Selection, 0));
                going = (level as i64).saturating_add(drawn) > self.test.threshold() as i64;
                if going {
                    let grid = self.grid(phase);
                    let mut units = GridSum::of_query(walked.mean.into_iter(), grid, 0.0).into_quanta();
                    add_rounded_gaussian(&mut units, self.noise_std(phase), grid, noise)?;
                    // from here on it is released
                    point.iter_mut().zip(units).for_each(|(x, u)| *x += grid.to_f64(u));
                    project_l2_ball(&mut point, self.radius);
                    released += 1;
                }
            }
            points.extend_from_slice(&point);
        }
        Ok(CertifiedPoints { points, released })
    }
}

#[cfg(test)]
#[path = "certified_pass_tests.rs"]
mod tests;
