//! The plan chooses how columns become features, from public facts alone.

use dpopt::RunOptions;
use dpopt::data::{BadCells, EncoderForm, Format, ReadOptions, Schema, open_bytes};
use dpopt::model::{Evaluation, Fit, FitOptions};
use dpopt::optimize::MethodOptions;

/// A table of `columns` numbers and one category with a public number of rows; the rows themselves are two.
fn fit(columns: usize, rows: u64, epsilon: f64, form: &str, method: Option<&str>) -> Fit {
    let names: Vec<String> = (0..columns).map(|c| format!("x{c}")).collect();
    let cells = vec!["1"; columns].join(",");
    let text = format!("{},kind,y\n{cells},a,no\n{cells},b,yes\n", names.join(","));
    let declared: String = names.iter().map(|n| format!("[{n}]\nlower = 0\nupper = 2\n")).collect();
    let bounds = format!("{form}{declared}[kind]\nlevels = ['a', 'b', 'c']\n[y]\nlevels = ['no', 'yes']\n");
    let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let delta = if method == Some("pure") { 0.0 } else { 1e-7 };
    let mut options = MethodOptions::default();
    options.method = method.filter(|m| *m != "pure").map(str::to_string);
    let schema = Schema::from_toml(&bounds).unwrap();
    let options = FitOptions::default().schema(schema).rows(rows).method(options);
    Fit::new(table, "y", RunOptions::within(epsilon).delta(delta), options).unwrap()
}

fn taken(fit: &Fit) -> Option<EncoderForm> {
    fit.explain(2).unwrap().forms.first().map(|(form, _)| *form)
}

#[test]
fn few_rows_get_few_features_and_many_rows_get_products() {
    let few = taken(&fit(6, 200, 0.1, "", None)).unwrap();
    assert!(few.centred && few.knots <= 4 && few.fine_knots == 0 && few.pair_knots == 0, "{few}");
    let many = taken(&fit(6, 1_000_000, 1.0, "", None)).unwrap();
    assert!(many.knots > 0 && many.pair_knots > 0, "{many}");
    // more rows or more budget never make the model coarser
    let sizes = |n: u64, epsilon: f64| fit(6, n, epsilon, "", None).explain(2).unwrap().problem.features;
    assert!(sizes(200, 0.1) <= sizes(20_000, 0.1) && sizes(20_000, 0.1) <= sizes(1_000_000, 0.1));
    // seventeen columns that could have products: some of them, found by a first model
    assert!(taken(&fit(16, 40_000, 1.0, "", None)).unwrap().private_pairs);
}

#[test]
fn a_declared_form_stays_and_a_method_gets_what_it_can_work_with() {
    let form = "[dpopt]\nknots = 5\nfine_knots = 0\npairs = [['x0', 'kind']]\npair_knots = 3\n";
    let form = taken(&fit(10, 200, 0.1, form, None)).unwrap();
    assert_eq!((form.knots, form.fine_knots, form.pair_knots), (5, 0, 3), "{form}");
    let none = fit(3, 1_000_000, 1.0, "[dpopt]\npairs = 'none'\n", None);
    assert!(none.explain(2).unwrap().forms.iter().all(|(form, _)| form.pair_knots == 0));
    // a matrix of d × d is released for up to 1,000 features: with products there are more
    let free = fit(9, 1_000_000, 1.0, "", None).explain(2).unwrap().problem.features;
    let newton = fit(9, 1_000_000, 1.0, "", Some("noisy-newton")).explain(2).unwrap();
    assert!(free > 1_000 && newton.problem.features <= 1_000, "{free} {}", newton.problem.features);
    assert!(newton.forms.iter().all(|(form, _)| form.pair_knots == 0));
    let plan = newton.candidates.iter().find(|c| c.method == "noisy-newton").unwrap();
    assert!(plan.plan.is_ok());
}

#[test]
fn forms_are_not_compared_where_nothing_is_known_of_them() {
    // pure budgets have no Gaussian noise to compare by
    assert_eq!(taken(&fit(3, 10_000, 1.0, "", Some("pure"))), None);
    assert_eq!(taken(&of_text(10_000, 1.0, "", 0.0)), None);
}

fn of_text(rows: u64, epsilon: f64, form: &str, delta: f64) -> Fit {
    let table = open_bytes(b"t,y\na,no\nb,yes\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
    let schema = Schema::from_toml(&format!("{form}[t]\ntext = true\n[y]\nlevels = ['no', 'yes']\n")).unwrap();
    let options = FitOptions::default().schema(schema).rows(rows);
    Fit::new(table, "y", RunOptions::within(epsilon).delta(delta), options).unwrap()
}

#[test]
fn texts_have_forms_that_the_plan_chooses_and_that_may_be_declared() {
    let fit = of_text(10_000, 1.0, "", 1e-6);
    let text = taken(&fit).unwrap().text.unwrap();
    assert!(text.vectors == 0.0 && text.words() > 0.5 && fit.explain(2).unwrap().forms.len() > 1, "{text}");
    let form =
        taken(&of_text(10_000, 1.0, "[dpopt]\ntext_bits = 9\ncounts_share = 0.5\n", 1e-6)).unwrap().text.unwrap();
    assert_eq!((form.bits, form.counts, form.words()), (9, 0.5, 0.5));
    // the first versions' form, in which pairs of words have slots too, stays where no plan chooses
    assert_eq!(of_text(10_000, 1.0, "", 0.0).explain(2).unwrap().problem.features, 1 + 12 * 8 + (1 << 16));
    let directory = tempfile::tempdir().unwrap();
    let vectors: String =
        (0..400).map(|w| format!("w{} {} {} {}\n", w % 20, w % 7, (w * w) % 11, (w * 3) % 5)).collect();
    let path = directory.path().join("v.txt");
    std::fs::write(&path, vectors.replace("w1 ", "word ")).unwrap();
    let form = format!("[dpopt]\npublic_vectors = '{}'\n", path.display());
    let forms = of_text(10_000, 1.0, &form, 1e-6).explain(2).unwrap().forms;
    let shares = |vectors: f64| forms.iter().any(|(form, _)| form.text.is_some_and(|text| text.vectors == vectors));
    assert!(shares(0.3) && shares(0.5) && shares(0.7), "{forms:?}");
    let none = forms.iter().find(|(form, _)| form.text.is_some_and(|text| text.words() == 0.0)).unwrap();
    assert_eq!(none.0.text.map(|text| text.bits), Some(0));
    // whatever the budget, vectors that are there are used
    for epsilon in [0.02, 4.0] {
        let text = taken(&of_text(500, epsilon, &form, 1e-4)).unwrap().text.unwrap();
        assert!(text.vectors >= 0.3, "{text}");
    }
}

#[test]
fn numbers_are_spread_in_one_event_with_the_model() {
    let skewed = |form: &str, method: Option<&str>, rows: usize| {
        let mut text = String::from("v,y\n");
        for i in 0..rows {
            // nine of ten values in the lowest fiftieth of the range, and the label turns in their midst
            let v = if i % 10 == 0 { (i % 1000) as f64 } else { (i % 200) as f64 / 10.0 };
            text += &format!("{v},{}\n", if v > 8.0 { "yes" } else { "no" });
        }
        let bounds = format!("{form}[v]\nlower = 0\nupper = 999\n[y]\nlevels = ['no', 'yes']\n");
        let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
        let mut options = MethodOptions::default();
        options.method = method.map(str::to_string);
        let schema = Schema::from_toml(&bounds).unwrap();
        let options = FitOptions::default().schema(schema).method(options);
        Fit::new(table, "y", RunOptions::within(1.0).insecure_seed(3), options).unwrap()
    };
    for method in [None, Some("noisy-gradient-descent"), Some("noisy-sgd"), Some("output-perturbation")] {
        let fitted = skewed("[dpopt]\nknots = 0\nfine_knots = 0\n", method, 4000).run().unwrap();
        let guarantee = fitted.model.guarantee();
        assert_eq!(guarantee.stages.len(), 1);
        assert!(guarantee.certified_epsilon <= 1.0 && guarantee.recompute().faults.is_empty());
        let labels: Vec<String> = fitted.report.releases.iter().flatten().map(|r| r.label.to_string()).collect();
        assert_eq!(labels[0], "histograms of numbers", "{method:?}: {labels:?}");
        assert!(labels.len() > 1);
    }
    let accuracy = |form: &str| {
        let fit = skewed(&format!("[dpopt]\nknots = 0\nfine_knots = 0\n{form}"), None, 4000);
        let model = fit.run().unwrap().model;
        let test = b"v,y\n1,no\n2,no\n3,no\n4,no\n13,yes\n15,yes\n17,yes\n19,yes\n".to_vec();
        let table = open_bytes(test, Format::Csv, &ReadOptions::default()).unwrap();
        match model.evaluate(&*table, BadCells::Error).unwrap() {
            Some(Evaluation::Classification(found)) => found.accuracy,
            other => panic!("{other:?}"),
        }
    };
    // a line of the values tells the two halves of the crowd apart only where they are spread
    assert_eq!(accuracy("spread = true\n"), 1.0);
    assert!(accuracy("spread = false\n") <= 0.75);
    // few rows: the noise would leave nothing to see
    assert!(!taken(&skewed("[dpopt]\nspread = true\n", None, 20)).unwrap().spread);
}

#[test]
fn products_that_would_be_huge_are_made_only_if_they_are_asked_for() {
    let levels: Vec<String> = (0..400).map(|k| format!("'{k}'")).collect();
    let declared = format!("levels = [{}]\n", levels.join(","));
    let with = |form: &str| {
        let table = open_bytes(b"a,b,y\n1,2,no\n3,4,yes\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
        let bounds = format!("{form}[a]\n{declared}[b]\n{declared}[y]\nlevels = ['no', 'yes']\n");
        let schema = Schema::from_toml(&bounds).unwrap();
        let options = FitOptions::default().schema(schema).rows(100_000_000);
        Fit::new(table, "y", RunOptions::within(8.0).delta(1e-9), options).unwrap().explain(2).unwrap().problem.features
    };
    assert_eq!(with(""), 1 + 2 * 402);
    assert_eq!(with("[dpopt]\npairs = 'all'\n"), 1 + 2 * 402 + 401 * 401);
}

/// Nine numbers of which two act only together.
fn together(form: &str, rows: usize, epsilon: f64, seed: Option<u64>) -> Fit {
    together_by(MethodOptions::default(), form, rows, epsilon, seed).unwrap()
}

fn together_by(
    method: MethodOptions,
    form: &str,
    rows: usize,
    epsilon: f64,
    seed: Option<u64>,
) -> Result<Fit, dpopt::model::FitError> {
    let names: Vec<String> = (0..9).map(|c| format!("x{c}")).collect();
    let mut text = format!("{},y\n", names.join(","));
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..rows {
        let mut cells = Vec::new();
        for _ in 0..9 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            cells.push((state >> 11) as f64 / (1u64 << 53) as f64);
        }
        let label = if (cells[2] > 0.5) == (cells[6] > 0.5) { "yes" } else { "no" };
        text += &format!("{},{label}\n", cells.iter().map(f64::to_string).collect::<Vec<_>>().join(","));
    }
    let declared: String = names.iter().map(|n| format!("[{n}]\nlower = 0\nupper = 1\n")).collect();
    let schema = Schema::from_toml(&format!("{form}{declared}[y]\nlevels = ['no', 'yes']\n")).unwrap();
    let table = open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap();
    let mut run = RunOptions::within(epsilon).delta(1e-6);
    run.insecure_seed = seed;
    Fit::new(table, "y", run, FitOptions::default().schema(schema).method(method))
}

#[test]
fn methods_run_on_fewer_pairs_than_they_were_planned_for() {
    let form = "[dpopt]\npairs = 'private'\npair_knots = 2\npair_share = 0.5\nknots = 0\nfine_knots = 0\n";
    // a release that has a dimension of its own, sums, a stream, norms that follow, a polytope
    for method in ["noisy-newton", "objective-perturbation", "dp-ftrl", "pagan", "frank-wolfe"] {
        let mut options = MethodOptions::default();
        options.method = Some(method.into());
        let fit = together_by(options, form, 500, 20.0, Some(1)).unwrap();
        let fitted = fit.run().unwrap_or_else(|why| panic!("{method}: {why}"));
        assert!(fitted.model.guarantee().certified_epsilon <= 20.0, "{method}");
        assert!(fitted.model.encoder().dimension() < fitted.planned.problem.features, "{method}");
    }
}

#[test]
fn pairs_are_found_by_a_first_model_in_one_event_with_the_second() {
    let form = "[dpopt]\npairs = 'private'\npair_knots = 4\npair_share = 0.5\nknots = 0\nfine_knots = 0\n";
    let fitted = together(form, 6000, 1.0, Some(5)).run().unwrap();
    let guarantee = fitted.model.guarantee();
    assert_eq!(guarantee.stages.len(), 1);
    assert!(guarantee.certified_epsilon <= 1.0 && guarantee.recompute().faults.is_empty());
    // histograms, what a first model releases, what the second does
    let releases: Vec<String> = fitted.report.releases.iter().flatten().map(|r| r.label.to_string()).collect();
    assert!(releases[0] == "histograms of numbers" && releases.len() > 2, "{releases:?}");
    let alone = together(
        &form.replace("private", "none").replace("pair_knots = 4\npair_share = 0.5\n", ""),
        6000,
        1.0,
        Some(5),
    );
    assert!(alone.run().unwrap().report.releases.iter().flatten().count() < releases.len());
    // the pair is found, and most others are left out
    let model = serde_json::to_string(fitted.model.encoder()).unwrap();
    let pairs = model.split("\"columns\":[[").nth(1).unwrap().split("]]").next().unwrap();
    assert!(pairs.contains("2,6") && pairs.split("],[").count() < 18, "{pairs}");
    assert!(fitted.report.facts.features < fitted.planned.problem.features);
}

#[test]
fn embedding_models_are_refused_a_private_choice_before_anything_is_read() {
    let table = open_bytes(b"a,b,c,y\n1,1,0,no\n0,1,1,yes\n".to_vec(), Format::Csv, &ReadOptions::default()).unwrap();
    let declared: String = ["a", "b", "c"].iter().map(|n| format!("[{n}]\nlower = 0\nupper = 1\n")).collect();
    let schema =
        Schema::from_toml(&format!("[dpopt]\npairs = 'private'\n{declared}[y]\nlevels = ['no', 'yes']\n")).unwrap();
    let embedding = dpopt::model::EmbeddingRequest { dimension: 2, towers: None, seed: 1 };
    let options = FitOptions::default().schema(schema).embedding(embedding).rows(1000);
    let fit = Fit::new(table, "y", RunOptions::within(1.0).delta(1e-6), options).unwrap();
    assert!(fit.quote().unwrap_err().to_string().contains("for linear models"));
}

#[test]
fn a_first_model_is_planned_from_public_facts_where_there_are_many_pairs_and_many_rows() {
    let many = taken(&fit(18, 40_000, 4.0, "", None)).unwrap();
    assert!(many.private_pairs && many.pair_knots > 0, "{many}");
    assert!(!taken(&fit(18, 2_000, 0.5, "", None)).unwrap().private_pairs);
    // few pairs: all of them, unless the form is declared
    assert!(!taken(&fit(8, 1_000_000, 1.0, "", None)).unwrap().private_pairs);
    // so many rows that two models would take minutes; more than thirty-two columns
    assert_eq!(taken(&fit(18, 1_000_000, 1.0, "", None)).unwrap().pair_knots, 0);
    assert_eq!(taken(&fit(33, 10_000, 8.0, "", None)).unwrap().pair_knots, 0);
}
