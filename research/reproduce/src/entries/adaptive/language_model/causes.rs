//! Why PAGAN does not beat DP-SGD on the language model: clip, moments and steps changed one at a time.
//!
//! Registered before the run, from a first one with one seed of which nothing was kept: at ε = 9.6 (the nε of the source's
//! ε = 1) and 8,000 words
//! - PAGAN does not reach DP-SGD at any of the steps, so the grid of steps is not the cause;
//! - in a ball AdaGrad's steps are at least as good as one length, so they are not;
//! - without noise the ellipsoid costs less than 10 %, so the bias of its clip is not;
//! - moments of the very gradients, or one for each weight, do not help, so neither their age nor their factors are;
//! - with fewer words PAGAN gains on DP-SGD.
//!
//! What is left is the noise of the ellipsoid, whose [`geometry`] is computed (derived, not known from a run): the ellipsoid
//! is the best one where the mean gradient has the same share of σ in all weights; here rare words have the smaller share,
//! so that the release in a ball should point down more steeply.

mod geometry;
mod outcome;
#[cfg(test)]
mod tests;

use super::moments::{Kept, Learnt};
use super::network::Network;
use super::plain::PlainMeans;
use super::scales::Scales;
use super::training::{self, Course, Means, PrivateMeans, Trace, views};
use super::{BATCH, CLIP_NORM, EPOCHS, Material, PUBLISHED, PublicEpoch, WORDS, generated, wikitext};
use crate::entries::adaptive::DELTA;
use crate::{Failure, Lab, Outcome, Scale, Trial};
use geometry::Place;
use serde::Serialize;

/// Numbers per word, where the source has 120.
const WIDTH: usize = 16;
/// Vocabularies; the first is the source's.
const VOCABULARIES: [usize; 3] = [WORDS, 4000, 500];
/// Every so many rounds, an epoch, the moments of [`Clip::Fresh`] and [`Clip::Renewed`] are taken anew, from so many sequences.
const FRESH: (u64, usize) = (25, 1500);

/// The shape of clip and noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Clip {
    /// None at all, of runs without noise.
    Unclipped,
    Ball,
    /// √C ∝ σ^−exponent with public moments.
    Ellipsoid {
        kept: Kept,
        exponent: f64,
    },
    /// PAGAN's, with the moments that the gradients on the *private* text have at the time: nothing that may be run.
    Fresh,
    /// PAGAN's clip with the moments that gradients on the *public* text have at the released weights: this may be run.
    Renewed,
}

const ELLIPSOID: Clip = Clip::Ellipsoid { kept: Kept::Factored, exponent: 2.0 / 3.0 };
const PER_WEIGHT: Clip = Clip::Ellipsoid { kept: Kept::PerWeight, exponent: 2.0 / 3.0 };
const WORDS_ALIKE: Clip = Clip::Ellipsoid { kept: Kept::WordsAlike, exponent: 2.0 / 3.0 };
const OTHER_WAY: Clip = Clip::Ellipsoid { kept: Kept::Factored, exponent: -1.0 / 3.0 };

/// A way to train.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Way {
    clip: Clip,
    /// AdaGrad's steps, or one length for all.
    diagonal: bool,
}

impl Way {
    const fn of(clip: Clip, diagonal: bool) -> Self {
        Self { clip, diagonal }
    }

    fn name(self) -> &'static str {
        match (self.clip, self.diagonal) {
            (Clip::Unclipped, _) => "unclipped, AdaGrad",
            (Clip::Ball, false) => "ball, one step length (DP-SGD)",
            (Clip::Ball, true) => "ball, AdaGrad",
            (ELLIPSOID, false) => "ellipsoid, one step length",
            (ELLIPSOID, true) => "ellipsoid, AdaGrad (PAGAN)",
            (PER_WEIGHT, _) => "moments per weight",
            (WORDS_ALIKE, _) => "all words alike",
            (Clip::Fresh, _) => "fresh moments",
            (Clip::Renewed, _) => "fresh moments of public text",
            (OTHER_WAY, _) => "wide where gradients are large",
            (Clip::Ellipsoid { .. }, _) => "another ellipsoid",
        }
    }
}

const DP_SGD: Way = Way::of(Clip::Ball, false);
const ADAGRAD: Way = Way::of(Clip::Ball, true);
const PAGAN: Way = Way::of(ELLIPSOID, true);
/// Shape of clip and noise × steps.
const CROSS: [Way; 4] = [DP_SGD, ADAGRAD, Way::of(ELLIPSOID, false), PAGAN];
/// PAGAN with something changed.
const VARIANTS: [Way; 5] = [
    Way::of(PER_WEIGHT, true),
    Way::of(WORDS_ALIKE, true),
    Way::of(Clip::Fresh, true),
    Way::of(OTHER_WAY, true),
    Way::of(Clip::Renewed, true),
];
/// The trainings that are made without noise.
const NOISELESS: [Way; 3] = [Way::of(Clip::Unclipped, true), ADAGRAD, PAGAN];

/// What one training depends on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Cell {
    words: usize,
    width: usize,
    way: Way,
    /// ε of the budget; none for a training without noise.
    epsilon: Option<f64>,
    rate: f64,
}

impl Cell {
    /// Whether `other` is this training, perhaps with another step.
    fn is_beside(&self, other: &Self) -> bool {
        Self { rate: self.rate, ..*other } == *self
    }
}

/// Texts and moments for each size of network.
struct Workshop {
    places: Vec<(Material, Learnt)>,
    probability: f64,
    rounds: u64,
}

impl Workshop {
    fn find(&self, words: usize, width: usize) -> Result<&(Material, Learnt), Failure> {
        let is = |(m, _): &&(Material, Learnt)| (m.network.words, m.network.width) == (words, width);
        self.places.iter().find(is).ok_or_else(|| Failure::of("a network that was not prepared"))
    }

    fn course(&self, way: Way, rate: f64) -> Course {
        Course {
            diagonal: way.diagonal,
            rate,
            clip_norm: CLIP_NORM,
            sampling_probability: self.probability,
            rounds: self.rounds,
            looks: 1,
        }
    }

    fn train(&self, cell: &Cell, trial: Trial) -> Result<Trace, Failure> {
        let (Material { network, corpus, public }, learnt) = self.find(cell.words, cell.width)?;
        let course = self.course(cell.way, cell.rate);
        let scales = scales(*network, learnt, cell.way.clip);
        let Some(epsilon) = cell.epsilon else {
            let bound = if cell.way.clip == Clip::Unclipped { f64::INFINITY } else { CLIP_NORM };
            let mut means = PlainMeans::new(*network, &corpus.train, scales, bound, self.probability, trial);
            return training::descend(*network, corpus, &course, &mut means, trial.shared_seed);
        };
        let private = PrivateMeans::new(*network, &corpus.train, scales, &course, (epsilon, DELTA), trial)?;
        let noise_multiplier = private.noise_multiplier;
        let text = match cell.way.clip {
            Clip::Fresh => Some(&corpus.train[..]),
            Clip::Renewed => Some(&public[..]),
            _ => None,
        };
        let mut means = Fresh { private, network: *network, text, round: 0 };
        let trace = training::descend(*network, corpus, &course, &mut means, trial.shared_seed)?;
        Ok(Trace { noise_multiplier, ..trace })
    }
}

fn scales(network: Network, learnt: &Learnt, clip: Clip) -> Scales {
    match clip {
        Clip::Unclipped => network.ones(),
        Clip::Ball => learnt.moments(network, Kept::Factored).scales(0.0),
        Clip::Ellipsoid { kept, exponent } => learnt.moments(network, kept).scales(exponent),
        Clip::Fresh | Clip::Renewed => scales(network, learnt, ELLIPSOID),
    }
}

/// PAGAN's scales for the moments that gradients on a text have at `weights`.
fn fresh(network: Network, text: &[Vec<u32>], weights: &[f32]) -> Scales {
    let some = super::spread(text, FRESH.1);
    let squares = training::squares(network, weights, &views(some.iter()));
    scales(network, &squares.learnt(training::counts(network, text)), ELLIPSOID)
}

/// Private means whose ellipsoid gets the moments of a text, if there is one, once an epoch.
struct Fresh<'a> {
    private: PrivateMeans<'a>,
    network: Network,
    text: Option<&'a [Vec<u32>]>,
    round: u64,
}

impl Means for Fresh<'_> {
    fn mean(&mut self, weights: &[f32]) -> Result<Vec<f64>, Failure> {
        if let Some(text) = self.text.filter(|_| self.round.is_multiple_of(FRESH.0)) {
            self.private.rescale(fresh(self.network, text, weights));
        }
        self.round += 1;
        self.private.mean(weights)
    }
}

/// A run and its repeats.
struct Cells {
    cell: Cell,
    traces: Vec<Trace>,
}

pub(in crate::entries::adaptive) fn run(lab: &Lab) -> Result<Outcome, Failure> {
    let full = lab.scale == Scale::Full;
    let sizes: Vec<Network> = if full {
        VOCABULARIES.map(|words| Network { words, width: WIDTH }).into_iter().chain([PUBLISHED]).collect()
    } else {
        vec![generated(lab.seed).network]
    };
    let epoch = PublicEpoch { rate: 0.1, batch: lab.pick(20, 250) };
    let mut workshop = Workshop { places: Vec::new(), probability: 0.05, rounds: 12 };
    for network in &sizes {
        let material = if full { wikitext(lab, *network)? } else { generated(lab.seed) };
        let learnt =
            lab.trials("public moments", &[(epoch, network.words, network.width)], 1, |(epoch, ..), trial| {
                Ok(training::public_moments(*network, &material.public, epoch.rate, epoch.batch, trial.shared_seed))
            })?;
        let learnt = learnt.into_iter().flatten().next().ok_or_else(|| Failure::of("no moments"))?;
        workshop.places.push((material, learnt));
    }
    let base = sizes[0];
    let n = workshop.places[0].0.corpus.train.len();
    if full {
        workshop.probability = BATCH / n as f64;
        workshop.rounds = (EPOCHS / workshop.probability).round() as u64;
    }
    let workshop = &workshop;
    // budgets: the nε of the source's ε = 1, and ε = 1
    let budgets: Vec<f64> = lab.pick(vec![9.6], vec![9.6, 1.0]);
    let rates: Vec<f64> = lab.pick(vec![0.1, 0.3], vec![0.03, 0.1, 0.3, 1.0]);
    let repeats = lab.pick(1, 3);
    for (name, value) in [("parameters", base.parameters()), ("sequences", n), ("vocabulary", base.words)] {
        lab.setting(name, value)?;
    }
    lab.setting("budgets", &budgets)?;
    lab.setting("delta", DELTA)?;
    lab.setting("clip norm", CLIP_NORM)?;
    lab.setting("rounds", workshop.rounds)?;
    lab.setting("steps", &rates)?;
    lab.setting("repeats", repeats)?;

    let cell = |network: Network, way: Way, epsilon: Option<f64>, rate: f64| Cell {
        words: network.words,
        width: network.width,
        way,
        epsilon,
        rate,
    };
    let train = |cells: Vec<Cell>, repeats: u32| -> Result<Vec<Cells>, Failure> {
        let traces = lab.trials("training", &cells, repeats, |cell, trial| workshop.train(cell, trial))?;
        Ok(cells.into_iter().zip(traces).map(|(cell, traces)| Cells { cell, traces }).collect())
    };

    // the source's size, where adaptive-language-model has DP-SGD and PAGAN at step 0.1
    let published = if full {
        let ways = [(PAGAN, 0.3), (Way::of(PER_WEIGHT, true), 0.1), (ADAGRAD, 0.3), (ADAGRAD, 0.1)];
        train(ways.map(|(way, rate)| cell(PUBLISHED, way, Some(budgets[0]), rate)).to_vec(), 1)?
    } else {
        Vec::new()
    };
    let mut groups: Vec<(Network, Vec<Way>, Option<f64>)> = Vec::new();
    groups.push((base, CROSS.into_iter().chain(VARIANTS).collect(), Some(budgets[0])));
    groups.extend(budgets[1..].iter().map(|&epsilon| (base, CROSS.to_vec(), Some(epsilon))));
    groups.push((base, NOISELESS.to_vec(), None));
    let others = sizes.iter().skip(1).filter(|s| s.width == base.width);
    groups.extend(others.map(|&network| (network, CROSS.to_vec(), Some(budgets[0]))));
    // with fewer words the best steps are smaller
    let smaller: Vec<f64> = [0.01].into_iter().chain(rates.iter().copied()).collect();
    let search: Vec<Cell> = groups
        .iter()
        .flat_map(|(network, ways, epsilon)| {
            let rates = if network.words < base.words { &smaller } else { &rates };
            ways.iter().flat_map(move |&way| rates.iter().map(move |&rate| cell(*network, way, *epsilon, rate)))
        })
        .collect();
    let searched = train(search, 1)?;
    let mut chosen: Vec<Cell> = Vec::new();
    for run in &searched {
        let beside = searched.iter().filter(|other| other.cell.is_beside(&run.cell));
        let least = beside.min_by(|a, b| a.traces[0].test.total_cmp(&b.traces[0].test));
        if least.is_some_and(|least| least.cell == run.cell) {
            chosen.push(run.cell);
        }
    }
    let best = train(chosen, repeats)?;
    let at: Vec<u64> = lab.pick(vec![0, 4], vec![0, 25, 100]);
    let seen: Vec<(usize, usize, f64)> =
        sizes.iter().filter(|s| s.width == base.width).map(|s| (s.words, s.width, budgets[0])).collect();
    let places = lab.trials("geometry", &seen, 1, |(words, width, epsilon), trial| {
        geometry::places(workshop, workshop.find(*words, *width)?, *epsilon, &at, trial)
    })?;
    let places: Vec<(usize, Place)> = seen
        .iter()
        .zip(places)
        .flat_map(|((words, ..), places)| places.into_iter().flatten().map(|place| (*words, place)))
        .collect();
    let frequencies = super::of_frequencies(base.words, &workshop.places[0].0.corpus);
    let (sizes, budgets) = (&sizes[..], &budgets[..]);
    Ok(outcome::of(&outcome::Runs { base, sizes, budgets, frequencies, searched, best, published, places }))
}
