//! A sum of the search for prediction intervals: a record whose target an interval misses, or absent (docs/proofs/prediction-intervals.md).

use dpopt_audit::draws::Draws;
use dpopt_mechanism::{Clipped, CuratorError, Gaussian, Mechanism, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Coverage, Interval, Linear};
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Event;

/// Half of the records are to be held, so that one that is and one that is not weigh alike.
const LEVEL: f64 = 0.5;
/// What the intercept is in the canary's row.
const CONSTANT: f32 = 0.5;

/// What the absent record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// A row of zeros.
    Zeros,
    /// A row of zeros whose target of 0 counts as held by the interval around its prediction of 0.
    Held,
}

/// One noisy sum at a weight that predicts 0 for everybody; the canary's target is 1.
pub(crate) struct CoverageSum {
    sum: Result<Clipped<Coverage>, CuratorError>,
    mechanism: Gaussian,
    with: Sensitive<Examples>,
    without: Sensitive<Examples>,
}

impl CoverageSum {
    /// A release with noise of `noise_multiplier` bounds on what a record adds.
    pub(crate) fn new(noise_multiplier: f64, absent: Absent) -> Self {
        let interval = Interval { half_width: 0.25, level: LEVEL, ends: true };
        let clip = Coverage::most(LEVEL);
        let grid = Grid::for_sum(clip, noise_multiplier * clip, 2, 1);
        let world = |row: Option<f32>, target: f32| {
            let mut rows = Rows::new(1);
            match row {
                Some(constant) => rows.push_clipped(&mut [(0, constant)], 1.0),
                None => rows.push_zero(),
            }
            Sensitive::new(Examples { rows, targets: vec![target] })
        };
        let without = match absent {
            Absent::Zeros => world(None, 0.0),
            // an intercept that is next to nothing
            Absent::Held => world(Some(f32::MIN_POSITIVE), 0.0),
        };
        let sums = Coverage::new(Linear::new(Loss::Squared, 1, 1.0), interval).ok_or(CuratorError::Shape);
        let sum = sums.and_then(|sums| Clipped::new(sums, clip, grid));
        let mechanism = Gaussian::new(noise_multiplier, clip, grid, 1, "prediction intervals");
        Self { sum, mechanism, with: world(Some(CONSTANT), 1.0), without }
    }

    /// What the curator is opened for.
    pub(crate) fn event(&self) -> Event {
        self.mechanism.event()
    }

    /// One release, in bounds; less where the record is there.
    pub(crate) fn release(&self, with: bool, draws: &mut Draws) -> Result<f64, CuratorError> {
        let sum = self.sum.as_ref().map_err(Clone::clone)?;
        let mut curator = past_the_curator::uncharged(&self.event(), NoiseSource::insecure(draws.word()));
        let world = if with { &self.with } else { &self.without };
        let noisy = curator.release(&self.mechanism, &sum.sum(world, &[0.0]))?;
        Ok(-noisy.get()[0] / Coverage::most(LEVEL))
    }
}
