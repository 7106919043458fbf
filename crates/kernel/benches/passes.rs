//! What a pass over dense rows costs, on one thread: nanoseconds for each entry of the table, beside plain reading of it.
//!
//! Prints lines `name value`. `cargo bench -p dpopt-kernel --bench passes`; a word after `--` chooses the tables whose name contains it.

use dpopt_kernel::Sensitive;
use dpopt_kernel::{Clipped, SecondMoment};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use std::hint::black_box;
use std::time::Instant;

/// Rows of norm about 1, with targets of so many classes.
fn examples(n: usize, d: usize, classes: usize) -> Examples {
    let mut rows = Rows::new(d);
    let mut entries = Vec::new();
    for i in 0..n {
        entries.clear();
        entries.extend((0..d).map(|j| (j as u32, (((i * d + j) as f32) * 0.37).sin() / (d as f32).sqrt())));
        rows.push_clipped(&mut entries, 2.0);
    }
    Examples { rows, targets: (0..n).map(|i| (i * 7 % classes) as f32).collect() }
}

/// Nanoseconds of the fastest of five rounds, for each of `entries`; a round makes as many runs as go through 10⁷ entries.
fn each(entries: usize, mut run: impl FnMut()) -> f64 {
    run();
    let runs = (10_000_000 / entries).max(1);
    let seconds = (0..5).map(|_| {
        let begun = Instant::now();
        (0..runs).for_each(|_| run());
        begun.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min) * 1e9 / (runs * entries) as f64
}

fn passes(name: &str, n: usize, d: usize, loss: Loss) {
    let k = loss.outputs();
    let examples = examples(n, d, k.max(2));
    let read = each(n * d, || {
        black_box(examples.rows.values().iter().fold(0u32, |all, x| all ^ x.to_bits()));
    });
    let weights: Vec<f64> = (0..k * d).map(|j| (j as f64).cos()).collect();
    let clipped = Clipped::new(Linear::new(loss, d, 2.0), 0.5, Grid::new(-20)).expect("a clip norm and a grid");
    let pass = each(n * d * k, || {
        let Ok(sum) = clipped.add_up(&examples, &weights, n, |i| i);
        black_box(sum);
    });
    println!("{name}_read_ns {read:.3}");
    println!("{name}_pass_ns {pass:.3}");
}

fn squares(name: &str, n: usize, d: usize) {
    let table = Sensitive::new(examples(n, d, 2));
    let moment = SecondMoment::new(1.0, 2.0, Grid::for_products(4.0, 16.0, n as u64)).expect("a grid");
    let products = n * SecondMoment::coordinates(d);
    let square = each(products, || {
        black_box(moment.sum(&table).expect("memory is read"));
    });
    println!("{name}_square_ns {square:.3}");
    println!("{name}_square_s {:.4}", square * products as f64 / 1e9);
}

fn main() {
    // cargo adds a flag of its own
    let only = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    let logistic = Loss::Logistic { shift: 0.0 };
    for (name, n, d, loss) in [
        ("n1e6_d100", 1_000_000, 100, logistic),
        ("n1e3_d100", 1_000, 100, logistic),
        ("n1e3_d20", 1_000, 20, logistic),
        ("n1e5_d64_10_classes", 100_000, 64, Loss::Softmax { classes: 10 }),
    ] {
        if wanted(name) {
            passes(name, n, d, loss);
        }
    }
    if wanted("n1e5_d100_squares") {
        squares("n1e5_d100", 100_000, 100);
    }
}
