//! The report that a fit writes when it is done.

use super::describe::general_assumptions;
use super::error::FitError;
use super::linear::Model;
use super::stage_plan::Planned;
use super::table::NamedTable;
use crate::provenance::Provenance;
use crate::report::{Answer, Baseline, CandidateRow, Coefficient, DataFacts, Report};
use dpopt_data::{BadCells, FeatureKind, listed};
use dpopt_mechanism::ReleaseRecord;
use dpopt_optimize::plan::Assumption;
use dpopt_refusal::Text;

impl NamedTable {
    /// One sentence per source of public facts.
    pub(super) fn declarations(&self) -> Vec<String> {
        let mut notes = vec![format!("The table has {} columns. This number is public.", self.table.columns().len())];
        if let Some(owned) = self.ownership() {
            notes.push(format!("Ownership: {owned}."));
        }
        if let Some(source) = &self.options.schema_source {
            notes.push(format!(
                "Ranges, levels and kinds of columns are those declared in {source}. They are public and cost \
                 nothing."
            ));
        }
        if self.layout.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Numeric { .. }))
            || !self.layout.pairs.is_empty()
            || self.layout.form.text.is_some()
        {
            let form = self.layout.in_words(&self.layout.form);
            notes.push(format!("The encoder, chosen from public facts: {form}."));
        }
        if let Some(vectors) = &self.layout.vectors {
            notes.push(format!(
                "Public word vectors from {}: {} words of {} numbers. Predictions need the same file (fingerprint \
                 {}).",
                vectors.name(),
                vectors.words(),
                vectors.dimension(),
                vectors.fingerprint()
            ));
        }
        if !self.layout.undeclared.is_empty() {
            notes.push(format!("Undeclared columns, treated as categories: {}.", listed(&self.layout.undeclared)));
        }
        if !self.layout.ignored.is_empty() {
            notes.push(format!("Columns not used: {}.", listed(&self.layout.ignored)));
        }
        notes
    }

    pub(super) fn report(
        &self,
        model: &Model,
        weight_noise: Option<&[f64]>,
        releases: Vec<Vec<ReleaseRecord>>,
        planned: &Planned,
        notes: Vec<String>,
        planning_seconds: f64,
    ) -> Result<Report, FitError> {
        let plan = planned.plan()?;
        let summary = plan.summary();
        let task = match model.labels().len() {
            0 => "Regression".to_string(),
            k => format!("Classification into {k} classes"),
        };
        let mut warnings = self.warnings.clone();
        warnings.extend(summary.warnings.iter().cloned().map(Text::from));
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::error_warning());
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::of_quoted_newlines());
        }
        let general = general_assumptions(&self.run);
        Ok(Report {
            answer: Answer::LinearModel,
            software: env!("CARGO_PKG_VERSION").into(),
            provenance: Provenance::of_this_build(),
            command: self.run.shown_command(),
            facts: DataFacts {
                source: self.table.name(),
                rows: Some(self.rows),
                units: self.units.as_ref().map(|_| self.protected()),
                ownership: self.ownership(),
                features: model.encoder().dimension(),
                target: self.target.clone(),
                task,
                target_clip: self.target_clip,
                preparation: notes,
            },
            guarantee: model.guarantee().clone(),
            releases,
            candidates: planned.candidates.iter().map(CandidateRow::from).collect(),
            selection: planned.selection.clone()?,
            schedule: plan.schedule(),
            coefficients: model
                .coefficients()
                .map(|(i, value)| Coefficient {
                    name: model.weight_name(i),
                    value,
                    noise: match weight_noise {
                        Some(all) => Some(all[i]).filter(|noise| !noise.is_nan()),
                        None => summary.weight_noise.filter(|_| !model.encoder().follows_trend(i)),
                    },
                    std_error: None,
                    slot: model.is_slot(i),
                })
                .collect(),
            intervals: None,
            effects: model.effects(),
            baseline: Some(Baseline::new(&summary.loss, model.range())),
            score: None,
            assumptions: summary.assumptions.iter().chain(&general).map(Assumption::to_string).collect(),
            warnings,
            planning_seconds,
            ledger: self.run.shown_ledger(),
            receipt: model.receipt().cloned(),
        })
    }
}
