//! Bugs of descents that look at the records before they step: clip norms that follow the gradients, rows around their mean.

use super::Source::{Altered, Shipped};
use super::{Code, InjectedFault};
use crate::worst_cases::methods::{Subject, centred, followed, following, problem};
use dpopt_audit::draws::Draws;
use dpopt_audit::statistics::Claim;
use dpopt_linear::{AdaptiveClipDescent, AdaptiveClipSchedule, CentredDescent};
use dpopt_mechanism::{Clipped, Curator, Gaussian, SamplerError, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{GradientSizes, Linear};
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::{Event, Relation};

/// (ε, δ) of all plans here: μ = 1.
const BUDGET: (f64, f64) = (4.377, 1e-5);
/// Steps of a descent with a clip norm that follows; there is one look, before the second.
const STEPS: u64 = 8;
/// What stands in place of no noise.
const NO_NOISE: f64 = 1e-3;

/// The claim of a planned method.
fn claim(event: Result<Event, String>) -> Result<Claim, String> {
    Claim::reported(&event?, Relation::ZeroOut, super::DELTA).map_err(|e| e.to_string())
}

/// A record of norm 1 in place of a row of zeros, beside others with one feature: so many each with a gradient of that norm at weight 0.
fn beside(others: &[(usize, f32)]) -> [Sensitive<Examples>; 2] {
    [false, true].map(|with| {
        let (mut rows, mut targets) = (Rows::new(1), vec![f32::from(u8::from(with))]);
        if with {
            rows.push_clipped(&mut [(0, 1.0)], 1.0)
        } else {
            rows.push_zero()
        }
        for &(count, size) in others {
            (0..count).for_each(|_| rows.push_clipped(&mut [(0, size)], 1.0));
            targets.resize(targets.len() + count, -1.0);
        }
        Sensitive::new(Examples { rows, targets })
    })
}

/// What goes wrong in a descent whose clip norm follows.
#[derive(Clone, Copy)]
enum Followed {
    /// Noise is made for the new clip norm, gradients are clipped to the one before.
    OldClip,
    /// The clip norm is a quantile of the exact counts.
    ExactCounts,
}

/// The releases of such a descent at weight 0, with the mistake; in the order of the correct one.
fn releases(
    s: &AdaptiveClipSchedule,
    world: &Sensitive<Examples>,
    mistake: Followed,
    draws: &mut Draws,
) -> Option<Vec<Vec<f64>>> {
    let rows = past_the_curator::read_for_tests(world).targets.len() as u64;
    let objective = Linear::new(Loss::Squared, 1, 1.0);
    let mut noise = NoiseSource::insecure(draws.word());
    let (mut clip, mut enforced) = (s.first_clip_norm, s.first_clip_norm);
    let mut seen = Vec::new();
    for step in 0..s.steps {
        if s.looks.contains(&step) {
            let grid = Grid::for_sum(1.0, s.sizes_multiplier, rows, s.cells);
            let sizes = GradientSizes::new(objective, s.smallest, s.ratio, s.cells);
            let counts = Clipped::new(sizes, 1.0, grid).ok()?.sum(world, &vec![0.0; s.cells]);
            let noisy = Gaussian::new(s.sizes_multiplier, 1.0, grid, s.cells, "sizes of gradients");
            let released = past_the_curator::unchecked(&noisy, &counts, &mut noise).ok()?;
            match mistake {
                Followed::OldClip => {
                    enforced = clip;
                    clip = s.clip_norm(&released);
                }
                Followed::ExactCounts => {
                    let exact = past_the_curator::read_for_tests(&counts).quanta().iter();
                    clip = s.clip_norm(&exact.map(|units| grid.to_f64(*units)).collect::<Vec<_>>());
                    enforced = clip;
                }
            }
            seen.push(released);
        }
        let grid = Grid::for_sum(enforced, s.noise_multiplier * clip, rows, 1);
        let sum = Clipped::new(objective, enforced, grid).ok()?.sum(world, &[0.0]);
        let noisy = Gaussian::new(s.noise_multiplier, clip, grid, 1, "gradient sum");
        seen.push(past_the_curator::unchecked(&noisy, &sum, &mut noise).ok()?);
    }
    Some(seen)
}

/// Sums of gradients after the look, in one unit: larger with the record.
fn sums(s: &AdaptiveClipSchedule, seen: &[Vec<f64>]) -> f64 {
    let sums: Vec<f64> = seen.iter().filter(|release| release.len() == 1).map(|sum| -sum[0]).collect();
    if sums.len() as u64 == s.steps { sums[1..].iter().sum() } else { f64::NAN }
}

fn following_bug(
    text: (&'static str, super::Source, &'static str, &'static str),
    others: &[(usize, f32)],
    runs: u64,
    mistake: Followed,
    statistic: fn(&AdaptiveClipSchedule, &[Vec<f64>]) -> f64,
) -> InjectedFault {
    let rows = 1 + others.iter().map(|group| group.0).sum::<usize>();
    let subject: Subject<AdaptiveClipDescent> =
        Subject::new(following(STEPS), problem(rows, 1, Loss::Squared), BUDGET, beside(others));
    InjectedFault::counting(text, claim(subject.event()), (runs, 60_000), move |code, with, draws| match code {
        Code::Correct => subject.run(with, draws, |_, s, view| statistic(s, view.seen)),
        Code::Injected => {
            let Some(s) = subject.schedule() else { return f64::NAN };
            releases(s, subject.sensitive(with), mistake, draws).map_or(f64::NAN, |seen| statistic(s, &seen))
        }
    })
}

/// The row of zeros in the first cell of a histogram of gradient norms, where another record in its place is in the last: two cells move.
fn counted_in_the_first_cell() -> InjectedFault {
    let worlds = beside(&[]);
    let (cells, grid) = (9, Grid::new(-20));
    let noisy = Gaussian::new(1.0, 1.0, grid, cells, "sizes of gradients");
    InjectedFault::counting(
        (
            "21.absent-size",
            Altered,
            "a row of zeros counts as a gradient of the smallest size: two cells move, noise for one",
            "record alone; the count of its cell less that of the first",
        ),
        Claim::gaussian(1.0),
        (1_500, 3_000),
        move |code, with, draws| {
            let sizes = GradientSizes::new(Linear::new(Loss::Squared, 1, 1.0), 0.02, 2.0, cells);
            let cell = sizes.cell(1.0);
            let Ok(clipped) = Clipped::new(sizes, 1.0, grid) else { return f64::NAN };
            let counts = clipped.sum(&worlds[usize::from(with)], &vec![0.0; cells]);
            let mut curator: Curator =
                past_the_curator::uncharged(&Event::gaussian(1.0), NoiseSource::insecure(draws.word()));
            let first = code.pick(0.0, f64::from(u8::from(!with)));
            curator.release(&noisy, &counts).map_or(f64::NAN, |counts| counts.get()[cell] - (counts.get()[0] + first))
        },
    )
}

/// A record that alone has a second feature, beside others of the first of three classes with the constant one only.
fn off_centre(others: usize) -> [Sensitive<Examples>; 2] {
    [false, true].map(|with| {
        let (mut rows, targets) = (Rows::new(2), vec![0.0; 1 + others]);
        if with {
            rows.push_clipped(&mut [(0, 0.1), (1, 0.99)], 1.0)
        } else {
            rows.push_zero()
        }
        (0..others).for_each(|_| rows.push_clipped(&mut [(0, 0.1)], 1.0));
        Sensitive::new(Examples { rows, targets })
    })
}

/// The centre shifts the rows of all others.
fn exact_centre() -> InjectedFault {
    let rows = 40;
    let subject = || -> Subject<CentredDescent> {
        let softmax = Loss::Softmax { classes: 3 };
        Subject::new(centred(4), problem(rows, 2, softmax), BUDGET, off_centre(rows - 1))
    };
    let exact = subject().altered_and_opened(
        |s, _| {
            s.mean_multiplier *= NO_NOISE;
            // steps of the grid that the noise still covers
            s.mean_grid_exponent -= 10;
        },
        |s, _| {
            let descent = Event::gaussian(s.descent.noise_multiplier).self_composed(s.descent.steps);
            SamplerError::rounded(1e3).on(Event::composed(vec![Event::gaussian(s.mean_multiplier), descent]))
        },
    );
    let right = subject();
    InjectedFault::counting(
        (
            "21.exact-centre",
            Shipped,
            "rows centred by their sum with a thousandth of its noise, which is not shown",
            "record alone in a feature, 39 others; their gradients in that feature",
        ),
        claim(right.event()),
        (120, 50_000),
        move |code, with, draws| {
            code.pick(&right, &exact).run(with, draws, |_, _, view| {
                // the second feature in the lines of the three classes; all records are of the first
                view.seen[1..].iter().map(|g| 2.0 * g[1] - g[3] - g[5]).sum()
            })
        },
    )
}

pub(super) fn bugs() -> Vec<InjectedFault> {
    vec![
        following_bug(
            (
                "21.old-clip",
                Altered,
                "a clip norm that follows: noise for the new one, gradients clipped to the one before",
                "canary of norm 1 beside 300 records of .05; its cells and its coordinate",
            ),
            &[(300, 0.05)],
            120,
            Followed::OldClip,
            followed,
        ),
        following_bug(
            (
                "21.exact-counts",
                Altered,
                "a clip norm that follows the exact counts; noise on those that are shown only",
                "canary tips the quantile over the end of a cell; sums after it",
            ),
            &[(210, 0.05), (90, 0.1)],
            120,
            Followed::ExactCounts,
            sums,
        ),
        exact_centre(),
        counted_in_the_first_cell(),
    ]
}
