//! How columns become features: what can be said of it, and what is settled.

use super::error::DataError;
use dpopt_privacy::Shown;
use std::fmt::{Display, Formatter};

/// How numbers, and pairs of columns, become features. Chosen by the plan where nobody says it.
///
/// | field | default | range | meaning |
/// |---|---|---|---|
/// | `knots` | 8 | 0, 2..=64 | hat functions per numeric column, next to its line; 0: the line alone |
/// | `fine_knots` | 0 | 0, 3..=256 | more of them on a second scale; 0: none |
/// | `centred` | false | | numbers (the line `2u - 1` in place of `1 - u, u`) and up to 4 levels lie around 0, and rows are scaled to norm `row_norm` |
/// | `spread` | false | | numbers are mapped so that they lie evenly, by a private histogram of their column |
/// | `pair_knots` | 0 | 0, 2..=16 | hat functions of a number in a product with another column; 0: no products |
/// | `pair_share` | 0 | 0..1 | share of the squared norm of a row that products have together |
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct EncoderForm {
    /// Hat functions per numeric column.
    pub knots: u32,
    /// Of a second scale.
    pub fine_knots: u32,
    /// Whether numbers and few levels lie around 0, and rows are scaled to their norm.
    pub centred: bool,
    /// Whether numbers are mapped so that they lie evenly, by private histograms.
    pub spread: bool,
    /// In products.
    pub pair_knots: u32,
    /// Of the squared norm.
    pub pair_share: f64,
}

impl Default for EncoderForm {
    fn default() -> Self {
        Self { knots: 8, fine_knots: 0, centred: false, spread: false, pair_knots: 0, pair_share: 0.0 }
    }
}

impl Display for EncoderForm {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        write!(out, "numbers{} as a ", if self.spread { ", spread evenly by private histograms," } else { "" })?;
        write!(out, "{}line", if self.centred { "centred " } else { "" })?;
        for (i, knots) in self.scales().iter().enumerate() {
            write!(out, "{} {knots} hats", if i == 0 { " and" } else { ", then" })?;
        }
        if self.pair_knots > 0 {
            let (knots, share) = (self.pair_knots, Shown(100.0 * self.pair_share));
            write!(out, "; products of pairs of columns on grids of {knots}, with {share} % of the norm")?;
        }
        Ok(())
    }
}

impl EncoderForm {
    /// Numbers of hats of all scales.
    pub fn scales(&self) -> Vec<u32> {
        [self.knots, self.fine_knots].into_iter().filter(|knots| *knots > 0).collect()
    }

    /// All numbers within their ranges.
    pub fn check(&self) -> Result<(), DataError> {
        for (option, given, low, high) in [
            ("knots", self.knots, 2, 64),
            ("fine_knots", self.fine_knots, 3, 256),
            ("pair_knots", self.pair_knots, 2, 16),
        ] {
            if given != 0 && !(low..=high).contains(&given) {
                let allowed = format!("0 for none, or {low} to {high}");
                return Err(DataError::Option { option, given: given.to_string(), allowed });
            }
        }
        if self.fine_knots != 0 && self.fine_knots <= self.knots {
            let allowed = "more than knots".into();
            return Err(DataError::Option { option: "fine_knots", given: self.fine_knots.to_string(), allowed });
        }
        let share = self.pair_share;
        let shared = if self.pair_knots == 0 { share == 0.0 } else { share > 0.0 && share < 1.0 };
        if !shared {
            let allowed = "a number above 0 and below 1 where there are products".into();
            return Err(DataError::Option { option: "pair_share", given: Shown(share).to_string(), allowed });
        }
        Ok(())
    }
}

/// Which columns are multiplied.
#[derive(Clone, Debug, PartialEq)]
pub enum Pairs {
    /// None.
    None,
    /// Each with each, where both are numbers or have declared levels.
    All,
    /// These, by name.
    Listed(Vec<(String, String)>),
}

/// What is said of an [`EncoderForm`]; the plan chooses the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AskedForm {
    /// Hat functions per numeric column.
    pub knots: Option<u32>,
    /// Of a second scale.
    pub fine_knots: Option<u32>,
    /// Whether numbers and few levels lie around 0.
    pub centred: Option<bool>,
    /// Whether numbers are mapped so that they lie evenly, by private histograms.
    pub spread: Option<bool>,
    /// In products.
    pub pair_knots: Option<u32>,
    /// Of the squared norm.
    pub pair_share: Option<f64>,
    /// Which columns are multiplied.
    pub pairs: Option<Pairs>,
}

impl AskedForm {
    /// What is said, and `rest` where nothing is.
    pub fn or(&self, rest: EncoderForm) -> EncoderForm {
        EncoderForm {
            knots: self.knots.unwrap_or(rest.knots),
            fine_knots: self.fine_knots.unwrap_or(rest.fine_knots),
            centred: self.centred.unwrap_or(rest.centred),
            spread: self.spread.unwrap_or(rest.spread),
            pair_knots: self.pair_knots.unwrap_or(rest.pair_knots),
            pair_share: self.pair_share.unwrap_or(rest.pair_share),
        }
    }
}
