//! A two-layer LSTM language model with a gradient for each sequence (Zaremba et al. 2014; layout and start of weights as PyTorch).
//!
//! Matrices are inputs × outputs, row by row. Sequences go through the recurrence a few at a time; the output layer, most of
//! the work, is done sequence by sequence, where it fits in the cache.

use super::scales::Scales;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};
use pulp::{Arch, Simd};
use std::ops::Range;

const LAYERS: usize = 2;
/// Input, forget, cell, output.
const GATES: usize = 4;

/// Sizes of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// Words of the vocabulary.
    pub(super) words: usize,
    /// Numbers per word, and hidden units per layer.
    pub(super) width: usize,
}

/// A matrix of weights, or a vector as one with a single row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) start: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Block {
    pub(super) fn range(self) -> Range<usize> {
        self.start..self.start + self.rows * self.columns
    }
}

/// Where the blocks of a layer are in [`Network::blocks`]: input weights, hidden weights, two biases.
fn layer_blocks(layer: usize) -> [usize; 4] {
    [1, 2, 3, 4].map(|b| b + 4 * layer)
}
const OUTPUT: usize = 1 + 4 * LAYERS;
const OUTPUT_BIAS: usize = OUTPUT + 1;

impl Network {
    /// Embedding; per layer input weights, hidden weights, two biases; output weights, output bias.
    pub(super) fn blocks(self) -> Vec<Block> {
        let (v, w) = (self.words, self.width);
        let mut shapes = vec![(v, w)];
        for _ in 0..LAYERS {
            shapes.extend([(w, GATES * w), (w, GATES * w), (1, GATES * w), (1, GATES * w)]);
        }
        shapes.extend([(w, v), (1, v)]);
        let mut start = 0;
        let place = |(rows, columns)| {
            let block = Block { start, rows, columns };
            start = block.range().end;
            block
        };
        shapes.into_iter().map(place).collect()
    }

    pub(super) fn parameters(self) -> usize {
        self.blocks().last().map_or(0, |b| b.range().end)
    }

    /// Scales of which every factor is 1.
    pub(super) fn ones(self) -> Scales {
        Scales::by_row_and_column(self.blocks().iter().map(|b| [vec![1.0; b.rows], vec![1.0; b.columns]]).collect())
    }

    /// N(0, 1) for the embedding, U(−1, 1)/√width for all else; `normal` and `uniform` draw.
    pub(super) fn start(self, mut normal: impl FnMut() -> f64, mut uniform: impl FnMut() -> f64) -> Vec<f32> {
        let embedding = self.words * self.width;
        let reach = 1.0 / (self.width as f64).sqrt();
        let draw = |at| if at < embedding { normal() } else { reach * (2.0 * uniform() - 1.0) };
        (0..self.parameters()).map(draw).map(|x| x as f32).collect()
    }

    /// `each` gets every word after the first of each sequence, and its −ln p; all sequences have one length.
    pub(super) fn losses(self, weights: &[f32], sequences: &[&[u32]], mut each: impl FnMut(u32, f64)) {
        let pass = self.forward(weights, sequences);
        let mut slopes = vec![0.0; pass.steps * self.words];
        for (b, sequence) in sequences.iter().enumerate() {
            let hidden = pass.of_sequence(&pass.layers[LAYERS - 1].hidden, self.width, b, None);
            self.slopes(weights, &hidden, &sequence[1..], &mut slopes, &mut each);
        }
    }

    /// For each sequence the gradient of its mean loss per word, times `scales`, in pieces as
    /// [`PieceSum::add`](dpopt::mechanism::PieceSum::add) takes them.
    pub(super) fn gradients(
        self,
        weights: &[f32],
        sequences: &[&[u32]],
        scales: &Scales,
        mut each: impl FnMut(&[(usize, &[f32])]),
    ) {
        let (v, w, count) = (self.words, self.width, sequences.len());
        let blocks = self.blocks();
        let pass = self.forward(weights, sequences);
        let steps = pass.steps;
        let outer = &pass.layers[LAYERS - 1].hidden;

        let mut slopes = vec![0.0; count * steps * v];
        let mut back = vec![0.0; steps * count * w];
        let mut one = vec![0.0; steps * w];
        for (b, slopes) in slopes.chunks_exact_mut(steps * v).enumerate() {
            self.slopes(weights, &pass.of_sequence(outer, w, b, None), &sequences[b][1..], slopes, |_, _| ());
            let mean = 1.0 / steps as f32;
            slopes.iter_mut().for_each(|d| *d *= mean);
            product(
                &mut one,
                plain(slopes, steps, v),
                plain(&weights[blocks[OUTPUT].range()], w, v).reversed_axes(),
                false,
            );
            for (t, row) in one.chunks_exact(w).enumerate() {
                back[(t * count + b) * w..][..w].copy_from_slice(row);
            }
        }
        let mut gates = Vec::new();
        for layer in (0..LAYERS).rev() {
            let (into_gates, into_inputs) = self.backward(weights, layer, &pass, &back);
            gates.insert(0, into_gates);
            back = into_inputs;
        }

        let dense = blocks[1].start;
        let mut gradient = vec![0.0; self.parameters() - dense];
        for (b, sequence) in sequences.iter().enumerate() {
            for layer in 0..LAYERS {
                let before = if layer == 0 { &pass.inputs } else { &pass.layers[layer - 1].hidden };
                let [input, hidden, bias, second] = layer_blocks(layer);
                for (which, earlier) in [(input, false), (hidden, true)] {
                    let [rows, columns] = scales.of(which);
                    let source = if earlier { &pass.layers[layer].hidden } else { before };
                    // the first step has no hidden units before it
                    let from = pass.of_sequence(source, w, b, Some(rows));
                    let to = pass.of_sequence(&gates[layer], GATES * w, b, Some(columns));
                    let (from, to) =
                        if earlier { (&from[..(steps - 1) * w], &to[GATES * w..]) } else { (&from[..], &to[..]) };
                    let length = from.len() / w;
                    let place = shifted(blocks[which].range(), dense);
                    product(
                        &mut gradient[place],
                        plain(from, length, w).reversed_axes(),
                        plain(to, length, GATES * w),
                        false,
                    );
                }
                let summed = column_sums(&pass.of_sequence(&gates[layer], GATES * w, b, None), GATES * w);
                for which in [bias, second] {
                    times(&mut gradient[shifted(blocks[which].range(), dense)], &summed, scales.of(which));
                }
            }
            let slopes = &mut slopes[b * steps * v..(b + 1) * steps * v];
            times(
                &mut gradient[shifted(blocks[OUTPUT_BIAS].range(), dense)],
                &column_sums(slopes, v),
                scales.of(OUTPUT_BIAS),
            );
            let [rows, columns] = scales.of(OUTPUT);
            slopes.chunks_exact_mut(v).for_each(|row| row.iter_mut().zip(columns).for_each(|(d, s)| *d *= s));
            let from = pass.of_sequence(outer, w, b, Some(rows));
            product(
                &mut gradient[shifted(blocks[OUTPUT].range(), dense)],
                plain(&from, steps, w).reversed_axes(),
                plain(slopes, steps, v),
                false,
            );

            let [rows, columns] = scales.of(0);
            let embedded = pass.of_sequence(&back, w, b, Some(columns));
            let mut places: Vec<(u32, usize)> = sequence[..steps].iter().copied().zip(0..).collect();
            places.sort_unstable();
            let (mut words, mut entries): (Vec<u32>, Vec<f32>) = (Vec::new(), Vec::with_capacity(steps * w));
            for (word, t) in places {
                // a word that comes twice has one row
                if words.last() != Some(&word) {
                    words.push(word);
                    entries.resize(words.len() * w, 0.0);
                }
                let row = &mut entries[(words.len() - 1) * w..];
                row.iter_mut().zip(&embedded[t * w..]).for_each(|(e, g)| *e += rows[word as usize] * g);
            }
            scales.finish(dense, &mut gradient);
            for (&word, row) in words.iter().zip(entries.chunks_exact_mut(w)) {
                scales.finish(word as usize * w, row);
            }
            let mut pieces: Vec<(usize, &[f32])> =
                words.iter().zip(entries.chunks_exact(w)).map(|(&j, row)| (j as usize * w, row)).collect();
            pieces.push((dense, &gradient));
            each(&pieces);
        }
    }

    fn forward(self, weights: &[f32], sequences: &[&[u32]]) -> Pass {
        let w = self.width;
        let blocks = self.blocks();
        let (count, steps) = (sequences.len(), sequences.first().map_or(0, |s| s.len() - 1));
        let mut inputs = Vec::with_capacity(steps * count * w);
        for t in 0..steps {
            for sequence in sequences {
                inputs.extend_from_slice(&weights[sequence[t] as usize * w..][..w]);
            }
        }
        let mut pass = Pass { count, steps, inputs, layers: Vec::new() };
        for layer in 0..LAYERS {
            let [input, hidden, bias, second] = layer_blocks(layer).map(|b| &weights[blocks[b].range()]);
            let before = pass.layers.last().map_or(&pass.inputs, |l: &Layer| &l.hidden);
            let mut gates = vec![0.0; steps * count * GATES * w];
            for row in gates.chunks_exact_mut(GATES * w) {
                row.iter_mut().zip(bias.iter().zip(second)).for_each(|(z, (a, b))| *z = a + b);
            }
            product(&mut gates, plain(before, steps * count, w), plain(input, w, GATES * w), true);
            let (mut cells, mut out) = (vec![0.0; steps * count * w], vec![0.0; steps * count * w]);
            for t in 0..steps {
                let now = &mut gates[t * count * GATES * w..(t + 1) * count * GATES * w];
                let (earlier, rest) = out.split_at_mut(t * count * w);
                let (old, new) = cells.split_at_mut(t * count * w);
                if t > 0 {
                    product(now, plain(&earlier[(t - 1) * count * w..], count, w), plain(hidden, w, GATES * w), true);
                }
                for (b, gates) in now.chunks_exact_mut(GATES * w).enumerate() {
                    let earlier = (t > 0).then(|| &old[((t - 1) * count + b) * w..][..w]);
                    let place = b * w..(b + 1) * w;
                    step(gates, earlier, &mut new[place.clone()], &mut rest[place]);
                }
            }
            pass.layers.push(Layer { gates, cells, hidden: out });
        }
        pass
    }

    /// Derivatives by a layer's gates before their activation, and by its inputs, from those by its hidden units.
    fn backward(self, weights: &[f32], layer: usize, pass: &Pass, back: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (w, count, steps) = (self.width, pass.count, pass.steps);
        let blocks = self.blocks();
        let [input, hidden, ..] = layer_blocks(layer).map(|b| &weights[blocks[b].range()]);
        let Layer { gates, cells, .. } = &pass.layers[layer];
        let mut into_gates = vec![0.0; gates.len()];
        let (mut into_hidden, mut into_cell) = (vec![0.0; count * w], vec![0.0; count * w]);
        for t in (0..steps).rev() {
            let span = t * count * GATES * w..(t + 1) * count * GATES * w;
            let now = &mut into_gates[span.clone()];
            for (b, (d, gates)) in now.chunks_exact_mut(GATES * w).zip(gates[span].chunks_exact(GATES * w)).enumerate()
            {
                for j in 0..w {
                    let at = (t * count + b) * w + j;
                    let [i, f, g, o] = [gates[j], gates[w + j], gates[2 * w + j], gates[3 * w + j]];
                    let squashed = tanh(cells[at]);
                    let by_hidden = back[at] + into_hidden[b * w + j];
                    let by_cell = into_cell[b * w + j] + by_hidden * o * (1.0 - squashed * squashed);
                    let old = if t > 0 { cells[at - count * w] } else { 0.0 };
                    d[j] = by_cell * g * i * (1.0 - i);
                    d[w + j] = by_cell * old * f * (1.0 - f);
                    d[2 * w + j] = by_cell * i * (1.0 - g * g);
                    d[3 * w + j] = by_hidden * squashed * o * (1.0 - o);
                    into_cell[b * w + j] = by_cell * f;
                }
            }
            product(&mut into_hidden, plain(now, count, GATES * w), plain(hidden, w, GATES * w).reversed_axes(), false);
        }
        let mut into_inputs = vec![0.0; steps * count * w];
        product(
            &mut into_inputs,
            plain(&into_gates, steps * count, GATES * w),
            plain(input, w, GATES * w).reversed_axes(),
            false,
        );
        (into_gates, into_inputs)
    }

    /// `each` gets the words of one sequence and their losses; `slopes` becomes the derivative by the scores, steps × words.
    fn slopes(
        self,
        weights: &[f32],
        hidden: &[f32],
        targets: &[u32],
        slopes: &mut [f32],
        mut each: impl FnMut(u32, f64),
    ) {
        let (v, w) = (self.words, self.width);
        let blocks = self.blocks();
        slopes.chunks_exact_mut(v).for_each(|row| row.copy_from_slice(&weights[blocks[OUTPUT_BIAS].range()]));
        product(slopes, plain(hidden, targets.len(), w), plain(&weights[blocks[OUTPUT].range()], w, v), true);
        for (row, &target) in slopes.chunks_exact_mut(v).zip(targets) {
            let score = row[target as usize];
            each(target, softmax(row) - f64::from(score));
            row[target as usize] -= 1.0;
        }
    }
}

/// What the backward pass reads; rows are steps × sequences.
struct Pass {
    count: usize,
    steps: usize,
    inputs: Vec<f32>,
    layers: Vec<Layer>,
}

struct Layer {
    /// Values of the gates after their activation.
    gates: Vec<f32>,
    cells: Vec<f32>,
    hidden: Vec<f32>,
}

impl Pass {
    /// The rows of sequence `b`, `width` wide, times factors.
    fn of_sequence(&self, all: &[f32], width: usize, b: usize, factors: Option<&Vec<f32>>) -> Vec<f32> {
        let rows = (0..self.steps).flat_map(|t| &all[(t * self.count + b) * width..][..width]);
        match factors {
            Some(factors) => rows.zip(factors.iter().cycle()).map(|(x, s)| x * s).collect(),
            None => rows.copied().collect(),
        }
    }
}

fn plain(entries: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns), &entries[..rows * columns]).expect("as many entries as the shape has")
}

/// `out` ← a·b, on top of what is there if `add`.
fn product(out: &mut [f32], a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>, add: bool) {
    let shape = (a.nrows(), b.ncols());
    let mut out = ArrayViewMut2::from_shape(shape, out).expect("as many entries as the product has");
    general_mat_mul(1.0, &a, &b, if add { 1.0 } else { 0.0 }, &mut out);
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start - by..range.end - by
}

fn column_sums(rows: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    rows.chunks_exact(columns).for_each(|row| sums.iter_mut().zip(row).for_each(|(s, x)| *s += x));
    sums
}

/// The only row of a vector of weights, times its factors.
fn times(out: &mut [f32], row: &[f32], [rows, columns]: &[Vec<f32>; 2]) {
    let factor: f32 = rows.iter().product();
    out.iter_mut().zip(row.iter().zip(columns)).for_each(|(o, (a, b))| *o = factor * a * b);
}

/// One step of a layer for one sequence: gates are activated, cells and hidden units written.
#[pulp::with_simd(step = Arch::new())]
#[inline(always)]
fn step_wide<S: Simd>(_simd: S, gates: &mut [f32], earlier: Option<&[f32]>, cells: &mut [f32], hidden: &mut [f32]) {
    let w = cells.len();
    for (which, gate) in gates.chunks_exact_mut(w).enumerate() {
        if which == 2 {
            gate.iter_mut().for_each(|z| *z = tanh(*z));
        } else {
            gate.iter_mut().for_each(|z| *z = sigmoid(*z));
        }
    }
    let (input, rest) = gates.split_at(w);
    let (forget, rest) = rest.split_at(w);
    let (cell, output) = rest.split_at(w);
    match earlier {
        Some(earlier) => (0..w).for_each(|j| cells[j] = forget[j] * earlier[j] + input[j] * cell[j]),
        None => (0..w).for_each(|j| cells[j] = input[j] * cell[j]),
    }
    hidden.iter_mut().zip(output.iter().zip(&*cells)).for_each(|(h, (o, c))| *h = o * tanh(*c));
}

/// Scores become probabilities; ln Σe^score.
#[pulp::with_simd(softmax = Arch::new())]
#[inline(always)]
fn softmax_wide<S: Simd>(_simd: S, row: &mut [f32]) -> f64 {
    let largest = lanes(row, f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|s| *s = exp(*s - largest));
    let total = lanes(row, 0.0, |a, b| a + b);
    let factor = 1.0 / total;
    row.iter_mut().for_each(|p| *p *= factor);
    f64::from(largest) + f64::from(total).ln()
}

/// A reduction in sixteen lanes: a single one waits for itself.
#[inline(always)]
fn lanes(row: &[f32], first: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut all = [first; 16];
    let chunks = row.chunks_exact(16);
    let rest = chunks.remainder().iter().fold(first, |a, &b| join(a, b));
    for chunk in chunks {
        all.iter_mut().zip(chunk).for_each(|(a, &b)| *a = join(*a, b));
    }
    all.into_iter().fold(rest, join)
}

/// e^x within 5e-6 relatively for |x| ≤ 87 (the rounding of x·log₂e), 5e-7 near 0: branchless, so that it vectorises. e^f on
/// |f| ≤ ln(2)/2 by its Taylor series, whose next
/// term is below 1.2e-7.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5·2²³: adding it rounds to an integer
    let t = (x * std::f32::consts::LOG2_E).clamp(-126.0, 126.0);
    let rounded = t + ROUND;
    let f = (t - (rounded - ROUND)) * std::f32::consts::LN_2;
    let series = 1.0 + f * (1.0 + f * (0.5 + f * (1.0 / 6.0 + f * (1.0 / 24.0 + f * (1.0 / 120.0 + f / 720.0)))));
    let power = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32 - 127) << 23;
    series * f32::from_bits(power as u32)
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        for i in -8700..=8700 {
            let x = i as f32 * 0.01;
            assert!((f64::from(exp(x)) / f64::from(x).exp() - 1.0).abs() < 5e-6, "{x}: {}", exp(x));
            assert!((f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 1e-6, "{x}");
        }
        assert!(exp(-1e30) < 1e-37 && exp(f32::NAN).is_nan() && sigmoid(1e30) == 1.0 && sigmoid(-1e30) < 1e-37);
    }
}
