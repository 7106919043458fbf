//! The trade-off curve of an audit as SVG: both rates in log scale, the region that the claim allows shaded.

use super::super::statistics::Claim;
use super::{AuditError, Report};
use plotters::prelude::*;

/// Draws `report` against `claim`. Points above the shaded region would violate the claim; the cross is what was proved,
/// or in a sequential audit the rates of the event that it bet on.
///
/// # Errors
/// The picture could not be drawn.
pub fn roc_svg(report: &Report, claim: &Claim) -> Result<String, AuditError> {
    let mut svg = String::new();
    draw(&mut svg, report, claim).map_err(|e| AuditError::Option(format!("the picture could not be drawn: {e}")))?;
    Ok(svg)
}

fn draw(svg: &mut String, report: &Report, claim: &Claim) -> Result<(), Box<dyn std::error::Error>> {
    let floor = 0.5 / report.counts.negatives.max(10) as f64;
    let root = SVGBackend::with_string(svg, (640, 520)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!(
        "epsilon at delta {}: claimed {}, proved at least {:.3} ({})",
        if report.delta == 0.0 { "0".into() } else { format!("{:e}", report.delta) },
        if report.claimed.is_finite() { format!("{:.3}", report.claimed) } else { "none".into() },
        report.lower_bound,
        match report.verdict {
            super::Verdict::Violated => "claim violated",
            super::Verdict::NotRefuted => "claim not refuted",
        }
    );
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 15))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(58)
        .build_cartesian_2d((floor..1.0).log_scale(), (floor..1.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("false-positive rate (runs without the record)")
        .y_desc("true-positive rate (runs with it)")
        .x_label_formatter(&|x| format!("{x:.0e}"))
        .y_label_formatter(&|x| format!("{x:.0e}"))
        .draw()?;

    let step = |i: u32| (floor.ln() * (1.0 - f64::from(i) / 200.0)).exp().clamp(floor, 1.0);
    let upper: Vec<(f64, f64)> = (0..=200).map(|i| (step(i), claim.largest_tpr(step(i)).max(floor))).collect();
    let mut region = upper.clone();
    region.push((1.0, floor));
    region.push((floor, floor));
    chart.draw_series(std::iter::once(Polygon::new(region, RGBColor(90, 140, 200).mix(0.2))))?;
    chart
        .draw_series(LineSeries::new(upper, RGBColor(60, 100, 170).stroke_width(2)))?
        .label("largest rate the claim allows")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], RGBColor(60, 100, 170).stroke_width(2)));
    // the axis of the proved event, so that the picture and the verdict speak of the same order of the worlds
    let oriented = report.roc.iter().map(|p| match (report.event.above, report.event.positive_with) {
        (true, true) => (p.fpr, p.tpr),
        (false, true) => (1.0 - p.fpr, 1.0 - p.tpr),
        (true, false) => (p.tpr, p.fpr),
        (false, false) => (1.0 - p.tpr, 1.0 - p.fpr),
    });
    let points: Vec<(f64, f64)> = oriented.filter(|&(x, y)| x >= floor && y >= floor).collect();
    chart
        .draw_series(points.iter().map(|&p| Circle::new(p, 2, RGBColor(40, 40, 40).filled())))?
        .label("observed")
        .legend(|(x, y)| Circle::new((x + 9, y), 2, RGBColor(40, 40, 40).filled()));
    // bounds by counting hold for a frozen event and a fixed number of runs; a sequential audit has neither
    let (marked, text) = if report.stopping.is_some() {
        let share = |k: u64, n: u64| k as f64 / n.max(1) as f64;
        let c = report.counts;
        ((share(c.false_positives, c.negatives), share(c.true_positives, c.positives)), "the event that was bet on")
    } else {
        let rates = report.counts.rates((1.0 - report.confidence) / 3.0);
        ((rates.fpr_high, rates.tpr_low), "proved by the frozen event")
    };
    let marked = (marked.0.max(floor), marked.1.max(floor));
    chart
        .draw_series(std::iter::once(Cross::new(marked, 6, RGBColor(200, 50, 40).stroke_width(2))))?
        .label(text)
        .legend(|(x, y)| Cross::new((x + 9, y), 5, RGBColor(200, 50, 40).stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    drop(chart);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Pair, audit};
    use super::*;
    use dpopt_mechanism::progress::Silent;

    #[test]
    fn a_picture_of_every_kind_of_claim() {
        let claims = [Claim::gaussian(1.0), Claim::pure(0.5), Claim::Profile { points: vec![(0.0, 0.2), (1.0, 0.01)] }];
        for claim in claims {
            let pair = Pair { with: 1.0, without: 0.0 };
            let options = Options { runs: 2000, ..Options::default() };
            let run = |shift: &f64, draws: &mut crate::draws::Draws| shift + draws.gaussian();
            let report = audit(&claim, run, &pair, &options, &Silent).expect("valid options");
            let svg = roc_svg(&report, &claim).expect("drawn");
            assert!(svg.starts_with("<svg") && svg.contains("</svg>") && svg.contains("false-positive rate"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}
