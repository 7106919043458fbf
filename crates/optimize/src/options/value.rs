//! Values of options as they are written: in JSON, after a flag, in a program.

use serde::{Deserialize, Serialize};

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false, a flag.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A number.
    Real(f64),
    /// One of some words.
    Word(String),
    /// A list of numbers.
    Reals(Vec<f64>),
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Whole(number as u64)
    }
}

impl From<i32> for Value {
    /// A literal: negative numbers are in the range of no count, and are refused as the numbers they are.
    fn from(number: i32) -> Self {
        u64::try_from(number).map_or(Self::Real(f64::from(number)), Self::Whole)
    }
}

impl From<&str> for Value {
    fn from(word: &str) -> Self {
        Self::Word(word.to_string())
    }
}

impl From<String> for Value {
    fn from(word: String) -> Self {
        Self::Word(word)
    }
}

impl From<Vec<f64>> for Value {
    fn from(numbers: Vec<f64>) -> Self {
        Self::Reals(numbers)
    }
}

impl Value {
    /// A number, also a whole one.
    pub(super) fn real(&self) -> Option<f64> {
        match *self {
            Self::Real(number) => Some(number),
            Self::Whole(number) => Some(number as f64),
            _ => None,
        }
    }
}
