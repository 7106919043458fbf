//! Options of a fit beside the options of every run.

use super::budget_split::StageShares;
use super::embedding::EmbeddingRequest;
use super::reading::Reading;
use crate::moment::Moment;
use dpopt_data::{BadCells, Schema};
use dpopt_objective::loss::Loss;
use dpopt_optimize::{MethodOptions, Registry};

/// Options of a fit beside the [options of every run](crate::RunOptions). The defaults need no tuning.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `schema` | empty | public ranges, levels and kinds of columns |
/// | `shares` | 5 % for undeclared labels | what private preparation may spend |
/// | `method` | auto | method and hyper-parameters |
/// | `registry` | those that ship | which methods there are |
/// | `embedding` | none | an embedding model instead of a linear one |
/// | `regression` | false | the target is a number |
/// | `classification` | false | it is said that the target holds labels |
/// | `target_moment` | none | the moment of a number of unknown range |
/// | `loss` | logistic, or squared | of one score; of two classes where labels are predicted |
/// | `rows` | counted | public number of rows; required under add-or-remove, a guess there |
/// | `bad_cells` | error | what to do with cells that cannot be read |
/// | `reading` | as usual | how the table is read, kept in the model for its predictions |
/// | `memory` | none | cap on the memory of encoded rows |
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FitOptions {
    /// What is publicly declared of the columns.
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
    /// What to do with cells that cannot be read.
    pub bad_cells: BadCells,
    /// Most bytes of encoded rows in memory: the rest goes to a temporary file, and only methods that read rows in batches
    /// apply. `None`: all rows in memory.
    pub memory: Option<u64>,
    /// How the table is read, for the model.
    pub reading: Reading,
    /// For the report: where the public declarations come from.
    pub schema_source: Option<String>,
}

impl FitOptions {
    /// These options with [`schema`](#structfield.schema) set.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// These options with [`shares`](#structfield.shares) set.
    #[must_use]
    pub fn shares(mut self, shares: StageShares) -> Self {
        self.shares = shares;
        self
    }

    /// These options with [`method`](#structfield.method) set.
    #[must_use]
    pub fn method(mut self, method: MethodOptions) -> Self {
        self.method = method;
        self
    }

    /// These options with [`registry`](#structfield.registry) set.
    #[must_use]
    pub fn registry(mut self, registry: impl Into<Option<Registry>>) -> Self {
        self.registry = registry.into();
        self
    }

    /// These options with [`embedding`](#structfield.embedding) set.
    #[must_use]
    pub fn embedding(mut self, embedding: impl Into<Option<EmbeddingRequest>>) -> Self {
        self.embedding = embedding.into();
        self
    }

    /// These options with [`regression`](#structfield.regression) set.
    #[must_use]
    pub fn regression(mut self, regression: bool) -> Self {
        self.regression = regression;
        self
    }

    /// These options with [`classification`](#structfield.classification) set.
    #[must_use]
    pub fn classification(mut self, classification: bool) -> Self {
        self.classification = classification;
        self
    }

    /// These options with [`target_moment`](#structfield.target_moment) set.
    #[must_use]
    pub fn target_moment(mut self, target_moment: impl Into<Option<Moment>>) -> Self {
        self.target_moment = target_moment.into();
        self
    }

    /// These options with [`loss`](#structfield.loss) set.
    #[must_use]
    pub fn loss(mut self, loss: impl Into<Option<Loss>>) -> Self {
        self.loss = loss.into();
        self
    }

    /// These options with [`rows`](#structfield.rows) set.
    #[must_use]
    pub fn rows(mut self, rows: impl Into<Option<u64>>) -> Self {
        self.rows = rows.into();
        self
    }

    /// These options with [`bad_cells`](#structfield.bad_cells) set.
    #[must_use]
    pub fn bad_cells(mut self, bad_cells: BadCells) -> Self {
        self.bad_cells = bad_cells;
        self
    }

    /// These options with [`memory`](#structfield.memory) set.
    #[must_use]
    pub fn memory(mut self, memory: impl Into<Option<u64>>) -> Self {
        self.memory = memory.into();
        self
    }

    /// These options with [`reading`](#structfield.reading) set.
    #[must_use]
    pub fn reading(mut self, reading: Reading) -> Self {
        self.reading = reading;
        self
    }

    /// These options with [`schema_source`](#structfield.schema_source) set.
    #[must_use]
    pub fn schema_source(mut self, schema_source: impl Into<Option<String>>) -> Self {
        self.schema_source = schema_source.into();
        self
    }
}

/// Which methods there are and their options: those that ship unless the user gives a registry.
#[derive(Clone, Debug)]
pub struct MethodRequest {
    /// Which methods there are.
    pub registry: Registry,
    /// Name of the method, and its options.
    pub options: MethodOptions,
}

impl From<MethodOptions> for MethodRequest {
    fn from(options: MethodOptions) -> Self {
        Self { registry: dpopt_linear::registry().clone(), options }
    }
}

impl FitOptions {
    /// Which methods there are.
    pub fn methods(&self) -> &Registry {
        self.registry.as_ref().unwrap_or(dpopt_linear::registry())
    }
}
