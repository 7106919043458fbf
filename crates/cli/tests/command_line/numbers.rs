//! Regressions of counts and of quantiles, prediction intervals, and numbers that predictions move one way with.

use crate::{refuse, succeed};

/// Numbers between 0 and 1, spread evenly, the same ones for a seed.
fn uniforms(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f64 + 0.5) / (1u64 << 31) as f64
    }
}

/// A number whose spread grows along a column: a high quantile has its share below, which evaluate tells.
#[test]
fn quantiles_are_fitted_at_their_level() {
    let d = tempfile::tempdir().unwrap();
    let mut csv = String::from("x,hours\n");
    let mut uniform = uniforms(1);
    for _ in 0..8000 {
        let x = uniform();
        csv += &format!("{:.4},{:.4}\n", 100.0 * x, 5.0 + 4.0 * x - (1.0 + 2.0 * x) * uniform().ln());
    }
    std::fs::write(d.path().join("t.csv"), csv).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 100\n").unwrap();
    std::fs::write(d.path().join("c.toml"), "[x]\nlower = 0\nupper = 100\n[hours]\nlower = 0\nupper = 30\n").unwrap();
    std::fs::write(d.path().join("l.toml"), "[x]\nlower = 0\nupper = 100\n[hours]\nlevels = ['1', '2']\n").unwrap();
    let with = |command: &'static str, bounds: &'static str, more: &[&'static str]| {
        let flags = ["t.csv", "--target", "hours", "--epsilon", "2", "--delta", "1e-6", "--bounds", bounds];
        [&[command], &flags[..], more].concat()
    };
    const HIGH: [&str; 6] = ["--task", "regression", "--loss", "quantile", "--quantile", "0.9"];
    for bounds in ["b.toml", "c.toml"] {
        let shown = succeed(d.path(), &with("explain", bounds, &HIGH));
        assert!(shown.contains("pinball loss at 0.9"), "{shown}");
        let more = [&HIGH[..], &["--insecure-seed", "3", "--report", "r.html"]].concat();
        succeed(d.path(), &with("fit", bounds, &more));
        let scores = succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]);
        let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
        let below = scores["pinball"]["share_below"].as_f64().unwrap();
        assert!((below - 0.9).abs() < 0.025 && scores["pinball"]["level"] == 0.9, "{scores}");
        assert!(scores["pinball"]["d_squared"].as_f64().unwrap() > 0.15, "{scores}");
        let text = succeed(d.path(), &["evaluate", "model.json", "t.csv"]);
        assert!(text.contains("pinball loss") && text.contains("(asked for: 0.9)"), "{text}");
        let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
        assert!(report.contains("the pinball loss of the quantile at 0.9"));
    }
    succeed(d.path(), &with("fit", "c.toml", &["--task", "regression", "--insecure-seed", "3"]));
    assert!(!succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]).contains("pinball"));
    let wrong: [(&str, &[&'static str], &str); 8] = [
        ("l.toml", &["--loss", "quantile"], "the target is declared with levels"),
        ("b.toml", &["--loss", "quantile"], "for numbers"),
        ("c.toml", &["--loss", "quantile", "--task", "classification"], "--loss is for regression"),
        ("c.toml", &["--task", "regression", "--quantile", "0.5"], "add that loss"),
        ("c.toml", &["--task", "regression", "--loss", "quantile", "--quantile", "1"], "between 0 and 1"),
        (
            "b.toml",
            &["--task", "regression", "--loss", "quantile", "--target-moment", "2:4"],
            "a quantile is asked for",
        ),
        ("c.toml", &["--task", "regression", "--loss", "quantile", "--model", "embedding"], "for linear models"),
        ("c.toml", &["--task", "regression", "--loss", "quantile", "--method", "sufficient-statistics"], "squared"),
    ];
    for (bounds, more, said) in wrong {
        let more = [more, &["--insecure-seed", "3"]].concat();
        let text = refuse(d.path(), &with("fit", bounds, &more));
        assert!(text.contains(said), "{more:?}: {text}");
    }
}

/// Counts whose mean doubles from one end of a column to the other.
#[test]
fn counts_are_fitted_by_the_poisson_loss() {
    let d = tempfile::tempdir().unwrap();
    let mut csv = String::from("x,visits\n");
    let mut uniform = uniforms(1);
    for _ in 0..8000 {
        let x = uniform();
        let (mut count, mut left) = (0, 0.5 * (2.0 * x).exp());
        while left > 0.0 {
            left += uniform().ln();
            count += i32::from(left > 0.0);
        }
        csv += &format!("{:.4},{count}\n", 100.0 * x);
    }
    std::fs::write(d.path().join("t.csv"), csv).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 100\n").unwrap();
    std::fs::write(d.path().join("c.toml"), "[x]\nlower = 0\nupper = 100\n[visits]\nlower = 0\nupper = 12\n").unwrap();
    std::fs::write(d.path().join("w.toml"), "[x]\nlower = 0\nupper = 100\n[visits]\nlower = 1\nupper = 12\n").unwrap();
    let with = |command: &'static str, bounds: &'static str, more: &[&'static str]| {
        let flags = ["t.csv", "--target", "visits", "--epsilon", "2", "--delta", "1e-6", "--bounds", bounds];
        [&[command], &flags[..], more].concat()
    };
    const POISSON: [&str; 4] = ["--task", "regression", "--loss", "poisson"];
    for bounds in ["b.toml", "c.toml"] {
        let shown = succeed(d.path(), &with("explain", bounds, &POISSON));
        assert!(shown.contains("half the Poisson deviance"), "{shown}");
        let more = [&POISSON[..], &["--insecure-seed", "3", "--report", "r.html"]].concat();
        succeed(d.path(), &with("fit", bounds, &more));
        let scores = succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]);
        let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
        // the law itself explains .30 of the deviance
        assert!(scores["deviance"]["d_squared"].as_f64().unwrap() > 0.2, "{scores}");
        assert!(succeed(d.path(), &["evaluate", "model.json", "t.csv"]).contains("D squared"));
        let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
        assert!(report.contains("logarithm of the predicted visits") && report.contains("half the Poisson deviance"));
        succeed(d.path(), &["predict", "model.json", "t.csv", "-o", "p.csv"]);
        let predicted = std::fs::read_to_string(d.path().join("p.csv")).unwrap();
        let numbers: Vec<f64> = predicted.lines().skip(1).map(|line| line.parse().unwrap()).collect();
        assert!(numbers.len() == 8000 && numbers.iter().all(|p| *p > 0.0));
    }
    // of anything else than counts no score of counts is told
    succeed(d.path(), &with("fit", "c.toml", &["--task", "regression", "--insecure-seed", "3"]));
    assert!(!succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]).contains("deviance"));
    let wrong: [(&str, &[&'static str], &str); 6] = [
        ("w.toml", &POISSON, "does not begin at 0"),
        ("b.toml", &["--loss", "poisson"], "for counts"),
        ("c.toml", &["--loss", "poisson", "--task", "classification"], "--loss is for regression"),
        ("b.toml", &["--loss", "poisson", "--target-moment", "2:4"], "says where to clip it for the squared loss"),
        ("c.toml", &["--loss", "poisson", "--model", "embedding"], "for linear models"),
        ("c.toml", &["--loss", "poisson", "--method", "output-perturbation"], "choose a method that clips gradients"),
    ];
    for (bounds, more, message) in wrong {
        let refusal = refuse(d.path(), &with("fit", bounds, more));
        assert!(refusal.contains(message), "{more:?}: {refusal}");
    }
    let shape =
        ["explain", "--rows", "9000", "--features", "5", "--epsilon", "1", "--task", "regression", "--loss", "poisson"];
    assert!(succeed(d.path(), &shape).contains("adaptive-clip-descent"));
}

/// A target whose spread is skewed, around a line.
#[test]
fn intervals_are_found_kept_and_written() {
    let d = tempfile::tempdir().unwrap();
    let mut uniform = uniforms(7);
    let mut rows = |count: usize| {
        let mut csv = String::from("x,y\n");
        for _ in 0..count {
            let x = uniform();
            csv += &format!("{:.4},{:.4}\n", 100.0 * x, 20.0 + 30.0 * x - 5.0 * uniform().ln());
        }
        csv
    };
    std::fs::write(d.path().join("t.csv"), rows(8000)).unwrap();
    std::fs::write(d.path().join("few.csv"), rows(200)).unwrap();
    std::fs::write(d.path().join("fresh.csv"), rows(8000)).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 100\n").unwrap();
    std::fs::write(d.path().join("c.toml"), "[x]\nlower = 0\nupper = 100\n[y]\nlower = 0\nupper = 100\n").unwrap();
    let with = |command: &'static str, table: &'static str, bounds: &'static str, more: &[&'static str]| {
        let flags =
            [table, "--target", "y", "--epsilon", "2", "--delta", "1e-6", "--bounds", bounds, "--task", "regression"];
        [&[command], &flags[..], more].concat()
    };
    const ASKED: [&str; 2] = ["--intervals", "0.9"];
    let roads: [(&str, &[&'static str]); 4] =
        [("b.toml", &[]), ("c.toml", &[]), ("c.toml", &["--memory", "1M"]), ("c.toml", &["--workers", "2"])];
    for (bounds, more) in roads {
        let more = [&ASKED[..], more].concat();
        let shown = succeed(d.path(), &with("explain", "t.csv", bounds, &more));
        assert!(shown.contains("level 0.9: half their width is found after the fit"), "{shown}");
        let fit = [&more[..], &["--insecure-seed", "3", "--report", "r.html"]].concat();
        succeed(d.path(), &with("fit", "t.csv", bounds, &fit));
        let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
        assert!(report.contains("Prediction intervals: the prediction ±"));
        let scores = succeed(d.path(), &["evaluate", "model.json", "fresh.csv", "--json"]);
        let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
        // the sampling error of 8,000 fresh rows and as many of the fit, six standard deviations of each: .9 less .028
        let (coverage, width) = (&scores["intervals"]["coverage"], &scores["intervals"]["mean_width"]);
        assert!(coverage.as_f64().unwrap() > 0.87 && coverage.as_f64().unwrap() < 0.97, "{bounds} {scores}");
        assert!(width.as_f64().unwrap() < 40.0, "{scores}");
        let text = succeed(d.path(), &["evaluate", "model.json", "fresh.csv"]);
        assert!(text.contains("in the intervals") && text.contains("to be at least 90 %"), "{text}");
        succeed(d.path(), &["predict", "model.json", "fresh.csv", "-o", "p.csv"]);
        let predicted = std::fs::read_to_string(d.path().join("p.csv")).unwrap();
        assert_eq!(predicted.lines().next(), Some("y,lower,upper"));
        let numbers: Vec<f64> =
            predicted.lines().nth(1).unwrap().split(',').map(|cell| cell.parse().unwrap()).collect();
        assert!(numbers.len() == 3 && numbers[1] < numbers[0] && numbers[0] < numbers[2], "{numbers:?}");
        let line = succeed(d.path(), &["predict", "model.json", "fresh.csv", "--json"]);
        let line: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
        assert!((line["lower"].as_f64().unwrap() - numbers[1]).abs() < 1e-9, "{line}");
    }
    // a model without them has neither columns nor a word of them
    succeed(d.path(), &with("fit", "t.csv", "c.toml", &["--insecure-seed", "3"]));
    assert!(!std::fs::read_to_string(d.path().join("model.json")).unwrap().contains("interval"));
    succeed(d.path(), &["predict", "model.json", "fresh.csv", "-o", "p.csv"]);
    assert_eq!(std::fs::read_to_string(d.path().join("p.csv")).unwrap().lines().next(), Some("y"));
    let wrong: [(&str, &[&'static str], &str); 5] = [
        ("few.csv", &["--intervals", "0.9"], "rows within this budget, and there are 200"),
        ("t.csv", &["--intervals", "1"], "from 0.5 to 0.99"),
        ("t.csv", &["--intervals", "0.9", "--delta", "0"], "delta > 0"),
        ("t.csv", &["--intervals", "0.9", "--loss", "poisson"], "number's mean"),
        ("t.csv", &["--intervals", "0.9", "--model", "embedding"], "--intervals"),
    ];
    for (table, more, message) in wrong {
        let mut command = with("fit", table, "c.toml", &[]);
        if more.contains(&"--delta") {
            command.retain(|word| *word != "--delta" && *word != "1e-6");
        }
        let command =
            [&command[..], more, &["--ledger", "l.jsonl", "--total-epsilon", "9", "--total-delta", "1e-3"]].concat();
        let refusal = refuse(d.path(), &command);
        assert!(refusal.contains(message), "{more:?}: {refusal}");
        // nothing is charged for what could be known before
        let ledger = std::fs::read_to_string(d.path().join("l.jsonl")).unwrap_or_default();
        assert!(!ledger.contains("fit y"), "{ledger}");
    }
}

/// A step that is declared to rise: predictions never fall with it on any road, and the other way round they are flat.
#[test]
fn predictions_move_the_declared_way() {
    let d = tempfile::tempdir().unwrap();
    let mut uniform = uniforms(11);
    let mut csv = String::from("dose,age,y,answer\n");
    for row in 0..3000 {
        let (dose, age) = (uniform(), 18.0 + 60.0 * uniform());
        let y = f64::from(dose > 0.4) + 0.01 * age + 0.2 * uniform();
        let cell = if row % 50 == 0 { String::new() } else { format!("{dose:.4}") };
        csv += &format!("{cell},{age:.2},{y:.4},{}\n", if y > 1.0 { "yes" } else { "no" });
    }
    std::fs::write(d.path().join("t.csv"), csv).unwrap();
    // one person at 101 doses
    let line: String = (0..=100).map(|k| format!("{},50\n", f64::from(k) / 100.0)).collect();
    std::fs::write(d.path().join("line.csv"), format!("dose,age\n{line}")).unwrap();
    let rest = "[age]\nlower = 18\nupper = 80\n";
    for (name, trend) in [("rising", "increasing"), ("falling", "decreasing")] {
        let dose = format!("[dose]\nlower = 0\nupper = 1\nmonotone = \"{trend}\"\n{rest}");
        for (kind, target) in [
            ("y", "[y]\nlower = 0\nupper = 3\n[answer]\nignore = true\n"),
            ("answer", "[answer]\nlevels = ['no', 'yes']\n[y]\nignore = true\n"),
        ] {
            std::fs::write(d.path().join(format!("{name}-{kind}.toml")), format!("{dose}{target}")).unwrap();
        }
    }
    let with = |command: &'static str, target: &'static str, bounds: String, more: &[&'static str]| {
        let words = [command, "t.csv", "--target", target, "--epsilon", "2", "--delta", "1e-6", "--bounds"];
        let all = words.into_iter().map(str::to_string).chain([bounds]);
        all.chain(more.iter().map(|word| word.to_string())).collect::<Vec<String>>()
    };
    let run = |words: &[String]| succeed(d.path(), &words.iter().map(String::as_str).collect::<Vec<_>>());
    let roads: [&[&'static str]; 3] = [&[], &["--memory", "1M"], &["--workers", "2"]];
    for (target, name) in [("y", "rising"), ("y", "falling"), ("answer", "rising"), ("answer", "falling")] {
        let sign = if name == "rising" { 1.0 } else { -1.0 };
        for more in roads {
            let shown = run(&with("explain", target, format!("{name}-{target}.toml"), more));
            let verb = if name == "rising" { "fall" } else { "rise" };
            assert!(shown.contains(&format!("predictions never {verb} with dose")), "{shown}");
            let more = [more, &["--insecure-seed", "3", "--report", "r.html"]].concat();
            run(&with("fit", target, format!("{name}-{target}.toml"), &more));
            let report = std::fs::read_to_string(d.path().join("r.html")).unwrap();
            assert!(report.contains(&format!("predictions never {verb} with dose")));
            succeed(d.path(), &["predict", "model.json", "line.csv", "-o", "p.csv"]);
            let predicted = std::fs::read_to_string(d.path().join("p.csv")).unwrap();
            let column = predicted.lines().next().unwrap().split(',').position(|cell| cell.contains("yes"));
            let values: Vec<f64> = predicted
                .lines()
                .skip(1)
                .map(|line| line.split(',').nth(column.unwrap_or(0)).unwrap().parse().unwrap())
                .collect();
            assert_eq!(values.len(), 101);
            assert!(values.windows(2).all(|pair| sign * (pair[1] - pair[0]) > -1e-6), "{target} {name}: {values:?}");
            // the records say that it rises
            assert_eq!(values[100] - values[0] > 0.3, name == "rising", "{target} {name}: {values:?}");
        }
    }
    let wrong: [(&[&'static str], &str); 2] = [
        (&["--intervals", "0.9"], "leave out the intervals"),
        (&["--model", "embedding"], "has no function of a column"),
    ];
    for (more, message) in wrong {
        let words = with("fit", "y", "rising-y.toml".into(), more);
        let refusal = refuse(d.path(), &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(refusal.contains(message), "{more:?}: {refusal}");
    }
}
