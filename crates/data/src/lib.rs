//! From a file of sensitive records to bounded rows, by public facts only.
//!
//! [`open`] a table (names and row count are public), declare what its columns hold in a [`Schema`] (bounds file, flags
//! or a public table), [`resolve`](Schema::resolve) it to a [`Layout`], build the [`Encoder`], and
//! [`encode`](Encoder::encode) to `Sensitive<Examples>`: rows of l2 norm at most 1, exactly.

mod bounds_file;
mod bounds_template;
mod cell;
mod column_numbers;
mod decimal;
mod declared;
mod encode;
mod encoder_form;
mod error;
mod groups;
mod hashing;
mod histograms;
mod inspect;
mod labels;
mod layout;
mod levels;
mod nearest;
mod numerals;
pub mod output;
mod owners;
mod public_table;
mod quantile_counts;
mod reader;
mod repeats;
mod schema;
mod source;
mod table;
mod target;
mod text;
mod word_vectors;

pub use bounds_file::{BoundsReview, PLACEHOLDER};
pub use bounds_template::bounds_template;
pub use cell::BadCells;
pub use cell::{bad_row, field_number, field_text, is_missing_marker};
pub use column_numbers::{column_numbers, number_columns};
pub use declared::{Bounds, EncodingOptions, Kind, Transform, Trend};
pub use encode::{Encoder, OneWay, Shape, Term};
pub use encoder_form::{AskedForm, EncoderForm, Pairs, TextForm};
pub use error::{DataError, Fault};
pub use error::{failure, listed};
pub use groups::{RowGroups, groups_of_units};
pub use histograms::column_histograms;
pub use inspect::{Finding, inspect};
pub use labels::label_counts;
pub use layout::{FeatureKind, Layout, TargetRule};
pub use levels::Levels;
pub use nearest::did_you_mean;
pub use numerals::{Ticks, Unit};
pub use owners::{RowOwners, kept_rows, unit_key, unit_marks, unit_name};
pub use quantile_counts::quantile_counts;
pub use reader::{
    Cells, ColumnTable, Format, MAX_FEATURES, RawTable, ReadOptions, Stripe, Texts, check_regular, comma_separated,
    files_of, open, open_all, open_bytes, raw_rows, same_table,
};
pub use repeats::{Repeats, repeats};
pub use schema::Schema;
pub use table::{Block, Column, Field, Stored, TableReader, Visit};
pub use target::{TargetSpec, Truth};
pub use word_vectors::{VectorsFile, WordVectors};
