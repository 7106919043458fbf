//! Adaptive methods: their flags reach the plan, and what is wrong with them is refused before a row is read.

use crate::{census, path, refuse, succeed};

#[test]
fn moments_and_domains_reach_the_run() {
    let d = tempfile::tempdir().unwrap();
    let (data, bounds) = (path(census(), "census.csv"), path(census(), "bounds.toml"));
    let common =
        ["fit", &data, "--target", "income", "--epsilon", "2", "--delta", "1e-6", "--bounds", &bounds, "--steps", "40"];
    for (method, flags) in [
        ("pagan", vec![]),
        ("pagan", vec!["--moments", "running", "--box-radius", "3"]),
        ("pasan", vec!["--moments", "none", "--ball-radius", "5"]),
        ("dp-adam", vec!["--second-momentum", "0.99"]),
        ("pdp-sgd", vec!["--subspace-rank", "5"]),
        ("dp-adagrad", vec!["--memory", "64K"]),
    ] {
        let out = succeed(d.path(), &[&common[..], &["--method", method], &flags[..]].concat());
        assert!(out.contains(method), "{out}");
        let model: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(d.path().join("model.json")).unwrap()).unwrap();
        let text = model.to_string();
        assert!(text.contains("certified_epsilon"), "{text}");
    }
    let weights = ["--model", "embedding", "--embedding-dim", "2", "--embedding-update", "diagonal"];
    assert!(succeed(d.path(), &[&common[..], &weights].concat()).contains("embedding-sgd"));
}

#[test]
fn wrong_moments_and_domains_are_refused_with_the_reason() {
    let d = tempfile::tempdir().unwrap();
    let file = d.path().join("moments.txt");
    let explain = ["explain", "--rows", "5000", "--features", "3", "--epsilon", "1", "--method", "pagan"];
    let given = |text: &str| {
        std::fs::write(&file, text).unwrap();
        [&explain[..], &["--public-moments", file.to_str().unwrap()]]
            .concat()
            .iter()
            .map(|s| (*s).to_string())
            .collect::<Vec<_>>()
    };
    let run = |text: &str| succeed(d.path(), &given(text).iter().map(String::as_str).collect::<Vec<_>>());
    assert!(!run("1\n0.5\n0.01\n").contains("public moments were given"));
    assert!(run("1\n0.5\n").contains("2 public moments were given for 3"));
    let broken = given("1\nhalf\n");
    assert!(
        refuse(d.path(), &broken.iter().map(String::as_str).collect::<Vec<_>>()).contains("line 2 is not a number")
    );
    // out of every method's range: refused at once, not in the method's row
    assert!(refuse(d.path(), &[&explain[..], &["--box-radius", "-1"]].concat()).contains("--box-radius is -1"));
    let linear = ["explain", "--rows", "5000", "--features", "3", "--epsilon", "1", "--embedding-update", "adam"];
    let line = refuse(d.path(), &linear);
    assert!(line.contains("--embedding-update is an option of embedding models"), "{line}");
    // what a method does not have is refused by name, with what it has
    for (method, flag, value) in
        [("noisy-gradient-descent", "--ball-radius", ".001"), ("noisy-newton", "--clip-norm", "1")]
    {
        let asked = ["explain", "--rows", "5000", "--features", "3", "--epsilon", "1", "--method", method, flag, value];
        let message = refuse(d.path(), &asked);
        assert!(message.contains(&format!("{method} has no option {flag}; it has --")), "{message}");
    }
}
