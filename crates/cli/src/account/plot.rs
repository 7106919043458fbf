//! `dpopt account --plot FILE.svg`: the trade-off curve, ε over the steps and ε by every accountant, side by side.

use dpopt_privacy::accountant;
use dpopt_privacy::{Event, Relation};
use plotters::coord::Shift;
use plotters::prelude::*;

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Panel<'a, 'b> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (1200, 420);
const FONT: (&str, i32) = ("sans-serif", 15);
const TITLE: (&str, i32) = ("sans-serif", 17);
const INK: RGBColor = RGBColor(40, 40, 48);
const RULE: RGBColor = RGBColor(225, 225, 230);
/// Distinguishable without colour vision too (Okabe, Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// The picture as SVG, at `delta`.
pub(super) fn svg(event: &Event, relation: Relation, delta: f64) -> Result<String, Box<dyn std::error::Error>> {
    let mut out = String::new();
    {
        let root = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let panels = root.split_evenly((1, 3));
        trade_off(&panels[0], event, relation)?;
        steps(&panels[1], event, relation, delta)?;
        accountants(&panels[2], event, relation)?;
        root.present()?;
    }
    Ok(out)
}

fn chart<'a, 'b>(
    panel: &'b Panel<'a, 'b>,
    title: &str,
    (x, y): (std::ops::Range<f64>, std::ops::Range<f64>),
    (x_desc, y_desc): (&str, &str),
    x_label: &dyn Fn(&f64) -> String,
) -> Result<
    ChartContext<
        'b,
        SVGBackend<'a>,
        Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
    >,
    Box<dyn std::error::Error>,
> {
    let mut chart = ChartBuilder::on(panel)
        .margin(14)
        .caption(title, (TITLE.0, TITLE.1, &INK))
        .x_label_area_size(46)
        .y_label_area_size(58)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .bold_line_style(RULE)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .x_labels(6)
        .y_labels(6)
        .x_desc(x_desc)
        .y_desc(y_desc)
        .x_label_formatter(&|v| x_label(v))
        .label_style((FONT.0, FONT.1, &INK))
        .axis_desc_style((FONT.0, FONT.1, &INK))
        .draw()?;
    Ok(chart)
}

fn plain(x: &f64) -> String {
    format!("{}", (x * 1e6).round() / 1e6)
}

/// Least missed-alarm rate of a test that tells the neighbours apart, for each false-alarm rate: the tangents of all (ε, δ).
fn trade_off(panel: &Panel<'_, '_>, event: &Event, relation: Relation) -> Drawn {
    let epsilons: Vec<f64> = (0..40).map(|i| 0.02 * 1.25f64.powi(i) - 0.02).collect();
    let mut guarantees = vec![];
    for some in epsilons.chunks(10) {
        let deltas = accountant::deltas(event, relation, some).unwrap_or_default();
        guarantees.extend(some.iter().copied().zip(deltas));
        if guarantees.last().is_some_and(|(_, delta)| *delta < 1e-6) {
            break;
        }
    }
    let curve = (0..=200).map(|i| f64::from(i) / 200.0).map(|alpha| {
        let beta = guarantees
            .iter()
            .fold(0.0f64, |beta, (e, d)| beta.max(1.0 - d - e.exp() * alpha).max((-e).exp() * (1.0 - d - alpha)));
        (alpha, beta)
    });
    let mut chart = chart(panel, "trade-off", (0.0..1.0, 0.0..1.0), ("false alarms", "missed alarms"), &plain)?;
    chart.draw_series([PathElement::new(vec![(0.0, 1.0), (1.0, 0.0)], RULE.stroke_width(2))])?;
    chart.draw_series(LineSeries::new(curve, COLOURS[0].stroke_width(2)))?;
    Ok(())
}

/// ε of a growing share of the event's repetitions.
fn steps(panel: &Panel<'_, '_>, event: &Event, relation: Relation, delta: f64) -> Drawn {
    const POINTS: u64 = 24;
    let exact = event.exact(relation)?;
    let total: u64 = exact.parts.iter().map(|p| p.1).max().unwrap_or(1);
    let mut points = vec![(0.0, 0.0)];
    for i in 1..=POINTS {
        // denser where ε grows fastest
        let share = |count: u64| (count as f64 * (i as f64 / POINTS as f64).powi(2)).ceil() as u64;
        if share(total) as f64 <= points[points.len() - 1].0 {
            continue;
        }
        let part = Event::composed(exact.parts.iter().map(|(e, n)| e.clone().self_composed(share(*n))).collect());
        if let Ok(bound) = accountant::epsilon(&part, relation, delta) {
            points.push((share(total) as f64, bound.upper));
        }
    }
    let last = points.iter().fold(0.0f64, |m, p| m.max(p.1)).max(1e-9);
    let title = format!("ε over the steps, δ = {delta:e}");
    let mut chart = chart(panel, &title, (0.0..total as f64, 0.0..1.08 * last), ("steps", "ε"), &plain)?;
    chart.draw_series(LineSeries::new(points.clone(), COLOURS[0].stroke_width(2)))?;
    chart.draw_series(points.iter().skip(1).map(|p| Circle::new(*p, 2, COLOURS[0].filled())))?;
    Ok(())
}

/// ε against δ by every accountant that supports the event.
fn accountants(panel: &Panel<'_, '_>, event: &Event, relation: Relation) -> Drawn {
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> = vec![];
    for a in accountant::all() {
        let points: Vec<(f64, f64)> = (2..=12)
            .filter_map(|k| {
                let bound = a.epsilon(event, relation, 10f64.powi(-k)).ok()?;
                bound.upper.is_finite().then_some((-f64::from(k), bound.upper))
            })
            .collect();
        if points.len() > 1 {
            lines.push((a.name(), points));
        }
    }
    let last = lines.iter().flat_map(|l| &l.1).fold(1e-9f64, |m, p| m.max(p.1));
    let label = |x: &f64| if x.fract().abs() < 1e-9 { format!("1e{x:.0}") } else { String::new() };
    let mut chart = chart(panel, "ε by accountant", (-12.0..-2.0, 0.0..1.08 * last), ("δ", "ε"), &label)?;
    for (i, (name, points)) in lines.into_iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RULE)
        .label_font((FONT.0, FONT.1, &INK))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_its_three_parts_and_every_accountant() {
        let event = Event::laplace(20.0).self_composed(40);
        let picture = svg(&event, Relation::ZeroOut, 1e-6).unwrap();
        for text in ["trade-off", "missed alarms", "ε over the steps", "ε by accountant", "pure", "zcdp", "pld", "rdp"]
        {
            assert!(picture.contains(text), "{text} is missing");
        }
        assert!(picture.matches("<polyline").count() >= 5);
    }
}
