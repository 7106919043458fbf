//! Records in another form, as sensitive as they were; and what is public about them.

use crate::Sensitive;
use crate::records::{Examples, RecordBuffer, Records, Rows, ScaledRecords};
use dpopt_privacy::Relation;

/// What may be known of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PublicShape {
    /// `None` where the number of records is protected.
    pub(crate) rows: Option<u64>,
    /// d.
    pub(crate) features: usize,
    /// Bound on their norm, as they were built.
    pub(crate) row_norm: f64,
}

impl<R: Records> Sensitive<R> {
    /// What neighbours under `relation` agree on.
    pub(crate) fn public_shape(&self, relation: Relation) -> PublicShape {
        let records = self.expose();
        let rows = (relation != Relation::AddOrRemove).then(|| records.len() as u64);
        PublicShape { rows, features: records.columns(), row_norm: records.norm_bound() }
    }

    /// Features multiplied by `scales`, one for each.
    ///
    /// # Panics
    /// If there is not one scale per feature (a bug of the caller, never of the data).
    pub(crate) fn in_units<'a>(&'a self, scales: &'a [f64]) -> Sensitive<ScaledRecords<'a, R>> {
        Sensitive::new(ScaledRecords::new(self.expose(), scales))
    }

    /// The records with the columns of `support` only, numbered in their order, their rows of norm at most `row_norm`.
    pub(crate) fn restricted(&self, support: &[u32], row_norm: f64) -> Result<Sensitive<Examples>, R::Error> {
        let records = self.expose();
        let mut out = Examples { rows: Rows::new(support.len()), targets: Vec::with_capacity(records.len()) };
        let (mut buffer, mut entries) = (RecordBuffer::default(), Vec::new());
        for i in 0..records.len() {
            let (columns, values, target) = records.record(i, &mut buffer)?;
            entries.clear();
            entries.extend(
                columns.iter().zip(values).filter_map(|(j, &x)| support.binary_search(j).ok().map(|at| (at as u32, x))),
            );
            out.rows.push_clipped(&mut entries, row_norm);
            out.targets.push(target);
        }
        Ok(Sensitive::new(out))
    }
}
