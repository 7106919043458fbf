//! What can be expected of an encoder's rows, were columns independent, numbers in the lower middle of their ranges (or after the private quantile transform, where
//! that is done) and levels equally frequent.
//!
//! Written with functions of the columns instead of weights: a function of a column that is learnt along the wave `cos kπF`, F the column's
//! distribution, has the second moment ‖E e·√2 cos kπF‖², where e is the column's block; a product of two columns has the products of theirs, and takes part
//! in what either column does alone.

use super::Encoder;
use super::block::MAX_CENTRED;
use super::form::{FeatureForm, TEXT_BLOCKS};
use super::numeric::{self, splines};
use crate::encoder_form::TextForm;
use crate::text::COUNTS;
use crate::word_vectors::WordVectors;
use dpopt_objective::records::Directions;
use std::collections::BTreeMap;

/// Waves of a numeric column, and of a number in a product.
const WAVES: usize = 32;
const WAVES_OF_A_PAIR: usize = 8;
/// Points at which waves are looked at.
const POINTS: usize = 256;
/// Share of the variance of good scores that no column has alone, and of the rows' constant. These and the two powers below were chosen
/// on generated tables (docs/decisions/0011).
const TOGETHER: f64 = 0.15;
const CONSTANT: f64 = 0.1;
/// The k-th wave of a column has k to the minus this of the column's variance; in a product, of the pair's.
const SMOOTHNESS: f64 = 1.75;
const SMOOTHNESS_OF_A_PAIR: f64 = 1.5;

/// Words that a language has for this purpose: by Zipf's law word j has the share 1/(j·H) of a text, H the harmonic number.
const WORDS: f64 = 30_000.0;
/// Values that a hashed column is taken to have, by Zipf's law: how many it has is a fact of the records. Chosen on generated tables
/// (docs/decisions/0037).
const VALUES: usize = 64;
/// Share of what texts say that counts tell; and of the rest that the vectors of words tell, did all words have one; those of few words come
/// from little text, and tell less than the share of words that they have. These were chosen on texts (docs/decisions/0012).
const COUNTED: f64 = 0.15;
/// Good scores of texts vary this many times as much as those of other columns: classes of texts lie further apart, and a rare one is found only if scores may
/// be large. Of texts with public vectors: what these tell lies in few directions, and less is needed.
const TELLING: f64 = 8.0;
const TELLING_WITH_VECTORS: f64 = 5.0;
const IN_VECTORS: f64 = 0.7;
/// Mean square of a count's feature against 1, and its variance.
const SQUARE_OF_A_COUNT: f64 = 0.1;
const VARIANCE_OF_A_COUNT: f64 = 0.05;

/// A column's block of norm 1: its mean, and its second moments with the share of the column's variance that lies there.
#[derive(Clone)]
struct Parts {
    mean: f64,
    /// Mean of the squared norm.
    square: f64,
    /// How many directions, the moment and the share of each.
    waves: Vec<(f64, f64, f64)>,
}

/// How a number's line is written.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Ends,
    Centred,
}

fn line_of(centred: bool) -> Line {
    if centred { Line::Centred } else { Line::Ends }
}

/// Where the share `rank` of a column's numbers lies below, of a range that was declared beforehand: most lie in its lower middle
/// (Kumaraswamy's distribution: mean .37, standard deviation .17).
fn place(rank: f64) -> f64 {
    (1.0 - (1.0 - rank).powf(1.0 / 5.0)).sqrt()
}

impl Parts {
    fn of_levels(levels: usize, centred: bool) -> Self {
        let (mean, others) = (1.0 / levels as f64, (levels - 1).max(1) as f64);
        let centred = centred && (2..=MAX_CENTRED as usize).contains(&levels);
        let (mean, moment) = if centred { (0.0, 1.0 / others) } else { (mean, mean) };
        Self { mean, square: 1.0, waves: vec![(others, moment, 1.0 / others)] }
    }

    /// As words and hashed values are: a few are frequent, and the frequent ones say as much as all rare ones together.
    fn of_slots(slots: usize) -> Self {
        let harmonic: f64 = (1..=slots).map(|j| 1.0 / j as f64).sum();
        let share = |j: usize| 1.0 / (j as f64 * harmonic);
        Self { mean: 0.0, square: 1.0, waves: (1..=slots).map(|j| (1.0, share(j), share(j))).collect() }
    }

    /// A text: its counts, its words and its vector. What vectors tell is learnt along them, the rest word by word; a word that shares its slot with
    /// others cannot be told from them. Shares are of sum [`TELLING`] (or [`TELLING_WITH_VECTORS`]), what no direction has in one without a moment.
    fn of_text(form: &TextForm, vectors: Option<&WordVectors>) -> Self {
        let blocks = TEXT_BLOCKS as f64;
        let harmonic = |words: f64| words.ln() + 0.5772 + 0.5 / words;
        let told = match vectors {
            Some(vectors) if form.vectors > 0.0 => {
                IN_VECTORS * (harmonic(vectors.words() as f64) / harmonic(WORDS)).min(1.0).powi(3)
            }
            _ => 0.0,
        };
        let counted = if form.counts > 0.0 { COUNTED } else { 0.0 };
        let mut waves = Vec::new();
        if form.counts > 0.0 {
            // long texts have more of everything
            let all: f64 = (1..=COUNTS.len()).map(|j| 1.0 / j as f64).sum();
            let along = |j: usize| 1.0 / (j as f64 * all);
            let moment = |j: usize| blocks * form.counts * VARIANCE_OF_A_COUNT * along(j);
            waves.extend((1..=COUNTS.len()).map(|j| (1.0, moment(j), counted * along(j))));
        }
        if let (Some(vectors), true) = (vectors, told > 0.0) {
            let along = |moment: &f64| (1.0, blocks * form.vectors * moment, (1.0 - counted) * told * moment);
            waves.extend(vectors.moments().iter().map(along));
        }
        // what neither counts nor vectors tell
        let mut missed = (1.0 - counted) * (1.0 - told);
        if form.words() > 0.0 {
            let slots = f64::from(1u32 << form.bits);
            let (rest, frequent) = (missed, WORDS.min(slots));
            // rarer words than there are slots lie in those of others
            let crowded = (1.0 - harmonic(frequent) / harmonic(WORDS)) / frequent;
            let mut first = 1.0f64;
            while first <= frequent {
                // words of nearly the same frequency together
                let last = (1.25 * first).floor().max(first).min(frequent);
                let words = last - first + 1.0;
                let before = if first > 1.0 { harmonic(first - 1.0) } else { 0.0 };
                let frequency = (harmonic(last) - before) / words / harmonic(WORDS);
                let share = rest * frequency * frequency / (frequency + 1.0 / slots);
                waves.push((words, blocks * form.words() * (frequency + crowded), share));
                missed -= words * share;
                first = last + 1.0;
            }
        }
        waves.push((1.0, 0.0, missed));
        let telling = if told > 0.0 { TELLING_WITH_VECTORS } else { TELLING };
        waves.iter_mut().for_each(|wave| wave.2 *= telling);
        let square = blocks * (form.counts * SQUARE_OF_A_COUNT + form.words() + form.vectors);
        Self { mean: blocks * form.counts * (SQUARE_OF_A_COUNT - VARIANCE_OF_A_COUNT), square, waves }
    }

    fn of_numbers(scales: &[u32], line: Option<Line>, spread: bool, waves: usize, smoothness: f64) -> Self {
        let before = line.map_or(0, |line| numeric::line(line == Line::Centred) as usize);
        let features = scales.iter().sum::<u32>() as usize + before;
        let mut sums = vec![vec![0.0; features]; waves + 1];
        let mut squares = 0.0;
        for point in 0..POINTS {
            let rank = (point as f64 + 0.5) / POINTS as f64;
            let unit = if spread { rank } else { place(rank) };
            let mut block = vec![0.0; features];
            match line {
                None => {}
                Some(Line::Centred) => block[0] = 2.0 * unit - 1.0,
                Some(Line::Ends) => (block[0], block[1]) = (1.0 - unit, unit),
            }
            let mut first = before;
            for &knots in scales {
                let (i, left, right) = splines(unit, knots);
                block[first + i as usize] += left;
                block[first + i as usize + 1] += right;
                first += knots as usize;
            }
            let square = block.iter().map(|x| x * x).sum::<f64>();
            let short = scales.is_empty() && line == Some(Line::Centred);
            let norm = if short { 1.0 } else { square.sqrt() };
            squares += square / (norm * norm) / POINTS as f64;
            for (k, sum) in sums.iter_mut().enumerate() {
                let wave = if k == 0 { 1.0 } else { 2f64.sqrt() * (k as f64 * std::f64::consts::PI * rank).cos() };
                sum.iter_mut().zip(&block).for_each(|(s, x)| *s += wave * x / norm / POINTS as f64);
            }
        }
        let square = |v: &Vec<f64>| v.iter().map(|x| x * x).sum::<f64>();
        let share = |k: usize| (k as f64).powf(-smoothness);
        let all: f64 = (1..=waves).map(share).sum();
        let waves = (1..=waves).map(|k| (1.0, square(&sums[k]), share(k) / all)).collect();
        Self { mean: square(&sums[0]), square: squares, waves }
    }
}

impl Encoder {
    /// What can be expected of rows before one is read; `None` where some are vectors as they are, or texts in the first versions' form.
    pub fn directions(&self) -> Option<Directions> {
        self.expected(vec![(self.pairs.len() as f64, 1.0, 1.0)])
    }

    /// What can be expected of rows after [`weigh_pairs`](Self::weigh_pairs): by Zipf's law the j-th pair has a share proportional to 1/j of the effect
    /// of pairs, and of the products' norm.
    pub fn directions_after_weighing(&self) -> Option<Directions> {
        let mut ranks = Vec::new();
        let all = self.pairs.len();
        let mean = (1..=all).map(|rank| 1.0 / rank as f64).sum::<f64>() / all.max(1) as f64;
        let mut first = 1;
        while first <= all {
            // ranks of nearly the same part together
            let last = (first + first / 4).min(all);
            let count = (last - first + 1) as f64;
            let part = (first..=last).map(|rank| 1.0 / rank as f64).sum::<f64>() / count / mean;
            ranks.push((count, part, part));
            first = last + 1;
        }
        self.expected(ranks)
    }

    /// What rows of centred blocks are multiplied with to have their norm, as far as it can be expected; `squares`: of the blocks' norms, added up.
    fn longer(&self, squares: f64) -> f64 {
        let expected = self.scale.powi(2) * (1.0 + squares) + self.pair_scale.powi(2) * self.pairs.len() as f64;
        if self.spec.scales_rows() { self.spec.row_norm / expected.sqrt() } else { 1.0 }
    }

    /// What the intercept is in a row, as far as that can be expected; `None` without one.
    pub fn constant(&self) -> Option<f64> {
        let numbers =
            Parts::of_numbers(&self.splines, Some(line_of(self.spec.centred)), self.spec.spread, WAVES, SMOOTHNESS);
        // levels, hashed values and texts have the norm 1
        let square =
            |form: &FeatureForm| if matches!(form, FeatureForm::Numeric { .. }) { numbers.square } else { 1.0 };
        let squares = self.spec.features.iter().map(|feature| square(&feature.kind)).sum();
        self.has_intercept().then(|| self.scale * self.longer(squares))
    }

    /// What can be expected where so many of the pairs have so much of the mean share of what two columns do together, and of the mean squared norm.
    fn expected(&self, ranks: Vec<(f64, f64, f64)>) -> Option<Directions> {
        let features = &self.spec.features;
        let form = self.spec.text.as_ref().and_then(|text| self.spec.checked_text(text).ok());
        let text = form.filter(|_| !self.needs_vectors() || self.vectors.is_some());
        let text = text.map(|form| Parts::of_text(&form, self.vectors.as_deref()));
        if features.iter().any(|f| match f.kind {
            FeatureForm::Sparse { .. } => true,
            FeatureForm::Text { .. } => text.is_none(),
            _ => false,
        }) {
            return None;
        }
        let (centred, spread) = (self.spec.centred, self.spec.spread);
        let numbers = Parts::of_numbers(&self.splines, Some(line_of(centred)), spread, WAVES, SMOOTHNESS);
        let form = |at: usize| &features[at].kind;
        let coarse = self
            .spec
            .pairs
            .as_ref()
            .map(|p| Parts::of_numbers(&[p.knots], None, spread, WAVES_OF_A_PAIR, SMOOTHNESS_OF_A_PAIR));
        let alone = |at: usize| match form(at) {
            FeatureForm::Text { .. } => text.clone().unwrap_or_else(|| numbers.clone()),
            FeatureForm::Categorical { levels } => Parts::of_levels(levels.len(), centred),
            FeatureForm::Hashed { bits } => Parts::of_slots((1usize << bits).min(VALUES)),
            _ => numbers.clone(),
        };
        let together = |at: usize| match (form(at), &coarse) {
            (FeatureForm::Categorical { levels }, _) => Parts::of_levels(levels.len(), false),
            (FeatureForm::Numeric { .. }, Some(coarse)) => coarse.clone(),
            _ => alone(at),
        };
        // what tells columns apart: 0 for numbers, 1 for texts, and odd and even for levels and hashes
        let kind = |at: usize| match form(at) {
            FeatureForm::Text { .. } => 1,
            FeatureForm::Categorical { levels } => 2 * levels.len() + 2,
            FeatureForm::Hashed { bits } => 2 * *bits as usize + 1,
            _ => 0,
        };
        let mut means: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
        for at in 0..features.len() {
            let parts = || (alone(at).mean, alone(at).square, together(at).mean);
            means.entry(kind(at)).or_insert_with(parts);
        }
        let of = |at: usize| means[&kind(at)];
        let square = |x: f64| x * x;
        let squares = (0..features.len()).map(|at| of(at).1).sum();
        let longer = square(self.longer(squares));
        let (each, of_pair) = (square(self.scale) * longer, square(self.pair_scale) * longer);
        let mut found = Directions::default();
        let constant = each * (1.0 + (0..features.len()).map(|at| of(at).0).sum::<f64>())
            + of_pair * self.pairs.iter().map(|p| of(p.first).2 * of(p.second).2).sum::<f64>();
        found.push(1.0, constant, CONSTANT);
        // what each column does alone: its block, and its part of products
        let mut through = vec![0.0; features.len()];
        for pair in &self.pairs {
            through[pair.first] += of_pair * of(pair.second).2;
            through[pair.second] += of_pair * of(pair.first).2;
        }
        let share = (1.0 - CONSTANT - TOGETHER) / features.len() as f64;
        // columns of one kind are alike: there may be many
        let mut alike: BTreeMap<(usize, u64), (f64, usize)> = BTreeMap::new();
        for (at, more) in through.iter().enumerate() {
            alike.entry((kind(at), more.to_bits())).or_insert((0.0, at)).0 += 1.0;
        }
        for (columns, at) in alike.into_values() {
            for (k, &(count, moment, part)) in alone(at).waves.iter().enumerate() {
                let more =
                    if coarse.is_some() { together(at).waves.get(k).map_or(0.0, |w| through[at] * w.1) } else { 0.0 };
                found.push(columns * count, each * moment + more, share * part);
            }
        }
        // and what two do together: the same for pairs of the same kinds
        let able = |f: &FeatureForm| f.levels_in_pairs(2).is_some();
        let columns = features.iter().filter(|f| able(&f.kind)).count();
        let pairs = (columns * columns.saturating_sub(1) / 2) as f64;
        let share = TOGETHER / pairs.max(1.0);
        let mut kinds: BTreeMap<(usize, usize), (f64, usize, usize)> = BTreeMap::new();
        for pair in &self.pairs {
            let (a, b) = (kind(pair.first), kind(pair.second));
            kinds.entry((a.min(b), a.max(b))).or_insert((0.0, pair.first, pair.second)).0 += 1.0;
        }
        for (count, first, second) in kinds.into_values() {
            for &(m, left, a) in &together(first).waves {
                for &(n, right, b) in &together(second).waves {
                    for &(of_rank, part, norm) in &ranks {
                        let count = count * of_rank / self.pairs.len() as f64;
                        found.push(count * m * n, of_pair * norm * left * right, share * part * a * b);
                    }
                }
            }
        }
        let missed = (pairs - self.pairs.len() as f64).max(0.0);
        found.missed += missed * share;
        Some(found)
    }
}
