//! What ships has no way past the curator: the kernel's feature `past-the-curator` is on in tests and in the self-audit only.

use std::process::Command;

/// The feature, as `cargo tree` writes it.
const THE_WAY: &str = "feature \"past-the-curator\"";

/// Who asks for which features of the kernel when `package` is built, its tests left out, as `cargo tree` says it.
fn features_of_the_kernel(package: &str) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--edges", "features,no-dev"])
        .args(["--invert", "dpopt-mechanism", "--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("UTF-8");
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
