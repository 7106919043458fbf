//! Where the cost of runs on the same records is kept.

use super::error::SessionError;
use dpopt_privacy::Certificate;
use dpopt_privacy::ledger::{Quote, Receipt};
use std::sync::Arc;

/// Where the cost of runs on the same records is kept. A charge is written down before it returns, and never taken back.
pub trait Account: Send + Sync {
    /// What charging `whole` would do now; `None` where that cannot be told beforehand.
    ///
    /// # Errors
    /// Why it would be refused.
    fn quote(&self, whole: &Certificate) -> Result<Option<Quote>, SessionError>;

    /// Charges `whole` for `run`, or refuses; a proof of the charge where there is one.
    ///
    /// # Errors
    /// Why it is refused: nothing was charged then.
    fn charge(&self, run: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError>;
}

impl Account for Arc<dyn Account> {
    fn quote(&self, whole: &Certificate) -> Result<Option<Quote>, SessionError> {
        (**self).quote(whole)
    }

    fn charge(&self, run: &str, whole: &Certificate) -> Result<Option<Receipt>, SessionError> {
        (**self).charge(run, whole)
    }
}
