//! What the trainings say: pictures, and the registered predictions beside them.

use super::geometry::{Place, SHAKEN, SHAPES};
use super::{ADAGRAD, CROSS, Cells, Clip, DP_SGD, ELLIPSOID, NOISELESS, PAGAN, VARIANTS, Way};
use crate::entries::adaptive::language_model::network::Network;
use crate::entries::adaptive::language_model::training::{FREQUENT, Trace};
use crate::{Compared, Outcome, Summary, Table, Verdict, cell};
use dpopt::report::chart::{Axis, Chart, Panel, Series};

/// The trainings of all parts, as they were computed.
pub(super) struct Runs<'a> {
    pub(super) base: Network,
    pub(super) sizes: &'a [Network],
    pub(super) budgets: &'a [f64],
    /// Perplexity of word frequencies.
    pub(super) frequencies: f64,
    /// One repeat for every step.
    pub(super) searched: Vec<Cells>,
    /// All repeats at the best step.
    pub(super) best: Vec<Cells>,
    pub(super) published: Vec<Cells>,
    /// Words of a vocabulary, and where noise and signal lie with it.
    pub(super) places: Vec<(usize, Place)>,
}

/// DP-SGD and PAGAN at the source's size and ε = 9.6 in `adaptive-language-model`.
const PUBLISHED: [f64; 2] = [267.0023, 308.9397];
/// Perplexities above it are not drawn.
const DRAWN: f64 = 1500.0;

impl Runs<'_> {
    fn of(&self, network: Network, way: Way, epsilon: Option<f64>) -> Option<&Cells> {
        self.best.iter().find(|c| {
            (c.cell.words, c.cell.width, c.cell.way, c.cell.epsilon) == (network.words, network.width, way, epsilon)
        })
    }

    fn summary(&self, network: Network, way: Way, epsilon: Option<f64>) -> Summary {
        Summary::of(self.of(network, way, epsilon).iter().flat_map(|c| &c.traces).map(|t| t.test))
    }

    /// Places of the first vocabulary.
    fn of_base(&self) -> impl Iterator<Item = &Place> {
        self.of_vocabulary(self.base.words)
    }

    fn of_vocabulary(&self, words: usize) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |(of, _)| *of == words).map(|(_, place)| place)
    }

    /// Ratio of two ways' perplexities, each the mean of all repeats.
    fn ratio(&self, network: Network, ways: [Way; 2], epsilon: Option<f64>) -> f64 {
        let [a, b] = ways.map(|way| self.summary(network, way, epsilon).mean);
        a / b
    }
}

pub(super) fn of(runs: &Runs<'_>) -> Outcome {
    let compared = compared(runs);
    let epsilon = Some(runs.budgets[0]);
    let mean = |way| runs.summary(runs.base, way, epsilon).mean;
    let more = |a: f64, b: f64| 100.0 * (a / b - 1.0);
    let without = |way| runs.summary(runs.base, way, None).mean;
    let sentence = format!(
        "At ε = {} and {} words test perplexity is {:.0} for DP-SGD, {:.0} for AdaGrad's steps in a ball, {:.0} for one step length in the ellipsoid and {:.0} for PAGAN, each at its \
         best step. With AdaGrad's steps the ellipsoid costs {:.0} %; {:.0} % without noise; {:.0} % with the moments that the gradients have at the time, which nobody may use; {:.0} % with \
         those they have on public text; {:.0} % with a moment for each weight.",
        runs.budgets[0],
        runs.base.words,
        mean(DP_SGD),
        mean(ADAGRAD),
        mean(CROSS[2]),
        mean(PAGAN),
        more(mean(PAGAN), mean(ADAGRAD)),
        more(without(PAGAN), without(ADAGRAD)),
        more(mean(VARIANTS[2]), mean(ADAGRAD)),
        more(mean(VARIANTS[4]), mean(ADAGRAD)),
        more(mean(VARIANTS[0]), mean(ADAGRAD)),
    );
    Outcome {
        verdict: Verdict::of_checks(&compared, sentence),
        tables: vec![trainings(runs), geometry(&runs.places)],
        charts: vec![
            ("figure".into(), steps(runs)),
            ("vocabulary".into(), vocabularies(runs)),
            ("geometry".into(), directions(runs)),
            ("owners".into(), owners(runs)),
        ],
        compared,
        notes: notes(),
    }
}

/// How much steeper AdaGrad's steps go down with a release in a ball than with PAGAN's: geometric mean over the places.
fn steepness<'a>(places: impl Iterator<Item = &'a Place>) -> f64 {
    let logs: Vec<f64> = places.map(|p| (p.slopes[0].each() / p.slopes[1].each()).ln()).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

fn at_least_one(what: &str, ours: f64) -> Compared {
    Compared { what: what.into(), reported: "1 or more".into(), ours: cell(ours), agrees: Some(ours >= 1.0) }
}

fn compared(runs: &Runs<'_>) -> Vec<Compared> {
    let epsilon = Some(runs.budgets[0]);
    let shown = runs.budgets[0];
    let ratio = |ways| runs.ratio(runs.base, ways, epsilon);
    let mut all = vec![
        Compared {
            what: format!("the source: PAGAN's perplexity over DP-SGD's, each at its best of the steps, ε = {shown}"),
            reported: "below 1 (0.89)".into(),
            ours: cell(ratio([PAGAN, DP_SGD])),
            agrees: Some(ratio([PAGAN, DP_SGD]) < 1.0),
        },
        Compared::within("steps: AdaGrad over one length, both in a ball", 0.0..=1.0, ratio([ADAGRAD, DP_SGD])),
        Compared::within(
            "bias of the clip: ellipsoid over ball, AdaGrad without noise",
            0.9..=1.1,
            runs.ratio(runs.base, [PAGAN, ADAGRAD], None),
        ),
        at_least_one("age of the moments: fresh ones over PAGAN's", ratio([VARIANTS[2], PAGAN])),
        at_least_one("factors: a moment per weight over PAGAN's", ratio([VARIANTS[0], PAGAN])),
        at_least_one(
            "geometry: descent along AdaGrad's step in a ball over that in the ellipsoid",
            steepness(runs.of_base()),
        ),
    ];
    for &network in runs.sizes.iter().skip(1).filter(|s| s.width == runs.base.width) {
        let ratio = runs.ratio(network, [PAGAN, DP_SGD], epsilon);
        all.push(Compared::within(format!("{} words: PAGAN over DP-SGD", network.words), 0.0..=1.0, ratio));
    }
    for run in &runs.published {
        let [dp_sgd, pagan] = PUBLISHED;
        let test = run.traces[0].test;
        all.push(Compared {
            what: format!("2,160,320 weights: {} at step {}", run.cell.way.name(), run.cell.rate),
            reported: format!("DP-SGD {dp_sgd:.0}, PAGAN at step 0.1 {pagan:.0} in adaptive-language-model"),
            ours: cell(test),
            agrees: None,
        });
    }
    all
}

fn trainings(runs: &Runs<'_>) -> Table {
    let mut table = Table::new(
        "trainings",
        [
            "words",
            "width",
            "epsilon",
            "way",
            "step",
            "runs",
            "noise multiplier",
            "test perplexity",
            "standard deviation",
            "of frequent words",
            "of other words",
        ],
    );
    let chosen = |c: &Cells| runs.best.iter().any(|b| b.cell == c.cell);
    for run in runs.searched.iter().filter(|c| !chosen(c)).chain(&runs.best).chain(&runs.published) {
        let over = |value: fn(&Trace) -> f64| Summary::of(run.traces.iter().map(value));
        let c = &run.cell;
        table.row([
            c.words.to_string(),
            c.width.to_string(),
            c.epsilon.map_or_else(|| "none".into(), cell),
            c.way.name().into(),
            c.rate.to_string(),
            run.traces.len().to_string(),
            cell(run.traces[0].noise_multiplier),
            cell(over(|t| t.test).mean),
            cell(over(|t| t.test).sd),
            cell(over(|t| t.parts[0]).mean),
            cell(over(|t| t.parts[1]).mean),
        ]);
    }
    table
}

fn geometry(places: &[(usize, Place)]) -> Table {
    let mut table = Table::new(
        "geometry",
        [
            "words",
            "round",
            "shape",
            "slope of one length",
            "slope of AdaGrad",
            "by frequent words",
            "by other words",
            "by weights of all words",
            "damage",
        ],
    );
    for (words, place) in places {
        for ((shape, slopes), damage) in SHAPES.iter().zip(&place.slopes).zip(&place.damage) {
            let [frequent, other, shared] = slopes.parts;
            let values = [slopes.one, slopes.each(), frequent, other, shared, *damage];
            let head = [words.to_string(), place.round.to_string(), shape_name(*shape).into()];
            table.row(head.into_iter().chain(values.map(cell)));
        }
    }
    table
}

fn shape_name(shape: Clip) -> &'static str {
    match shape {
        Clip::Ball => "ball",
        ELLIPSOID => "ellipsoid",
        other => Way { clip: other, diagonal: true }.name(),
    }
}

/// Perplexity against the step.
fn steps(runs: &Runs<'_>) -> Chart {
    let axes = || (Axis::log("first step, root mean square"), Axis::log("test perplexity"));
    let panel = |title: String, ways: &[Way], epsilon: Option<f64>| {
        let (x, y) = axes();
        let mut panel = Panel::new(title, x, y).level("word frequencies", runs.frequencies);
        for &way in ways {
            let of = runs
                .searched
                .iter()
                .filter(|c| (c.cell.words, c.cell.way, c.cell.epsilon) == (runs.base.words, way, epsilon));
            let points = of.map(|c| (c.cell.rate, c.traces[0].test)).filter(|p| p.1 < DRAWN);
            panel = panel.with(Series::line(way.name(), points));
        }
        panel
    };
    let variants: Vec<Way> = [PAGAN].into_iter().chain(VARIANTS).collect();
    let mut panels: Vec<Panel> =
        runs.budgets.iter().map(|&epsilon| panel(format!("ε = {epsilon}"), &CROSS, Some(epsilon))).collect();
    panels.push(panel(format!("PAGAN, one thing changed, ε = {}", runs.budgets[0]), &variants, Some(runs.budgets[0])));
    panels.push(panel("no noise, AdaGrad".into(), &NOISELESS, None));
    Chart::of(panels)
}

/// Perplexity over DP-SGD's against the number of words: of all words, of frequent ones, of others.
fn vocabularies(runs: &Runs<'_>) -> Chart {
    let epsilon = Some(runs.budgets[0]);
    let sizes = || runs.sizes.iter().filter(|s| s.width == runs.base.width);
    let parts: [(&str, fn(&Trace) -> f64); 3] =
        [("all words", |t| t.test), ("the 1,000 most frequent", |t| t.parts[0]), ("all others", |t| t.parts[1])];
    debug_assert_eq!(FREQUENT, 1000);
    let panels = parts.map(|(title, value)| {
        let y = Axis::linear("perplexity over DP-SGD's");
        let mut panel = Panel::new(title, Axis::log("words of the vocabulary"), y).level("DP-SGD", 1.0);
        for way in &CROSS[1..] {
            let points = sizes().filter_map(|&network| {
                let [of, base] = [*way, DP_SGD].map(|way| runs.of(network, way, epsilon));
                let base = Summary::of(base?.traces.iter().map(value)).mean;
                // 1 where there are no such words
                (base > 1.0).then(|| {
                    let values = of.iter().flat_map(|c| &c.traces).map(|t| value(t) / base);
                    Summary::of(values).at(network.words as f64)
                })
            });
            panel = panel.with(Series::band(way.name(), points.collect::<Vec<_>>()));
        }
        panel
    });
    Chart::of(panels)
}

/// A value of the places against the round.
fn along(runs: &Runs<'_>, words: usize, value: impl Fn(&Place) -> f64) -> Vec<(f64, f64)> {
    runs.of_vocabulary(words).map(|p| (p.round as f64, value(p))).filter(|p| p.1 > 0.0).collect()
}

/// Descent and damage against the round.
fn directions(runs: &Runs<'_>) -> Chart {
    let panel = |title: String, y: &str| Panel::new(title, Axis::linear("round"), Axis::log(y));
    let words = runs.base.words;
    let mut by_vocabulary =
        panel("AdaGrad's step, by vocabulary".into(), "descent in the ellipsoid over that in a ball")
            .level("ball", 1.0);
    for network in runs.sizes.iter().filter(|s| s.width == runs.base.width) {
        let points = along(runs, network.words, |p| p.slopes[1].each() / p.slopes[0].each());
        by_vocabulary = by_vocabulary.with(Series::line(format!("{} words", network.words), points));
    }
    let mut by_shape = panel(format!("AdaGrad's step, {words} words"), "descent per unit step, nats");
    let mut shaken = panel(format!("noise alone, root mean square {SHAKEN}"), "rise of the loss, nats");
    for (at, shape) in SHAPES.iter().enumerate() {
        by_shape = by_shape.with(Series::line(shape_name(*shape), along(runs, words, |p| p.slopes[at].each())));
        shaken = shaken.with(Series::line(shape_name(*shape), along(runs, words, |p| p.damage[at])));
    }
    Chart::of([by_vocabulary, by_shape, shaken])
}

/// Whose weights the descent of AdaGrad's step is by.
fn owners(runs: &Runs<'_>) -> Chart {
    let titles = ["weights of the 1,000 most frequent words", "of all other words", "shared by all words"];
    Chart::of(titles.into_iter().enumerate().map(|(owner, title)| {
        let panel = Panel::new(title, Axis::linear("round"), Axis::log("descent per unit step, nats"));
        SHAPES.iter().enumerate().take(3).fold(panel, |panel, (at, shape)| {
            let points = along(runs, runs.base.words, |p| p.slopes[at].parts[owner]);
            panel.with(Series::line(shape_name(*shape), points))
        })
    }))
}

fn notes() -> Vec<String> {
    vec![
        "Texts, rounds, batches, clip norm and unit of adaptive-language-model. The size that matters is the vocabulary, so that is kept and the numbers per word are 16 for 120: a \
         training takes half a minute and there can be three of each. Perplexities without noise show what the smaller model can."
            .into(),
        "Every way has the same steps (with fewer words also 0.01) and is shown at the one with the least test perplexity of the first run: tuning that no budget pays for, and the same for all. The other two \
         runs at that step have their own noise and their own starts. Perplexities above 1,500 are not drawn."
            .into(),
        "\"Fresh moments\" are taken from the private text at the weights of the time, once an epoch, without noise: nobody may do that, it only tells what they could gain. \
         \"Of public text\": the same on the public text at the released weights, which anybody may do; added after the rest had been seen, to tell the moments' age from their text. \"All words alike\": the ellipsoid knows rows, columns and blocks but not which words are rare. \"Wide where gradients are large\": √C ∝ σ^(1/3)."
            .into(),
        "Geometry: at three points of a training without noise the mean gradient m over the whole text and what a round would release (mean m̃ of the clipped gradients, variance v of \
         noise and batches) are computed. A step of one length with root mean square 1 descends by √d·Σm·m̃/√Σ(m̃² + v), one of AdaGrad by Σm·m̃/√(m̃² + v). The noise of AdaGrad's \
         steps has the same size in all weights whatever the ellipsoid is, so that what decides between ellipsoids is the descent alone."
            .into(),
        "The ellipsoid with √C ∝ σ^(-2/3) is the best one against gradients whose mean is the same share of σ in every weight. A word that occurs in a share p of the sequences has \
         a mean gradient of about √p·σ: the ellipsoid takes noise from rare words, where there is little to learn, and gives it to frequent ones and to the weights that all words \
         share (pictures of the geometry). Its moments come from an epoch of another model, as in the source: they tell too little of gradients later on, and fresh ones are better."
            .into(),
    ]
}
