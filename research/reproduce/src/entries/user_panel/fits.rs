//! A table whose rows belong to units, and logistic models of it, linear or of two towers, by who is protected and what is clipped.

use crate::{Failure, Trial};
use dpopt::Sensitive;
use dpopt::data::{BadCells, Encoder, Format, ReadOptions, RowOwners, Schema, TableReader, open_bytes};
use dpopt::loss::Loss;
use dpopt::loss::embedding::{Embedding, Towers};
use dpopt::mechanism::Curator;
use dpopt::optimize::{MethodOptions, Prepared, Run, choose, named};
use dpopt::plan::{Problem, RecordUnit};
use dpopt::privacy::{Budget, Neighbours, Relation};
use dpopt::progress::Silent;
use dpopt::records::Examples;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::sync::Arc;

/// Methods of which rows one by one take the better: the first of the library's list for large and for small groups. To plan the whole list for groups
/// of a hundred takes a minute.
pub(super) const BY_ROW: [&str; 2] = ["noisy-gradient-descent", "objective-perturbation"];

/// Who is protected, and how.
#[derive(Clone, Copy, PartialEq)]
enum Protected {
    /// A unit: the mean of its gradients is clipped, by the method that the library chooses.
    Unit,
    /// A unit with at most so many rows, by the guarantee of a row for a group of as many.
    Group(NonZeroU64),
    /// A row, and no unit.
    Row,
}

/// How good one model is.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Model {
    pub(super) score: f64,
    pub(super) method: String,
    pub(super) noise_multiplier: f64,
}

/// How good models are at one ε.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Scores {
    pub(super) per_unit: Model,
    /// By the bound on rows, the better of two methods.
    pub(super) groups: Vec<Model>,
    pub(super) per_row: Model,
}

/// A table as methods see it.
pub(super) struct Encoded {
    table: Box<dyn TableReader>,
    encoder: Encoder,
    examples: Examples,
    /// The column whose values are units.
    unit: &'static str,
    units: usize,
    /// Two towers, if it is not a linear model.
    towers: Option<Embedding>,
}

impl Encoded {
    /// `bounds` is a bounds file's text; it says of `unit` that it is no feature.
    pub(super) fn new(
        csv: String,
        bounds: &str,
        unit: &'static str,
        units: usize,
        target: &str,
    ) -> Result<Self, Failure> {
        let table = open_bytes(csv.into_bytes(), Format::Csv, &ReadOptions::default()).map_err(Failure::of)?;
        let layout = Schema::from_toml(bounds)
            .and_then(|schema| schema.resolve(table.columns(), Some(target)))
            .map_err(Failure::of)?;
        let encoder = Encoder::new(&layout).map_err(Failure::of)?;
        let examples = encoder.encode_public(&*table, BadCells::Error).map_err(Failure::of)?;
        Ok(Self { table, encoder, examples, unit, units, towers: None })
    }

    /// Fits models of two towers instead, with vectors of `dimension` numbers.
    pub(super) fn with_towers(self, users: &[&str], items: &[&str], dimension: usize) -> Result<Self, Failure> {
        let side = |columns: &[&str]| -> Result<Vec<(u32, u32)>, Failure> {
            let range = |column: &&str| self.encoder.features_of(column).ok_or_else(|| Failure::of("no such column"));
            columns.iter().map(range).collect()
        };
        let towers = Towers { users: side(users)?, items: side(items)? };
        Ok(Self { towers: Some(Embedding { dimension, towers: Some(towers), seed: 0 }), ..self })
    }

    /// What is asked of a method.
    fn options(&self, method: Option<&str>) -> MethodOptions {
        let mut options = method.map_or_else(MethodOptions::default, MethodOptions::of);
        options.embedding = self.towers.clone();
        options
    }

    pub(super) fn rows(&self) -> usize {
        self.examples.rows.len()
    }

    /// Share of rows of the second class.
    pub(super) fn positive_rate(&self) -> f64 {
        self.examples.targets.iter().filter(|target| **target > 0.0).count() as f64 / self.rows() as f64
    }

    /// Each row's score and target.
    pub(super) fn scored(&self, weights: &[f64]) -> impl Iterator<Item = (f64, f64)> {
        (0..self.rows()).map(|i| {
            let (columns, values) = self.examples.rows.row(i);
            let score = match &self.towers {
                None => columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[j as usize]).sum(),
                Some(towers) => towers.scores(weights, self.encoder.dimension(), 1, columns, values)[0],
            };
            (score, f64::from(self.examples.targets[i]))
        })
    }

    /// `score` of a model's weights: per unit, for groups of as many rows as `bounds` say, and per row.
    pub(super) fn scores(
        &self,
        epsilon: f64,
        delta: f64,
        bounds: &[u64],
        trial: Trial,
        score: impl Fn(&[f64]) -> f64,
    ) -> Result<Scores, Failure> {
        let budget = Budget::new(epsilon, delta).map_err(Failure::of)?;
        let model = |plan: Box<dyn Prepared>, protected: Protected| -> Result<Model, Failure> {
            let weights = self.fit(&*plan, protected, trial)?;
            let summary = plan.summary();
            Ok(Model {
                score: score(&weights),
                method: summary.method.into(),
                noise_multiplier: summary.noise_multiplier,
            })
        };
        let by_row = |protected: Protected| -> Result<Model, Failure> {
            let problem = self.problem(protected)?;
            let mut best: Option<Model> = None;
            let methods: &[&str] = if self.towers.is_some() { &["embedding-sgd"] } else { &BY_ROW };
            for method in methods {
                let candidate = named(&problem, budget, &self.options(Some(method)));
                if let Some(plan) = candidate.and_then(|candidate| candidate.plan.ok()) {
                    let model = model(plan, protected)?;
                    if best.as_ref().is_none_or(|best| best.score < model.score) {
                        best = Some(model);
                    }
                }
            }
            best.ok_or_else(|| Failure::of("no method applies to rows one by one"))
        };
        let group = |most: &u64| by_row(Protected::Group(NonZeroU64::new(*most).ok_or_else(no_bound)?));
        let per_unit = choose(&self.problem(Protected::Unit)?, budget, &self.options(None));
        Ok(Scores {
            per_unit: model(per_unit.map_err(Failure::of)?, Protected::Unit)?,
            groups: bounds.iter().map(group).collect::<Result<_, _>>()?,
            per_row: by_row(Protected::Row)?,
        })
    }

    /// The public facts of the fit that a method plans with.
    fn problem(&self, protected: Protected) -> Result<Problem, Failure> {
        let rows = self.rows() as u64;
        let of_rows = Problem {
            directions: self.encoder.directions().map(Arc::new),
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: RecordUnit::Row,
            rows,
            features: self.encoder.dimension(),
            nonzeros: self.encoder.max_nonzeros(),
            row_norm: self.encoder.row_norm(),
            loss: Loss::Logistic { shift: 0.0 },
            neighbours: Neighbours::of_records(Relation::ZeroOut),
        };
        let most = match protected {
            Protected::Row => return Ok(of_rows),
            Protected::Unit => None,
            Protected::Group(most) => Some(most),
        };
        let of_units = Problem {
            record: RecordUnit::Unit { rows, most },
            rows: self.units as u64,
            neighbours: Neighbours::of_users(Relation::ZeroOut),
            ..of_rows
        };
        match most {
            None => Ok(of_units),
            Some(_) => of_units.by_row().ok_or_else(no_bound),
        }
    }

    /// Weights of one run of the plan.
    fn fit(&self, plan: &dyn Prepared, protected: Protected, trial: Trial) -> Result<Vec<f64>, Failure> {
        let problem = plan.problem();
        let mut curator = Curator::new(&plan.summary().certificate, trial.source());
        let rows = Sensitive::new(self.examples.clone());
        let units = |rows| {
            let owners = RowOwners::read(&*self.table, self.unit).map_err(Failure::of)?;
            owners.sensitive().ok_or_else(|| Failure::of("a row has several owners"))?.of(rows).map_err(Failure::of)
        };
        let released = match protected {
            Protected::Row => plan.run(Run::new(problem, &rows, &mut curator, &Silent).map_err(Failure::of)?),
            Protected::Unit => {
                let units = units(rows)?.gathered();
                plan.run_units(Run::new(problem, &units, &mut curator, &Silent).map_err(Failure::of)?)
            }
            Protected::Group(most) => {
                let rows = curator.capped(units(rows)?, most).one_by_one().ok_or_else(no_bound)?;
                plan.run(Run::new(problem, &rows, &mut curator, &Silent).map_err(Failure::of)?)
            }
        };
        Ok(released.map_err(Failure::of)?.into_inner().weights)
    }
}

fn no_bound() -> Failure {
    Failure::of("rows one by one need a bound on the rows of a unit")
}
