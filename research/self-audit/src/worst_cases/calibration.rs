//! A sum of a calibration: a record that is surely wrong, or absent (docs/proofs/calibration.md).

use dpopt_audit::draws::Draws;
use dpopt_mechanism::{Clipped, CuratorError, Gaussian, Mechanism, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Calibration, Linear, Scores};
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Event;
use std::f64::consts::SQRT_2;

/// The clip norm of sums for classes.
const CLIP: f64 = SQRT_2;
/// Three classes and two features, the first of them the intercept.
const FEATURES: usize = 2;
const CLASSES: u32 = 3;
/// What the intercept is in the canary's row.
const CONSTANT: f32 = 0.5;

/// What the absent record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// A row of zeros.
    Zeros,
    /// A row of zeros whose residual counts all the same.
    Residual,
}

/// One noisy sum at weights that give the first class to every row with an intercept; the canary is of the second.
pub(crate) struct CalibrationSum {
    sum: Result<Clipped<Calibration>, CuratorError>,
    mechanism: Gaussian,
    point: Vec<f64>,
    with: Sensitive<Examples>,
    without: Sensitive<Examples>,
    /// Along which what is released is looked at, of length 1.
    direction: Vec<f64>,
}

impl CalibrationSum {
    /// A release with noise of `noise_multiplier` clip norms.
    pub(crate) fn new(noise_multiplier: f64, absent: Absent) -> Self {
        let loss = Loss::Softmax { classes: CLASSES };
        let scores = Scores { intercept: Some(0), origin: f64::from(CONSTANT), unit: 1.0, own: vec![0.0; 3] };
        let sums = Calibration::new(Linear::new(loss, FEATURES, 1.0), scores);
        let entries = sums.as_ref().map_or(0, Calibration::entries).max(FEATURES * CLASSES as usize);
        let grid = Grid::for_sum(CLIP, noise_multiplier * CLIP, 2, entries);
        let mut point = vec![0.0; entries];
        // the first class's score of a row with an intercept of ½: 40
        point[0] = 80.0;
        let world = |row: Option<f32>, target: f32| {
            let mut rows = Rows::new(FEATURES);
            match row {
                Some(constant) => rows.push_clipped(&mut [(0, constant)], 1.0),
                None => rows.push_zero(),
            }
            Sensitive::new(Examples { rows, targets: vec![target] })
        };
        let (with, without) = match absent {
            Absent::Zeros => (world(Some(CONSTANT), 1.0), world(None, 0.0)),
            // an intercept that is next to nothing: all classes alike, and the residual of the first
            Absent::Residual => (world(Some(CONSTANT), 1.0), world(Some(f32::MIN_POSITIVE), 0.0)),
        };
        let sum = sums.ok_or(CuratorError::Shape).and_then(|sums| Clipped::new(sums, CLIP, grid));
        let mechanism = Gaussian::new(noise_multiplier, CLIP, grid, entries, "calibration");
        let mut new = Self { sum, mechanism, point, with, without, direction: Vec::new() };
        new.direction = new.difference(grid);
        new
    }

    /// From the absent record's contribution to the canary's, of length 1; empty if there is none.
    fn difference(&self, grid: Grid) -> Vec<f64> {
        let Ok(sum) = &self.sum else { return Vec::new() };
        let of = |world| {
            let sum = sum.sum(world, &self.point);
            past_the_curator::read_for_tests(&sum).quanta().iter().map(|unit| grid.to_f64(*unit)).collect::<Vec<f64>>()
        };
        let difference: Vec<f64> = of(&self.with).iter().zip(of(&self.without)).map(|(a, b)| a - b).collect();
        let length = difference.iter().map(|v| v * v).sum::<f64>().sqrt();
        difference.iter().map(|v| v / length).collect()
    }

    /// What the curator is opened for.
    pub(crate) fn event(&self) -> Event {
        self.mechanism.event()
    }

    /// One release along the direction, in clip norms.
    pub(crate) fn release(&self, with: bool, draws: &mut Draws) -> Result<f64, CuratorError> {
        let sum = self.sum.as_ref().map_err(Clone::clone)?;
        let mut curator = past_the_curator::uncharged(&self.event(), NoiseSource::insecure(draws.word()));
        let world = if with { &self.with } else { &self.without };
        let noisy = curator.release(&self.mechanism, &sum.sum(world, &self.point))?;
        Ok(noisy.get().iter().zip(&self.direction).map(|(y, along)| y * along).sum::<f64>() / CLIP)
    }
}
