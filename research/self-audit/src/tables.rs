//! An audit run as text for the terminal: three tables and the verdict.

use dpopt_self_audit::document::AuditRun;

/// What a run found, as the command prints it.
pub(crate) fn text(run: &AuditRun) -> String {
    let number = |x: f64| format!("{x:.3}");
    let rows: Vec<Vec<String>> = run
        .library
        .iter()
        .map(|o| {
            let mark = match (&o.failure, o.violation, o.falls_short) {
                (Some(_), _, _) => "DID NOT RUN",
                (_, true, _) => "VIOLATION",
                (_, _, true) => "SHORT",
                _ => "",
            };
            vec![
                o.name.clone(),
                number(o.claimed),
                o.reach.map_or(String::new(), number),
                number(o.lower_bound),
                o.gaussian_model.map_or(String::new(), number),
                format!("{:.2}", o.share()),
                mark.into(),
            ]
        })
        .collect();
    let mut out =
        table(&["the library's own code", "#claimed ε", "#at best", "#ε ≥", "#Gaussian ε ≥", "#share", ""], &rows);
    let rows: Vec<Vec<String>> = run
        .catalogue
        .outcomes
        .iter()
        .map(|o| {
            let mark = match (o.caught, o.violation) {
                (_, true) => "CORRECT CODE REJECTED",
                (false, _) => "MISSED",
                _ => "",
            };
            let blank = String::new;
            vec![
                o.number.clone(),
                o.source.name().into(),
                o.claimed.map_or_else(blank, number),
                o.lower_bound.map_or_else(blank, number),
                format!("{}/{}", o.rejected, o.seeds),
                mark.into(),
                o.bug.clone(),
                o.statistic.clone(),
            ]
        })
        .collect();
    out.push('\n');
    out.push_str(&table(
        &["#", "code", "#claimed ε", "#bug's ε ≥", "#caught", "", "injected fault", "statistic"],
        &rows,
    ));
    out.push('\n');
    out.push_str(&laws(run));
    out.push('\n');
    out.push_str(&run.verdict());
    out
}

fn laws(run: &AuditRun) -> String {
    let rows: Vec<Vec<String>> = run
        .laws
        .iter()
        .map(|o| {
            let mark = match (&o.failure, o.violation, o.caught) {
                (Some(_), _, _) => "DID NOT RUN",
                (_, true, _) => "CORRECT DRAWS REJECTED",
                (_, _, false) => "MISSED",
                _ => "",
            };
            let caught = format!("{}/{}", o.rejected, o.seeds);
            vec![
                o.sampler.clone(),
                format!("{:.1e}", o.smallest_p),
                caught,
                mark.into(),
                o.mistake.clone(),
                o.test.clone(),
            ]
        })
        .collect();
    table(&["sampler", "#smallest p", "#caught", "", "injected fault", "test"], &rows)
}

/// Columns padded with two spaces between; headings starting with `#` are right-aligned numbers.
fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let titles: Vec<String> = headings.iter().map(|h| h.trim_start_matches('#').to_string()).collect();
    let width = |i: usize| rows.iter().chain([&titles]).map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let mut out = String::new();
    for row in [&titles].into_iter().chain(rows) {
        let mut line = String::new();
        for ((cell, heading), width) in row.iter().zip(headings).zip(&widths) {
            let gap = " ".repeat(width - cell.chars().count());
            line += &if heading.starts_with('#') { format!("{gap}{cell}  ") } else { format!("{cell}{gap}  ") };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let rows = [vec!["pld".into(), "1.5".into(), "x".into()], vec!["gdp".into(), "10".into(), String::new()]];
        assert_eq!(table(&["name", "#ε", "note"], &rows), "name    ε  note\npld   1.5  x\ngdp    10\n");
    }
}
