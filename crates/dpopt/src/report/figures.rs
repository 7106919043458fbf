//! The report's figures as inline SVG. Colours are marks that the style sheet replaces, so that they follow light and dark.

use super::markup::{escape, forbidden};
use super::{Coefficient, Importance, IntervalRow, TWO_SIDED};
use dpopt_data::{Shape, Unit};
use dpopt_privacy::rounding::number;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

// Each of these is only a key of a rule in style.css.
const INK: RGBColor = RGBColor(1, 2, 3);
const MUTED: RGBColor = RGBColor(4, 5, 6);
const RULE: RGBColor = RGBColor(7, 8, 9);
const ACCENT: RGBColor = RGBColor(10, 11, 12);
/// Colours of several classes in one figure, in the order of the legend.
const SERIES: [RGBColor; MAX_SERIES] = [
    ACCENT,
    RGBColor(13, 14, 15),
    RGBColor(16, 17, 18),
    RGBColor(19, 20, 21),
    RGBColor(22, 23, 24),
    RGBColor(25, 26, 27),
];
/// Classes in one figure, at most.
pub(super) const MAX_SERIES: usize = 6;

const WIDTH: u32 = 480;
const HEIGHT: u32 = 300;
const FONT: &str = "sans-serif";
// also to be read on a telephone, where a figure is three quarters as wide
const FONT_SIZE: i32 = 17;

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// δ (logarithmic) against ε with the promised point; `None` with fewer than two positive points.
pub(super) fn privacy_curve(points: &[(f64, f64)], promise: (f64, f64)) -> Option<String> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|p| p.1 > 0.0).collect();
    let (first, last) = (points.first()?, points.last()?);
    if points.len() < 2 || first.1 <= last.1 {
        return None;
    }
    let low = last.1.min(if promise.1 > 0.0 { promise.1 } else { last.1 });
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..last.0 * 1.02, (low.log10() - 0.5)..0.0)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(6)
            .y_labels(6)
            .x_desc("ε")
            .y_desc("δ")
            .y_label_formatter(&|y| if y.fract() == 0.0 { format!("1e{y:.0}") } else { String::new() })
            .x_label_formatter(&|x| number(*x))
            .label_style((FONT, FONT_SIZE, &MUTED))
            .axis_desc_style((FONT, FONT_SIZE, &INK))
            .draw()?;
        let line = points.iter().map(|p| (p.0, p.1.log10()));
        chart.draw_series(LineSeries::new(line, ACCENT.stroke_width(2)))?;
        if promise.1 > 0.0 {
            chart.draw_series([Circle::new((promise.0, promise.1.log10()), 4, ACCENT.filled())])?;
            let style = (FONT, FONT_SIZE, &INK).into_text_style(&root).pos(Pos::new(HPos::Left, VPos::Bottom));
            chart
                .draw_series([EmptyElement::at((promise.0, promise.1.log10()))
                    + Text::new("promised".to_string(), (8, -6), style)])?;
        }
        root.present()?;
        Ok(())
    };
    finish(draw, "Certified δ as a function of ε")
}

/// ε against the number of steps; `None` with fewer than two points.
pub(super) fn epsilon_over_steps(points: &[(u64, f64)]) -> Option<String> {
    let (_, last) = (points.first()?, points.last()?);
    if points.len() < 2 || last.1 <= 0.0 {
        return None;
    }
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..last.0 as f64 * 1.02, 0.0..last.1 * 1.08)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(6)
            .y_labels(6)
            .x_desc("noisy steps")
            .y_desc("ε")
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number((y * 1e6).round() / 1e6))
            .label_style((FONT, FONT_SIZE, &MUTED))
            .axis_desc_style((FONT, FONT_SIZE, &INK))
            .draw()?;
        let line = points.iter().map(|p| (p.0 as f64, p.1));
        chart.draw_series(LineSeries::new(line, ACCENT.stroke_width(2)))?;
        chart.draw_series([Circle::new((last.0 as f64, last.1), 4, ACCENT.filled())])?;
        root.present()?;
        Ok(())
    };
    finish(draw, "Certified ε after each noisy step")
}

/// Points with bars in the given order: intervals of 95 % where there are standard errors, or else one standard deviation of noise; `None` for none.
pub(super) fn coefficients(rows: &[Coefficient]) -> Option<String> {
    let sure = rows.iter().any(|c| c.std_error.is_some());
    let bar = |c: &Coefficient| if sure { c.std_error.map(|error| TWO_SIDED * error) } else { c.noise };
    let dots: Vec<Dots> =
        rows.iter().map(|c| Dots { name: &c.name, values: vec![(0, c.value)], noise: bar(c) }).collect();
    let label = if sure { "intervals of 95 %" } else { "one standard deviation of noise" };
    dotted(&dots, &format!("Largest coefficients with {label}"))
}

/// Points on one line.
struct Dots<'a> {
    name: &'a str,
    /// Number of the colour, and the value.
    values: Vec<(usize, f64)>,
    /// Half the length of a bar through a single point.
    noise: Option<f64>,
}

const ROW: i32 = 25;
const LABELS: i32 = 200;
const AXIS: i32 = 28;

fn dotted(rows: &[Dots<'_>], label: &str) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let height = ROW * rows.len() as i32 + AXIS + 8;
    let furthest = |row: &Dots<'_>| row.values.iter().map(|v| v.1.abs()).fold(0.0, f64::max) + row.noise.unwrap_or(0.0);
    let reach = rows.iter().map(furthest).fold(0.0, f64::max);
    if !(reach > 0.0 && reach.is_finite()) {
        return None;
    }
    let (left, right) = (LABELS + 8, WIDTH as i32 - 14);
    let middle = f64::from(left + right) / 2.0;
    let x = |value: f64| (middle + value / reach * f64::from(right - left) / 2.0).round() as i32;
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, height as u32)).into_drawing_area();
        let bottom = height - AXIS;
        let name = (FONT, FONT_SIZE, &INK).into_text_style(&root).pos(Pos::new(HPos::Right, VPos::Center));
        let tick = (FONT, FONT_SIZE, &MUTED).into_text_style(&root).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&PathElement::new(vec![(x(0.0), 2), (x(0.0), bottom)], MUTED))?;
        for value in [-reach, 0.0, reach] {
            let anchor = match value.total_cmp(&0.0) {
                std::cmp::Ordering::Less => HPos::Left,
                std::cmp::Ordering::Equal => HPos::Center,
                std::cmp::Ordering::Greater => HPos::Right,
            };
            let shown = number(value);
            root.draw(&Text::new(shown, (x(value), bottom + 8), tick.clone().pos(Pos::new(anchor, VPos::Top))))?;
        }
        for (i, row) in rows.iter().enumerate() {
            let y = ROW * i as i32 + ROW / 2 + 2;
            root.draw(&PathElement::new(vec![(left, y), (right, y)], RULE))?;
            root.draw(&Text::new(shortened(row.name), (LABELS, y), name.clone()))?;
            for &(colour, value) in &row.values {
                if let Some(noise) = row.noise {
                    let bar = vec![(x(value - noise), y), (x(value + noise), y)];
                    root.draw(&PathElement::new(bar, SERIES[colour].stroke_width(2)))?;
                }
                root.draw(&Circle::new((x(value), y), 4, SERIES[colour].filled()))?;
            }
        }
        root.present()?;
        Ok(())
    };
    finish(draw, label)
}

/// Bars from 0; `None` for none.
pub(super) fn importance(rows: &[Importance]) -> Option<String> {
    const BAR: i32 = 11;
    let largest = rows.iter().map(|row| row.value).fold(0.0, f64::max);
    if rows.is_empty() || !largest.is_finite() {
        return None;
    }
    let reach = if largest > 0.0 { largest } else { 1.0 };
    let height = ROW * rows.len() as i32 + AXIS + 8;
    let (left, right) = (LABELS + 8, WIDTH as i32 - 14);
    let x = |value: f64| left + (value / reach * f64::from(right - left)).round() as i32;
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, height as u32)).into_drawing_area();
        let bottom = height - AXIS;
        let name = (FONT, FONT_SIZE, &INK).into_text_style(&root).pos(Pos::new(HPos::Right, VPos::Center));
        let tick = (FONT, FONT_SIZE, &MUTED).into_text_style(&root);
        root.draw(&PathElement::new(vec![(left, 2), (left, bottom)], MUTED))?;
        for (value, anchor) in [(0.0, HPos::Left), (reach, HPos::Right)] {
            let at = (x(value), bottom + 8);
            root.draw(&Text::new(number(value), at, tick.clone().pos(Pos::new(anchor, VPos::Top))))?;
        }
        for (i, row) in rows.iter().enumerate() {
            let y = ROW * i as i32 + ROW / 2 + 2;
            let names: Vec<String> = row.columns.iter().map(|name| name.replace(forbidden, "\u{fffd}")).collect();
            let shown = match &names[..] {
                [first, second] => format!("{} & {}", cut(first, 12), cut(second, 11)),
                _ => shortened(&names.join(" & ")),
            };
            root.draw(&PathElement::new(vec![(left, y), (right, y)], RULE))?;
            root.draw(&Text::new(shown, (LABELS, y), name.clone()))?;
            let bar = [(left, y - BAR / 2), (x(row.value), y + BAR / 2 + 1)];
            root.draw(&Rectangle::new(bar, ACCENT.filled()))?;
        }
        root.present()?;
        Ok(())
    };
    finish(draw, "Root-mean-square effect of each column")
}

/// A mean with its interval, from inside to outside what noise, sampling and the clip may have moved; `None` where it has no width.
pub(super) fn interval(row: &IntervalRow) -> Option<String> {
    const TALL: i32 = 92;
    const BAR: i32 = 14;
    let (low, high) = (row.low.min(row.value), row.high.max(row.value));
    if !(high > low && (high - low).is_finite()) {
        return None;
    }
    let (left, right) = (24.0, f64::from(WIDTH) - 24.0);
    let x = |value: f64| (left + (value - low) / (high - low) * (right - left)).round() as i32;
    // parts as far as they are inside of the interval
    let reach = |distance: f64| (x((row.value - distance).max(row.low)), x((row.value + distance).min(row.high)));
    let (noise, sampling) = (reach(row.noise), reach(row.noise + row.sampling));
    let bias = (x(row.low), x(row.high));
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, TALL as u32)).into_drawing_area();
        let middle = 46;
        let name = (FONT, FONT_SIZE, &INK).into_text_style(&root).pos(Pos::new(HPos::Left, VPos::Top));
        let tick = (FONT, FONT_SIZE, &MUTED).into_text_style(&root).pos(Pos::new(HPos::Left, VPos::Top));
        let title = format!("{}: {}", shortened(&row.name), number(row.value));
        root.draw(&Text::new(title, (left as i32, 4), name))?;
        // side by side: colours that lie on each other would be mixed
        let bars = [
            ((bias.0, sampling.0), MUTED.mix(0.5), BAR / 2),
            ((sampling.0, noise.0), ACCENT.mix(0.4), BAR),
            (noise, ACCENT.mix(1.0), BAR),
            ((noise.1, sampling.1), ACCENT.mix(0.4), BAR),
            ((sampling.1, bias.1), MUTED.mix(0.5), BAR / 2),
        ];
        for ((from, to), colour, height) in bars.into_iter().filter(|bar| bar.0.1 > bar.0.0) {
            let style = ShapeStyle { color: colour, filled: true, stroke_width: 0 };
            root.draw(&Rectangle::new([(from, middle - height / 2), (to, middle + height / 2)], style))?;
        }
        root.draw(&PathElement::new(
            vec![(x(row.value), middle - BAR), (x(row.value), middle + BAR)],
            INK.stroke_width(2),
        ))?;
        let below = middle + BAR + 6;
        root.draw(&Text::new(number(row.low), (x(row.low), below), tick.clone()))?;
        root.draw(&Text::new(number(row.high), (x(row.high), below), tick.pos(Pos::new(HPos::Right, VPos::Top))))?;
        root.present()?;
        Ok(())
    };
    finish(draw, &format!("Mean and interval of {}", shortened(&row.name)))
}

/// Levels of a category that are drawn: the largest.
pub(super) const MAX_LEVELS: usize = 10;

/// One column, for each class its name, its colour and what it says: curves, or levels as points. `axis` says what is added to. `None` where nothing is said.
pub(super) fn shape(classes: &[(&str, usize, &Shape)], axis: &str) -> Option<String> {
    let reach = classes.iter().map(|(_, _, shape)| shape.reach()).fold(0.0, f64::max);
    if !(reach > 0.0 && reach.is_finite()) {
        return None;
    }
    match classes.first()?.2 {
        Shape::Curve { column, unit, .. } => curves(&shortened(column), *unit, classes, axis),
        Shape::Levels { column, levels } => {
            let all: Vec<(usize, Vec<f64>)> =
                classes.iter().map(|(_, colour, shape)| (*colour, shape.effects())).collect();
            let values =
                |level: usize| all.iter().filter_map(|(c, effects)| Some((*c, *effects.get(level)?))).collect();
            let mut rows: Vec<Dots> = (levels.iter().enumerate())
                .map(|(at, (name, _))| Dots { name, values: values(at), noise: None })
                .collect();
            let furthest = |row: &Dots<'_>| row.values.iter().map(|v| v.1.abs()).fold(0.0, f64::max);
            // two levels stand in their own order, as they are equally far from 0
            if rows.len() > 2 {
                rows.sort_by(|a, b| furthest(b).total_cmp(&furthest(a)));
            }
            rows.truncate(MAX_LEVELS);
            dotted(&rows, &format!("Effect of {} on {axis}", shortened(column)))
        }
        Shape::Map { .. } => None,
    }
}

/// A map of two columns; `None` of anything else, or where nothing is said.
pub(super) fn map_of(shape: &Shape) -> Option<String> {
    let reach = shape.reach();
    match shape {
        Shape::Map { columns, first, second, effects } if reach > 0.0 && reach.is_finite() => {
            map((&shortened(&columns.0), &shortened(&columns.1)), first, second, effects)
        }
        _ => None,
    }
}

/// Curves of one column, each named at its end where there are several.
fn curves(column: &str, unit: Unit, classes: &[(&str, usize, &Shape)], axis: &str) -> Option<String> {
    const NAMES: i32 = 92;
    const LINE: i32 = 17;
    // a value that many rows have needs no more room than others
    let once = |points: &[(f64, f64)]| {
        let mut points = points.to_vec();
        points.dedup_by_key(|point| point.0);
        points
    };
    let lines: Vec<(&str, usize, Vec<(f64, f64)>)> = (classes.iter())
        .filter_map(|(name, colour, shape)| match shape {
            Shape::Curve { points, .. } => Some((*name, *colour, once(points))),
            _ => None,
        })
        .collect();
    let values = &lines.first()?.2;
    let last = values.len().checked_sub(1).filter(|last| *last > 0)?;
    let effects = || lines.iter().flat_map(|line| &line.2).map(|p| p.1);
    let (low, high) = (effects().fold(0.0, f64::min), effects().fold(0.0, f64::max));
    let (low, high) = (low - 0.06 * (high - low), high + 0.06 * (high - low));
    // half of the last value stands beyond the axis
    let right = if lines.len() > 1 { NAMES } else { 40 };
    let shown = |x: f64| match unit {
        Unit::Date => unit.short(x),
        Unit::Number | Unit::Duration if x.abs() >= 1000.0 || x == 0.0 => number(x),
        // three digits
        Unit::Number | Unit::Duration => {
            let unit = 10f64.powf(x.abs().log10().floor() - 2.0);
            number((x / unit).round() * unit)
        }
    };
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .margin_right(right)
            .x_label_area_size(46)
            .y_label_area_size(66)
            // on the encoder's scale, which values of a skewed column do not crowd
            .build_cartesian_2d(0.0..1.0, low..high)?;
        let at = |x: f64| values[((x * last as f64).round() as usize).min(last)].0;
        let described = if unit == Unit::Duration { format!("{column} (days)") } else { column.to_string() };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            // a date takes the room of two numbers
            .x_labels(if unit == Unit::Date { 3 } else { 6 })
            .y_labels(5)
            .x_desc(described)
            .y_desc(shortened(axis))
            .x_label_formatter(&|x| shown(at(*x)))
            .y_label_formatter(&|y| number((y * 1e3).round() / 1e3 + 0.0))
            .label_style((FONT, FONT_SIZE, &MUTED))
            .axis_desc_style((FONT, FONT_SIZE, &INK))
            .draw()?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (1.0, 0.0)], MUTED.stroke_width(1)))?;
        for (_, colour, points) in &lines {
            chart.draw_series(LineSeries::new(
                points.iter().enumerate().map(|(k, p)| (k as f64 / last as f64, p.1)),
                SERIES[*colour].stroke_width(2),
            ))?;
        }
        if lines.len() > 1 {
            // from above to below, none on another
            let mut ends: Vec<(i32, &str, usize)> = lines
                .iter()
                .map(|(name, colour, points)| (chart.backend_coord(&(1.0, points[last].1)).1, *name, *colour))
                .collect();
            ends.sort_by_key(|end| end.0);
            for i in 1..ends.len() {
                ends[i].0 = ends[i].0.max(ends[i - 1].0 + LINE);
            }
            // and none below the axis
            let bottom = chart.backend_coord(&(1.0, low)).1;
            for i in (0..ends.len()).rev() {
                let most = if i + 1 == ends.len() { bottom } else { ends[i + 1].0 - LINE };
                ends[i].0 = ends[i].0.min(most);
            }
            for (y, name, colour) in ends {
                let style = (FONT, FONT_SIZE, &SERIES[colour]).into_text_style(&root);
                let place = (WIDTH as i32 - NAMES + 6, y);
                root.draw(&Text::new(short_label(name), place, style.pos(Pos::new(HPos::Left, VPos::Center))))?;
            }
        }
        root.present()?;
        Ok(())
    };
    finish(draw, &format!("Effect of {column} on {axis}"))
}

fn map(columns: (&str, &str), first: &[String], second: &[String], effects: &[Vec<f64>]) -> Option<String> {
    const LEFT: i32 = 110;
    const BOTTOM: i32 = 46;
    const MOST: usize = 16;
    let (rows, lines) = (first.len().min(MOST) as i32, second.len().min(MOST) as i32);
    if rows == 0 || lines == 0 {
        return None;
    }
    let largest = effects.iter().flatten().map(|e| e.abs()).fold(0.0, f64::max);
    let (width, height) = ((WIDTH as i32 - LEFT - 10) / rows, (HEIGHT as i32 - BOTTOM - 10) / lines);
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let across = (FONT, FONT_SIZE, &MUTED).into_text_style(&root).pos(Pos::new(HPos::Center, VPos::Top));
        let up = across.clone().pos(Pos::new(HPos::Right, VPos::Center));
        let named = (FONT, FONT_SIZE, &INK).into_text_style(&root).pos(Pos::new(HPos::Center, VPos::Bottom));
        let cell = |i: i32, j: i32| (LEFT + i * width, HEIGHT as i32 - BOTTOM - (j + 1) * height);
        for i in 0..rows {
            for j in 0..lines {
                let (x, y) = cell(i, j);
                let effect = effects[i as usize][j as usize];
                let colour = if effect > 0.0 { ACCENT } else { INK };
                let style =
                    ShapeStyle { color: colour.mix((effect.abs() / largest).min(1.0)), filled: true, stroke_width: 0 };
                root.draw(&Rectangle::new([(x, y), (x + width - 1, y + height - 1)], style))?;
            }
        }
        // as many labels as there is room for
        let (every, each) = ((rows + 4) / 5, (lines + 7) / 8);
        for i in (0..rows).step_by(every as usize) {
            let (x, _) = cell(i, 0);
            let text =
                Text::new(short_label(&first[i as usize]), (x + width / 2, HEIGHT as i32 - BOTTOM + 4), across.clone());
            root.draw(&text)?;
        }
        for j in (0..lines).step_by(each as usize) {
            let (_, y) = cell(0, j);
            root.draw(&Text::new(short_label(&second[j as usize]), (LEFT - 6, y + height / 2), up.clone()))?;
        }
        let name = format!("{} (across) and {} (up)", columns.0, columns.1);
        root.draw(&Text::new(name, (LEFT + rows * width / 2, HEIGHT as i32 - 4), named.clone()))?;
        root.present()?;
        Ok(())
    };
    finish(draw, &format!("Interaction of {} and {} in the score", columns.0, columns.1))
}

fn short_label(name: &str) -> String {
    cut(&name.replace(forbidden, "\u{fffd}"), 11)
}

fn cut(name: &str, longest: usize) -> String {
    if name.chars().count() <= longest {
        return name.to_string();
    }
    name.chars().take(longest - 1).chain(['…']).collect()
}

/// At most 26 characters, none of them forbidden in XML (the drawing library escapes markup, not control characters).
fn shortened(name: &str) -> String {
    cut(&name.replace(forbidden, "\u{fffd}"), 26)
}

/// Makes the drawing scale with its container and readable by screen readers.
fn finish(draw: impl FnOnce(&mut String) -> Drawn, label: &str) -> Option<String> {
    let mut svg = String::new();
    draw(&mut svg).ok()?;
    let view = svg.find("viewBox=")?;
    let svg = svg.get(svg.find("<svg")?..)?.to_string();
    let view = svg.find("viewBox=").unwrap_or(view);
    Some(format!("<svg role=\"img\" aria-label=\"{}\" {}", escape(label), &svg[view..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_short() {
        let name = "occupation=<script>alert(1)</script>".to_string();
        let svg =
            coefficients(&[Coefficient { name, value: 1.0, noise: Some(0.2), std_error: None, slot: false }]).unwrap();
        assert!(!svg.contains("<script") && svg.contains('…') && svg.starts_with("<svg role"));
    }

    fn alone(shape_: &Shape) -> Option<String> {
        shape(&[("", 0, shape_)], "score")
    }

    #[test]
    fn shapes_are_drawn_and_names_in_them_are_text() {
        let hostile = "<script>alert(1)</script>\u{1}";
        let points = vec![(0.0, -1.0), (1.0, 0.5), (30.0, 1.0)];
        let curve = Shape::Curve { column: hostile.into(), points, unit: Unit::Number };
        let levels = Shape::Levels { column: "a".into(), levels: vec![(hostile.into(), 1.0), ("x".into(), -1.0)] };
        let names = |n: usize| (0..n).map(|_| hostile.to_string()).collect::<Vec<_>>();
        let effects = vec![vec![1.0, -1.0, 0.0]; 2];
        let map = Shape::Map {
            columns: (hostile.into(), "b".into()),
            first: names(2),
            second: names(3),
            effects: effects.clone(),
        };
        let several = shape(&[(hostile, 0, &curve), (hostile, 1, &curve)], hostile);
        let columns = vec![hostile.to_string(), hostile.to_string()];
        let bars = importance(&[Importance { columns, value: 1.0 }]);
        for drawn in [alone(&curve), alone(&levels), map_of(&map), several, bars] {
            let svg = drawn.unwrap();
            assert!(!svg.contains("<script") && !svg.contains('\u{1}') && svg.starts_with("<svg role"), "{svg}");
        }
        // a colour that adds and one that takes away
        let svg = map_of(&map).unwrap();
        assert!(svg.contains("#0A0B0C") && svg.contains("#010203"));
        let flat = Shape::Curve { column: "a".into(), points: vec![(0.0, 1.0), (1.0, 1.0)], unit: Unit::Number };
        assert_eq!(alone(&flat), None);
        let empty =
            Shape::Map { columns: ("a".into(), "b".into()), first: names(0), second: names(0), effects: vec![] };
        assert_eq!(map_of(&empty), None);
    }

    #[test]
    fn curves_of_classes_have_colours_and_names_that_do_not_lie_on_each_other() {
        let line =
            |end: f64| Shape::Curve { column: "a".into(), points: vec![(0.0, -end), (1.0, end)], unit: Unit::Number };
        let (stay, leave, upgrade) = (line(-1.0), line(-0.99), line(-0.98));
        let svg = shape(&[("stay", 0, &stay), ("leave", 1, &leave), ("upgrade", 2, &upgrade)], "score").unwrap();
        for colour in ["#0A0B0C", "#0D0E0F", "#101112"] {
            assert!(svg.contains(&format!("stroke=\"{colour}\"")), "{colour}");
        }
        let height = |name: &str| -> i32 {
            let end = svg.find(&format!("\n{name}\n")).unwrap();
            let start = svg[..end].rfind("<text").unwrap();
            svg[start..end].split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        let mut heights = ["stay", "leave", "upgrade"].map(height);
        heights.sort_unstable();
        assert!(
            heights.windows(2).all(|pair| pair[1] - pair[0] >= 17) && heights[2] < HEIGHT as i32 - 46,
            "{heights:?}"
        );
    }

    #[test]
    fn dates_are_dates_and_truth_values_two_points() {
        let points = (0..=4).map(|k| (14_610.0 + 100.0 * f64::from(k), f64::from(k) - 2.0)).collect();
        let svg = alone(&Shape::Curve { column: "signup".into(), points, unit: Unit::Date }).unwrap();
        assert!(svg.contains("2010-01-01") && svg.contains("2011-02-05") && !svg.contains("14610"), "{svg}");
        let svg = alone(&Shape::Levels { column: "vip".into(), levels: vec![("0".into(), -0.4), ("1".into(), 0.4)] });
        let svg = svg.unwrap();
        assert!(svg.matches("<circle").count() == 2 && svg.find("\n0\n") < svg.find("\n1\n"), "{svg}");
    }

    #[test]
    fn an_interval_is_drawn_and_one_without_width_is_not() {
        let name = "<script>alert(1)</script>".to_string();
        let row = IntervalRow {
            name,
            value: 2.0,
            low: 1.0,
            high: 3.0,
            noise: 0.3,
            sampling: 0.4,
            bias: 0.3,
            threshold: 9.0,
            centre: 0.0,
            root: 2.0,
        };
        let svg = interval(&row).unwrap();
        assert!(!svg.contains("<script") && svg.starts_with("<svg role") && svg.matches("<rect").count() == 5, "{svg}");
        assert_eq!(interval(&IntervalRow { low: 2.0, high: 2.0, ..row.clone() }), None);
        assert_eq!(interval(&IntervalRow { high: f64::INFINITY, ..row }), None);
    }

    #[test]
    fn nothing_to_draw_is_no_figure() {
        assert_eq!(coefficients(&[]), None);
        assert_eq!(
            coefficients(&[Coefficient { name: "a".into(), value: 0.0, noise: None, std_error: None, slot: false }]),
            None
        );
        assert_eq!(privacy_curve(&[(1.0, 0.1)], (1.0, 0.1)), None);
        assert_eq!(epsilon_over_steps(&[]), None);
        assert!(privacy_curve(&[(0.1, 0.1), (1.0, 1e-5)], (1.0, 1e-5)).is_some());
        assert!(epsilon_over_steps(&[(1, 0.1), (10, 0.5)]).is_some());
    }
}
