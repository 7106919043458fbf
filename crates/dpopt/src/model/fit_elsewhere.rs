//! Fits of tables that are elsewhere, in parts: columns by name, encoded where they are by public facts alone.

use super::error::{FitError, same_count};
use super::fit::{Fit, Fitted};
use dpopt_data::Encoder;
use dpopt_mechanism::progress::{Progress, Silent};
use dpopt_objective::records::Parts;
use dpopt_privacy::Relation;
use std::sync::Arc;

impl Fit {
    /// How parts of the table are encoded: all of it is public.
    ///
    /// # Errors
    /// If the fit was not planned for parts.
    pub fn encoder_of_parts(&self) -> Result<Encoder, FitError> {
        self.planned_for_parts()?;
        Ok(Encoder::new(&self.layout)?)
    }

    fn planned_for_parts(&self) -> Result<(), FitError> {
        match self.options.method.elsewhere {
            true => Ok(()),
            false => Err(FitError::Option("this fit was planned for rows that are here".into())),
        }
    }

    /// Runs on parts of which is `known` how many records each has, and their digest: [`Shard::of_table`](super::Shard::of_table)s by
    /// [`encoder_of_parts`](Self::encoder_of_parts).
    ///
    /// # Errors
    /// If the fit was not planned for so many rows in parts, no method applies, or a part is lost or changes. What was charged stays charged.
    pub fn run_elsewhere(self, parts: Arc<dyn Parts>, known: Vec<(u64, u64)>) -> Result<Fitted, FitError> {
        self.run_elsewhere_with(parts, known, &Silent)
    }

    /// The same, showing `progress`.
    ///
    /// # Errors
    /// As there.
    pub fn run_elsewhere_with(
        mut self,
        parts: Arc<dyn Parts>,
        known: Vec<(u64, u64)>,
        progress: &dyn Progress,
    ) -> Result<Fitted, FitError> {
        self.planned_for_parts()?;
        if self.options.relation != Relation::AddOrRemove {
            same_count(self.rows, known.iter().map(|part| part.0).sum())?;
        }
        self.held = Some((parts, known));
        self.run_with(progress)
    }
}
