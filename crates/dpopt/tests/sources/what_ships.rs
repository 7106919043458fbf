//! What ships has no way past the curator, and its tests have none: the kernel's feature `past-the-curator` is on in the self-audit only.

use std::collections::BTreeSet;
use std::process::Command;

/// The feature of the kernel that opens sensitive values.
const FEATURE: &str = "past-the-curator";

/// The feature, as `cargo tree` writes it.
const THE_WAY: &str = "feature \"past-the-curator\"";

/// What cargo prints for `arguments`.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output =
        Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Who asks for which features of the kernel when `package` is built, its tests left out, as `cargo tree` says it.
fn features_of_the_kernel(package: &str) -> String {
    let how = ["tree", "--offline", "--locked", "--edges", "features,no-dev"];
    let tree = cargo(&[&how[..], &["--invert", "dpopt-mechanism", "--package", package]].concat());
    assert!(tree.starts_with("dpopt-mechanism ") && tree.contains(&format!("{package} ")), "{package}: {tree}");
    tree
}

#[test]
fn what_ships_is_built_without_a_way_past_the_curator() {
    for package in ["dpopt", "dpopt-cli", "dpopt-python"] {
        let tree = features_of_the_kernel(package);
        assert!(!tree.contains(THE_WAY), "{package}:\n{tree}");
    }
    // where it is on, it is seen
    assert!(features_of_the_kernel("dpopt-self-audit").contains(THE_WAY));
}

/// Packages of the workspace whose dependencies of any kind, or features of their own, ask for the feature.
fn who_asks(metadata: &serde_json::Value) -> BTreeSet<&str> {
    let asks = |package: &&serde_json::Value| {
        let of_dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let mut features = of_dependencies.flat_map(|on| on["features"].as_array().expect("features"));
        let named = |feature: &serde_json::Value| feature.as_str().is_some_and(|name| name.contains(FEATURE));
        let mut own = package["features"].as_object().expect("features").values();
        features.any(named) || own.any(|on| on.as_array().expect("a feature").iter().any(named))
    };
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages.filter(asks).map(|package| package["name"].as_str().expect("a name")).collect()
}

#[test]
fn tests_of_what_ships_are_built_like_what_ships() {
    let metadata = cargo(&["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("JSON");
    let mut asking = who_asks(&metadata);
    // the kernel may ask for its own tests
    asking.remove("dpopt-mechanism");
    assert_eq!(asking, BTreeSet::from(["dpopt-self-audit"]));
    // of whatever kind a dependency is, and through whatever feature
    let package = |dependency: &str, own: &str| {
        let text = format!(r#"{{"packages":[{{"name":"a","dependencies":[{dependency}],"features":{{{own}}}}}]}}"#);
        let metadata: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        who_asks(&metadata).len()
    };
    assert_eq!(package(r#"{"name":"dpopt-mechanism","kind":"dev","features":["past-the-curator"]}"#, ""), 1);
    assert_eq!(package("", r#""x":["dpopt-mechanism/past-the-curator"]"#), 1);
    assert_eq!(package(r#"{"name":"dpopt-mechanism","kind":null,"features":[]}"#, r#""x":[]"#), 0);
}

/// Packages of the workspace that depend on `name`, in whatever way.
fn dependents<'a>(metadata: &'a serde_json::Value, name: &str) -> BTreeSet<&'a str> {
    let packages = metadata["packages"].as_array().expect("packages").iter();
    let depends = |package: &&serde_json::Value| {
        package["dependencies"].as_array().expect("dependencies").iter().any(|on| on["name"] == name)
    };
    packages.filter(depends).map(|package| package["name"].as_str().expect("a name")).collect()
}

/// A crate that depends on the kernel can name its module `beside`, and so read what is sensitive.
#[test]
fn only_the_crate_beside_the_kernel_depends_on_it() {
    let metadata = cargo(&["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).expect("JSON");
    assert_eq!(dependents(&metadata, "dpopt-kernel"), BTreeSet::from(["dpopt-mechanism"]));
    // others are seen
    assert!(dependents(&metadata, "dpopt-mechanism").contains("dpopt-self-audit"));
}
