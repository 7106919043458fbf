//! Draws a chart with plotters; positions are computed here, so that ticks and clipping are ours.

use super::{Axis, Chart, Mark, Panel, Series};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const FONT: &str = "sans-serif";
const SIZE: i32 = 14;
const INK: RGBColor = RGBColor(40, 40, 48);
const QUIET: RGBColor = RGBColor(120, 120, 128);
const RULE: RGBColor = RGBColor(228, 228, 232);
/// Distinguishable without colour vision too (Okabe, Ito).
const COLOURS: [RGBColor; 14] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 60, 30),
    RGBColor(0, 0, 0),
    RGBColor(150, 150, 0),
    RGBColor(136, 34, 85),
    RGBColor(153, 153, 153),
    RGBColor(68, 170, 153),
    RGBColor(221, 204, 119),
    RGBColor(51, 34, 136),
];
/// Half the side of a cell in pixels.
const HALF_CELL: i32 = 17;
/// Greys of the theory lines: they are told apart by their dashes.
const DASHES: [(u32, u32); 4] = [(8, 5), (2, 4), (14, 4), (5, 9)];
const LEGEND_ROW: u32 = 22;

/// A name in the legend with its look.
#[derive(Clone)]
struct Look {
    name: String,
    colour: RGBColor,
    mark: Mark,
    dash: (u32, u32),
}

pub(super) fn svg(chart: &Chart) -> Result<String, Box<dyn std::error::Error>> {
    let looks = looks(chart);
    let rows = chart.panels.len().div_ceil(chart.columns) as u32;
    let width = chart.panel_size.0 * chart.columns as u32;
    let legend = legend_rows(&looks, width);
    let height = chart.panel_size.1 * rows + LEGEND_ROW * legend.len() as u32 + 10;
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (above, below) = root.split_vertically(chart.panel_size.1 * rows);
        for (panel, area) in chart.panels.iter().zip(above.split_evenly((rows as usize, chart.columns))) {
            draw_panel(panel, &area, &looks)?;
        }
        draw_legend(&legend, &below)?;
        root.present()?;
    }
    Ok(out)
}

fn looks(chart: &Chart) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    let (mut coloured, mut dashed) = (0, 0);
    for series in chart.panels.iter().flat_map(|p| &p.series) {
        if looks.iter().any(|l| l.name == series.name) {
            continue;
        }
        let mut look = Look { name: series.name.clone(), colour: QUIET, mark: series.mark, dash: DASHES[0] };
        if series.mark == Mark::Dashed {
            look.dash = DASHES[dashed % DASHES.len()];
            dashed += 1;
        } else {
            look.colour = COLOURS[coloured % COLOURS.len()];
            coloured += 1;
        }
        looks.push(look);
    }
    looks
}

/// About the width of a text: plotters can't measure fonts without a font library.
fn text_width(text: &str) -> u32 {
    (text.chars().count() as f64 * f64::from(SIZE) * 0.54).ceil() as u32
}

fn legend_rows(looks: &[Look], width: u32) -> Vec<Vec<(u32, Look)>> {
    let mut rows: Vec<Vec<(u32, Look)>> = Vec::new();
    let mut x = u32::MAX;
    for look in looks {
        let needed = 34 + text_width(&look.name) + 18;
        if x.saturating_add(needed) > width {
            rows.push(Vec::new());
            x = 20;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, look.clone()));
        }
        x = x.saturating_add(needed);
    }
    rows
}

fn draw_legend(rows: &[Vec<(u32, Look)>], area: &Area<'_>) -> Drawn {
    for (i, row) in rows.iter().enumerate() {
        let y = (LEGEND_ROW * i as u32 + LEGEND_ROW / 2) as i32;
        for (x, look) in row {
            let x = *x as i32;
            swatch(look, area, (x, y))?;
            area.draw(&Text::new(look.name.clone(), (x + 34, y), text(SIZE, &INK, HPos::Left, VPos::Center)))?;
        }
    }
    Ok(())
}

fn swatch(look: &Look, area: &Area<'_>, (x, y): (i32, i32)) -> Drawn {
    match look.mark {
        Mark::Dashed => dashed(&[(x, y), (x + 28, y)], look.dash, |a, b| {
            area.draw(&PathElement::new([a, b], look.colour.stroke_width(2)))?;
            Ok(())
        })?,
        Mark::Dots => area.draw(&Circle::new((x + 14, y), 3, look.colour.filled()))?,
        Mark::Cells => area.draw(&square((x + 14, y), 7, look.colour))?,
        Mark::Line | Mark::Curve => {
            area.draw(&PathElement::new([(x, y), (x + 28, y)], look.colour.stroke_width(2)))?;
            if look.mark == Mark::Line {
                area.draw(&Circle::new((x + 14, y), 3, look.colour.filled()))?;
            }
        }
    }
    Ok(())
}

fn square((x, y): (i32, i32), half: i32, colour: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x - half, y - half), (x + half, y + half)], colour.filled())
}

/// Calls `draw` for every dash of a polyline in pixels.
fn dashed(line: &[(i32, i32)], (on, off): (u32, u32), mut draw: impl FnMut((i32, i32), (i32, i32)) -> Drawn) -> Drawn {
    let period = f64::from(on + off);
    let mut walked = 0.0;
    for pair in line.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        let (dx, dy) = (f64::from(b.0 - a.0), f64::from(b.1 - a.1));
        let length = dx.hypot(dy);
        let at = |s: f64| {
            ((f64::from(a.0) + dx * s / length).round() as i32, (f64::from(a.1) + dy * s / length).round() as i32)
        };
        let mut s = 0.0;
        while s < length {
            let phase = (walked + s) % period;
            let (visible, rest) =
                if phase < f64::from(on) { (true, f64::from(on) - phase) } else { (false, period - phase) };
            let end = (s + rest.max(0.5)).min(length);
            if visible {
                draw(at(s), at(end))?;
            }
            s = end;
        }
        walked += length;
    }
    Ok(())
}

/// Positions of a series: (x, y, low, high); what the axes can't show is left out.
fn positions(series: &Series, x: &Axis, y: &Axis) -> Vec<[f64; 4]> {
    series
        .points
        .iter()
        .filter_map(|p| {
            let (px, py) = (x.position(p.x)?, y.position(p.y)?);
            Some([px, py, y.position(p.low).unwrap_or(f64::NEG_INFINITY), y.position(p.high).unwrap_or(py)])
        })
        .collect()
}

fn text(size: i32, colour: &RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    TextStyle { font: (FONT, size).into_font(), color: colour.to_backend_color(), pos: Pos::new(h, v) }
}

fn draw_panel(panel: &Panel, area: &Area<'_>, looks: &[Look]) -> Drawn {
    let all: Vec<Vec<[f64; 4]>> = panel.series.iter().map(|s| positions(s, &panel.x, &panel.y)).collect();
    let levels: Vec<(f64, &str)> =
        panel.levels.iter().filter_map(|(name, y)| Some((panel.y.position(*y)?, name.as_str()))).collect();
    let (left, right) = panel.x.ends(all.iter().flatten().map(|p| p[0]));
    let heights = all.iter().flatten().flat_map(|p| [p[1], p[2], p[3]]).filter(|v| v.is_finite());
    let (bottom, top) = panel.y.ends(heights.chain(levels.iter().map(|l| l.0)));
    let (x_ticks, y_ticks) = (panel.x.ticks((left, right)), panel.y.ticks((bottom, top)));
    let labels = y_ticks.iter().map(|t| text_width(&t.1)).max().unwrap_or(0) as i32;
    let (width, height) = area.dim_in_pixel();
    let (x0, y0, x1, y1) = (46 + labels, 36, width as i32 - 16, height as i32 - 52);
    let pixel = |x: f64, y: f64| {
        let across = (x - left) / (right - left) * f64::from(x1 - x0);
        let up = (y - bottom) / (top - bottom) * f64::from(y1 - y0);
        (x0 + across.round() as i32, y1 - up.round() as i32)
    };
    area.draw(&Text::new(panel.title.clone(), ((x0 + x1) / 2, 20), text(SIZE + 1, &INK, HPos::Center, VPos::Center)))?;
    for (position, label) in &x_ticks {
        let (x, _) = pixel(*position, bottom);
        area.draw(&PathElement::new([(x, y0), (x, y1)], RULE))?;
        area.draw(&Text::new(label.clone(), (x, y1 + 7), text(SIZE - 1, &INK, HPos::Center, VPos::Top)))?;
    }
    for (position, label) in &y_ticks {
        let (_, y) = pixel(left, *position);
        area.draw(&PathElement::new([(x0, y), (x1, y)], RULE))?;
        area.draw(&Text::new(label.clone(), (x0 - 7, y), text(SIZE - 1, &INK, HPos::Right, VPos::Center)))?;
    }
    area.draw(&PathElement::new([(x0, y0), (x0, y1), (x1, y1)], QUIET))?;
    let beside = text(SIZE, &INK, HPos::Center, VPos::Bottom).transform(FontTransform::Rotate270);
    area.draw(&Text::new(panel.y.label.clone(), (14, (y0 + y1) / 2), beside))?;
    let below = text(SIZE, &INK, HPos::Center, VPos::Bottom);
    area.draw(&Text::new(panel.x.label.clone(), ((x0 + x1) / 2, y1 + 44), below))?;
    let clip = |y: f64| y.clamp(bottom, top);
    let mut named = Vec::new();
    for (y, name) in &levels {
        let line = [pixel(left, clip(*y)), pixel(right, clip(*y))];
        dashed(&line, (2, 4), |a, b| Ok(area.draw(&PathElement::new([a, b], QUIET))?))?;
        let style = text(SIZE - 2, &QUIET, HPos::Right, VPos::Bottom);
        named.push(Text::new((*name).to_string(), (line[1].0 - 4, line[1].1 - 2), style));
    }
    for (series, points) in panel.series.iter().zip(&all) {
        let Some(look) = looks.iter().find(|l| l.name == series.name) else { continue };
        let inside: Vec<&[f64; 4]> = points.iter().filter(|p| p[0] >= left - 1e-12 && p[0] <= right + 1e-12).collect();
        if inside.iter().any(|p| p[2] < p[1] || p[3] > p[1]) {
            let upper = inside.iter().map(|p| pixel(p[0], clip(p[3])));
            let lower = inside.iter().rev().map(|p| pixel(p[0], clip(p[2])));
            area.draw(&Polygon::new(upper.chain(lower).collect::<Vec<_>>(), look.colour.mix(0.16)))?;
        }
        for part in visible(&inside, bottom, top) {
            let line: Vec<(i32, i32)> = part.into_iter().map(|p| pixel(p.0, p.1)).collect();
            let stroke = look.colour.stroke_width(2);
            match series.mark {
                Mark::Dashed => dashed(&line, look.dash, |a, b| Ok(area.draw(&PathElement::new([a, b], stroke))?))?,
                Mark::Line | Mark::Curve => area.draw(&PathElement::new(line, stroke))?,
                Mark::Dots | Mark::Cells => {}
            }
        }
        if series.mark == Mark::Cells {
            for p in &inside {
                area.draw(&square(pixel(p[0], clip(p[1])), HALF_CELL, look.colour))?;
            }
        }
        if matches!(series.mark, Mark::Line | Mark::Dots) {
            for p in inside.iter().filter(|p| p[1] >= bottom && p[1] <= top) {
                area.draw(&Circle::new(pixel(p[0], p[1]), 3, look.colour.filled()))?;
            }
        }
    }
    // names last: above bands and lines
    for label in named {
        area.draw(&label)?;
    }
    let notes: Vec<(String, RGBColor)> = panel
        .series
        .iter()
        .filter_map(|s| {
            let slope = s.slope()?;
            let colour = looks.iter().find(|l| l.name == s.name)?.colour;
            Some((format!("slope {:.2}", slope.slope).replace('-', "−"), colour))
        })
        .collect();
    let corner = emptiest_corner(&all, (left, right), (bottom, top), notes.len());
    for (i, (note, colour)) in notes.iter().enumerate() {
        let (fx, h) = if corner.0 { (x1 - 8, HPos::Right) } else { (x0 + 8, HPos::Left) };
        let row = 18 * i as i32;
        let fy = if corner.1 { y0 + 8 + row } else { y1 - 8 - 18 * notes.len() as i32 + row };
        let style = text(SIZE, colour, h, VPos::Top);
        area.draw(&Text::new(note.clone(), (fx, fy), style))?;
    }
    Ok(())
}

/// The parts of a polyline that lie between the lower and the upper edge.
fn visible(points: &[&[f64; 4]], bottom: f64, top: f64) -> Vec<Vec<(f64, f64)>> {
    let within = |y: f64| (bottom..=top).contains(&y);
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut open: Vec<(f64, f64)> = Vec::new();
    for (i, p) in points.iter().enumerate() {
        if i > 0 {
            let q = points[i - 1];
            let mut crossings: Vec<(f64, f64)> = [bottom, top]
                .into_iter()
                .map(|edge| ((edge - q[1]) / (p[1] - q[1]), edge))
                .filter(|c| c.0 > 0.0 && c.0 < 1.0)
                .collect();
            crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (share, edge) in crossings {
                open.push((q[0] + share * (p[0] - q[0]), edge));
                if open.len() > 1 {
                    parts.push(std::mem::take(&mut open));
                }
            }
        }
        if within(p[1]) {
            open.push((p[0], p[1]));
        }
    }
    parts.push(open);
    parts.retain(|part| part.len() > 1);
    parts
}

/// (right, upper): the corner with the fewest points, where notes cover least.
fn emptiest_corner(all: &[Vec<[f64; 4]>], x: (f64, f64), y: (f64, f64), rows: usize) -> (bool, bool) {
    let (wide, high) = (0.35 * (x.1 - x.0), (0.08 * rows as f64 + 0.05).min(0.6) * (y.1 - y.0));
    let count = |corner: (bool, bool)| {
        let inside = |px: f64, py: f64| {
            let across = if corner.0 { px > x.1 - wide } else { px < x.0 + wide };
            across && if corner.1 { py > y.1 - high } else { py < y.0 + high }
        };
        // along the lines, not at the dots only
        let between = |w: &[[f64; 4]]| {
            (0..=8)
                .map(|i| f64::from(i) / 8.0)
                .filter(|s| inside(w[0][0] + s * (w[1][0] - w[0][0]), w[0][1] + s * (w[1][1] - w[0][1])))
                .count()
        };
        all.iter().map(|line| line.windows(2).map(between).sum::<usize>()).sum::<usize>()
    };
    [(false, true), (true, true), (true, false), (false, false)]
        .into_iter()
        .min_by_key(|c| count(*c))
        .unwrap_or((false, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_edges() {
        let points = [[0.0, 0.5, 0.5, 0.5], [1.0, 1.5, 1.5, 1.5], [2.0, 2.5, 2.5, 2.5], [3.0, -1.0, -1.0, -1.0]];
        let points: Vec<&[f64; 4]> = points.iter().collect();
        let parts = visible(&points, 0.0, 1.0);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0], [(0.0, 0.5), (0.5, 1.0)]);
        assert!((parts[1][0].0 - (2.0 + 1.5 / 3.5)).abs() < 1e-12 && parts[1][0].1 == 1.0 && parts[1][1].1 == 0.0);
        assert!(visible(&points[1..3], 0.0, 1.0).is_empty());
    }
}
