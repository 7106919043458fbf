//! Means of heavy-tailed columns: clipped sums of columns, their ranges, and both of disjoint blocks (docs/proofs/heavy-tailed-mean.md).

use super::releases::TIGHT_RUNS;
use super::{LibraryAudit, Reach};
use crate::worst_cases::indicator;
use dpopt_audit::draws::Draws;
use dpopt_mechanism::{
    Blocks, ColumnClip, ColumnCounts, ColumnRanges, CuratorError, Gaussian, Interactive, Laplace, Mechanism, Sensitive,
    past_the_curator,
};
use dpopt_noise::{Grid, NoiseSource, Norm};
use dpopt_objective::records::Columns;
use dpopt_privacy::Event;

/// δ at which rows with normal noise report ε.
const DELTA: f64 = 1e-5;
const GRID: i32 = -30;

/// Sensitive columns of the numbers in `rows`.
pub(crate) fn columns(rows: impl IntoIterator<Item = Vec<f64>>) -> Sensitive<Columns> {
    let mut rows = rows.into_iter().peekable();
    let mut all = Columns::new(rows.peek().map_or(1, Vec::len));
    rows.for_each(|row| all.push(&row));
    Sensitive::new(all)
}

/// Two columns around 5 and −5, clipped at 2; a record far beyond both, or nothing.
fn clipped(norm: Norm, with: bool, draws: &mut Draws, event: &Event) -> Result<f64, CuratorError> {
    let grid = Grid::new(GRID);
    let canary = if with { vec![1e300, -1e300] } else { vec![f64::NAN; 2] };
    let records = columns([vec![5.0, -5.0], canary]);
    let clip = ColumnClip::new(&[5.0, -5.0], &[2.0; 2], false, norm, grid)?;
    let mut curator = past_the_curator::uncharged(event, NoiseSource::insecure(draws.word()));
    let sum = match norm {
        Norm::L1 => curator.release(&Laplace::new(1.0, 1.0, grid, 2), &clip.l1_sum(&records, None)?)?,
        _ => {
            curator.release(&Gaussian::new(1.0, 1.0, grid, 2, "clipped sum of columns"), &clip.sum(&records, None)?)?
        }
    };
    let along = [1.0, -1.0];
    // half a shift of each is 1/4 with Laplace noise: beyond it a noise says no more
    let capped = |x: f64| if norm == Norm::L1 { x.clamp(0.0, 0.5) } else { x };
    Ok(sum.get().iter().zip(along).map(|(x, sign)| capped(sign * x)).sum())
}

/// The range of 40 numbers, then the sum of 20 others clipped by it; the canary is among these.
fn ranged() -> LibraryAudit {
    const RANGED: usize = 40;
    const AVERAGED: usize = 20;
    let ranges = ColumnRanges::new(1, 100, 0.5);
    let sum = Gaussian::new(1.0, 1.0, Grid::new(GRID), 1, "clipped sum of columns");
    let plan = Blocks::of_sizes(&[RANGED, AVERAGED], vec![ranges.event(), sum.event()]).map_err(|e| e.to_string());
    let event = plan.as_ref().map(Interactive::event).map_err(Clone::clone);
    let release = move |with: bool, draws: &mut Draws| -> Result<f64, CuratorError> {
        let Ok(plan) = &plan else { return Err(CuratorError::Shape) };
        let canary = if with { 1e12 } else { f64::NAN };
        let number = |i: usize| if i == RANGED { canary } else { f64::NAN };
        let spread = |i: usize| if i < RANGED { 1.0 + i as f64 } else { number(i) };
        let records = columns((0..RANGED + AVERAGED).map(|i| vec![spread(i)]));
        let mut curator = past_the_curator::uncharged(&plan.event(), NoiseSource::insecure(draws.word()));
        let mut blocks = curator.open(plan)?;
        let [first, second] = &mut blocks[..] else { return Err(CuratorError::Shape) };
        let counts = ColumnCounts::of(&records, &[0], first.block_of(&records)?)?;
        let found = first.release(&ranges, &counts)?.into_inner()[0];
        // where there is no range any public centre and width do
        let (low, high) = found.unwrap_or((0.0, 1.0));
        let (centre, half) = (0.5 * (low + high), (high - low).max(1e-9));
        let clip = ColumnClip::new(&[centre], &[half], false, Norm::L2, Grid::new(GRID))?;
        let batch = second.block_of(&records)?;
        Ok(second.release(&sum, &clip.sum(&records, batch)?)?.into_inner()[0])
    };
    LibraryAudit::new(
        "heavy-tailed mean, centre and scale released first",
        "40 numbers give the range, the canary far beyond it or nothing is in the other block; its clipped sum",
        event,
        (DELTA, TIGHT_RUNS),
        move |with, draws| release(with, draws).unwrap_or(f64::NAN),
    )
    .gaussian()
    .costly()
}

/// Ends of the ranges of two columns that hold the same numbers, four choices of ε = 8.
fn both_ends() -> LibraryAudit {
    let mechanism = ColumnRanges::new(2, 100, 8.0);
    let event = mechanism.event();
    let opened = event.clone();
    // 27 in one cell and two in the cell before it; a third there, of 30, is what a tenth is
    let worlds = [false, true].map(|with| {
        let heaps = (0..29).map(|i| vec![if i < 27 { 1.05 } else { 1.0 }; 2]);
        let canary = if with { 1.0 } else { f64::NAN };
        ColumnCounts::of(&columns(heaps.chain([vec![canary; 2]])), &[0, 1], None)
    });
    LibraryAudit::new(
        "ranges of two columns",
        "27 tied numbers in each column and two in the cell before theirs, or three; 1{both ranges begin with these}",
        Ok(event),
        (0.0, 40_000),
        move |with, draws| {
            let Ok(world) = &worlds[usize::from(with)] else { return f64::NAN };
            let mut curator = past_the_curator::uncharged(&opened, NoiseSource::insecure(draws.word()));
            let begins = |range: &Option<(f64, f64)>| range.is_some_and(|(low, _)| (0.99..1.01).contains(&low));
            curator.release(&mechanism, world).map_or(f64::NAN, |out| indicator(out.get().iter().all(begins)))
        },
    )
    .reaching(Reach::Unknown)
    .costly()
}

pub(super) fn audits() -> Vec<LibraryAudit> {
    let row = |name, pair, norm: Norm, event: Event, size| {
        let opened = event.clone();
        LibraryAudit::new(name, pair, Ok(event), size, move |with, draws| {
            clipped(norm, with, draws, &opened).unwrap_or(f64::NAN)
        })
    };
    vec![
        row(
            "heavy-tailed mean",
            "two columns, a record far beyond both centres or nothing; along its direction",
            Norm::L2,
            Event::gaussian(1.0),
            (DELTA, TIGHT_RUNS),
        )
        .gaussian(),
        row(
            "heavy-tailed mean, pure",
            "two columns, a record far beyond both centres or nothing; sum of the outputs capped where noise says no more",
            Norm::L1,
            Event::Laplace { noise_multiplier: 1.0 },
            (0.0, 200_000),
        )
        .counting(0.8)
        .costly(),
        ranged(),
        both_ends(),
    ]
}
