//! Six standard deviations are a false alarm of 2e-9 each; seeds are fixed.

use super::*;
use dpopt_data::{BadCells, Encoder, Format, ReadOptions, Schema, open_bytes};
use std::collections::BTreeMap;

/// Cells of every row, without the header.
fn cells(panel: &Panel) -> Vec<Vec<&str>> {
    panel.csv.lines().skip(1).map(|line| line.split(',').collect()).collect()
}

/// The rows of each person, by identifier.
fn by_person<'a>(rows: &'a [Vec<&'a str>]) -> BTreeMap<&'a str, Vec<&'a [&'a str]>> {
    let mut persons: BTreeMap<&str, Vec<&[&str]>> = BTreeMap::new();
    rows.iter().for_each(|row| persons.entry(row[0]).or_default().push(&row[1..]));
    persons
}

/// The value of a term of the truth in a row, from the text of the file.
fn value(term: &str, row: &[&str]) -> f64 {
    let number = |j: usize| row[j].parse::<f64>().unwrap();
    match term {
        "(intercept)" => 1.0,
        "(pulse-74)/12" => (number(3) - 74.0) / 12.0,
        "(blood_pressure-126)/17" => (number(4) - 126.0) / 17.0,
        "((blood_pressure-126)/17)^2" => ((number(4) - 126.0) / 17.0).powi(2),
        "(temperature-36.9)/0.5" => (number(5) - 36.9) * 2.0,
        "(sleep_hours-6.8)/1.3" => (number(6) - 6.8) / 1.3,
        "ln(1+steps)-8.4" => (1.0 + number(7)).ln() - 8.4,
        "pain-5" => number(8) - 5.0,
        level => match level.split_once('=').unwrap() {
            ("clinic", name) => f64::from(u8::from(row[1] == name)),
            ("complaint", name) => f64::from(u8::from(row[2] == name)),
            other => panic!("no column for {other:?}"),
        },
    }
}

/// p of `yes` by the truth that the panel tells.
fn probability(panel: &Panel, row: &[&str]) -> f64 {
    let log_odds: f64 = panel.truth.iter().map(|term| term.coefficient * value(term.name, row)).sum();
    1.0 / (1.0 + (-log_odds).exp())
}

/// Analysis of variance: the share of the variance between persons of equally many rows.
fn within_person_correlation(groups: &[Vec<f64>]) -> f64 {
    let (units, k) = (groups.len() as f64, groups[0].len() as f64);
    let means: Vec<f64> = groups.iter().map(|g| g.iter().sum::<f64>() / k).collect();
    let mean = means.iter().sum::<f64>() / units;
    let between = k * means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (units - 1.0);
    let squares = |(g, m): (&Vec<f64>, &f64)| g.iter().map(|x| (x - m).powi(2)).sum::<f64>();
    let within = groups.iter().zip(&means).map(squares).sum::<f64>() / (units * (k - 1.0));
    (between - within) / (between + (k - 1.0) * within)
}

#[test]
fn every_machine_writes_the_same_bytes() {
    // FNV-1a, 64 bits
    let hash = |text: &str| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
    };
    assert_eq!(hash(&panel(40, 10, 0.5, 7).csv), 0xd039_a315_851d_d746);
    assert_eq!(hash(&uneven_panel(40, 10, 0.5, 7).csv), 0xcae8_1d01_9c8b_38f4);
    assert_eq!(panel(40, 10, 0.5, 7), panel(40, 10, 0.5, 7));
    assert_ne!(panel(40, 10, 0.5, 7).csv, panel(40, 10, 0.5, 8).csv);
    assert_ne!(panel(40, 10, 0.5, 7).csv, panel(40, 10, 0.25, 7).csv);
    assert_eq!(panel(40, 10, 0.5, 7).bounds, uneven_panel(9, 2, 0.0, 8).bounds);
}

#[test]
fn its_bounds_fit_and_the_person_is_no_feature() {
    let panel = panel(100, 30, 0.5, 3);
    let table = open_bytes(panel.csv.clone().into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let schema = Schema::from_toml(&panel.bounds).unwrap();
    let layout = schema.resolve(table.columns(), Some("outcome")).unwrap();
    assert!(layout.undeclared.is_empty() && layout.unbounded().is_empty());
    assert_eq!(layout.ignored, ["person"]);
    let encoder = Encoder::new(&layout).unwrap();
    let examples = encoder.encode_public(&*table, BadCells::Error).unwrap();
    assert_eq!(examples.rows.len(), 3000);
    assert!(examples.targets.iter().all(|t| t.abs() == 1.0));
    let names: Vec<String> = (0..encoder.dimension()).map(|i| encoder.feature_name(i).unwrap()).collect();
    assert!(names.iter().all(|name| !name.starts_with("person")));
    let other = |i: usize| examples.rows.row(i).0.iter().any(|&c| names[c as usize].ends_with("=(other)"));
    assert!(!(0..3000).any(other), "a level that the codebook does not have");
    for row in cells(&panel) {
        for (j, lower, upper) in
            [(3, 40.0, 180.0), (4, 80.0, 220.0), (5, 34.0, 42.0), (6, 2.0, 14.0), (7, 0.0, 40_000.0), (8, 0.0, 10.0)]
        {
            let number: f64 = row[j].parse().unwrap();
            assert!((lower..=upper).contains(&number), "{row:?}");
        }
    }
}

#[test]
fn persons_have_the_rows_they_should_and_not_one_after_the_other() {
    for (panel, rows) in
        [(panel(200, 25, 0.5, 1), 5000), (uneven_panel(200, 25, 0.5, 1), 5000), (panel(3, 1, 1.0, 1), 3)]
    {
        let cells = cells(&panel);
        assert_eq!(cells.len(), rows);
        let persons = by_person(&cells);
        assert_eq!(persons.values().map(Vec::len).collect::<Vec<_>>(), panel.rows_per_unit);
        assert!(persons.keys().enumerate().all(|(i, name)| *name == format!("p{i:06}")));
    }
    // of 4,999 neighbours 1 in 200 or so are one person's: mean 24, standard deviation 4.9
    let panel = panel(200, 25, 1.0, 2);
    let rows = cells(&panel);
    let together = rows.windows(2).filter(|pair| pair[0][0] == pair[1][0]).count() as f64;
    assert!((together - 4999.0 * 24.0 / 4999.0).abs() < 6.0 * 4.9, "{together}");
    // and the identifiers in the first half of the file are not smaller: the mean of half the places is 99.5, sd 0.82
    let identifiers: Vec<f64> = rows.iter().map(|row| row[0][1..].parse().unwrap()).collect();
    let mean = identifiers[..2500].iter().sum::<f64>() / 2500.0;
    assert!((mean - 99.5).abs() < 6.0 * 0.82, "{mean}");
}

#[test]
fn uneven_counts_start_at_one_have_a_heavy_tail_and_keep_the_total() {
    for (units, mean, seed) in [(1, 7, 1), (2, 1, 1), (5, 3, 2), (1000, 1, 3), (1000, 100, 4), (5000, 100, 1)] {
        let counts = uneven(units, mean, &mut Draws::from_seed(seed));
        assert_eq!(counts.len(), units);
        assert_eq!(counts.iter().sum::<usize>(), units * mean);
        assert!(counts.iter().all(|&c| c >= 1));
    }
    let counts = uneven(5000, 100, &mut Draws::from_seed(1));
    let share = |over: usize| counts.iter().filter(|&&c| c > over).count() as f64 / 5000.0;
    // P(weight > x) = 1/(1 + x)²; 6 standard deviations, and a tenth because the weights are divided by a drawn total (5 % off)
    for times in [1.0, 3.0, 7.0] {
        let expected = 1.0 / (1.0 + times) / (1.0 + times);
        let deviation = (expected * (1.0 - expected) / 5000.0_f64).sqrt();
        let found = share(1 + (99.0 * times) as usize);
        assert!((found - expected).abs() < 6.0 * deviation + 0.1 * expected, "{times}: {found} and not {expected}");
    }
    assert_eq!(counts.iter().min(), Some(&1));
}

#[test]
fn rows_of_a_person_are_as_alike_as_asked() {
    const UNITS: usize = 1000;
    const ROWS: usize = 20;
    for asked in [0.0, 0.5, 1.0] {
        let panel = panel(UNITS, ROWS, asked, 5);
        let rows = cells(&panel);
        let persons = by_person(&rows);
        if asked == 1.0 {
            assert!(persons.values().all(|rows| rows.iter().all(|row| row[..8] == rows[0][..8])));
        }
        let (units, k) = (UNITS as f64, ROWS as f64);
        let deviation = (1.0 - asked) * (1.0 + (k - 1.0) * asked) * (2.0 / (k * (k - 1.0) * (units - 1.0))).sqrt();
        for (column, read) in [
            (2, (|x| x) as fn(f64) -> f64),
            (3, |x| x),
            (4, |x| x),
            (5, |x| x),
            // lognormal, so normal as a logarithm
            (6, f64::ln),
        ] {
            let groups: Vec<Vec<f64>> = persons
                .values()
                .map(|rows| rows.iter().map(|row| read(row[column].parse().unwrap())).collect())
                .collect();
            let found = within_person_correlation(&groups);
            // a hundredth for rounding and the ends of the ranges
            assert!((found - asked).abs() < 6.0 * deviation + 0.01, "column {column}: {found} and not {asked}");
        }
        // categories go together too: the same clinic twice has probability Σ weight² at 0 and 1 at 1;
        // pairs share rows with the next ones: variance at most 3/4 per pair
        let same: f64 = persons
            .values()
            .map(|rows| rows.windows(2).filter(|pair| pair[0][0] == pair[1][0]).count() as f64)
            .sum::<f64>()
            / (units * (k - 1.0));
        let by_chance: f64 = CLINIC.iter().map(|(_, weight)| weight * weight).sum();
        match asked {
            0.0 => assert!((same - by_chance).abs() < 6.0 * (0.75 / (units * (k - 1.0))).sqrt(), "{same}"),
            1.0 => assert_eq!(same, 1.0),
            _ => assert!(same > by_chance + 0.05 && same < 0.8, "{same}"),
        }
    }
}

#[test]
fn labels_come_from_the_truth_that_is_returned() {
    for (correlation, uneven) in [(0.0, false), (0.5, false), (0.5, true), (1.0, false)] {
        let make = if uneven { uneven_panel } else { panel };
        let panel = make(1000, 20, correlation, 11);
        let rows = cells(&panel);
        let p: Vec<f64> = rows.iter().map(|row| probability(&panel, row)).collect();
        let yes: Vec<f64> = rows.iter().map(|row| f64::from(u8::from(row[9] == "yes"))).collect();
        assert!(rows.iter().all(|row| ["no", "yes"].contains(&row[9])));
        let n = rows.len() as f64;
        let mean = |numbers: &mut dyn Iterator<Item = f64>| numbers.sum::<f64>() / n;
        assert!((mean(&mut p.iter().map(|p| p.max(1.0 - p))) - panel.bayes_accuracy).abs() < 1e-9);
        assert!((mean(&mut p.iter().copied()) - panel.positive_rate).abs() < 1e-9);
        let right = mean(&mut p.iter().zip(&yes).map(|(p, y)| f64::from(u8::from((*p > 0.5) == (*y == 1.0)))));
        assert!((right - panel.bayes_accuracy).abs() < 6.0 * 0.5 / n.sqrt(), "{right} {}", panel.bayes_accuracy);
        assert!((0.75..0.85).contains(&panel.bayes_accuracy), "{}", panel.bayes_accuracy);
        assert!((0.2..0.45).contains(&panel.positive_rate), "{}", panel.positive_rate);
        // the gradient of the likelihood at the truth is zero but for noise, in every direction
        for term in &panel.truth {
            let x: Vec<f64> = rows.iter().map(|row| value(term.name, row)).collect();
            let gradient: f64 = x.iter().zip(&p).zip(&yes).map(|((x, p), y)| (y - p) * x).sum();
            let variance: f64 = x.iter().zip(&p).map(|(x, p)| x * x * p * (1.0 - p)).sum();
            assert!(gradient.abs() < 6.0 * variance.sqrt(), "{}: {gradient} {variance}", term.name);
        }
        // given the features labels are independent: residuals of a person's consecutive rows do not go together
        let mut last: BTreeMap<&str, f64> = BTreeMap::new();
        let (mut product, mut squares) = (0.0, 0.0);
        for ((row, p), y) in rows.iter().zip(&p).zip(&yes) {
            if let Some(before) = last.insert(row[0], y - p) {
                product += before * (y - p);
                squares += (before * (y - p)).powi(2);
            }
        }
        assert!(product.abs() < 6.0 * squares.sqrt(), "{product} {squares}");
    }
}

#[test]
#[should_panic(expected = "lies in [0, 1]")]
fn a_correlation_above_one_is_a_bug_of_the_caller() {
    panel(2, 2, 1.5, 1);
}
