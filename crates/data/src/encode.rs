//! From records to bounded rows by public facts only: linear terms and linear B-splines, one-hot levels, hashing, text (docs/proofs/encoder.md).
//!
//! Every block of a column has l2 norm at most about 1; the row, with a bias entry 1, is divided by the square root of
//! the number of blocks and then clipped to `row_norm` exactly ([`Rows::push_clipped`]). That last step is all that
//! privacy needs; see `docs/proofs/encoder.md`.

mod block;
mod directions;
mod form;
mod monotone;
mod numeric;
mod pairs;
mod pass;
mod plain;
mod shapes;
pub(crate) mod spread;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use dpopt_process::ordered::{AtOnce, in_order};
use dpopt_process::thread_count;

use self::block::{FeatureBlock, MAX_CENTRED, PreparedColumn};
use self::form::{EncoderSpec, FeatureForm, FeatureSpec, NamedTarget, PairSpec, TextSpec, VectorsSpec};
pub use self::monotone::OneWay;
use self::numeric::line;
use self::pairs::PairBlock;
use self::pass::PassPlan;
pub use self::shapes::{Shape, Term};
use self::spread::Spread;
use super::cell::{BadCells, Rules, bad_row};
use super::error::{DataError, listed};
use super::layout::{FeatureKind, Layout};
use super::numerals::Unit;
use super::reader::BLOCK_BYTES;
use super::table::{Block, Column, Field, Stored, TableReader};
use super::target::{TargetReader, TargetSpec, Truth};
use super::text::{COUNTS, MAX_WORDS};
use super::word_vectors::WordVectors;
use dpopt_mechanism::{HistogramShape, Sensitive};
use dpopt_objective::records::{Collector, Encoded, Examples, Rows};

/// Turns records into rows of l2 norm at most [`row_norm`](Encoder::row_norm), without looking at any other record.
///
/// Serialises to JSON so that a saved model encodes new records in the same way.
///
/// ```
/// use dpopt_data::{open_bytes, BadCells, Encoder, Format, ReadOptions, Schema};
/// let bounds = "[age]\nlower = 17\nupper = 90\n[income]\nlevels = ['<=50K', '>50K']\n";
/// let table = open_bytes(b"age,income\n39,<=50K\n50,>50K\n".to_vec(), Format::Csv, &ReadOptions::default())?;
/// let layout = Schema::from_toml(bounds)?.resolve(table.columns(), Some("income"))?;
/// let encoder = Encoder::new(&layout)?;
/// assert_eq!(encoder.dimension(), 1 + 2 + 8 + 1); // intercept, line, eight knots, "missing"
/// let examples = encoder.encode(&*table, BadCells::Error)?; // Sensitive<Examples>
/// # let _ = examples;
/// # Ok::<(), dpopt_data::DataError>(())
/// ```
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "EncoderSpec", into = "EncoderSpec")]
pub struct Encoder {
    spec: EncoderSpec,
    blocks: Vec<FeatureBlock>,
    /// Blocks of the products of pairs, which come after the columns, in order.
    pairs: Vec<PairBlock>,
    /// Numbers of linear B-splines of a numeric column's scales.
    splines: Vec<u32>,
    target: Option<TargetReader>,
    dimension: u32,
    /// Norm of a column's block, and of a product of two columns.
    scale: f64,
    pair_scale: f64,
    /// Public vectors of words, if texts need them. Not a part of the stored form.
    vectors: Option<Arc<WordVectors>>,
}

impl Encoder {
    /// From a resolved layout. Errors if a numeric column still has no bounds or the target is not declared.
    pub fn new(layout: &Layout) -> Result<Self, DataError> {
        let unbounded = layout.unbounded();
        if !unbounded.is_empty() {
            return Err(DataError::Unbounded { columns: listed(&unbounded) });
        }
        let features = layout
            .features
            .iter()
            .map(|(column, kind)| {
                let kind = match kind {
                    FeatureKind::Numeric { bounds: Some(b), log, .. } => FeatureForm::Numeric {
                        lower: b.lower(),
                        upper: b.upper(),
                        log: *log,
                        spread: None,
                        unit: b.unit(),
                        // of the fitted model: columns are encoded as all are until then
                        trend: None,
                    },
                    FeatureKind::Numeric { bounds: None, .. } => {
                        return Err(DataError::Unbounded { columns: column.clone() });
                    }
                    FeatureKind::Categorical { levels } => FeatureForm::Categorical { levels: levels.clone() },
                    FeatureKind::Hashed { bits } => FeatureForm::Hashed { bits: *bits },
                    FeatureKind::Text { bits } => {
                        FeatureForm::Text { bits: layout.form.text.map_or(*bits, |text| text.bits) }
                    }
                    FeatureKind::Sparse { dimension } => FeatureForm::Sparse { dimension: *dimension },
                };
                Ok(FeatureSpec { column: column.clone(), kind })
            })
            .collect::<Result<_, _>>()?;
        let target = match &layout.target {
            Some((column, rule)) => Some(NamedTarget { column: column.clone(), spec: TargetSpec::new(column, rule)? }),
            None => None,
        };
        let (form, columns) = (layout.form, &layout.pairs);
        let pairs = (!columns.is_empty() && form.pair_knots > 0).then(|| PairSpec {
            knots: form.pair_knots,
            share: form.pair_share,
            columns: columns.clone(),
            weights: None,
        });
        let used = layout.form.text.filter(|text| text.vectors > 0.0).and(layout.vectors.as_ref());
        let text = layout.form.text.filter(|_| layout.has_text()).map(|text| TextSpec {
            counts: text.counts,
            vectors: text.vectors,
            file: used.map(|vectors| VectorsSpec {
                name: vectors.name().into(),
                fingerprint: vectors.fingerprint().into(),
                dimension: vectors.dimension() as u32,
            }),
        });
        let spec = EncoderSpec {
            version: EncoderSpec::NEWEST,
            knots: form.knots,
            fine_knots: form.fine_knots,
            centred: form.centred,
            additive: form.additive,
            spread: form.spread,
            row_norm: layout.options.row_norm,
            scale_rows: layout.options.scale_rows,
            max_nonzeros: layout.options.max_nonzeros,
            features,
            pairs,
            text,
            target,
        };
        let encoder = Self::try_from(spec)?;
        match used {
            Some(vectors) => encoder.with_vectors(vectors.clone()),
            None => Ok(encoder),
        }
    }

    /// This encoder with the public vectors that its texts need, able to encode.
    ///
    /// # Errors
    /// If it needs others, or none.
    pub fn with_vectors(self, vectors: Arc<WordVectors>) -> Result<Self, DataError> {
        match self.file() {
            None => Err(DataError::VectorsNotNeeded),
            Some(file) if file.fingerprint != vectors.fingerprint() => {
                let given = "and the given vectors are others";
                Err(DataError::VectorsNeeded { name: super::error::one_line(&file.name), given })
            }
            Some(file) if file.dimension as usize != vectors.dimension() => {
                Err(DataError::Encoder { reason: "its vectors do not have the stated dimension".into() })
            }
            Some(_) => Ok(Self { vectors: Some(vectors), ..self }),
        }
    }

    /// Whether public vectors are needed to encode.
    pub fn needs_vectors(&self) -> bool {
        self.file().is_some()
    }

    fn file(&self) -> Option<&VectorsSpec> {
        self.spec.text.as_ref()?.file.as_ref()
    }

    /// Applies the private quantile transform: every numeric column is mapped so that its values lie evenly, by the released `counts` of
    /// [`column_histograms`](super::column_histograms), each with noise of standard deviation `noise`. Many numbers of one range that use the whole of it, as the points of
    /// a picture do, stay on their common scale, unless `each` is asked for.
    pub fn spread(mut self, counts: &[f64], noise: f64, each: bool) -> Result<Self, DataError> {
        let dimension = spread::shape(1).dimension();
        let numbers = self.spec.features.iter_mut().filter_map(|feature| match &mut feature.kind {
            FeatureForm::Numeric { lower, upper, log, spread, .. } => {
                Some(((lower.to_bits(), upper.to_bits(), *log), spread))
            }
            _ => None,
        });
        let (ranges, slots): (Vec<_>, Vec<_>) = numbers.unzip();
        let maps = counts.chunks_exact(dimension).map(|counts| Spread::of(counts, noise));
        let maps: Vec<_> = ranges.into_iter().zip(maps).collect();
        let parts = spread::parts_of_one_thing(&maps);
        for ((slot, (_, map)), part) in slots.into_iter().zip(maps).zip(parts) {
            *slot = (each || !part).then_some(map);
        }
        self.spec.spread = true;
        self.spec.version = EncoderSpec::NEWEST;
        self.again()
    }

    /// Made ready again after a change of its stored form, with the public vectors that it has.
    fn again(self) -> Result<Self, DataError> {
        Ok(Self { vectors: self.vectors, ..Self::try_from(self.spec)? })
    }

    /// Keeps the products of those pairs of columns that the released `weights` (outputs × features) use, with a larger part of the products' norm
    /// for larger weights. The result has no more features than before.
    ///
    /// # Errors
    /// If it has no pairs.
    pub fn weigh_pairs(mut self, weights: &[f64]) -> Result<Self, DataError> {
        let strengths = self.strengths_of_pairs(weights);
        let Some(spec) = self.spec.pairs.as_mut() else {
            return Err(DataError::Encoder { reason: "it has no pairs to weight".into() });
        };
        if let Some(weights) = pairs::weights(&strengths) {
            let kept = |at: &usize| weights[*at] > 0.0;
            spec.columns = (0..weights.len()).filter(kept).map(|at| spec.columns[at]).collect();
            spec.weights = Some(weights.into_iter().filter(|weight| *weight > 0.0).collect());
        }
        self.spec.version = EncoderSpec::NEWEST;
        self.again()
    }

    /// What is counted to spread the numeric columns.
    pub fn histograms(&self) -> HistogramShape {
        spread::shape(self.numeric().count())
    }

    /// Numeric columns by name, how a field of each is read, and the cell in which a value is counted.
    pub(crate) fn numeric(
        &self,
    ) -> impl Iterator<Item = (&str, impl Fn(Field<'_>) -> Option<f64> + '_, impl Fn(f64) -> usize + '_)> {
        let rules = self.spec.rules();
        self.spec.features.iter().zip(&self.blocks).filter_map(move |(feature, block)| match &block.form {
            PreparedColumn::Numeric { scale, unit, .. } => {
                let read = move |field: Field<'_>| rules.number(field, *unit);
                Some((feature.column.as_str(), read, |value| scale.cell(value)))
            }
            _ => None,
        })
    }

    /// Number of features d, the intercept among them.
    pub fn dimension(&self) -> usize {
        self.dimension as usize
    }

    /// Every row has l2 norm at most this, exactly.
    pub fn row_norm(&self) -> f64 {
        self.spec.row_norm
    }

    /// Feature columns in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.spec.features.iter().map(|f| f.column.as_str())
    }

    /// Names of the columns that have products, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = |at: usize| self.spec.features[at].column.as_str();
        self.pairs.iter().map(move |pair| (name(pair.first), name(pair.second)))
    }

    /// Name and form of the target.
    pub fn target(&self) -> Option<(&str, &TargetSpec)> {
        self.spec.target.as_ref().map(|t| (t.column.as_str(), &t.spec))
    }

    /// True if the first feature is an intercept (all tables except LIBSVM, whose rows stay as they are).
    pub fn has_intercept(&self) -> bool {
        self.intercept() == 1
    }

    fn intercept(&self) -> u32 {
        let only_sparse = self.spec.features.iter().all(|f| matches!(f.kind, FeatureForm::Sparse { .. }));
        u32::from(!only_sparse)
    }

    /// No row has more non-zeros than this (a public fact).
    pub fn max_nonzeros(&self) -> usize {
        let per_block = self.spec.features.iter().map(|f| match &f.kind {
            FeatureForm::Numeric { .. } => line(self.spec.centred) as usize + 1 + 2 * self.splines.len(),
            FeatureForm::Categorical { levels } if self.spec.centred && levels.len() <= MAX_CENTRED as usize => {
                levels.len()
            }
            FeatureForm::Categorical { .. } | FeatureForm::Hashed { .. } => 1,
            FeatureForm::Text { bits } => match &self.spec.text {
                None => 2 * COUNTS.len() + (2 * MAX_WORDS).min(1 << bits),
                Some(text) => {
                    let dimension = text.file.as_ref().map_or(0, |file| file.dimension as usize);
                    COUNTS.len() + if *bits == 0 { 0 } else { MAX_WORDS.min(1 << bits) } + dimension
                }
            },
            FeatureForm::Sparse { dimension } => {
                self.spec.max_nonzeros.map_or(*dimension, |s| s.min(*dimension)) as usize
            }
        });
        let of_pairs = self.pairs.iter().map(|pair| {
            let parts = |at: usize| match self.spec.features[at].kind {
                FeatureForm::Numeric { .. } => 2,
                _ => 1,
            };
            parts(pair.first) * parts(pair.second)
        });
        (self.intercept() as usize + per_block.sum::<usize>() + of_pairs.sum::<usize>()).min(self.dimension())
    }

    /// The features of a column, as a half-open range; `None` if it is not among the [`columns`](Self::columns).
    pub fn features_of(&self, column: &str) -> Option<(u32, u32)> {
        let at = self.columns().position(|name| name == column)?;
        let block = &self.blocks[at];
        Some((block.offset, block.offset + block.width))
    }

    /// Name of feature `index`: `(intercept)`, `age:low`, `age:high` (the line), `age@53.5` (a knot), `age=(missing)`, `sex=Male`, `sex=(other)`,
    /// `city#17` (a slot of a hash), `text:digits@0.25`. `None` beyond the last.
    pub fn feature_name(&self, index: usize) -> Option<String> {
        let index = u32::try_from(index).ok().filter(|i| *i < self.dimension)?;
        if index < self.intercept() {
            return Some("(intercept)".into());
        }
        if let Some(pair) = self.pairs.iter().rfind(|pair| pair.offset <= index) {
            let at = index - pair.offset;
            let (left, right) = (at / pair.widths.1, at % pair.widths.1);
            return Some(format!(
                "{} & {}",
                self.name_in_pair(pair.first, left),
                self.name_in_pair(pair.second, right)
            ));
        }
        let b = self.blocks.partition_point(|b| b.offset <= index) - 1;
        let (block, spec) = (&self.blocks[b], &self.spec.features[b]);
        let (i, column) = (index - block.offset, &spec.column);
        let scales = block.form.splines(&self.splines);
        let (before, splines): (u32, u32) = (block.form.line(self.spec.centred), scales.iter().sum());
        Some(match (&spec.kind, &block.form) {
            (FeatureForm::Numeric { .. }, _) if i < before => match (self.spec.centred, i) {
                (true, _) => format!("{column}:line"),
                (false, 0) => format!("{column}:low"),
                (false, _) => format!("{column}:high"),
            },
            (FeatureForm::Numeric { .. }, PreparedColumn::Numeric { scale, unit, .. }) if i < before + splines => {
                // scales are told apart by their knots: `age@53.5` of the first, `age@@53.5` of the second
                let (mut knot, mut marks) = (i - before, "@".to_string());
                let mut knots = self.spec.knots;
                for &of_scale in scales {
                    knots = of_scale;
                    if knot < knots {
                        break;
                    }
                    knot -= knots;
                    marks.push('@');
                }
                format!("{column}{marks}{}", unit.short(scale.value(f64::from(knot) / f64::from(knots - 1))))
            }
            (FeatureForm::Categorical { levels }, _) if (i as usize) < levels.len() => {
                format!("{column}={}", levels[i as usize])
            }
            (FeatureForm::Categorical { levels }, _) if i as usize == levels.len() => format!("{column}=(other)"),
            (FeatureForm::Hashed { bits }, _) if i < 1 << bits => format!("{column}#{i}"),
            (_, PreparedColumn::Text { parts: Some(parts), .. }) => match i.checked_sub(parts.counted()) {
                None => format!("{column}:{}", COUNTS[i as usize].0),
                Some(slot) if slot < parts.slots => format!("{column}#{slot}"),
                Some(at) => format!("{column}:vector[{}]", at - parts.slots + 1),
            },
            (FeatureForm::Text { .. }, _) => {
                let knots = self.spec.text_knots();
                let counted = COUNTS.len() as u32 * knots;
                if i < counted {
                    let knot = f64::from(i % knots) / f64::from(knots - 1);
                    let (name, largest) = COUNTS[(i / knots) as usize];
                    format!("{column}:{name}@{}", Unit::Number.short((knot * largest.ln_1p()).exp_m1()))
                } else {
                    format!("{column}#{}", i - counted)
                }
            }
            (FeatureForm::Sparse { .. }, _) => format!("{column}[{}]", i + 1),
            _ => format!("{column}=(missing)"),
        })
    }

    /// A value of a column in a product, as text.
    fn name_in_pair(&self, column: usize, at: u32) -> String {
        let (block, spec) = (&self.blocks[column], &self.spec.features[column]);
        let knots = self.spec.pairs.as_ref().map_or(2, |p| p.knots);
        match (&spec.kind, &block.form) {
            (FeatureForm::Categorical { levels }, _) => match levels.get(at as usize) {
                Some(level) => format!("{}={level}", spec.column),
                None => format!("{}=(other)", spec.column),
            },
            (_, PreparedColumn::Numeric { scale, unit, .. }) => {
                format!("{}@{}", spec.column, unit.short(scale.value(f64::from(at) / f64::from(knots - 1))))
            }
            _ => spec.column.clone(),
        }
    }

    /// Encodes a table of sensitive records with their targets: n rows in the table's order.
    ///
    /// Errors depend on records: they are for the data owner, and [`BadCells::Missing`] avoids those about cells.
    pub fn encode(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Sensitive<Examples>, DataError> {
        let examples = self.encode_public(table, bad_cells)?;
        if examples.rows.is_empty() {
            return Err(DataError::NoRows { source_name: table.name() });
        }
        Ok(Sensitive::new(examples))
    }

    /// As [`encode`](Self::encode), with at most about `most_bytes` of rows in memory: the rest goes to a temporary file.
    pub fn encode_within(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
        most_bytes: u64,
    ) -> Result<Encoded, DataError> {
        let broken = |e: std::io::Error| DataError::TemporaryFile { reason: e.kind().to_string() };
        let mut collector = Collector::new(self.dimension(), most_bytes);
        let append = |part: Examples| collector.append(&part).map_err(broken);
        self.pass(table, self.target_position(table)?, bad_cells, |_, part| Ok(part), append)?;
        let encoded = collector.finish().map_err(broken)?;
        match &encoded {
            Encoded::Memory(examples) if examples.rows.is_empty() => {
                Err(DataError::NoRows { source_name: table.name() })
            }
            _ => Ok(encoded),
        }
    }

    /// Whether the type of a column lets it be what the encoder reads there; `unit`: of one of numbers.
    fn check_stored(&self, column: &Column, unit: Option<Unit>) -> Result<(), DataError> {
        let other = |what: &str, fix: &str| Err(DataError::declaration(&column.name, what, fix));
        match (&column.stored, unit) {
            (Stored::Unsupported(stored), _) => {
                Err(DataError::UnsupportedType { column: column.name.clone(), stored: stored.clone() })
            }
            _ if self.spec.rules() == Rules::First => Ok(()),
            (Stored::Time(ticks), Some(unit)) if unit != ticks.unit => other(
                "holds dates or spans of time, and the model was fitted on other values",
                "give values of the same type as at the fit",
            ),
            (Stored::Number, Some(Unit::Date)) => {
                other("holds numbers, and the model was fitted on dates", "give dates")
            }
            (Stored::Number, Some(Unit::Duration)) => {
                other("holds numbers, and the model was fitted on spans of time", "give spans of time")
            }
            _ => Ok(()),
        }
    }

    fn absent(&self, table: &dyn TableReader, role: &str, name: &str) -> DataError {
        let names: Vec<&str> = table.columns().iter().map(|c| c.name.as_str()).collect();
        let expected: Vec<&str> = self.columns().chain(self.target().map(|(target, _)| target)).collect();
        DataError::no_such_column(role, name, &names, &expected)
    }

    fn target_position(&self, table: &dyn TableReader) -> Result<Option<usize>, DataError> {
        match &self.spec.target {
            Some(target) => match table.columns().iter().position(|c| c.name == target.column) {
                Some(at) => Ok(Some(at)),
                None => Err(self.absent(table, "the target", &target.column)),
            },
            None => Ok(None),
        }
    }

    /// Encodes records whose owner also gets the result: a public hold-out table.
    pub fn encode_public(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Examples, DataError> {
        self.collect(table, self.target_position(table)?, bad_cells)
    }

    /// Encodes a public table block by block, in order, and hands each block to `take`: for tables that do not fit into memory.
    ///
    /// # Errors
    /// If the table can't be read or has other columns, or `take` stops.
    pub fn encode_public_in_blocks(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
        take: &mut dyn FnMut(Examples) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.pass(table, self.target_position(table)?, bad_cells, |_, part| Ok(part), take)
    }

    /// Encodes records to predict for; the target's column may be absent.
    pub fn encode_features(&self, table: &dyn TableReader, bad_cells: BadCells) -> Result<Rows, DataError> {
        Ok(self.collect(table, None, bad_cells)?.rows)
    }

    /// Encodes records to predict for block by block: `work` sees each block with its rows, in threads of this process, and what it makes of them comes to `take`
    /// in the table's order. No more than a few blocks are in memory.
    ///
    /// # Errors
    /// If the table can't be read or has other columns, or `work` or `take` stops: the first in the table's order.
    pub fn encode_features_in_blocks<R: Send, E: From<DataError>>(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
        work: impl Fn(&dyn Block, Rows) -> Result<R, DataError> + Sync,
        take: impl FnMut(R) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pass(table, None, bad_cells, |block, part| work(block, part.rows), take)
    }

    /// Texts that stand for a missing value in a cell, unless they are declared levels.
    pub fn missing_texts(&self) -> &'static [&'static str] {
        self.spec.rules().missing_texts()
    }

    /// Reads what each record of a block of `table` says of the target as it stands, in order: for scores of a public hold-out table.
    ///
    /// # Errors
    /// As those of [`encode_public`](Self::encode_public), about the target alone.
    pub fn truth_reader(
        &self,
        table: &dyn TableReader,
        bad_cells: BadCells,
    ) -> Result<impl Fn(&dyn Block) -> Result<Vec<Truth>, DataError> + Sync + '_, DataError> {
        let (Some(at), Some(reader), Some(named)) = (self.target_position(table)?, &self.target, &self.spec.target)
        else {
            return Err(DataError::Encoder { reason: "it has no target".into() });
        };
        let (width, how) = (table.columns().len(), (bad_cells, self.spec.rules()));
        Ok(move |block: &dyn Block| {
            let mut scratch = crate::cell::Scratch::default();
            let truth = |r| match bad_row(block, r, width) {
                Some(error) => bad_cells.check(error).map(|()| Truth::Unreadable),
                None => {
                    let row = block.first_row() + r as u64;
                    reader.truth(block.field(r, at), &named.column, row, how, &mut scratch)
                }
            };
            (0..block.len()).map(truth).collect()
        })
    }

    fn collect(
        &self,
        table: &dyn TableReader,
        target: Option<usize>,
        bad_cells: BadCells,
    ) -> Result<Examples, DataError> {
        let mut whole = Examples { rows: Rows::new(self.dimension()), targets: Vec::new() };
        let append = |part: Examples| {
            whole.rows.append(&part.rows);
            whole.targets.extend_from_slice(&part.targets);
            Ok::<(), DataError>(())
        };
        self.pass(table, target, bad_cells, |_, part| Ok(part), append)?;
        Ok(whole)
    }

    /// Encodes all records and hands them, block by block, to `work` and what becomes of them, in order, to `take`.
    fn pass<R: Send, E: From<DataError>>(
        &self,
        table: &dyn TableReader,
        target: Option<usize>,
        bad_cells: BadCells,
        work: impl Fn(&dyn Block, Examples) -> Result<R, DataError> + Sync,
        mut take: impl FnMut(R) -> Result<(), E>,
    ) -> Result<(), E> {
        let plan = self.plan(table, target, bad_cells)?;
        // enough blocks for every thread to stay busy, few enough to bound memory
        let items = 2 * thread_count();
        let most = AtOnce { items, weight: items * BLOCK_BYTES };
        let mut halted = None;
        let read = in_order(
            most,
            |block: Box<dyn Block>| work(&*block, plan.block(&*block)?),
            |done| {
                // the first faulty row of the file is the one reported
                take(done?).map_err(|error| {
                    halted = Some(error);
                    DataError::LeftOut
                })
            },
            |give| {
                table.for_each_block(&mut |block| {
                    let bytes = block.bytes();
                    give(block, bytes)
                })
            },
        );
        match halted {
            Some(error) => Err(error),
            None => Ok(read?),
        }
    }

    /// What a pass over `table` needs, or why it can't be encoded.
    fn plan(
        &self,
        table: &dyn TableReader,
        target: Option<usize>,
        bad_cells: BadCells,
    ) -> Result<PassPlan<'_>, DataError> {
        let places: HashMap<&str, usize> =
            table.columns().iter().enumerate().map(|(at, c)| (c.name.as_str(), at)).collect();
        if let (Some(file), None) = (self.file(), &self.vectors) {
            let (name, given) = (super::error::one_line(&file.name), "which are missing");
            return Err(DataError::VectorsNeeded { name, given });
        }
        let place =
            |name: &str| places.get(name).copied().ok_or_else(|| self.absent(table, "the model's column", name));
        let positions = self.columns().map(place).collect::<Result<Vec<_>, _>>()?;
        let wanted = self.spec.features.iter().zip(&positions).map(|(feature, &at)| (feature.unit(), at));
        let of_target = self.target().zip(target).map(|((_, spec), at)| (spec.unit(), at));
        for (unit, at) in wanted.chain(of_target) {
            self.check_stored(&table.columns()[at], unit)?;
        }
        for (block, &at) in self.blocks.iter().zip(&positions) {
            if let (PreparedColumn::Sparse { .. }, Stored::Sparse(given)) = (&block.form, &table.columns()[at].stored)
                && *given != block.width
            {
                return Err(DataError::FeaturesOutOfRange { given: u64::from(*given), limit: u64::from(block.width) });
            }
        }
        Ok(PassPlan::new(self, positions, target, table.columns().len(), bad_cells))
    }
}

pub(crate) fn position(columns: &[Column], name: &str, role: &str) -> Result<usize, DataError> {
    columns.iter().position(|c| c.name == name).ok_or_else(|| {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        DataError::no_such_column(role, name, &names, &[])
    })
}
