//! What a run has released, for an audit that attacks all of it.

use std::sync::{Arc, Mutex, PoisonError};

/// What a watched curator and the streams it opened have released, in order.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<Vec<f64>>>>);

impl Seen {
    /// Records what was released.
    pub fn push(&self, numbers: &[f64]) {
        // a panic elsewhere leaves the list whole
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(numbers.to_vec());
    }

    pub(crate) fn all(&self) -> Vec<Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
