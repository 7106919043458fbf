//! Gradient descent with noise in every step, of which only the last iterate is released: what is known of the iterates before it shrinks with each
//! contraction, so that the whole run costs as much as one release (docs/proofs/last-iterate.md).

use super::solved::made_for;
use dpopt_kernel::beside::{Sealed, add_rounded_gaussian, rounded_gaussian};
use dpopt_kernel::{Clipped, CuratorError, GridSum, Mechanism, SamplerError};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_objective::solver::UNIT;
use dpopt_privacy::{Event, Relation};

/// Grid steps that an entry may have: integers of `f64`, and far from the end of `i64`.
const MAX_QUANTA: f64 = 4.503_599_627_370_496e15; // 2^52

/// x_{t+1} = Π(x_t) − h(Σ∇φ_i(Π(x_t)) + λΠ(x_t)) + N(0, (zΔ)²I) from x_0 = 0, all on a grid; Π(x_T) is released. Event: `Gaussian(z)`.
#[derive(Clone, Debug)]
pub struct LastIterate {
    /// Σφ over rows of at most the norm that the noise is made for: convex and smooth, with bounded slope and one score.
    pub objective: Linear,
    /// A public bound on the number of records, and by it on the smoothness of their sum.
    pub most_rows: u64,
    /// Which data sets are neighbours; not add-or-remove, where the number of records is protected and with it the contraction.
    pub relation: Relation,
    /// λ > 0 of the sum objective.
    pub regularization: f64,
    /// Number T of steps.
    pub steps: u64,
    /// h, in (0, 2/(2λ + nβR²)].
    pub step_size: f64,
    /// Radius of the ball around 0 in which gradients are taken.
    pub radius: f64,
    /// z: noise of a step over Δ.
    pub noise_multiplier: f64,
}

impl LastIterate {
    /// The Lipschitz constant L of one record's loss.
    fn lipschitz(&self) -> f64 {
        self.objective.loss().facts().lipschitz.unwrap_or(f64::INFINITY) * self.objective.row_norm()
    }

    /// λ + nβR²: bound on the curvature of the sum.
    fn curvature(&self) -> f64 {
        let row_norm = self.objective.row_norm();
        let of_a_record = self.objective.loss().facts().smoothness.unwrap_or(f64::INFINITY) * row_norm * row_norm;
        self.regularization + self.most_rows as f64 * of_a_record
    }

    /// c: a step of the exact map brings two points nearer by this factor.
    pub fn contraction(&self) -> f64 {
        let at = |curvature: f64| (1.0 - self.step_size * curvature).abs();
        // a curvature is rounded five times, and h times it is at most 2
        (at(self.regularization).max(at(self.curvature())) + 16.0 * UNIT).min(1.0)
    }

    /// Δ over what one record moves in one step: √((1 − c^T)(1 + c)/((1 + c^T)(1 − c))), at most √T.
    pub fn amplification(&self) -> f64 {
        let (c, steps) = (self.contraction(), self.steps as f64);
        // the same without cancellation: c = e^(−2a) makes it tanh(Ta)/tanh(a)
        let a = -0.5 * (c - 1.0).ln_1p();
        let square = if c < 1.0 { (steps * a).tanh() / a.tanh() } else { steps };
        (square * (1.0 + 1e-9)).min(steps).sqrt()
    }

    /// Grid of what a record gives: fine against L, n records stay within 60 bits, and L within 47.
    fn gradient_grid(&self) -> Grid {
        let root = (self.objective.weights() as f64).sqrt();
        let room = 60.0 - (self.most_rows as f64 * root).log2().ceil().max(0.0);
        let finest = self.lipschitz().log2().ceil() as i32 - 47;
        Grid::new(((self.lipschitz() / root).log2().floor() as i32 - room.clamp(8.0, 40.0) as i32).max(finest))
    }

    /// What clips and adds up what records give.
    fn clipped(&self) -> Result<Clipped<Linear>, CuratorError> {
        Clipped::new(self.objective, self.lipschitz(), self.gradient_grid())
    }

    /// Grid of the iterates: 2^-14 of what one record moves.
    fn grid(&self) -> Grid {
        let bare = self.step_size * self.lipschitz() / (self.objective.weights() as f64).sqrt();
        Grid::new(bare.log2().floor() as i32 - 14)
    }

    /// Bound on how far what one record gives is from its exact gradient.
    fn record_error(&self) -> f64 {
        let (d, row_norm) = (self.objective.weights() as f64, self.objective.row_norm());
        let smoothness = self.objective.loss().facts().smoothness.unwrap_or(f64::INFINITY);
        // a score is off by (d + 2)·u·R·W at most, and its slope by β times that and a few units in the last place; the clip leaves up to (2d + 16)·u of L for its own rounding
        2.0 * smoothness * row_norm * (d + 2.0) * UNIT * row_norm * self.radius
            + (2.0 * d + 64.0) * UNIT * self.lipschitz()
            + self.gradient_grid().step() * d.sqrt()
    }

    /// Bound on how far the computed map is from the exact one: per-record gradients in floating point and their truncation, the update, the
    /// projection, and rounding to the grid.
    fn map_error(&self) -> f64 {
        let (d, n) = (self.objective.weights() as f64, self.most_rows as f64);
        let size = self.radius + self.step_size * (n * self.lipschitz() + self.regularization * self.radius);
        let projection = 2.0 * (d + 8.0) * UNIT * self.radius;
        self.step_size * n * self.record_error() + 16.0 * UNIT * size + projection + 0.5 * self.grid().step() * d.sqrt()
    }

    /// Δ: one record's presence moves the answer as if it had moved one Gaussian of the last step so far.
    pub fn sensitivity(&self) -> f64 {
        let rounding = 2.0 * self.map_error() + self.grid().step() * (self.objective.weights() as f64).sqrt();
        let one_step = self.step_size * self.lipschitz() + rounding;
        self.amplification() * one_step * (1.0 + 1e-9)
    }

    /// Standard deviation of a step's noise, per weight.
    pub fn noise_std(&self) -> f64 {
        self.noise_multiplier * self.sensitivity()
    }

    /// Whether the theorem covers what the machine does.
    pub fn is_proved(&self) -> bool {
        let loss = self.objective.loss().facts();
        let smooth = loss.convex && loss.smoothness.is_some() && loss.lipschitz.is_some();
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let shaped = self.objective.loss().outputs() == 1 && self.steps >= 1 && self.relation != Relation::AddOrRemove;
        let sized = positive(self.regularization) && positive(self.step_size) && positive(self.radius);
        if !(smooth && shaped && sized && positive(self.sensitivity())) {
            return false;
        }
        // two steps' worth beyond the ball, and more noise than is ever drawn
        let reach = 2.0 * (self.radius + self.step_size * (self.most_rows as f64 * self.lipschitz()))
            + 2.0 * self.step_size * self.regularization * self.radius
            + 64.0 * self.noise_std();
        self.contraction() < 1.0 && reach / self.grid().step() < MAX_QUANTA
    }

    /// The nearest point of the ball, up to rounding.
    fn within(&self, x: &mut [f64]) {
        let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm > self.radius {
            let scale = self.radius / norm;
            x.iter_mut().for_each(|v| *v *= scale);
        }
    }
}

impl Sealed for LastIterate {}

impl Mechanism for LastIterate {
    type Input = Examples;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &Examples) -> f64 {
        SamplerError::rounded(self.steps as f64 * self.objective.weights() as f64).total_variation()
    }

    /// Not add-or-remove, under which no bound on a step's contraction is known.
    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        "last iterate"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        self.clipped()?;
        rounded_gaussian(self.noise_std(), self.grid()).map(drop)
    }

    fn check(&self, input: &Examples) -> Result<(), CuratorError> {
        made_for(&self.objective, input)?;
        let counted = input.rows.len() as u64 <= self.most_rows;
        if counted && self.is_proved() { Ok(()) } else { Err(CuratorError::Shape) }
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &Examples, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let clipped = self.clipped()?;
        let (grid, gradients) = (self.grid(), self.gradient_grid());
        let mut x = vec![0.0; self.objective.weights()];
        for _ in 0..self.steps {
            let Ok(sum) = clipped.add_up(input, &x, input.rows.len(), |i| i);
            let next = x.iter().zip(&sum).map(|(v, &units)| {
                let gradient = gradients.to_f64(units) + self.regularization * v;
                v - self.step_size * gradient
            });
            let mut units = GridSum::of_query(next, grid, 0.0).into_quanta();
            add_rounded_gaussian(&mut units, self.noise_std(), grid, noise)?;
            x = units.into_iter().map(|u| grid.to_f64(u)).collect();
            self.within(&mut x);
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::{Curator, Sensitive};
    use dpopt_objective::loss::Loss;
    use dpopt_objective::records::Rows;
    use dpopt_privacy::{Budget, Neighbours, certify};

    const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

    fn mechanism(n: u64) -> LastIterate {
        let curvature = 0.25 * n as f64;
        let regularization = curvature / 49.0;
        LastIterate {
            objective: Linear::new(LOGISTIC, 2, 1.0),
            most_rows: n,
            relation: Relation::ZeroOut,
            regularization,
            steps: 200,
            step_size: 2.0 / (2.0 * regularization + curvature),
            radius: 100.0,
            noise_multiplier: 3.0,
        }
    }

    fn examples(n: usize, target: f32) -> Examples {
        let mut rows = Rows::new(2);
        (0..n).for_each(|_| rows.push_clipped(&mut [(0, 0.6), (1, 0.8)], 1.0));
        Examples { rows, targets: vec![target; n] }
    }

    fn released(mechanism: &LastIterate, under: Relation, n: usize) -> Result<Vec<f64>, CuratorError> {
        let terms = Neighbours::of_records(under).within(Budget::new(50.0, 1e-5).unwrap());
        let event = SamplerError::rounded(400.0).on(mechanism.event());
        let mut curator = Curator::new(&certify(&event, terms).unwrap(), NoiseSource::insecure(1));
        curator.release(mechanism, &Sensitive::new(examples(n, 1.0))).map(|x| x.into_inner())
    }

    /// κ = 50 and T = 200: composition would pay √200 for what costs √(50·(1 − c^T)/(1 + c^T)) here.
    #[test]
    fn two_hundred_steps_at_a_condition_of_fifty_cost_half_of_their_composition() {
        let m = mechanism(10_000);
        let c = 49.0 / 51.0;
        assert!((m.contraction() - c).abs() < 1e-12);
        let left = f64::powi(c, 200);
        let expected = (50.0 * (1.0 - left) / (1.0 + left)).sqrt();
        assert!((m.amplification() / expected - 1.0).abs() < 1e-8 && m.amplification() >= expected);
        assert!((m.amplification() / 200f64.sqrt() - 0.5).abs() < 0.001);
        // a step is Lipschitz over its size, but for rounding
        let bare = m.amplification() * m.step_size;
        assert!(m.sensitivity() > bare && m.sensitivity() < 1.002 * bare, "{} {bare}", m.sensitivity());
        // one step is one Gaussian, and few steps are what composition says, nearly
        assert!((LastIterate { steps: 1, ..m.clone() }.amplification() - 1.0).abs() < 1e-9);
        let few = LastIterate { steps: 3, ..m }.amplification();
        assert!(few <= 3f64.sqrt() && few > 0.999 * 3f64.sqrt(), "{few}");
    }

    /// Many weights and few rows: the finest grid that a clip norm may have.
    #[test]
    fn what_records_give_is_clipped_in_any_dimension() {
        for weights in [2, 65_535, 65_536, 1 << 20, 1 << 28] {
            for most_rows in [1, 40, 4096, 1 << 20] {
                let m = LastIterate { objective: Linear::new(LOGISTIC, weights, 1.0), ..mechanism(most_rows) };
                assert_eq!(m.can_draw(), Ok(()), "{weights} {most_rows}");
            }
        }
        let absurd = LastIterate { noise_multiplier: 1e-150, ..mechanism(10) };
        assert!(matches!(absurd.can_draw(), Err(CuratorError::Noise(_))));
    }

    /// The computed map against the exact one: what the records of a large weight vector give, added up exactly.
    #[test]
    fn the_map_is_as_near_to_the_exact_one_as_its_bound_says() {
        let n = 500;
        let m = LastIterate { noise_multiplier: 2f64.powi(-10), steps: 1, ..mechanism(n as u64) };
        let data = examples(n, 1.0);
        let x = m.apply(&data, &mut NoiseSource::insecure(3)).unwrap();
        // at 0 every record gives −x/2
        let h = m.step_size;
        for (got, row) in x.iter().zip([0.6f32, 0.8]) {
            let exact = h * n as f64 * 0.5 * f64::from(row);
            assert!((got - exact).abs() <= m.map_error() + 8.0 * m.noise_std(), "{got} {exact}");
        }
        assert!(m.map_error() < 1e-3 * h, "{}", m.map_error());
    }

    /// A slope at its bound and a row of many columns, so that truncation and the clip's own room are all there is.
    #[test]
    fn what_a_record_of_many_columns_gives_is_within_its_bound() {
        let d = 4096;
        let objective = Linear::new(Loss::Huber { threshold: 0.7 }, d, 1.0);
        let m = LastIterate { objective, radius: 1e-3, ..mechanism(1) };
        let mut rows = Rows::new(d);
        let entries = (0..d as u32).map(|j| (j, 0.02 + 1e-3 * (j % 7) as f32));
        rows.push_clipped(&mut entries.collect::<Vec<_>>(), 1.0);
        let values = rows.row(0).1.to_vec();
        let input = Examples { rows, targets: vec![-50.0] };
        let clipped = Clipped::new(objective, m.lipschitz(), m.gradient_grid()).unwrap();
        let Ok(sum) = clipped.add_up(&input, &vec![0.0; d], 1, |i| i);
        let off = sum.iter().zip(values).map(|(&u, v)| (m.gradient_grid().to_f64(u) - 0.7 * f64::from(v)).powi(2));
        let off = off.sum::<f64>().sqrt();
        assert!(off <= m.record_error() && off > 0.1 * m.record_error(), "{off:e} {:e}", m.record_error());
    }

    /// 1 − c^T loses digits where c is near 1; ten steps that hardly contract cost √10.
    #[test]
    fn steps_that_hardly_contract_cost_what_composition_says() {
        for (gap, steps) in [(2.09e-10, 51u64), (5.4e-11, 206), (1e-14, 100), (1e-12, 10)] {
            let m = LastIterate {
                regularization: 1.0,
                step_size: gap,
                most_rows: 1,
                objective: Linear::new(LOGISTIC, 2, 1e-3),
                steps,
                ..mechanism(1)
            };
            let a = m.amplification();
            // below T by T(T² − 1)a²/3 with a = gap/2, which is less than a part in 1e15
            assert!(a * a >= steps as f64 * (1.0 - 1e-14) && a <= (steps as f64).sqrt(), "{gap} {steps} {a}");
        }
    }

    /// The worst pair of linear records on a quadratic: iterates are Gaussian, and their exact distance is at most what is promised.
    #[test]
    fn the_exact_distance_of_gaussian_iterates_is_below_the_promise() {
        for (c, steps) in [(0.5f64, 3i32), (0.9, 10), (0.96, 200), (0.99, 50)] {
            // x ← cx + s + N(0, σ²): mean s(1 − c^T)/(1 − c), variance σ²(1 − c^2T)/(1 − c²)
            let mean = (1.0 - c.powi(steps)) / (1.0 - c);
            let variance = (1.0 - c.powi(2 * steps)) / (1.0 - c * c);
            let exact = mean / variance.sqrt();
            let regularization = 1.0;
            let m = LastIterate {
                regularization,
                steps: steps as u64,
                step_size: (1.0 - c) / regularization,
                most_rows: 1,
                objective: Linear::new(LOGISTIC, 2, 1e-3),
                ..mechanism(1)
            };
            // tight: this pair is the worst
            assert!(m.amplification() >= exact && m.amplification() < exact * (1.0 + 1e-8), "{c} {steps}");
        }
    }

    #[test]
    fn it_is_refused_where_no_theorem_covers_it() {
        let good = mechanism(50);
        assert!(released(&good, Relation::ZeroOut, 50).is_ok());
        let refused = |m: LastIterate, n: usize| {
            assert_eq!(released(&m, Relation::ZeroOut, n).unwrap_err(), CuratorError::Shape, "{m:?}");
        };
        refused(good.clone(), 51);
        for regularization in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            refused(LastIterate { regularization, ..good.clone() }, 50);
        }
        for step_size in [0.0, f64::NAN, 1.0] {
            refused(LastIterate { step_size, ..good.clone() }, 50);
        }
        for radius in [0.0, f64::INFINITY, 1e30] {
            refused(LastIterate { radius, ..good.clone() }, 50);
        }
        for loss in [Loss::Sigmoid, Loss::Squared, Loss::Absolute, Loss::Hinge, Loss::Softmax { classes: 3 }] {
            let objective = Linear::new(loss, 2, 1.0);
            let m = LastIterate { objective, ..good.clone() };
            assert!(!m.is_proved(), "{loss:?}");
        }
        assert!(!LastIterate { steps: 0, ..good.clone() }.is_proved());
        assert!(!LastIterate { relation: Relation::AddOrRemove, ..good.clone() }.is_proved());
        assert!(matches!(released(&good, Relation::ReplaceOne, 50), Err(CuratorError::OtherRelation { .. })));
    }
}
