//! Records in another form, as sensitive as they were; and what is public about them.

use crate::refused::CuratorError;
use crate::{Curator, Sensitive};
use dpopt_noise::Purpose;
use dpopt_objective::objective::OfRows;
use dpopt_objective::records::{Examples, KeptRows, Owners, RecordSet, Records, ScaledRecords, Shear, Units};
use dpopt_privacy::Relation;
use std::num::NonZeroU64;

/// What may be known of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublicShape {
    /// Number of records, which are rows or the rows of a unit; `None` where it is protected.
    pub records: Option<u64>,
    /// Number d of features.
    pub features: usize,
    /// Bound on their norm, as they were built.
    pub row_norm: f64,
    /// Whether a record is all rows of a unit.
    pub pooled: bool,
    /// Most rows of a unit, where a record is a row; 1 where it is a unit of its own.
    pub of_a_unit: u64,
}

impl Curator {
    /// What the neighbours of its certificate agree on.
    pub fn public_shape<R: OfRows>(&self, records: &Sensitive<R>) -> PublicShape {
        let counted = self.public_count(records);
        let rows = records.expose().rows();
        PublicShape {
            records: counted,
            features: rows.columns(),
            row_norm: rows.norm_bound(),
            pooled: R::POOLED,
            of_a_unit: rows.of_a_unit(),
        }
    }

    /// How many records there are; `None` where that is protected.
    pub fn public_count<R: RecordSet>(&self, records: &Sensitive<R>) -> Option<u64> {
        self.public_number(records.expose().len() as u64)
    }

    /// A number of records, unless it is protected.
    pub fn public_number(&self, records: u64) -> Option<u64> {
        (self.relation() != Some(Relation::AddOrRemove)).then_some(records)
    }

    /// The units with at most `most` rows each, a uniform choice of each unit's: by secret coins, and by nothing that another unit holds.
    pub fn capped<R: RecordSet>(&mut self, units: Sensitive<Units<R>>, most: NonZeroU64) -> Sensitive<Units<R>> {
        let mut coins = self.secret(Purpose::Split);
        Sensitive::new(units.into_exposed().capped(most, |bound| coins.below(bound)))
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
        Examples::restricted(self.expose(), support, row_norm).map(Sensitive::new)
    }
}

impl Sensitive<Owners> {
    /// The units that own `rows`, each with all of its rows.
    ///
    /// # Errors
    /// If it speaks of another number of rows (a bug of the caller, never of the data).
    pub fn of<R: RecordSet>(&self, rows: Sensitive<R>) -> Result<Sensitive<Units<R>>, CuratorError> {
        Units::new(rows.into_exposed(), self.expose()).map(Sensitive::new).map_err(|_| CuratorError::Shape)
    }
}

impl Sensitive<KeptRows> {
    /// Those of `rows` that were kept: a unit owns at most so many, and they say so; see [`KeptRows::of`].
    ///
    /// # Errors
    /// If the choice was made of another number of rows (a bug of the caller, never of the data).
    pub fn of(&self, rows: Sensitive<Examples>) -> Result<Sensitive<Examples>, CuratorError> {
        self.expose().of(&rows.into_exposed()).map(Sensitive::new).map_err(|_| CuratorError::Shape)
    }
}

impl Sensitive<Units<Examples>> {
    /// Moves the rows of each unit next to each other in memory; see [`Units::gathered`].
    pub fn gathered(self) -> Self {
        Self::new(self.into_exposed().gathered())
    }

    /// The rows one by one, those beyond the bound on a unit's zero; see [`Units::one_by_one`]. `None` without a bound.
    pub fn one_by_one(&self) -> Option<Sensitive<Examples>> {
        self.expose().one_by_one().map(Sensitive::new)
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
