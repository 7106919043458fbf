//! What a fit tells of itself when it is done: its report.

use super::describe::general_assumptions;
use super::error::FitError;
use super::fit::Fit;
use super::linear::Model;
use super::scheme::Planned;
use crate::report::{Answer, Baseline, CandidateRow, Coefficient, DataFacts, Report};
use dpopt_data::{BadCells, FeatureKind, listed};
use dpopt_mechanism::ReleaseRecord;
use dpopt_optimize::plan::Assumption;

impl Fit {
    /// One sentence per source of public facts.
    pub(super) fn declarations(&self) -> Vec<String> {
        let mut notes =
            vec![format!("The table has {} columns: public, never counted in a record.", self.table.columns().len())];
        if let Some(owned) = self.ownership() {
            notes.push(format!("Of rows that several own so many were kept: {owned}."));
        }
        if let Some(source) = &self.options.schema_source {
            notes.push(format!(
                "Ranges, levels and kinds of columns as declared in {source}: public, they cost nothing."
            ));
        }
        if self.layout.features.iter().any(|(_, kind)| matches!(kind, FeatureKind::Numeric { .. }))
            || !self.layout.pairs.is_empty()
            || self.layout.form.text.is_some()
        {
            let form = self.layout.in_words(&self.layout.form);
            notes.push(format!("The encoder, settled by public facts: {form}."));
        }
        if let Some(vectors) = &self.layout.vectors {
            notes.push(format!(
                "Vectors of words from {}, which is public: {} words of {} numbers. Predictions need the same file (fingerprint {}).",
                vectors.name(),
                vectors.words(),
                vectors.dimension(),
                vectors.fingerprint()
            ));
        }
        if !self.layout.undeclared.is_empty() {
            notes.push(format!(
                "Columns that nothing declares, taken as categories: {}.",
                listed(&self.layout.undeclared)
            ));
        }
        if !self.layout.ignored.is_empty() {
            notes.push(format!("Columns that were not used: {}.", listed(&self.layout.ignored)));
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
        warnings.extend(summary.warnings.iter().cloned());
        if self.options.bad_cells == BadCells::Error {
            warnings.push(BadCells::ERROR_WARNING.to_string() + BadCells::PROMISE);
        }
        if self.table.quotes_join_lines() {
            warnings.push(BadCells::QUOTED_NEWLINES.into());
        }
        let general = general_assumptions(&self.options);
        Ok(Report {
            answer: Answer::LinearModel,
            software: env!("CARGO_PKG_VERSION").into(),
            command: self.options.command.clone().unwrap_or_else(|| "called as a library".into()),
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
            chosen: planned.chosen.clone()?,
            by_name: self.options.method.method.is_some(),
            schedule: plan.schedule(),
            coefficients: model
                .coefficients()
                .map(|(i, value)| Coefficient {
                    name: model.weight_name(i),
                    value,
                    noise: weight_noise.map(|all| all[i]).or(summary.weight_noise),
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
            ledger: self.options.ledger.as_ref().map(|l| l.path.display().to_string()),
            receipt: model.receipt().cloned(),
        })
    }
}
