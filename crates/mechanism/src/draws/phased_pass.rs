//! Passes of SGD over disjoint phases of the records, the mean of each phase's iterates released with noise (Feldman, Koren, Talwar
//! 2020; Liu 2024, Algorithm 43; docs/proofs/phased-sgd.md).
//!
//! Each record is in one phase and makes one step there. That step moves the phase's mean by ηC at most, and contractions never make
//! it more; the iterates themselves never leave. What later phases start from has been released.

use super::minimiser::closing_grid;
use super::solved::made_for;
use dpopt_kernel::beside::{Sealed, add_rounded_gaussian, rounded_gaussian};
use dpopt_kernel::{CuratorError, GridSum, Mechanism, SamplerError};
use dpopt_noise::{Grid, NoiseSource, Purpose};
use dpopt_objective::geometry::project_l2_ball;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::Pass;
use dpopt_privacy::{Event, Relation};
use serde::Serialize;

/// Public numbers of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Phase {
    /// T: records, one step each.
    pub records: u64,
    /// η of a record's step.
    pub learning_rate: f64,
    /// C: bound on the norm of a record's gradient.
    pub clip_norm: f64,
}

/// The phases one after the other, over records in an order that depends on no record; phase i starts where phase i − 1 was released.
/// Event: `Parallel` of one `Gaussian(z)` per phase, the noise being z times what one record's presence moves.
#[derive(Clone, Debug)]
pub struct PhasedPass {
    /// φ over rows of at most the norm that noise is made for.
    pub objective: Linear,
    /// The phases in order; together they have all records.
    pub phases: Vec<Phase>,
    /// D: what is released is brought into the ball of this radius around 0, where the next phase starts.
    pub radius: f64,
    /// z: noise over the sensitivity, of every phase.
    pub noise_multiplier: f64,
    /// Zero-out or replace-one.
    pub relation: Relation,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
}

/// The largest rounding error, as a share of what a replaced record moves (docs/proofs/phased-sgd.md, "Refused before the charge").
pub(super) const ROUNDING: f64 = 1e-3;
/// The least noise over the spacing of numbers of size D: smaller noise is lost in the sum with the point (docs/proofs/phased-sgd.md).
pub(super) const ABOVE_SPACING: f64 = 1_048_576.0;

impl PhasedPass {
    fn pass(&self, phase: &Phase) -> Pass {
        let Phase { learning_rate, clip_norm, .. } = *phase;
        Pass { objective: self.objective, learning_rate, clip_norm, target_bound: self.target_bound }
    }

    /// Bound on the norm of where a phase starts.
    fn start(&self) -> f64 {
        self.radius * (1.0 + 2f64.powi(-20))
    }

    /// l2 sensitivity of a phase's mean to one record's presence, its rounding to the grid included.
    pub fn sensitivity(&self, phase: &Phase) -> f64 {
        let root = (self.objective.weights() as f64).sqrt();
        let reach = self.pass(phase).reach(phase.records, self.start());
        (reach + self.grid(phase).step() * root) * (1.0 + 1e-12)
    }

    /// Standard deviation of each weight's noise.
    pub fn noise_std(&self, phase: &Phase) -> f64 {
        self.noise_multiplier * self.sensitivity(phase)
    }

    /// Fine against the noise and against what a record moves.
    fn grid(&self, phase: &Phase) -> Grid {
        let bare = phase.learning_rate * phase.clip_norm;
        closing_grid(self.noise_multiplier * bare, bare, self.objective.weights())
    }

    /// Whether the proof covers a phase: steps contract, rounding is small against a record, and the noise is far above the spacing of
    /// numbers of the size of the point it is added to.
    pub fn covers(&self, phase: &Phase) -> bool {
        let pass = self.pass(phase);
        let bare = phase.learning_rate * phase.clip_norm;
        let small = pass.rounding(phase.records, self.start()) <= ROUNDING * 2.0 * bare;
        let fine = self.noise_std(phase) >= ABOVE_SPACING * f64::EPSILON * self.radius;
        pass.is_contraction() && small && fine && self.noise_multiplier > 0.0 && self.grid(phase).exponent() > -390
    }
}

impl Sealed for PhasedPass {}

impl Mechanism for PhasedPass {
    type Input = Examples;
    /// Where each phase led, one point after the other: the last is the answer.
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::Parallel { blocks: vec![Event::gaussian(self.noise_multiplier); self.phases.len()] }
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        SamplerError::rounded(self.phases.len() as f64 * self.objective.weights() as f64).total_variation()
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "means of the phases' iterates"
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

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let mut order: Vec<u32> = (0..input.rows.len() as u32).collect();
        // by coins, so that a table's own order does not decide which phase sees what
        noise.stream(Purpose::Initialisation, 0).shuffle(&mut order);
        let (mut point, mut all, mut left) = (vec![0.0; self.objective.weights()], Vec::new(), &order[..]);
        for phase in &self.phases {
            let (own, later) = left.split_at(phase.records as usize);
            let moved = self.pass(phase).mean(input, own, &point);
            let grid = self.grid(phase);
            let mut units = GridSum::of_query(moved.into_iter(), grid, 0.0).into_quanta();
            add_rounded_gaussian(&mut units, self.noise_std(phase), grid, noise)?;
            // from here on it is released
            point.iter_mut().zip(units).for_each(|(x, u)| *x += grid.to_f64(u));
            project_l2_ball(&mut point, self.radius);
            all.extend_from_slice(&point);
            left = later;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::Rows;

    fn phased(phases: Vec<Phase>, radius: f64) -> PhasedPass {
        PhasedPass {
            objective: Linear::new(Loss::Logistic { shift: 0.0 }, 2, 1.0),
            phases,
            radius,
            noise_multiplier: 2.0,
            relation: Relation::ZeroOut,
            target_bound: 1.0,
        }
    }

    fn phase(records: u64, learning_rate: f64) -> Phase {
        Phase { records, learning_rate, clip_norm: 1.0 }
    }

    fn empty(records: usize) -> Examples {
        let mut rows = Rows::new(2);
        (0..records).for_each(|_| rows.push_zero());
        Examples { rows, targets: vec![1.0; records] }
    }

    #[test]
    fn what_is_not_proved_is_refused_before_the_charge() {
        let good = phased(vec![phase(8, 0.25), phase(8, 0.0625)], 1.0);
        assert_eq!(good.check(&empty(16)), Ok(()));
        assert_eq!(good.check(&empty(17)), Err(CuratorError::Shape));
        let refused = |mechanism: PhasedPass| mechanism.check(&empty(16)) == Err(CuratorError::Shape);
        assert!(refused(phased(vec![phase(16, 8.5)], 1.0)), "steps that expand");
        assert!(
            refused(phased(vec![phase(8, 0.25), phase(8, 1e-11)], 1.0)),
            "a late phase below the spacing of numbers"
        );
        assert!(refused(phased(vec![phase(16, 0.25), phase(0, 0.1)], 1.0)), "a phase without records");
        assert!(refused(phased(vec![phase(16, 0.25)], f64::INFINITY)));
        assert!(refused(PhasedPass { relation: Relation::AddOrRemove, ..good.clone() }));
        assert!(refused(PhasedPass { noise_multiplier: 0.0, ..good.clone() }));
        let hinge = Linear::new(Loss::Hinge, 2, 1.0);
        assert!(refused(PhasedPass { objective: hinge, ..good }), "a corner");
    }

    #[test]
    fn the_last_phase_of_a_schedule_that_may_run_is_where_noise_nears_the_spacing() {
        // η_i = 4^-i: with D = 1 and z = 2 the noise 2·4^-i·1 passes 2^20·2^-52 between i = 16 and 17
        let mechanism = phased(vec![phase(1, 0.25)], 1.0);
        let last = (1..30).take_while(|i| mechanism.covers(&phase(4, 0.25f64.powi(*i)))).last();
        assert_eq!(last, Some(16));
    }

    #[test]
    fn without_gradients_only_noise_is_left_of_the_planned_size() {
        let phases = vec![phase(8, 0.25), phase(4, 0.0625)];
        let mechanism = phased(phases.clone(), 1e3);
        let mut noise = NoiseSource::insecure(5);
        let runs = 4000;
        let mut squares = [0.0; 2];
        for _ in 0..runs {
            let all = mechanism.apply(&empty(12), &mut noise).unwrap();
            assert_eq!(all.len(), 4);
            squares[0] += all[0] * all[0] + all[1] * all[1];
            squares[1] += (all[2] - all[0]).powi(2) + (all[3] - all[1]).powi(2);
        }
        for (phase, square) in phases.iter().zip(squares) {
            let ratio = (square / (2.0 * f64::from(runs))).sqrt() / mechanism.noise_std(phase);
            // χ² with 8000 degrees: five standard deviations are .04
            assert!((ratio - 1.0).abs() < 0.04, "{ratio}");
        }
        let noise_std = mechanism.noise_std(&phases[0]);
        assert!((0.5..0.505).contains(&noise_std), "z·η·C and little more: {noise_std}");
    }

    #[test]
    fn every_record_is_in_one_phase_and_all_coins_are_the_runs_own() {
        // one record has a label and a row, at each place in turn: it moves the run by as much, wherever it stands
        let mechanism = phased(vec![phase(4, 0.25), phase(4, 0.0625)], 1e6);
        let run = |place: Option<usize>, seed: u64| {
            let mut rows = Rows::new(2);
            for i in 0..8 {
                if place == Some(i) { rows.push_clipped(&mut [(0, 1.0)], 1.0) } else { rows.push_zero() }
            }
            let examples = Examples { rows, targets: vec![1.0; 8] };
            mechanism.apply(&examples, &mut NoiseSource::insecure(seed)).unwrap()
        };
        let none = run(None, 3);
        let moved: Vec<bool> = (0..8).map(|i| (run(Some(i), 3)[0] - none[0]).abs() > 1e-3).collect();
        assert_eq!(moved.iter().filter(|m| **m).count(), 4, "half of the places are in the first phase: {moved:?}");
        let later = (0..8).filter(|i| (run(Some(*i), 3)[2] - none[2]).abs() > 1e-3).count();
        assert_eq!(later, 8, "and what a first phase shows the second starts from");
    }
}
