//! The claims of `user-panel` at its short size, on a seed that no margin was chosen on.

use std::process::Command;

/// A row as its heading's names and texts; no text of these tables has a quote within it.
fn table(folder: &std::path::Path, name: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(folder.join(name)).expect("a table");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

#[test]
fn a_units_mean_needs_less_noise_than_a_group_of_its_rows() {
    let out = tempfile::tempdir().expect("a folder");
    let place = out.path().to_str().expect("text");
    let output = Command::new(env!("CARGO_BIN_EXE_dpopt-reproduce"))
        .args(["run", "user-panel", "--short", "--seed", "2", "--out", place])
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = out.path().join("user-panel");

    let rows = table(&folder, "quadratic.csv");
    assert_eq!(rows.len(), 4);
    let number = |row: usize, column: &str| rows[row][column].parse::<f64>().expect("a number");
    for row in 0..4 {
        // two repeats of d = 50 squares: a chi-square of 100 degrees of freedom leaves 0.4 to 2 times its mean with probability 4e-7
        let predicted = number(row, "predicted: sampling") + number(row, "predicted: noise");
        let share = number(row, "excess risk") / predicted;
        assert!((0.4..2.0).contains(&share), "row {row}: {share}");
    }
    // sums move by twice as much where a unit is replaced; a group of 20 rows moves 20 times what one does
    let multiplier = |row: usize| number(row, "noise multiplier");
    assert!((multiplier(1) / multiplier(0) - 2.0).abs() < 1e-4 && (multiplier(2) / multiplier(0) - 20.0).abs() < 1e-3);
    // noise variance: 1.5²/m of a unit's mean against 1.5² of a group of m rows among m times as many records
    assert!(number(2, "excess risk") > 4.0 * number(0, "excess risk"));

    let rows = table(&folder, "accuracy.csv");
    let accuracy = |epsilon: &str, protected: &str| {
        let found = rows.iter().find(|row| row["epsilon"] == epsilon && row["protected"] == protected);
        found.expect("a line")["test accuracy"].parse::<f64>().expect("a number")
    };
    let per_unit = accuracy("4", "person, per unit");
    assert!(per_unit > accuracy("4", "person, group of 10"), "{rows:?}");
    assert!(per_unit > accuracy("4", "majority") + 0.05, "{rows:?}");
    assert!(per_unit < accuracy("4", "true model") + 0.03, "{rows:?}");
}
