//! Sizes of gradients, learnt on public text: of each matrix those of its rows and of its columns (as Adafactor keeps them).

use super::network::{Block, Network, Scales};
use serde::{Deserialize, Serialize};

/// For each block mean squares of the gradient by row, and by column over their mean: E g_rc² ≈ rows[r]·columns[c].
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Moments(Vec<[Vec<f32>; 2]>);

/// Sums of squares of rows and of columns.
pub(super) struct Squares {
    blocks: Vec<Block>,
    sums: Vec<[Vec<f64>; 2]>,
    sequences: u64,
}

/// A word seen fewer times than this shares its moments with all others of the kind: few public gradients say little about it.
const RARE: u64 = 10;
/// σ is floored at this share of its median, as in the source.
const FLOOR: f64 = 1e-3;

impl Squares {
    pub(super) fn new(network: Network) -> Self {
        let blocks = network.blocks();
        let sums = blocks.iter().map(|b| [vec![0.0; b.rows], vec![0.0; b.columns]]).collect();
        Self { blocks, sums, sequences: 0 }
    }

    /// One gradient in pieces, each of whole rows.
    pub(super) fn add(&mut self, pieces: &[(usize, &[f32])]) {
        self.sequences += 1;
        for (start, piece) in pieces {
            for (block, [rows, columns]) in self.blocks.iter().zip(&mut self.sums) {
                let range = block.range();
                let (from, to) = (range.start.max(*start), range.end.min(start + piece.len()));
                if from >= to {
                    continue;
                }
                let first = (from - block.start) / block.columns;
                for (entries, sum) in
                    piece[from - start..to - start].chunks_exact(block.columns).zip(&mut rows[first..])
                {
                    let mut squares = 0.0f32;
                    for (g, column) in entries.iter().zip(columns.iter_mut()) {
                        squares += g * g;
                        *column += f64::from(g * g);
                    }
                    *sum += f64::from(squares);
                }
            }
        }
    }

    pub(super) fn merged(mut self, other: Self) -> Self {
        self.sequences += other.sequences;
        let pairs = self.sums.iter_mut().flatten().flatten().zip(other.sums.iter().flatten().flatten());
        pairs.for_each(|(a, b)| *a += b);
        self
    }

    /// `seen`: how often each word occurs in the public text.
    pub(super) fn moments(mut self, seen: &[u64]) -> Moments {
        let words = seen.len();
        let n = self.sequences.max(1) as f64;
        let each = self.blocks.iter().zip(&mut self.sums).map(|(block, [rows, columns])| {
            // embedding by rows, output and its bias by columns
            for sums in [&mut *rows, &mut *columns] {
                if sums.len() == words {
                    share(sums, seen);
                }
                floor(sums);
            }
            let total: f64 = columns.iter().sum();
            let row = rows.iter().map(|s| (s / (n * block.columns as f64)) as f32).collect();
            let column = columns.iter().map(|s| (s * block.columns as f64 / total) as f32).collect();
            [row, column]
        });
        Moments(each.collect())
    }
}

fn share(sums: &mut [f64], seen: &[u64]) {
    let rare = || seen.iter().map(|&count| count < RARE);
    let count = rare().filter(|r| *r).count().max(1);
    let mean = sums.iter().zip(rare()).filter(|(_, r)| *r).map(|(s, _)| s).sum::<f64>() / count as f64;
    sums.iter_mut().zip(rare()).filter(|(_, r)| *r).for_each(|(s, _)| *s = mean);
}

fn floor(sums: &mut [f64]) {
    let mut positive: Vec<f64> = sums.iter().copied().filter(|s| *s > 0.0).collect();
    positive.sort_unstable_by(f64::total_cmp);
    let least = positive.get(positive.len() / 2).map_or(1.0, |median| FLOOR * FLOOR * median);
    sums.iter_mut().for_each(|s| *s = s.max(least));
}

impl Moments {
    /// √C ∝ σ^−`exponent`, scaled so that ΣC_jσ_j² = 1: the public gradients have mean squared norm 1 in the ellipsoid.
    pub(super) fn scales(&self, exponent: f64) -> Scales {
        let power = |list: &Vec<f32>| list.iter().map(|s| f64::from(*s).powf(-0.5 * exponent)).collect::<Vec<f64>>();
        let mut all: Vec<[Vec<f64>; 2]> = self.0.iter().map(|lists| lists.each_ref().map(power)).collect();
        let size = |moments: &[f32], scales: &[f64]| {
            moments.iter().zip(scales).map(|(m, s)| f64::from(*m) * s * s).sum::<f64>()
        };
        let total: f64 = self.0.iter().zip(&all).map(|(m, s)| size(&m[0], &s[0]) * size(&m[1], &s[1])).sum();
        all.iter_mut().for_each(|[rows, _]| rows.iter_mut().for_each(|s| *s /= total.sqrt()));
        Scales(all.into_iter().map(|lists| lists.map(|list| list.into_iter().map(|s| s as f32).collect())).collect())
    }
}
