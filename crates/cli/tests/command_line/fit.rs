//! From a table to a model, predictions and a report.

use crate::{census, dpopt, files, path, refuse, succeed};
use std::io::Write;

fn parsed(html: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(html, options).expect("well-formed")
}

#[test]
fn the_main_job_from_table_to_report() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let out = succeed(d.path(), &["split", &data, "--fraction", "0.8", "--seed", "1", "-o", "train.csv", "test.csv"]);
    assert!(out.contains("2400 rows") && out.contains("600 rows"), "{out}");
    let fit = [
        "fit",
        "train.csv",
        "--target",
        "income",
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
        "--bounds",
        &bounds,
        "--report",
        "report.html",
    ];
    let out = succeed(d.path(), &fit);
    assert!(out.contains("guarantee") && out.contains("model.json"), "{out}");
    assert_eq!(files(d.path()), ["model.json", "report.html", "test.csv", "train.csv"]);

    let model: serde_json::Value =
        serde_json::from_slice(&std::fs::read(d.path().join("model.json")).unwrap()).unwrap();
    let guarantee = &model["guarantee"];
    assert_eq!(guarantee["epsilon"], 2.0);
    let certified = guarantee["certified_epsilon"].as_f64().unwrap();
    assert!(certified <= 2.0 && certified > 1.5, "{certified}");
    assert_eq!(guarantee["insecure_seed"], false);

    let html = std::fs::read_to_string(d.path().join("report.html")).unwrap();
    let document = parsed(&html);
    let text: String = document.descendants().filter_map(|n| n.text()).collect();
    for part in ["The guarantee", "Ledger of the run", "not protected", "--epsilon 2", "Check it yourself"] {
        assert!(text.contains(part), "{part}");
    }
    assert_eq!(document.descendants().filter(|n| n.has_tag_name("script")).count(), 0);

    succeed(d.path(), &["predict", "model.json", "test.csv", "-o", "out.csv"]);
    let predictions = std::fs::read_to_string(d.path().join("out.csv")).unwrap();
    let mut lines = predictions.lines();
    assert_eq!(lines.next(), Some("income,p(low),p(high)"));
    let mut rows = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let (p, q): (f64, f64) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        assert!((p + q - 1.0).abs() < 1e-12 && (0.0..=1.0).contains(&p));
        assert_eq!(fields[0], if q > p { "high" } else { "low" });
        rows += 1;
    }
    assert_eq!(rows, 600);

    // how good a model is hangs on the noise: that of one seed
    succeed(d.path(), &[&fit[..10], &["--insecure-seed", "1", "-o", "seeded.json"]].concat());
    let scores = succeed(d.path(), &["evaluate", "seeded.json", "test.csv", "--json"]);
    let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
    let score = |name: &str| scores[name].as_f64().unwrap();
    assert_eq!(scores["private"], false);
    assert!(score("auc") > 0.7, "{scores}");
    assert!(score("accuracy") >= score("majority") - 0.02, "{scores}");
    let printed = succeed(d.path(), &["evaluate", "model.json", "test.csv"]);
    assert!(printed.contains("not private"), "{printed}");
}

/// Three classes, a date, a truth value, a column of hashes: what a reader sees first, in the columns' own units.
#[test]
fn a_report_says_first_what_the_model_says() {
    let d = tempfile::tempdir().unwrap();
    let mut rows = "signup,vip,region,city,outcome\n".to_string();
    for i in 0..3000u32 {
        let (month, vip, region) = (i * 7 % 12 + 1, u32::from(i % 5 == 0), ["north", "south"][(i / 3 % 2) as usize]);
        let outcome = if month > 8 {
            "leave"
        } else if vip == 1 {
            "upgrade"
        } else {
            "stay"
        };
        rows += &format!("{}-{month:02}-15,{vip},{region},city{},{outcome}\n", 2010 + i % 10, i % 40);
    }
    std::fs::write(d.path().join("t.csv"), rows).unwrap();
    let bounds = "[signup]\nlower = 2010-01-01\nupper = 2019-12-31\n[vip]\nlower = 0\nupper = 1\n[region]\nlevels = ['north', 'south']\n\
                  [city]\nhash = true\n[outcome]\nlevels = ['stay', 'upgrade', 'leave']\n";
    std::fs::write(d.path().join("b.toml"), bounds).unwrap();
    let terms = ["--epsilon", "4", "--delta", "1e-6", "--insecure-seed", "1"];
    let fit = ["fit", "t.csv", "--target", "outcome", "--bounds", "b.toml", "--report", "r.html"];
    succeed(d.path(), &[&fit[..], &terms].concat());
    let html = std::fs::read_to_string(d.path().join("r.html")).unwrap();
    let document = parsed(&html);
    let headings: Vec<&str> =
        document.descendants().filter(|n| n.has_tag_name("h2")).filter_map(|n| n.text()).collect();
    let first = ["How good it is", "Which columns matter", "The effect of each column", "What was released"];
    assert_eq!(headings[..4], first);
    // dates and classes by name, no slot of a hash among the effects
    for part in ["2010-01-01", "2019-12-31", "upgrade", "Calibrated", "has a mean loss of 1.099", "Not ranked: city"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("city#"));
    let caption = document.descendants().find(|n| n.has_tag_name("figcaption") && n.text() == Some("vip")).unwrap();
    let figure = &html[caption.parent().unwrap().range()];
    assert_eq!(figure.matches("<circle").count(), 6, "of each class a point at 0 and one at 1: {figure}");
    let last = document.descendants().rfind(|n| n.has_tag_name("details")).unwrap();
    assert!(html[last.range()].contains("not apply, and why"));
    // a number's effects are in its own unit
    std::fs::write(
        d.path().join("n.csv"),
        (0..2000).fold("vip,spend\n".to_string(), |all, i| all + &format!("{},{}\n", i % 2, 200 + 100 * (i % 2))),
    )
    .unwrap();
    let bounds = "[vip]\nlower = 0\nupper = 1\n[spend]\nlower = 0\nupper = 600\n";
    std::fs::write(d.path().join("n.toml"), bounds).unwrap();
    let fit = ["fit", "n.csv", "--target", "spend", "--bounds", "n.toml", "--report", "n.json", "-o", "n-model.json"];
    succeed(d.path(), &[&fit[..], &terms].concat());
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(d.path().join("n.json")).unwrap()).unwrap();
    assert_eq!(report["baseline"]["half_range"], 300.0);
    let effects = &report["effects"];
    assert_eq!(effects["scale"]["number"]["target"], "spend");
    let levels = &effects["shapes"][0][0]["levels"]["levels"];
    let (at_0, at_1) = (levels[0][1].as_f64().unwrap(), levels[1][1].as_f64().unwrap());
    assert!((at_1 - at_0 - 100.0).abs() < 15.0, "a hundred more: {levels}");
    assert!((effects["importance"][0]["value"].as_f64().unwrap() - 50.0).abs() < 8.0, "{effects}");
}

#[test]
fn the_events_in_a_model_can_be_recomputed_with_account() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let delta = "1e-6";
    succeed(d.path(), &["fit", &data, "--target", "income", "--epsilon", "1", "--delta", delta, "--bounds", &bounds]);
    let model: serde_json::Value =
        serde_json::from_slice(&std::fs::read(d.path().join("model.json")).unwrap()).unwrap();
    let stage = &model["guarantee"]["stages"][0];
    std::fs::write(d.path().join("event.json"), stage["event"].to_string()).unwrap();
    let out = succeed(d.path(), &["account", "--event", "event.json", "--delta", delta, "--json"]);
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    // the accountant that certified gives its number again, and the best one is not above it
    let certified = stage["bound"]["upper"].as_f64().unwrap();
    let same =
        out["accountants"].as_array().unwrap().iter().find(|a| a["name"] == stage["bound"]["accountant"]).unwrap();
    let again = same["bound"]["upper"].as_f64().unwrap();
    assert!((again - certified).abs() < 1e-5, "{again} {certified}");
    assert!(out["best"]["upper"].as_f64().unwrap() <= certified);
}

#[test]
fn one_insecure_seed_is_one_model_and_no_seed_is_never_the_same() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let weights = |name: &str, extra: &[&str]| {
        let mut arguments =
            vec!["fit", &data, "--target", "income", "--epsilon", "1", "--bounds", &bounds, "-q", "-o", name];
        arguments.extend(extra);
        succeed(d.path(), &arguments);
        let model: serde_json::Value = serde_json::from_slice(&std::fs::read(d.path().join(name)).unwrap()).unwrap();
        (model["weights"].clone(), model["guarantee"]["insecure_seed"].clone())
    };
    let seeded = weights("a.json", &["--insecure-seed", "7"]);
    assert_eq!(seeded, weights("b.json", &["--insecure-seed", "7"]));
    assert_eq!(seeded.1, true);
    assert_ne!(seeded.0, weights("c.json", &["--insecure-seed", "8"]).0);
    let fresh = weights("d.json", &[]);
    assert_eq!(fresh.1, false);
    // on a grid as coarse as a sixteenth of the noise one weight is the same with probability .018, fifty are with 1e-87
    assert_ne!(fresh.0, weights("e.json", &[]).0);
}

#[test]
fn labels_and_ranges_can_be_found_privately() {
    let d = tempfile::tempdir().unwrap();
    let mut csv = String::from("hours,city,member\n");
    for i in 0..4000 {
        let hours = 10 + (i * 37) % 50;
        csv += &format!("{hours},c{},{}\n", i % 5, if hours > 35 { "yes" } else { "no" });
    }
    std::fs::write(d.path().join("t.csv"), csv).unwrap();
    let report = "--report=r.html";
    succeed(
        d.path(),
        &[
            "fit",
            "t.csv",
            "--target",
            "member",
            "--epsilon",
            "4",
            "--delta",
            "1e-6",
            "--numeric",
            "hours",
            "--bounds-budget",
            "0.1",
            "--insecure-seed",
            "1",
            report,
        ],
    );
    let model: serde_json::Value =
        serde_json::from_slice(&std::fs::read(d.path().join("model.json")).unwrap()).unwrap();
    let stages = model["guarantee"]["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["labels", "bounds", "model"]);
    let sum = |field: &str| stages.iter().map(|s| s[field].as_f64().unwrap()).sum::<f64>();
    assert!(sum("epsilon") <= 4.0 && sum("delta") <= 1e-6);
    assert!(model["guarantee"]["certified_epsilon"].as_f64().unwrap() <= 4.0);
    let scores = succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]);
    let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
    assert!(scores["accuracy"].as_f64().unwrap() > 0.8, "{scores}");
    parsed(&std::fs::read_to_string(d.path().join("r.html")).unwrap());
}

#[test]
fn several_classes_and_numbers_are_learned_too() {
    let d = tempfile::tempdir().unwrap();
    let mut csv = String::from("x,kind,price\n");
    for i in 0..6000 {
        let x = (i * 7919) % 1000;
        csv += &format!("{x},{},{}\n", ["a", "b", "c"][x * 3 / 1000], 2 * x);
    }
    std::fs::write(d.path().join("t.csv"), csv).unwrap();
    let bounds = "[x]\nlower = 0\nupper = 1000\n[kind]\nlevels = ['a', 'b', 'c']\n[price]\nlower = 0\nupper = 2000\n";
    std::fs::write(d.path().join("b.toml"), bounds).unwrap();
    let score = |target: &str, ignored: &str, extra: &[&str]| {
        let mut bounds = toml_without(bounds, ignored);
        bounds += &format!("[{ignored}]\nignore = true\n");
        std::fs::write(d.path().join("b.toml"), bounds).unwrap();
        let mut arguments =
            vec!["fit", "t.csv", "--target", target, "--epsilon", "4", "--delta", "1e-6", "--bounds", "b.toml"];
        arguments.extend(["--insecure-seed", "1"]);
        arguments.extend(extra);
        succeed(d.path(), &arguments);
        let scores = succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]);
        serde_json::from_str::<serde_json::Value>(&scores).unwrap()
    };
    let kinds = score("kind", "price", &[]);
    assert!(kinds["accuracy"].as_f64().unwrap() > 0.7, "{kinds}");
    assert_eq!(kinds["auc"], serde_json::Value::Null);
    let prices = score("price", "kind", &["--task", "regression"]);
    assert!(prices["r_squared"].as_f64().unwrap() > 0.7, "{prices}");
}

#[test]
fn a_target_without_a_range_is_clipped_as_its_moment_says() {
    let d = tempfile::tempdir().unwrap();
    let mut csv = String::from("x,claim\n");
    for i in 0..6000 {
        // one claim in six hundred is huge
        let x = (i * 7919) % 1000;
        csv += &format!("{x},{}\n", if i % 600 == 0 { 90_000 } else { 200 + x });
    }
    std::fs::write(d.path().join("t.csv"), csv).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 1000\n").unwrap();
    let flags = ["t.csv", "--target", "claim", "--epsilon", "2", "--delta", "1e-6", "--bounds", "b.toml"];
    let with = |command: &'static str, more: &[&'static str]| [&[command], &flags[..], more].concat();
    let explained = succeed(d.path(), &with("explain", &["--target-moment", "2:4000@700", "--json"]));
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let clip = &explained["target_clip"];
    let (threshold, bias) = (clip["threshold"].as_f64().unwrap(), clip["clip_bias"].as_f64().unwrap());
    assert!(threshold >= 4000.0 && (bias - 4000.0 * 4000.0 / (4.0 * threshold)).abs() < 1e-6, "{clip}");
    let shown = succeed(d.path(), &with("explain", &["--target-moment", "2:4000@700"]));
    assert!(shown.contains("clipping moves its mean by at most"), "{shown}");
    succeed(d.path(), &with("fit", &["--target-moment", "2:4000@700", "--report", "r.json"]));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(d.path().join("r.json")).unwrap()).unwrap();
    // the same before and after, and no stage looked for a range
    assert_eq!(report["facts"]["target_clip"], *clip);
    assert_eq!(report["guarantee"]["stages"].as_array().unwrap().len(), 1);
    let wrong: [(&[&'static str], &str); 4] = [
        (&["--target-moment", "2:4000@700", "--task", "classification"], "needs a numeric target"),
        (&["--target-moment", "0.5:4000"], "order of the moment is 0.5"),
        (&["--target-moment", "nonsense"], "write k, k:m or k:m@a"),
        (&["--target-moment", "2:4000", "--classes", "a,b"], "has a declared range"),
    ];
    for (more, message) in wrong {
        let refusal = refuse(d.path(), &with("fit", more));
        assert!(refusal.contains(message), "{more:?}: {refusal}");
    }
    let refusal =
        refuse(d.path(), &["explain", "--rows", "1000", "--features", "3", "--epsilon", "1", "--target-moment", "2:1"]);
    assert!(refusal.contains("leave it out, or give a table"), "{refusal}");
    // the order alone: found privately
    succeed(d.path(), &with("fit", &["--target-moment", "2", "--report", "r.json", "--insecure-seed", "1"]));
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(d.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(report["guarantee"]["stages"].as_array().unwrap().len(), 2);
    assert_eq!(report["facts"].get("target_clip"), None);
}

/// The bounds file without one table.
fn toml_without(text: &str, table: &str) -> String {
    text.split_inclusive('\n')
        .scan(false, |inside, line| {
            if line.starts_with('[') {
                *inside = line.starts_with(&format!("[{table}]"));
            }
            Some(if *inside { "" } else { line })
        })
        .collect()
}

#[test]
fn sparse_and_zipped_files_are_read() {
    let d = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for i in 0..2000u32 {
        let up = i % 3 == 0;
        text += &format!("{} {}:1 {}:0.5\n", if up { 1 } else { -1 }, if up { 3 } else { 4 }, 5 + i % 7);
    }
    std::fs::write(d.path().join("t.libsvm"), &text).unwrap();
    let semicolons = "x;y\n".to_string() + &"0.1;no\n0.9;yes\n".repeat(500);
    std::fs::write(d.path().join("s.csv"), semicolons).unwrap();
    std::fs::write(d.path().join("s.toml"), "[x]\nlower = 0\nupper = 1\n[y]\nlevels = ['no', 'yes']\n").unwrap();
    succeed(d.path(), &["fit", "s.csv", "--separator", ";", "--target", "y", "--epsilon", "1", "--bounds", "s.toml"]);
    let libsvm = ["fit", "t.libsvm", "--features", "20", "--classes=-1,1", "--epsilon", "2", "--delta", "1e-6"];
    succeed(d.path(), &[&libsvm[..], &["--insecure-seed", "1"]].concat());
    let scores = succeed(d.path(), &["evaluate", "model.json", "t.libsvm", "--features", "20", "--json"]);
    let scores: serde_json::Value = serde_json::from_str(&scores).unwrap();
    assert!(scores["accuracy"].as_f64().unwrap() > 0.9, "{scores}");

    let data = std::fs::read(census().join("census.csv")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&data).unwrap();
    std::fs::write(d.path().join("census.csv.gz"), gzip.finish().unwrap()).unwrap();
    let bounds = path(census(), "bounds.toml");
    succeed(d.path(), &["fit", "census.csv.gz", "--target", "income", "--epsilon", "1", "--bounds", &bounds]);
}

#[test]
fn public_data_declares_ranges_and_levels() {
    let d = tempfile::tempdir().unwrap();
    succeed(d.path(), &["generate", "census", "--rows", "500", "--seed", "9", "-o", "public.csv"]);
    let data = path(census(), "census.csv");
    succeed(
        d.path(),
        &["fit", &data, "--target", "income", "--epsilon", "2", "--delta", "1e-6", "--public-data", "public.csv"],
    );
    let model = std::fs::read_to_string(d.path().join("model.json")).unwrap();
    let model: serde_json::Value = serde_json::from_str(&model).unwrap();
    assert_eq!(model["guarantee"]["stages"].as_array().unwrap().len(), 1);
}

#[test]
fn add_or_remove_takes_a_guess_and_shows_no_count() {
    let d = tempfile::tempdir().unwrap();
    // the report says where the table lies: the directory that tests share has a process's number in its name, which may be the count
    for name in ["census.csv", "bounds.toml"] {
        std::fs::copy(census().join(name), d.path().join(name)).unwrap();
    }
    let fit = [
        "fit",
        "census.csv",
        "--target",
        "income",
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
        "--bounds",
        "bounds.toml",
        "--relation",
        "add-or-remove",
        "--rows",
        "2477",
        "--report",
        "r.html",
        // among the digits of secret noise the count would stand once in a while
        "--insecure-seed",
        "1",
    ];
    let out = succeed(d.path(), &fit);
    assert!(!out.contains("3000") && out.contains("2477"), "{out}");
    for file in ["model.json", "r.html"] {
        let text = std::fs::read_to_string(d.path().join(file)).unwrap();
        let mut numbers = text.split(|c: char| !c.is_ascii_digit() && c != ',');
        assert!(numbers.all(|n| n != "3000" && n != "3,000"), "{file}");
    }
}

#[test]
fn a_high_delta_is_warned_about() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let output = dpopt(
        d.path(),
        &["fit", &data, "--target", "income", "--epsilon", "1", "--delta", "0.01", "--bounds", &bounds],
    );
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stderr.contains("delta 0.01 is above 1/rows = 3.3e-4: "), "{stderr}");
    assert!(stderr.contains("give less than 3.3e-4, or leave out --delta (then it is 1.497e-4)"), "{stderr}");
}

/// Rows with a target that lies beyond the declared range, and rows without one.
fn amounts(rows: usize) -> String {
    let row = |i: usize| match i % 10 {
        9 => format!("{},\n", i % 50),
        _ => format!("{},{}\n", i % 50, (i % 50) * 10 + i % 7),
    };
    "x,amount\n".to_string() + &(0..rows).map(row).collect::<String>()
}

#[test]
fn targets_beyond_the_range_are_scored_as_they_stand() {
    let d = tempfile::tempdir().unwrap();
    std::fs::write(d.path().join("t.csv"), amounts(2000)).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 50\n[amount]\nlower = 100\nupper = 200\n")
        .unwrap();
    succeed(
        d.path(),
        &["fit", "t.csv", "--target", "amount", "--epsilon", "4", "--bounds", "b.toml", "--insecure-seed", "1", "-q"],
    );
    succeed(d.path(), &["predict", "model.json", "t.csv", "-o", "p.csv"]);
    let predicted = std::fs::read_to_string(d.path().join("p.csv")).unwrap();
    let pairs: Vec<(f64, f64)> = amounts(2000)
        .lines()
        .zip(predicted.lines())
        .skip(1)
        .filter_map(|(row, p)| Some((row.split_once(',')?.1.parse().ok()?, p.parse().ok()?)))
        .collect();
    let n = pairs.len() as f64;
    let mean = pairs.iter().map(|(y, _)| y).sum::<f64>() / n;
    let squares: f64 = pairs.iter().map(|(y, p)| (y - p).powi(2)).sum();
    let spread: f64 = pairs.iter().map(|(y, _)| (y - mean).powi(2)).sum();
    let scores: serde_json::Value =
        serde_json::from_str(&succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"])).unwrap();
    let score = |name: &str| scores[name].as_f64().unwrap();
    // the same numbers added up in another order
    assert!((score("r_squared") - (1.0 - squares / spread)).abs() < 1e-9, "{scores}");
    assert!((score("rmse") - (squares / n).sqrt()).abs() < 1e-9 * score("rmse"), "{scores}");
    assert!((score("rmse_of_mean") - (spread / n).sqrt()).abs() < 1e-9 * score("rmse"), "{scores}");
    let outside = |far: fn(f64) -> bool| pairs.iter().filter(|(y, _)| far(*y)).count();
    let (below, above) = (outside(|y| y < 100.0), outside(|y| y > 200.0));
    assert!(below > 100 && above > 100);
    assert_eq!(
        (scores["below_range"].as_u64(), scores["above_range"].as_u64()),
        (Some(below as u64), Some(above as u64))
    );
    assert_eq!((scores["rows"].as_u64(), scores["left_out"]["missing"].as_u64()), (Some(1800), Some(200)));
    let text = succeed(d.path(), &["evaluate", "model.json", "t.csv"]);
    for part in ["1800 of 2000", "200 without a target", &format!("{below} below and {above} above"), "mean alone"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // `check` reports what a fit would clip
    let text = succeed(
        d.path(),
        &["check", "t.csv", "--target", "amount", "--epsilon", "4", "--bounds", "b.toml", "--insecure-seed", "1"],
    );
    assert!(text.contains(&format!("{} cells of the target `amount` outside its range", below + above)), "{text}");
}

#[test]
fn a_score_says_what_it_is_worth_and_which_class_is_never_predicted() {
    let d = tempfile::tempdir().unwrap();
    let label = |i: usize| match i {
        _ if i.is_multiple_of(41) => "rare",
        _ if i.is_multiple_of(43) => "unheard",
        _ if i.is_multiple_of(47) => "",
        _ if i % 50 < 25 => "low",
        _ => "high",
    };
    let table: String = (0..4000).map(|i| format!("{},{}\n", i % 50, label(i))).collect();
    std::fs::write(d.path().join("t.csv"), "x,y\n".to_string() + &table).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 50\n").unwrap();
    let fit = |classes: &'static str| {
        let run =
            ["fit", "t.csv", "--target", "y", "--epsilon", "4", "--bounds", "b.toml", "--insecure-seed", "1", "-q"];
        succeed(d.path(), &[&run[..], &["--classes", classes]].concat());
        let json = succeed(d.path(), &["evaluate", "model.json", "t.csv", "--json"]);
        (
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            succeed(d.path(), &["evaluate", "model.json", "t.csv"]),
        )
    };
    let count = |which: &str| (0..4000).filter(|&i| label(i) == which).count() as u64;
    let (scores, text) = fit("low,high,rare");
    let rows = count("low") + count("high") + count("rare");
    assert_eq!(scores["rows"], rows);
    assert_eq!(scores["left_out"]["undeclared"], count("unheard"));
    assert_eq!(scores["left_out"]["missing"], count(""));
    let entropy: f64 =
        ["low", "high", "rare"].map(|which| count(which) as f64 / rows as f64).iter().map(|p| -p * p.ln()).sum();
    assert!((scores["log_loss_of_base_rate"].as_f64().unwrap() - entropy).abs() < 1e-12, "{scores}");
    let confusion: Vec<Vec<u64>> = serde_json::from_value(scores["confusion"].clone()).unwrap();
    assert_eq!(
        confusion.iter().map(|row| row.iter().sum::<u64>()).collect::<Vec<_>>(),
        ["low", "high", "rare"].map(count)
    );
    // nothing tells a rare one
    assert_eq!(
        (scores["classes"][2]["predicted"].as_u64(), scores["classes"][2]["recall"].as_f64()),
        (Some(0), Some(0.0))
    );
    for part in ["never predicted: `rare`", "base rate alone", "true class by predicted", "with an undeclared label"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (scores, text) = fit("low,high");
    let high = &scores["classes"][1];
    assert_eq!(high["label"], "high");
    assert!(high["average_precision"].as_f64().unwrap() > 0.9 && high["recall"].as_f64().unwrap() > 0.9, "{scores}");
    assert!(text.contains("average precision") && text.contains("of `high`"), "{text}");
}

#[test]
fn a_target_that_may_be_a_number_is_refused_before_a_ledger_pays() {
    let d = tempfile::tempdir().unwrap();
    let table: String = (0..1000).map(|i| format!("{},{}\n", i % 50, i * 7919 % 10007)).collect();
    std::fs::write(d.path().join("t.csv"), "x,price\n".to_string() + &table).unwrap();
    std::fs::write(d.path().join("b.toml"), "[x]\nlower = 0\nupper = 50\n").unwrap();
    let flags = ["t.csv", "--target", "price", "--epsilon", "1", "--bounds", "b.toml"];
    let ledger = ["--ledger", "l.jsonl", "--total-epsilon", "1", "--total-delta=1e-3"];
    let both_ways = |text: &str| {
        for part in ["--task regression", "lower and upper", "--classes", "--task classification"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    };
    both_ways(&refuse(d.path(), &[&["fit"], &flags[..], &ledger].concat()));
    assert_eq!(files(d.path()), ["b.toml", "t.csv"]);
    // by its declared type also where nothing is charged
    both_ways(&refuse(d.path(), &[&["fit"], &flags[..], &["--numeric", "price"]].concat()));
    // without a ledger its rows tell
    let output = dpopt(d.path(), &[&["check"], &flags[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    both_ways(&String::from_utf8(output.stdout).unwrap());
    // labels that are numbers are none of it
    let labels: String = (0..1000).map(|i| format!("{},{}\n", i % 50, i % 50 / 25)).collect();
    std::fs::write(d.path().join("t.csv"), "x,price\n".to_string() + &labels).unwrap();
    succeed(d.path(), &[&["check"], &flags[..]].concat());
    // a ledger takes no seed: two labels of 500 rows have noise of scale 20, which takes one of them below the threshold of 215 with probability 6.4e-7
    succeed(d.path(), &[&["fit"], &flags[..], &ledger, &["--task", "classification"]].concat());
}

#[test]
fn an_epsilon_beyond_what_is_certified_is_planned_for_less_and_says_so() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    for epsilon in ["1000", "1e6"] {
        let flags = [&data[..], "--target", "income", "--epsilon", epsilon, "--bounds", &bounds];
        let model = format!("model-{epsilon}.json");
        let output = dpopt(d.path(), &[&["fit"], &flags[..], &["-o", &model]].concat());
        let (text, told) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && told.contains("Noise is planned for epsilon 50"), "{told}");
        let certified: f64 = text.split("(certified ").nth(1).and_then(|t| t.split(')').next()?.parse().ok()).unwrap();
        assert!(certified > 10.0 && certified <= 50.0, "{text}");
        let output = dpopt(d.path(), &[&["check"], &flags[..]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().all(|line| line.len() <= 600), "{text}");
    }
}
