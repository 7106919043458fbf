//! Charts of experiments as SVG: panels with linear or logarithmic axes, bands, theory lines and fitted slopes.
//!
//! A chart is plain data; [`Chart::svg`] draws it. Every series of the same name has the same colour in all panels, the
//! legend stands once below them, and the same chart gives the same bytes.
//!
//! ```
//! use dpopt::report::chart::{Axis, Chart, Panel, Series};
//! let points = [10.0, 100.0, 1000.0].map(|n| (n, 3.0 / n, 2.5 / n, 3.6 / n));
//! let panel = Panel::new("error of a mean", Axis::log("n"), Axis::log("error"))
//!     .with(Series::band("ours", points).fitted(10.0..=1000.0))
//!     .with(Series::theory("1/n", [(10.0, 0.2), (1000.0, 0.002)]));
//! let svg = Chart::of([panel]).svg()?;
//! assert!(svg.starts_with("<svg") && svg.contains("slope −1.00"));
//! # Ok::<(), dpopt::report::chart::ChartError>(())
//! ```

mod axis;
mod draw;

pub use axis::{Axis, Scale};
pub use dpopt_optimize::power_law::{Slope, log_log_slope};

use std::ops::RangeInclusive;

/// The chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the chart could not be drawn: {0}")]
pub struct ChartError(pub(super) String);

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line with dots at its points.
    Line,
    /// A line without dots, for many points.
    Curve,
    /// Dots without a line between them.
    Dots,
    /// A dashed line: what a theory or a paper says.
    Dashed,
    /// A square at each point: cells of a map.
    Cells,
}

/// A value with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Value on the vertical axis.
    pub y: f64,
    /// Lower end of the band; `y` for none.
    pub low: f64,
    /// Upper end of the band; `y` for none.
    pub high: f64,
}

/// A named series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the legend; equal names in several panels are one entry.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// In the order of drawing. Points that are not finite, or not positive on a logarithmic axis, are left out.
    pub points: Vec<Point>,
    /// Print the least-squares slope of log y on log x over these x.
    pub fit: Option<RangeInclusive<f64>>,
}

impl Series {
    /// A line with dots.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::marked(name, Mark::Line, points)
    }

    /// A line without dots.
    pub fn curve(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::marked(name, Mark::Curve, points)
    }

    /// A series drawn as dots without a line.
    pub fn dots(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::marked(name, Mark::Dots, points)
    }

    /// A square at each point: who wins where, one series for each winner.
    pub fn cells(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::marked(name, Mark::Cells, points)
    }

    /// A dashed grey line.
    pub fn theory(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::marked(name, Mark::Dashed, points)
    }

    /// A line with dots and a band: (x, y, low, high).
    pub fn band(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64, f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y, low, high)| Point { x, y, low, high }).collect();
        Self { name: name.into(), mark: Mark::Line, points, fit: None }
    }

    fn marked(name: impl Into<String>, mark: Mark, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| Point { x, y, low: y, high: y }).collect();
        Self { name: name.into(), mark, points, fit: None }
    }

    /// Prints the slope of log y on log x over `range`.
    pub fn fitted(mut self, range: RangeInclusive<f64>) -> Self {
        self.fit = Some(range);
        self
    }

    /// The fitted slope, if it was asked for and two points allow it.
    pub fn slope(&self) -> Option<Slope> {
        let range = self.fit.as_ref()?;
        log_log_slope(self.points.iter().filter(|p| range.contains(&p.x)).map(|p| (p.x, p.y)))
    }
}

/// One coordinate system with its series.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// The horizontal axis of the panel.
    pub x: Axis,
    /// The vertical axis of the panel.
    pub y: Axis,
    /// What is drawn, first at the bottom.
    pub series: Vec<Series>,
    /// Dotted horizontal lines with a word each: what needs no data, or what no method can beat.
    pub levels: Vec<(String, f64)>,
}

impl Panel {
    /// A panel without any series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), levels: Vec::new() }
    }

    /// Adds a series to the panel.
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a dotted horizontal line.
    pub fn level(mut self, name: impl Into<String>, y: f64) -> Self {
        self.levels.push((name.into(), y));
        self
    }
}

/// Panels in a grid with one legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Number of panels in each row.
    pub columns: usize,
    /// Width and height of one panel in pixels.
    pub panel_size: (u32, u32),
}

impl Chart {
    /// Panels side by side, at most three in a row.
    pub fn of(panels: impl IntoIterator<Item = Panel>) -> Self {
        let panels: Vec<Panel> = panels.into_iter().collect();
        let columns = match panels.len() {
            4 => 2,
            n => n.clamp(1, 3),
        };
        let panel_size = if columns == 1 { (640, 400) } else { (420, 340) };
        Self { panels, columns, panel_size }
    }

    /// The chart as an SVG picture.
    ///
    /// # Errors
    /// There is no panel, or the drawing library failed.
    pub fn svg(&self) -> Result<String, ChartError> {
        if self.panels.is_empty() {
            return Err(ChartError("it has no panel".into()));
        }
        draw::svg(self).map_err(|e| ChartError(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_an_axis_cannot_show_are_left_out() {
        let bad = [(0.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 2.0), (1.0, -1.0), (1.0, 1.0), (10.0, 5.0)];
        let panel = Panel::new("t", Axis::log("x"), Axis::log("y")).with(Series::line("a", bad).fitted(0.0..=100.0));
        let svg = Chart::of([panel]).svg().unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<circle").count(), 3, "two dots and one in the legend");
    }

    #[test]
    fn empty_and_constant_series_are_drawn() {
        for points in [vec![], vec![(3.0, 3.0)], vec![(1.0, 2.0), (2.0, 2.0)]] {
            for axis in [Axis::log, Axis::linear] {
                let panel = Panel::new("<&>", axis("x"), axis("y")).with(Series::line("a \"b\"", points.clone()));
                let svg = Chart::of([panel.clone(), panel.level("none", 2.0)]).svg().unwrap();
                assert!(roxmltree::Document::parse(&svg).is_ok() && !svg.contains("NaN"));
            }
        }
        assert!(Chart::of([]).svg().is_err());
    }

    #[test]
    fn cells_are_squares_and_many_winners_have_colours_of_their_own() {
        let panel = (0..12).fold(Panel::new("t", Axis::log("x"), Axis::log("y")), |panel, k| {
            panel.with(Series::cells(format!("winner {k}"), [(10f64.powi(k), 1.0)]))
        });
        let svg = Chart::of([panel]).svg().unwrap();
        let colours: std::collections::BTreeSet<&str> =
            svg.split("<rect ").filter_map(|rect| rect.split("fill=\"").nth(1)?.split('"').next()).collect();
        // the paper is white
        assert_eq!(colours.len(), 1 + 12, "{colours:?}");
    }

    #[test]
    fn equal_names_share_a_colour_and_a_legend_entry() {
        let panel = |y: f64| {
            Panel::new("t", Axis::linear("x"), Axis::linear("y"))
                .with(Series::line("first", [(0.0, y), (1.0, 2.0 * y)]))
                .with(Series::line("second", [(0.0, 1.0 - y), (1.0, 3.0)]))
        };
        let svg = Chart::of([panel(0.5), panel(0.7)]).svg().unwrap();
        assert_eq!(svg.matches(">\nfirst\n<").count() + svg.matches(">first<").count(), 1, "{svg}");
    }
}
