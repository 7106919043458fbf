//! A private histogram of every numeric column before the model, in one event with it (docs/decisions/0013).

use super::error::FitError;
use dpopt_data::{BadCells, Encoder, TableReader, column_histograms};
use dpopt_mechanism::{Curator, Gaussian, HistogramShape};
use dpopt_optimize::RunError;
use dpopt_optimize::plan::PriorRelease;
use dpopt_privacy::{Budget, Relation, special};

/// Share of the squared privacy parameter μ that the histograms take. On generated tables 2 % were a little worse at few records and
/// a small ε, 10 % no better.
const SHARE: f64 = 0.05;

/// Histograms are made only if their noise is below this share of the records: a cell of fewer is not divided.
const MAX_NOISE: f64 = 1.0 / 6.0;

/// Histograms that were planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpreadPlan {
    shape: HistogramShape,
    noise_multiplier: f64,
}

impl SpreadPlan {
    /// For the numeric columns of `encoder` and about `rows` records. `None` if there are no numbers, δ is 0 (there is no Gaussian noise), or the noise
    /// would leave nothing to see.
    pub(super) fn new(encoder: &Encoder, rows: u64, relation: Relation, budget: Budget) -> Option<Self> {
        let shape = encoder.histograms();
        if shape.columns == 0 || budget.delta() <= 0.0 {
            return None;
        }
        let mu = SHARE.sqrt() * special::gaussian_mu(budget.epsilon(), budget.delta());
        let plan = Self { shape, noise_multiplier: relation.sum_sensitivity() / mu };
        (plan.noise() <= MAX_NOISE * rows as f64).then_some(plan)
    }

    /// Standard deviation of the noise of a count.
    fn noise(self) -> f64 {
        self.noise_multiplier * self.shape.clip_norm()
    }

    /// What plans are certified together with.
    pub(super) fn prior_release(self, relation: Relation) -> PriorRelease {
        PriorRelease::gaussian(self.noise_multiplier, self.shape.dimension(), relation)
    }

    /// Counts the table's numbers, releases the counts, and spreads the encoder's columns by them: `each`, or but for those that are parts of one thing.
    pub(super) fn spread(
        self,
        encoder: Encoder,
        table: &dyn TableReader,
        bad_cells: BadCells,
        curator: &mut Curator,
        each: bool,
    ) -> Result<Encoder, FitError> {
        let Self { shape, noise_multiplier } = self;
        let counts = column_histograms(&encoder, table, bad_cells)?;
        let noisy = Gaussian::new(
            noise_multiplier,
            shape.clip_norm(),
            shape.grid(),
            shape.dimension(),
            "histograms of numbers",
        );
        let released = curator.release(&noisy, &counts).map_err(RunError::from)?;
        Ok(encoder.spread(released.get(), self.noise(), each)?)
    }
}
