//! An answer in a few lines, two tables with bars, and as a chart.

use super::{EPSILONS, Estimate, Goal, Least, Point, ROWS, Sizing};
use crate::report::chart::{Axis, Chart, ChartError, Panel, Series};
use crate::report::number;
use dpopt_privacy::Shown;
use dpopt_privacy::rounding::count;
use std::fmt::{self, Display, Formatter};

/// Characters of a bar.
const BAR: usize = 36;

impl Sizing {
    /// The lines of the answer: what each is about, and the text.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("goal", self.goal_in_words())];
        if self.given.epsilon {
            lines.push(("predicted", self.predicted()));
        }
        if self.given.rows {
            lines.push(("epsilon", self.epsilon_in_words()));
        }
        if self.given.epsilon {
            lines.push(("rows", self.rows_in_words()));
        }
        lines.push(("estimate", self.caveat()));
        lines
    }

    /// The curves over ε and over numbers of rows, as tables with a bar for each band.
    pub fn tables(&self) -> String {
        let rows = count(self.at.rows);
        let of_epsilon =
            self.table(&format!("epsilon, {rows} rows"), &self.over_epsilon, |p| Shown(p.epsilon).to_string());
        let head = format!("rows, epsilon {}", Shown(self.at.epsilon));
        let of_rows = self.table(&head, &self.over_rows, |p| count(p.rows));
        format!("{of_epsilon}\n{of_rows}")
    }

    fn goal_in_words(&self) -> String {
        let ceiling = "what a model without privacy reaches";
        match self.goal {
            Goal::Accuracy { accuracy, best } => format!(
                "accuracy {} where {ceiling} is {}: privacy may cost {} points",
                Shown(accuracy),
                Shown(best),
                number(self.allowed)
            ),
            Goal::LossPoints { loss_points } => {
                format!("at most {} points of accuracy lost to privacy", Shown(loss_points))
            }
            Goal::Error { error, best } => format!(
                "root-mean-square error {} where {ceiling} is {}: privacy may add {}",
                Shown(error),
                Shown(best),
                number(self.allowed)
            ),
            Goal::AddedError { added_error } => {
                format!("privacy adds at most {} ({})", Shown(added_error), self.unit)
            }
        }
    }

    fn is_points(&self) -> bool {
        matches!(self.goal, Goal::Accuracy { .. } | Goal::LossPoints { .. })
    }

    /// What is lost, and what is reached then.
    fn loss_in_words(&self, lost: &Estimate) -> String {
        let shown = |x: f64| number(if self.is_points() { hundredths(three(x)) } else { three(x) });
        let (low, middle, high) = (shown(lost.low), shown(lost.middle), shown(lost.high));
        let lost_text = match self.is_points() {
            true => format!("{middle} points ({low} to {high}) lost to privacy"),
            false => format!("an error of {middle} ({low} to {high}) added by privacy"),
        };
        match self.reached(lost) {
            None => lost_text,
            Some([low, middle, high]) => format!("{} {middle} ({low} to {high}), {lost_text}", self.measure()),
        }
    }

    fn measure(&self) -> &'static str {
        if self.is_points() { "accuracy" } else { "root-mean-square error" }
    }

    /// What is reached: the band from its lower end, and the middle.
    fn reached(&self, lost: &Estimate) -> Option<[String; 3]> {
        let [a, b] = [self.goal.reached(lost.low)?, self.goal.reached(lost.high)?];
        let shown = |x: f64| if self.is_points() { format!("{x:.3}") } else { number(three(x)) };
        Some([shown(a.min(b)), shown(self.goal.reached(lost.middle)?), shown(a.max(b))])
    }

    fn predicted(&self) -> String {
        let verdict = match &self.at.lost {
            lost if lost.high <= self.allowed => "reached, over the whole band",
            lost if lost.middle <= self.allowed => "reached by the estimate, not over the whole band",
            lost if lost.low <= self.allowed => "not reached by the estimate, but within the band",
            _ => "not reached",
        };
        format!(
            "{} at epsilon {} and {} rows: {verdict}",
            self.loss_in_words(&self.at.lost),
            Shown(self.at.epsilon),
            count(self.at.rows)
        )
    }

    fn epsilon_in_words(&self) -> String {
        let rows = count(self.at.rows);
        let [least, .., largest] = EPSILONS;
        match &self.epsilon {
            None => {
                let last = self.over_epsilon.last().map_or_else(String::new, |point| self.loss_in_words(&point.lost));
                format!(
                    "none up to {} reaches it with {rows} rows: {last}. Use more rows, or ask for less",
                    Shown(largest)
                )
            }
            Some(found) if found.value <= least => format!(
                "{}, the least that is looked at, reaches it with {rows} rows{}",
                Shown(found.value),
                ends(found, |end| Shown(end).to_string(), "epsilon", (None, Some(largest)))
            ),
            Some(found) => format!(
                "{} is the least that reaches it with {rows} rows{}",
                Shown(found.value),
                ends(found, |end| Shown(end).to_string(), "epsilon", (Some(least), Some(largest)))
            ),
        }
    }

    fn rows_in_words(&self) -> String {
        let epsilon = Shown(self.at.epsilon);
        match &self.rows {
            None => format!(
                "no number up to {} reaches it at epsilon {epsilon}; raise epsilon, or ask for less",
                count(ROWS[1])
            ),
            Some(found) => format!(
                "{} is the least number that reaches it at epsilon {epsilon}{}",
                count(found.value as u64),
                ends(found, |end| count(end as u64), "rows", (None, None))
            ),
        }
    }

    fn caveat(&self) -> String {
        format!(
            "no guarantee. Made from public facts alone; the band is made to hold for at least {} of 100 tables (docs/sizing.md). \
             No record was read, and nothing is charged",
            number(100.0 * self.coverage)
        )
    }

    fn table(&self, heading: &str, points: &[Point], name: impl Fn(&Point) -> String) -> String {
        let most = points.iter().fold(self.allowed, |most, point| most.max(point.lost.high));
        let place = |x: f64| ((x / most * (BAR - 1) as f64).round() as usize).min(BAR - 1);
        let unit = if self.is_points() { "points lost" } else { "error added" };
        let with = self.reached(&Estimate::all(0.0)).map(|_| if self.is_points() { "accuracy" } else { "error" });
        let head = [Some(heading), with, Some(unit)];
        let cells: Vec<[String; 3]> = points
            .iter()
            .map(|point| {
                let reached = self
                    .reached(&point.lost)
                    .map_or_else(String::new, |[low, middle, high]| format!("{middle} ({low} to {high})"));
                let shown = |x: f64| number(if self.is_points() { hundredths(two(x)) } else { two(x) });
                let [low, middle, high] = [point.lost.low, point.lost.middle, point.lost.high].map(shown);
                [name(point), reached, format!("{middle} ({low} to {high})")]
            })
            .collect();
        let width = |column: usize| {
            let widest = cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            head[column].map_or(0, |head| head.chars().count().max(widest))
        };
        let widths = [width(0), width(1), width(2)];
        let mut out = String::new();
        let mut line = |cells: [&str; 3], bar: &str| {
            let mut text = format!("{:>width$}", cells[0], width = widths[0]);
            for (cell, width) in cells.into_iter().zip(widths).skip(1).filter(|(_, width)| *width > 0) {
                text.push_str(&format!("  {cell:<width$}"));
            }
            out.push_str(&format!("{}\n", format!("{text}  {bar}").trim_end()));
        };
        line(head.map(Option::unwrap_or_default), &format!("0 to {}, ● estimate, ┊ goal", number(two(most))));
        for (row, point) in cells.iter().zip(points) {
            let mut bar = vec![' '; BAR];
            let Estimate { low, middle, high } = point.lost;
            bar[place(low)..=place(high)].fill('─');
            let goal = place(self.allowed);
            bar[goal] = if bar[goal] == ' ' { '┊' } else { '┼' };
            bar[place(middle)] = '●';
            line([&row[0], &row[1], &row[2]], &bar.into_iter().collect::<String>());
        }
        out
    }

    /// What is predicted over ε and over numbers of rows, with bands and the goal.
    pub fn chart(&self) -> Chart {
        let axis = match self.reached(&Estimate::all(0.0)) {
            Some(_) => self.measure(),
            None if self.is_points() => "points of accuracy lost",
            None => "root-mean-square error added",
        };
        let value = |lost: f64| self.goal.reached(lost).unwrap_or(lost);
        let band = |points: &[Point], x: fn(&Point) -> f64| {
            let of = |point: &Point| {
                let (a, b) = (value(point.lost.low), value(point.lost.high));
                (x(point), value(point.lost.middle), a.min(b), a.max(b))
            };
            Series::band("predicted, with its band", points.iter().map(of).collect::<Vec<_>>())
        };
        let panel = |title: String, label: &str, series| {
            let panel =
                Panel::new(title, Axis::log(label), Axis::linear(axis)).with(series).level("goal", value(self.allowed));
            match self.goal.reached(0.0) {
                Some(best) => panel.level("without privacy", best),
                None => panel,
            }
        };
        let mut chart = Chart::of([
            panel(format!("{} rows", count(self.at.rows)), "epsilon", band(&self.over_epsilon, |p| p.epsilon)),
            panel(format!("epsilon {}", Shown(self.at.epsilon)), "rows", band(&self.over_rows, |p| p.rows as f64)),
        ]);
        chart.panel_size = (480, 360);
        chart
    }

    /// [`chart`](Self::chart) as an SVG picture.
    ///
    /// # Errors
    /// The drawing library failed.
    pub fn svg(&self) -> Result<String, ChartError> {
        self.chart().svg()
    }
}

/// The ends of the band of an answer.
fn ends(
    found: &Least,
    shown: impl Fn(f64) -> String,
    what: &str,
    (least, largest): (Option<f64>, Option<f64>),
) -> String {
    let low = found.low.map(|low| format!("{what} {}", shown(low)));
    let low = low.or_else(|| least.map(|least| format!("less than {}", shown(least))));
    let high = found.high.map(&shown).or_else(|| largest.map(|largest| format!("more than {}", shown(largest))));
    match (low, high) {
        (Some(low), Some(high)) => format!("; by the ends of the band, {low} to {high}"),
        (Some(low), None) => format!("; by the ends of the band, {low} or more"),
        (None, Some(high)) => format!("; by the ends of the band, up to {high}"),
        (None, None) => String::new(),
    }
}

/// No more than two digits after the point: finer points of accuracy tell nothing.
fn hundredths(x: f64) -> f64 {
    (100.0 * x).round() / 100.0
}

fn two(x: f64) -> f64 {
    digits(x, 2)
}

fn three(x: f64) -> f64 {
    digits(x, 3)
}

fn digits(x: f64, digits: usize) -> f64 {
    format!("{x:.0$e}", digits - 1).parse().unwrap_or(x)
}

impl Display for Sizing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, text) in self.lines() {
            writeln!(f, "{name:<12}{text}")?;
        }
        write!(f, "\n{}", self.tables())
    }
}
