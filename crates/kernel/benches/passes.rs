//! What a pass over dense rows costs, on one thread: nanoseconds for each entry of the table, beside plain reading of it.
//!
//! Prints lines `name value`. `cargo bench -p dpopt-kernel --bench passes`

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

/// Nanoseconds of the fastest of five runs, for each of `entries`.
fn each(entries: usize, mut run: impl FnMut()) -> f64 {
    run();
    let seconds = (0..5).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min) * 1e9 / entries as f64
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

fn main() {
    passes("n1e6_d100", 1_000_000, 100, Loss::Logistic { shift: 0.0 });
    passes("n1e3_d100", 1_000, 100, Loss::Logistic { shift: 0.0 });
    passes("n1e5_d64_10_classes", 100_000, 64, Loss::Softmax { classes: 10 });
    let (n, d) = (100_000, 100);
    let table = Sensitive::new(examples(n, d, 2));
    let moment = SecondMoment::new(1.0, 2.0, Grid::new(-20)).expect("a grid");
    let square = each(n * SecondMoment::coordinates(d), || {
        black_box(moment.sum(&table).expect("memory is read"));
    });
    println!("n1e5_d100_square_ns {square:.3}");
    println!("n1e5_d100_square_s {:.4}", square * (n * SecondMoment::coordinates(d)) as f64 / 1e9);
}
