//! Targets: declared labels to ±1 or a class index, numbers clipped and scaled to [-1, 1]; anything else is "nothing".

use super::cell::{BadCells, Rules, Scratch};
use super::declared::{Bounds, Kind};
use super::error::DataError;
use super::layout::TargetRule;
use super::levels::Levels;
use super::numerals::Unit;
use super::table::Field;

/// The target of an encoder, as it is stored in a model file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TargetSpec {
    /// One of these classes; with two, the second is the positive one (+1).
    Classes {
        /// Declared labels, in order.
        levels: Vec<String>,
    },
    /// A number in a range, scaled to [-1, 1].
    Number {
        /// The value that is mapped to -1.
        lower: f64,
        /// The value that is mapped to +1.
        upper: f64,
        /// What the numbers of the target count.
        #[serde(default, skip_serializing_if = "Unit::is_number")]
        unit: Unit,
    },
}

impl TargetSpec {
    /// From a resolved rule; an undeclared target is an error that says how to declare it.
    pub(crate) fn new(name: &str, rule: &TargetRule) -> Result<Self, DataError> {
        match rule {
            TargetRule::Classes { levels } => Ok(Self::Classes { levels: levels.clone() }),
            TargetRule::Number { lower, upper, unit } => Ok(Self::Number { lower: *lower, upper: *upper, unit: *unit }),
            TargetRule::Undeclared => Err(DataError::TargetUndeclared { column: name.into() }),
        }
    }

    /// Number of classes; 0 for a number.
    pub fn classes(&self) -> usize {
        match self {
            Self::Classes { levels } => levels.len(),
            Self::Number { .. } => 0,
        }
    }

    /// What it counts, if it is a number.
    pub(crate) fn unit(&self) -> Option<Unit> {
        match self {
            Self::Number { unit, .. } => Some(*unit),
            Self::Classes { .. } => None,
        }
    }

    /// Back from the scale [-1, 1] to the target's own unit (a number target; otherwise `scaled` itself).
    pub fn unscale(&self, scaled: f64) -> f64 {
        match self {
            Self::Number { lower, upper, .. } => lower + (scaled + 1.0) * 0.5 * (upper - lower),
            Self::Classes { .. } => scaled,
        }
    }
}

/// What a cell of the target says as it stands, neither clipped nor scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Truth {
    /// A declared label, by its place.
    Class(usize),
    /// A finite number.
    Number(f64),
    /// An empty cell, or a text that means missing.
    Missing,
    /// A label that is not declared.
    Undeclared,
    /// No number, or a row that cannot be read.
    Unreadable,
}

/// A target made ready for a pass over records.
#[derive(Clone, Debug)]
pub(crate) enum TargetReader {
    Classes { levels: Levels },
    Number { lower: f64, upper: f64, unit: Unit },
}

impl TargetReader {
    /// Checks what a model file says: the same rules as for declarations.
    pub(crate) fn new(name: &str, spec: &TargetSpec) -> Result<Self, DataError> {
        match spec {
            TargetSpec::Classes { levels } => {
                Kind::categorical(name, levels.clone())?;
                if levels.len() < 2 {
                    return Err(DataError::declaration(
                        name,
                        "the target has only one level",
                        "list at least two levels",
                    ));
                }
                Ok(Self::Classes { levels: Levels::new(levels) })
            }
            TargetSpec::Number { lower, upper, unit } => {
                Bounds::new(name, *lower, *upper)?;
                Ok(Self::Number { lower: *lower, upper: *upper, unit: *unit })
            }
        }
    }

    /// The target, or `None` for a record that is to contribute nothing: missing, not a declared label, not a number
    /// (an error unless `bad_cells` says otherwise).
    pub(crate) fn read(
        &self,
        field: Field<'_>,
        name: &str,
        row: u64,
        (bad_cells, rules): (BadCells, Rules),
        scratch: &mut Scratch,
    ) -> Result<Option<f32>, DataError> {
        match self {
            Self::Classes { levels } => match field {
                Field::Malformed(reason) => {
                    bad_cells.check(DataError::BadSparseRow { row: row + 1, reason }).map(|()| None)
                }
                field => {
                    let code = |at: u32| if levels.len() == 2 { 2.0 * at as f32 - 1.0 } else { at as f32 };
                    Ok(levels.place_by(rules, field, scratch).map(code))
                }
            },
            Self::Number { lower, upper, unit } => match rules.number(field, *unit) {
                Some(value) => {
                    let u = ((value.clamp(*lower, *upper) - lower) / (upper - lower)).clamp(0.0, 1.0);
                    Ok(Some((2.0 * u - 1.0) as f32))
                }
                None if rules.is_missing_cell(field) => Ok(None),
                None => bad_cells.check(DataError::NotANumber { column: name.into(), row: row + 1 }).map(|()| None),
            },
        }
    }

    /// What a cell says as it stands, neither clipped nor scaled.
    pub(crate) fn truth(
        &self,
        field: Field<'_>,
        name: &str,
        row: u64,
        (bad_cells, rules): (BadCells, Rules),
        scratch: &mut Scratch,
    ) -> Result<Truth, DataError> {
        let read = self.read(field, name, row, (bad_cells, rules), scratch)?;
        Ok(match (self, read) {
            (Self::Classes { levels }, Some(code)) if levels.len() == 2 => Truth::Class(usize::from(code > 0.0)),
            (Self::Classes { .. }, Some(code)) => Truth::Class(code as usize),
            (Self::Number { unit, .. }, Some(_)) => rules.number(field, *unit).map_or(Truth::Unreadable, Truth::Number),
            (_, None) if rules.is_missing_cell(field) => Truth::Missing,
            (Self::Classes { .. }, None) if !matches!(field, Field::Malformed(_)) => Truth::Undeclared,
            (_, None) => Truth::Unreadable,
        })
    }
}
