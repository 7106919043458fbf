//! The report's figures as inline SVG. Colours are marks that the style sheet replaces, so that they follow light and dark.

use super::markup::{escape, forbidden};
use super::{Coefficient, IntervalRow};
use dpopt_data::Shape;
use dpopt_privacy::words::number;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

// Each of these is only a key of a rule in style.css.
const INK: RGBColor = RGBColor(1, 2, 3);
const MUTED: RGBColor = RGBColor(4, 5, 6);
const RULE: RGBColor = RGBColor(7, 8, 9);
const ACCENT: RGBColor = RGBColor(10, 11, 12);

const WIDTH: u32 = 480;
const HEIGHT: u32 = 300;
const FONT: &str = "sans-serif";
const FONT_SIZE: i32 = 15;

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

/// Points with error bars of one noise standard deviation, in the given order; `None` for none.
pub(super) fn coefficients(rows: &[Coefficient]) -> Option<String> {
    const ROW: i32 = 25;
    const LABELS: i32 = 200;
    const AXIS: i32 = 28;
    if rows.is_empty() {
        return None;
    }
    let height = ROW * rows.len() as i32 + AXIS + 8;
    let reach = rows.iter().map(|c| c.value.abs() + c.noise.unwrap_or(0.0)).fold(0.0, f64::max);
    if !(reach > 0.0 && reach.is_finite()) {
        return None;
    }
    let (left, right) = (LABELS + 8, WIDTH as i32 - 14);
    let middle = f64::from(left + right) / 2.0;
    let x = |value: f64| (middle + value / reach * f64::from(right - left) / 2.0).round() as i32;
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, height as u32)).into_drawing_area();
        let bottom = height - AXIS;
        let label = (FONT, FONT_SIZE, &INK).into_text_style(&root).pos(Pos::new(HPos::Right, VPos::Center));
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
            root.draw(&Text::new(shortened(&row.name), (LABELS, y), label.clone()))?;
            if let Some(noise) = row.noise {
                let bar = vec![(x(row.value - noise), y), (x(row.value + noise), y)];
                root.draw(&PathElement::new(bar, ACCENT.stroke_width(2)))?;
            }
            root.draw(&Circle::new((x(row.value), y), 4, ACCENT.filled()))?;
        }
        root.present()?;
        Ok(())
    };
    finish(draw, "Largest coefficients with one standard deviation of noise")
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

/// A curve, levels as points, or a map of two columns; `None` where nothing is said.
pub(super) fn shape(shape: &Shape) -> Option<String> {
    let reach = shape.reach();
    if !(reach > 0.0 && reach.is_finite()) {
        return None;
    }
    match shape {
        Shape::Curve { column, points } => curve(&shortened(column), points),
        Shape::Levels { levels, .. } => {
            let mut rows: Vec<Coefficient> = levels
                .iter()
                .map(|(name, value)| Coefficient { name: name.clone(), value: *value, noise: None })
                .collect();
            rows.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
            coefficients(&rows[..rows.len().min(MOST_LEVELS)])
        }
        Shape::Map { columns, first, second, effects } => {
            map((&shortened(&columns.0), &shortened(&columns.1)), first, second, effects)
        }
    }
}

/// Levels of a category that are drawn: the largest.
const MOST_LEVELS: usize = 10;

fn curve(column: &str, points: &[(f64, f64)]) -> Option<String> {
    let last = points.len().checked_sub(1).filter(|last| *last > 0)?;
    let reach = points.iter().map(|p| p.1.abs()).fold(0.0, f64::max) * 1.08;
    let draw = |svg: &mut String| -> Drawn {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(10)
            .x_label_area_size(46)
            .y_label_area_size(66)
            // on the encoder's scale, which values of a skewed column do not crowd
            .build_cartesian_2d(0.0..1.0, -reach..reach)?;
        let at = |x: f64| points[((x * last as f64).round() as usize).min(last)].0;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(RULE)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(5)
            .y_labels(5)
            .x_desc(column)
            .x_label_formatter(&|x| number(at(*x)))
            .y_label_formatter(&|y| number((y * 1e3).round() / 1e3 + 0.0))
            .label_style((FONT, FONT_SIZE, &MUTED))
            .axis_desc_style((FONT, FONT_SIZE, &INK))
            .draw()?;
        chart.draw_series(LineSeries::new(
            points.iter().enumerate().map(|(k, p)| (k as f64 / last as f64, p.1)),
            ACCENT.stroke_width(2),
        ))?;
        root.present()?;
        Ok(())
    };
    finish(draw, &format!("What {column} adds to the score"))
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
    finish(draw, &format!("What {} and {} add to the score together", columns.0, columns.1))
}

fn short_label(name: &str) -> String {
    const LONGEST: usize = 11;
    let name = name.replace(forbidden, "\u{fffd}");
    if name.chars().count() <= LONGEST { name } else { name.chars().take(LONGEST - 1).chain(['…']).collect() }
}

/// At most 26 characters, none of them forbidden in XML (the drawing library escapes markup, not control characters).
fn shortened(name: &str) -> String {
    const LONGEST: usize = 26;
    let name = name.replace(forbidden, "\u{fffd}");
    if name.chars().count() <= LONGEST {
        return name;
    }
    name.chars().take(LONGEST - 1).chain(['…']).collect()
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
        let svg = coefficients(&[Coefficient { name, value: 1.0, noise: Some(0.2) }]).unwrap();
        assert!(!svg.contains("<script") && svg.contains('…') && svg.starts_with("<svg role"));
    }

    #[test]
    fn shapes_are_drawn_and_names_in_them_are_text() {
        let hostile = "<script>alert(1)</script>\u{1}";
        let curve = Shape::Curve { column: hostile.into(), points: vec![(0.0, -1.0), (1.0, 0.5), (30.0, 1.0)] };
        let levels = Shape::Levels { column: "a".into(), levels: vec![(hostile.into(), 1.0), ("x".into(), -1.0)] };
        let names = |n: usize| (0..n).map(|_| hostile.to_string()).collect::<Vec<_>>();
        let effects = vec![vec![1.0, -1.0, 0.0]; 2];
        let map = Shape::Map {
            columns: (hostile.into(), "b".into()),
            first: names(2),
            second: names(3),
            effects: effects.clone(),
        };
        for drawn in [shape(&curve), shape(&levels), shape(&map)] {
            let svg = drawn.unwrap();
            assert!(!svg.contains("<script") && !svg.contains('\u{1}') && svg.starts_with("<svg role"), "{svg}");
        }
        // a colour that adds and one that takes away
        let svg = shape(&map).unwrap();
        assert!(svg.contains("#0A0B0C") && svg.contains("#010203"));
        let flat = Shape::Curve { column: "a".into(), points: vec![(0.0, 1.0), (1.0, 1.0)] };
        assert_eq!(shape(&flat), None);
        assert_eq!(
            shape(&Shape::Map {
                columns: ("a".into(), "b".into()),
                first: names(0),
                second: names(0),
                effects: vec![]
            }),
            None
        );
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
        assert_eq!(coefficients(&[Coefficient { name: "a".into(), value: 0.0, noise: None }]), None);
        assert_eq!(privacy_curve(&[(1.0, 0.1)], (1.0, 0.1)), None);
        assert_eq!(epsilon_over_steps(&[]), None);
        assert!(privacy_curve(&[(0.1, 0.1), (1.0, 1e-5)], (1.0, 1e-5)).is_some());
        assert!(epsilon_over_steps(&[(1, 0.1), (10, 0.5)]).is_some());
    }
}
