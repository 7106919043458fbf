//! Everything a fit can be told.

use super::division::StageShares;
use super::embedding::EmbeddingRequest;
use super::reading::Reading;
use super::units::UnitOptions;
use crate::moment::Moment;
use crate::session::LedgerFile;
use dpopt_data::{BadCells, Schema};
use dpopt_objective::loss::Loss;
use dpopt_optimize::{MethodOptions, Registry};
use dpopt_privacy::{Neighbours, Relation};

/// Everything a fit can be told. The defaults need no tuning.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `delta` | 1/n^1.1, at most 0.01 | δ of the whole run |
/// | `relation` | zero-out | which tables are neighbours |
/// | `unit` | none: a row | whose rows are one unit of privacy |
/// | `schema` | empty | public ranges, levels and kinds of columns |
/// | `shares` | 5 % for undeclared labels | what private preparation may spend |
/// | `method` | auto | method and hyper-parameters |
/// | `registry` | those that ship | which methods there are |
/// | `embedding` | none | an embedding model instead of a linear one |
/// | `regression` | false | the target is a number |
/// | `classification` | false | it is said that the target holds labels |
/// | `target_moment` | none | what is known of a number whose range nobody knows |
/// | `loss` | logistic, or squared | of one score; of two classes where labels are predicted |
/// | `rows` | counted | public number of rows; required under add-or-remove, a guess there |
/// | `ledger` | none | a budget kept across runs |
/// | `bad_cells` | error | what to do with cells that cannot be read |
/// | `reading` | as usual | how the table is read, kept in the model for its predictions |
/// | `memory` | none | cap on the memory of encoded rows |
/// | `insecure_seed` | none | reproducible noise, no privacy; not together with `ledger` |
#[derive(Clone, Debug, Default)]
pub struct FitOptions {
    /// δ of the whole run. `None`: 1/n^1.1, at most 0.01.
    pub delta: Option<f64>,
    /// Which tables are neighbours.
    pub relation: Relation,
    /// Who is protected, where rows of one person are to be protected as a whole. `None`: each row by itself.
    pub unit: Option<UnitOptions>,
    /// Public declarations.
    pub schema: Schema,
    /// What private preparation may spend.
    pub shares: StageShares,
    /// Method and hyper-parameters that the user fixes.
    pub method: MethodOptions,
    /// Which methods there are. `None`: those that ship.
    pub registry: Option<Registry>,
    /// An embedding model instead of a linear one.
    pub embedding: Option<EmbeddingRequest>,
    /// The target is a number. Classes otherwise, unless the schema declares a range.
    pub regression: bool,
    /// It is said that the target holds labels. Otherwise a target of which nothing is declared is taken for labels only where that costs little if it is
    /// wrong: not if its type says that it is a number, and not if a ledger file pays.
    pub classification: bool,
    /// A public fact about the target of a regression in place of a range: it is clipped where that takes from its mean about as much as noise
    /// moves predictions. The order alone says nothing of a scale: the range is found privately.
    pub target_moment: Option<Moment>,
    /// A loss of one score in place of the logistic or the squared one. Of classes it tells two apart, which have to be declared.
    pub loss: Option<Loss>,
    /// Public number of rows.
    pub rows: Option<u64>,
    /// A budget kept in a file.
    pub ledger: Option<LedgerFile>,
    /// What to do with cells that cannot be read.
    pub bad_cells: BadCells,
    /// Most bytes of encoded rows in memory: the rest goes to a temporary file, and only methods that read rows in batches
    /// apply. `None`: all rows in memory.
    pub memory: Option<u64>,
    /// Reproducible noise for tests: no privacy against who knows the seed.
    pub insecure_seed: Option<u64>,
    /// How the table is read, for the model.
    pub reading: Reading,
    /// For the report: how the run was started.
    pub command: Option<String>,
    /// For the report: where the public declarations come from.
    pub schema_source: Option<String>,
}

/// What is said of methods, and which methods there are: those that ship unless somebody brings a registry.
#[derive(Clone, Debug)]
pub struct MethodRequest {
    /// Which methods there are.
    pub registry: Registry,
    /// What is said of them.
    pub options: MethodOptions,
}

impl From<MethodOptions> for MethodRequest {
    fn from(options: MethodOptions) -> Self {
        Self { registry: dpopt_linear::registry().clone(), options }
    }
}

impl FitOptions {
    /// Which methods there are.
    pub fn registry(&self) -> &Registry {
        self.registry.as_ref().unwrap_or(dpopt_linear::registry())
    }

    /// Which data sets are neighbours: those that differ in all rows of one unit, or in one row where nobody says whose it is.
    pub fn neighbours(&self) -> Neighbours {
        match self.unit {
            None => Neighbours::of_records(self.relation),
            Some(_) => Neighbours::of_users(self.relation),
        }
    }
}
