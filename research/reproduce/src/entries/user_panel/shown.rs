//! Scores against ε, as a table and a picture: per unit, for groups, and per row.

use super::fits::Scores;
use crate::{Summary, Table, cell};
use dpopt::report::chart::{Axis, Panel, Series};

/// Results at each ε, to be shown in tables and panels.
pub(super) struct Shown<'a> {
    pub(super) epsilons: &'a [f64],
    /// Bounds on the rows of a unit.
    pub(super) bounds: &'a [u64],
    /// Trials of each ε.
    pub(super) results: &'a [Vec<Scores>],
    /// Who is not protected where rows are.
    pub(super) units: &'static str,
}

impl Shown<'_> {
    /// Over the trials of one ε: of the models per unit, for the group of each bound, and per row.
    fn summaries(&self, trials: &[Scores]) -> Vec<Summary> {
        let over = |score: &dyn Fn(&Scores) -> f64| Summary::of(trials.iter().map(score));
        let groups = (0..self.bounds.len()).map(|k| over(&|scores| scores.groups[k].score));
        let per_unit = over(&|scores| scores.per_unit.score);
        let per_row = over(&|scores| scores.per_row.score);
        [per_unit].into_iter().chain(groups).chain([per_row]).collect()
    }

    /// Per unit, at the best bound of a group, and per row, for the ε at this place.
    pub(super) fn at(&self, place: usize) -> [Summary; 3] {
        let all = self.summaries(self.results.get(place).map_or(&[], Vec::as_slice));
        let groups = &all[1..all.len() - 1];
        let best = groups.iter().copied().reduce(|best, s| if s.mean > best.mean { s } else { best });
        [all[0], best.unwrap_or(all[0]), all[all.len() - 1]]
    }

    pub(super) fn table(&self, name: &'static str, score: &'static str) -> Table {
        let mut table = Table::new(name, ["epsilon", "protected", score, "sd"]);
        let names = self.names();
        for (which, name) in names.iter().enumerate() {
            for (epsilon, trials) in self.epsilons.iter().zip(self.results) {
                let s = self.summaries(trials)[which];
                table.row([epsilon.to_string(), name.clone(), cell(s.mean), cell(s.sd)]);
            }
        }
        table
    }

    pub(super) fn panel(&self, title: &str, score: &'static str) -> Panel {
        let by_epsilon: Vec<Vec<Summary>> = self.results.iter().map(|trials| self.summaries(trials)).collect();
        let empty = Panel::new(title, Axis::log("ε"), Axis::linear(score));
        self.names().iter().enumerate().fold(empty, |panel, (which, name)| {
            let points = self.epsilons.iter().zip(&by_epsilon).map(|(&epsilon, all)| all[which].at(epsilon));
            panel.with(Series::band(name.clone(), points))
        })
    }

    fn names(&self) -> Vec<String> {
        let groups = self.bounds.iter().map(|most| format!("group of {most}"));
        let per_row = format!("row only: {} are not protected", self.units);
        ["per unit".to_string()].into_iter().chain(groups).chain([per_row]).collect()
    }
}
