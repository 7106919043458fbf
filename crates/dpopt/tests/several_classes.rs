//! From a table of several classes to a model, with nothing declared but ranges and levels.

use dpopt::RunOptions;
use dpopt::data::{BadCells, Format, ReadOptions, Schema, TableReader, open_bytes};
use dpopt::model::{Evaluation, Fit, FitOptions};

/// Pictures of eight by eight points of the digits of a seven-segment display, moved and blurred by a congruential generator's noise.
fn pictures(seed: u64, rows: usize) -> Box<dyn TableReader> {
    const SEGMENTS: [u8; 10] = [
        0b111_0111, 0b001_0010, 0b101_1101, 0b101_1011, 0b011_1010, 0b110_1011, 0b110_1111, 0b101_0010, 0b111_1111,
        0b111_1011,
    ];
    // first to last: top, upper left, upper right, middle, lower left, lower right, bottom
    let lit = |k: usize, (r, c): (usize, usize)| {
        let on = |segment: u32| SEGMENTS[k] >> (6 - segment) & 1 == 1;
        match (r, c) {
            (0, 1..=4) => on(0),
            (1..=2, 0) => on(1),
            (1..=2, 5) => on(2),
            (3, 1..=4) => on(3),
            (4..=5, 0) => on(4),
            (4..=5, 5) => on(5),
            (6, 1..=4) => on(6),
            _ => false,
        }
    };
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    let names: Vec<String> = (0..64).map(|j| format!("p{j}")).collect();
    let mut text = format!("{},digit\n", names.join(","));
    for i in 0..rows {
        let (k, right, ink) = (i % 10, usize::from(uniform() < 0.5), 9.0 + 7.0 * uniform());
        for at in 0..64 {
            let (r, c) = (at / 8, at % 8);
            let bright = if c >= right && lit(k, (r, c - right)) { ink } else { 0.0 };
            text += &format!("{:.0},", (bright + 5.0 * (uniform() - 0.5)).clamp(0.0, 16.0));
        }
        text += &format!("{k}\n");
    }
    open_bytes(text.into_bytes(), Format::Csv, &ReadOptions::default()).unwrap()
}

/// Logistic regression without privacy tells all of these apart. Plain full-batch DP descent, in a few lines of numpy and with none of our
/// code, has .91 to .93 on such tables at this budget (four seeds, three units of noise in a score): .85 is the floor.
#[test]
fn digits_are_recognised_at_half_a_unit_of_epsilon() {
    let mut bounds: String = (0..64).map(|j| format!("[p{j}]\nlower = 0\nupper = 16\n")).collect();
    bounds += "[digit]\nlevels = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']\n";
    let options = || FitOptions::default().schema(Schema::from_toml(&bounds).unwrap());
    let run = RunOptions::within(0.5).insecure_seed(1);
    let fitted = Fit::new(pictures(1, 1500), "digit", run, options()).unwrap().run().unwrap();
    assert!(fitted.model.guarantee().certified_epsilon <= 0.5);
    let evaluation = fitted.model.evaluate(&*pictures(2, 1000), BadCells::default()).unwrap();
    let Some(Evaluation::Classification(metrics)) = evaluation else { panic!("digits are classes") };
    println!("accuracy {}", metrics.accuracy);
    assert!(metrics.accuracy >= 0.85, "{}", metrics.accuracy);
    // scores are no surer than their noise allows: better than to say .1 each time
    assert!(metrics.log_loss < 10f64.ln(), "{}", metrics.log_loss);
}
