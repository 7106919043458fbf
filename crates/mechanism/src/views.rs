//! Records in another form, as sensitive as they were; and what is public about them.

use crate::{Curator, Sensitive};
use dpopt_objective::records::{Examples, RecordBuffer, Records, Rows, ScaledRecords, Shear};
use dpopt_privacy::Relation;

/// What may be known of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublicShape {
    /// `None` where the number of records is protected.
    pub rows: Option<u64>,
    /// d.
    pub features: usize,
    /// Bound on their norm, as they were built.
    pub row_norm: f64,
}

impl Curator {
    /// What the neighbours of its certificate agree on.
    pub fn public_shape<R: Records>(&self, records: &Sensitive<R>) -> PublicShape {
        let records = records.expose();
        let rows = (self.relation() != Some(Relation::AddOrRemove)).then(|| records.len() as u64);
        PublicShape { rows, features: records.columns(), row_norm: records.norm_bound() }
    }
}

impl<R: Records> Sensitive<R> {
    /// Features multiplied by `scales`, one for each.
    ///
    /// # Panics
    /// If there is not one scale per feature (a bug of the caller, never of the data).
    pub fn in_units<'a>(&'a self, scales: &'a [f64]) -> Sensitive<ScaledRecords<'a, R>> {
        Sensitive::new(ScaledRecords::new(self.expose(), scales))
    }

    /// The records with the columns of `support` only, numbered in their order, their rows of norm at most `row_norm`.
    pub fn restricted(&self, support: &[u32], row_norm: f64) -> Result<Sensitive<Examples>, R::Error> {
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

impl Sensitive<Examples> {
    /// The records in other coordinates; a copy, with an entry for every feature.
    ///
    /// # Panics
    /// If the map is made for another number of features (a bug of the caller, never of the data).
    pub fn sheared(&self, shear: &Shear) -> Self {
        Sensitive::new(shear.apply(self.expose()))
    }
}
