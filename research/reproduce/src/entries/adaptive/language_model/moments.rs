//! Sizes of gradients, learnt on public text.

use super::network::{Block, Network};
use super::scales::Scales;
use serde::{Deserialize, Serialize};

/// Mean squares of gradients, and how often each word was seen.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Learnt {
    /// Mean square of each weight's gradients.
    squares: Vec<f32>,
    seen: Vec<u64>,
}

/// What is kept of the squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Kept {
    /// Of each matrix those of its rows and of its columns (as Adafactor keeps them): E g_rc² ≈ rows[r]·columns[c].
    Factored,
    /// Rows and columns as in `Factored`, and all words have the moments of the mean word.
    WordsAlike,
    /// One for each weight, as the source keeps them.
    PerWeight,
}

/// E g² of the weights, up to what [`Kept`] leaves out.
#[derive(Clone)]
pub(super) struct Moments {
    network: Network,
    kept: Parts,
}

#[derive(Clone)]
enum Parts {
    /// For each block mean squares of rows, and of columns over their mean.
    Factored(Vec<[Vec<f32>; 2]>),
    PerWeight(Vec<f32>),
}

/// Sums of the squares of gradients over sequences.
pub(super) struct Squares {
    sums: Vec<f64>,
    sequences: u64,
}

/// A word seen fewer times than this shares its moments with all others of the kind: few public gradients say little about it.
const RARE: u64 = 10;
/// σ is floored at this share of its median, as in the source.
const FLOOR: f64 = 1e-3;

impl Squares {
    pub(super) fn new(network: Network) -> Self {
        Self { sums: vec![0.0; network.parameters()], sequences: 0 }
    }

    /// One gradient in pieces.
    pub(super) fn add(&mut self, pieces: &[(usize, &[f32])]) {
        self.sequences += 1;
        for (start, piece) in pieces {
            self.sums[*start..].iter_mut().zip(*piece).for_each(|(s, g)| *s += f64::from(g * g));
        }
    }

    pub(super) fn merged(mut self, other: Self) -> Self {
        self.sequences += other.sequences;
        self.sums.iter_mut().zip(&other.sums).for_each(|(a, b)| *a += b);
        self
    }

    /// `seen`: how often each word occurs in the text.
    pub(super) fn learnt(self, seen: Vec<u64>) -> Learnt {
        let n = self.sequences.max(1) as f64;
        Learnt { squares: self.sums.into_iter().map(|s| (s / n) as f32).collect(), seen }
    }
}

impl Learnt {
    pub(super) fn moments(&self, network: Network, kept: Kept) -> Moments {
        let parts = match kept {
            Kept::PerWeight => Parts::PerWeight(self.per_weight(network)),
            Kept::Factored | Kept::WordsAlike => {
                Parts::Factored(network.blocks().iter().map(|&b| self.factored(b, kept)).collect())
            }
        };
        Moments { network, kept: parts }
    }

    fn factored(&self, block: Block, kept: Kept) -> [Vec<f32>; 2] {
        let (mut rows, mut columns) = (vec![0.0f64; block.rows], vec![0.0f64; block.columns]);
        for (row, entries) in rows.iter_mut().zip(self.squares[block.range()].chunks_exact(block.columns)) {
            for (column, s) in columns.iter_mut().zip(entries) {
                *column += f64::from(*s);
                *row += f64::from(*s);
            }
        }
        // embedding by rows, output and its bias by columns
        for sums in [&mut rows, &mut columns] {
            if sums.len() == self.seen.len() {
                let alike = |&count: &u64| kept == Kept::WordsAlike || count < RARE;
                share(sums, |word| alike(&self.seen[word]));
            }
            floor(sums);
        }
        let total: f64 = columns.iter().sum();
        let row = rows.iter().map(|s| (s / block.columns as f64) as f32).collect();
        let column = columns.iter().map(|s| (s * block.columns as f64 / total) as f32).collect();
        [row, column]
    }

    fn per_weight(&self, network: Network) -> Vec<f32> {
        let mut all: Vec<f64> = self.squares.iter().map(|s| f64::from(*s)).collect();
        let words = self.seen.len();
        for block in network.blocks() {
            let places: Vec<Vec<usize>> = if block.rows == words {
                (0..block.columns).map(|c| (0..words).map(|r| block.start + r * block.columns + c).collect()).collect()
            } else if block.columns == words {
                (0..block.rows).map(|r| (0..words).map(|c| block.start + r * words + c).collect()).collect()
            } else {
                continue;
            };
            for of_words in places {
                let mut line: Vec<f64> = of_words.iter().map(|&at| all[at]).collect();
                share(&mut line, |word| self.seen[word] < RARE);
                of_words.iter().zip(line).for_each(|(&at, s)| all[at] = s);
            }
        }
        floor(&mut all);
        all.into_iter().map(|s| s as f32).collect()
    }
}

/// The words that `alike` names get the mean of theirs.
fn share(sums: &mut [f64], alike: impl Fn(usize) -> bool) {
    let those: Vec<usize> = (0..sums.len()).filter(|&word| alike(word)).collect();
    let mean = those.iter().map(|&word| sums[word]).sum::<f64>() / those.len().max(1) as f64;
    those.into_iter().for_each(|word| sums[word] = mean);
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
        let power = |list: &[f32]| list.iter().map(|s| f64::from(*s).powf(-0.5 * exponent)).collect::<Vec<f64>>();
        let size = |moments: &[f32], scales: &[f64]| {
            moments.iter().zip(scales).map(|(m, s)| f64::from(*m) * s * s).sum::<f64>()
        };
        let narrow = |list: Vec<f64>, by: f64| list.into_iter().map(|s| (s / by) as f32).collect::<Vec<f32>>();
        match &self.kept {
            Parts::Factored(lists) => {
                let all: Vec<[Vec<f64>; 2]> = lists.iter().map(|l| [power(&l[0]), power(&l[1])]).collect();
                let total: f64 = lists.iter().zip(&all).map(|(m, s)| size(&m[0], &s[0]) * size(&m[1], &s[1])).sum();
                let factors = all.into_iter().map(|[rows, columns]| [narrow(rows, total.sqrt()), narrow(columns, 1.0)]);
                Scales::by_row_and_column(factors.collect())
            }
            Parts::PerWeight(list) => {
                let all = power(list);
                let total = size(list, &all);
                self.network.ones().and(narrow(all, total.sqrt()))
            }
        }
    }
}
