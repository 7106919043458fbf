//! The sparse way has the law of the dense one, whatever is named as touched; only what was planned leaves.

use super::*;
use dpopt_kernel::Curator;
use dpopt_kernel::beside::Expose;
use dpopt_kernel::beside::uncharged;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::{Examples, Rows};
use std::collections::BTreeMap;

const GRID: i32 = -2;

fn mechanism(start: &SparseVector, dimension: u64, keep: usize) -> ThresholdedGaussian<'_> {
    // σ = 2 grid steps of 1/4: coarse, so that ties occur
    let (noise_multiplier, clip_norm) = (0.5, 1.0);
    ThresholdedGaussian {
        noise_multiplier,
        clip_norm,
        grid: Grid::new(GRID),
        dimension,
        start,
        scale: 0.7,
        keep,
        exempt: None,
    }
}

fn sum(entries: &[(u32, i64)], dimension: u64) -> Sensitive<SparseGridSum> {
    let entries = entries.to_vec();
    Sensitive::new(SparseGridSum { entries, dimension, grid: Grid::new(GRID), clip_norm: 1.0, batch: None })
}

fn draw(mechanism: &ThresholdedGaussian, sum: &Sensitive<SparseGridSum>, curator: &mut Curator) -> SparseVector {
    curator.release(mechanism, sum).unwrap().into_inner()
}

/// P(χ² > x) for `degrees` degrees, by Wilson and Hilferty's cube root; good to a factor of two in these tails.
fn exceeds(x: f64, degrees: f64) -> bool {
    let z = ((x / degrees).cbrt() - (1.0 - 2.0 / (9.0 * degrees))) / (2.0 / (9.0 * degrees)).sqrt();
    z > 5.2 // one-sided 1e-7
}

#[test]
fn touched_supersets_and_the_dense_way_have_one_law() {
    let d = 6u32;
    // two released entries of the iterate, one of them outside the sum; index 5 exempt in the second round
    let start = SparseVector::new([(1, 0.35), (3, -0.2)]);
    let small = [(0u32, 3i64), (1, -2)];
    let all: Vec<(u32, i64)> = (0..d).map(|j| (j, small.iter().find(|e| e.0 == j).map_or(0, |e| e.1))).collect();
    for exempt in [None, Some(5)] {
        let mechanism = ThresholdedGaussian { exempt, ..mechanism(&start, u64::from(d), 2) };
        let n = 40_000u64;
        let event = Event::gaussian(0.5).self_composed(2 * n);
        let mut curator = uncharged(&event, NoiseSource::insecure(3));
        let mut table = BTreeMap::<(Vec<u32>, Vec<bool>, bool), [f64; 2]>::new();
        let mut energy = [[0.0; 2]; 2];
        for which in 0..2usize {
            let input = if which == 0 { sum(&small, 6) } else { sum(&all, 6) };
            for _ in 0..n {
                let kept = draw(&mechanism, &input, &mut curator);
                assert_eq!(kept.len(), 2 + usize::from(exempt.is_some()));
                let size: f64 = kept.values().iter().map(|x| x * x).sum();
                energy[which][0] += size;
                energy[which][1] += size * size;
                let signs = kept.values().iter().map(|x| *x < 0.0).collect();
                table.entry((kept.indices().to_vec(), signs, size > 0.6)).or_default()[which] += 1.0;
            }
        }
        let cells: Vec<_> = table.values().filter(|c| c[0] + c[1] > 20.0).collect();
        let chi: f64 = cells.iter().map(|c| (c[0] - c[1]).powi(2) / (c[0] + c[1])).sum();
        assert!(cells.len() > 40 && !exceeds(chi, cells.len() as f64), "{exempt:?}: {chi} on {}", cells.len());
        let mean = |w: usize| energy[w][0] / n as f64;
        let var = |w: usize| energy[w][1] / n as f64 - mean(w).powi(2);
        let z = (mean(0) - mean(1)) / ((var(0) + var(1)) / n as f64).sqrt();
        assert!(z.abs() < 5.3, "{exempt:?}: {z}");
        assert!(curator.is_spent());
    }
}

#[test]
fn a_lost_noise_coordinate_would_be_seen() {
    // injected fault: noise on the touched coordinates only, which tells exactly where data are
    let start = SparseVector::default();
    let mechanism = mechanism(&start, 1_000_000, 3);
    let mut curator = uncharged(&Event::gaussian(0.5).self_composed(200), NoiseSource::insecure(1));
    let untouched = (0..200)
        .filter(|_| {
            draw(&mechanism, &sum(&[(7, 1), (9, -1)], 1_000_000), &mut curator).iter().all(|(j, _)| j != 7 && j != 9)
        })
        .count();
    // the largest of 10⁶ noises exceed 4.5σ, the touched ones do with probability below 1e-4
    assert!(untouched >= 195, "{untouched}");
}

#[test]
fn degenerate_sizes() {
    let start = SparseVector::new([(2, 5.0)]);
    let mut curator = uncharged(&Event::gaussian(0.5).self_composed(10), NoiseSource::insecure(1));
    for (keep, expected) in [(0, 0), (1, 1), (4, 4), (9, 4)] {
        let out = draw(&mechanism(&start, 4, keep), &sum(&[(0, 4)], 4), &mut curator);
        assert_eq!(out.len(), expected);
    }
    let one = draw(&mechanism(&start, 4, 1), &sum(&[], 4), &mut curator);
    assert_eq!(one.indices(), [2]);
    // other grids, dimensions and clip norms are refused before anything is charged
    let wrong = ThresholdedGaussian { dimension: 2, ..mechanism(&start, 4, 1) };
    assert!(matches!(curator.release(&wrong, &sum(&[], 2)), Err(CuratorError::Shape)));
    let wrong = ThresholdedGaussian { clip_norm: 0.5, ..mechanism(&start, 4, 1) };
    assert!(matches!(curator.release(&wrong, &sum(&[], 4)), Err(CuratorError::Sensitivity { .. })));
}

#[test]
fn sparse_sums_are_the_dense_sums() {
    let mut rows = Rows::new(50);
    let mut targets = Vec::new();
    for i in 0..300u32 {
        rows.push_clipped(&mut [(i % 50, 0.7), ((7 * i) % 50, -0.4), ((i * i) % 50, 1.3)], 1.0);
        targets.push(if i % 3 == 0 { 1.0 } else { -1.0 });
    }
    let examples = Sensitive::new(Examples { rows, targets });
    let weights = SparseVector::new([(3, 0.5), (17, -2.0)]);
    for clip_norm in [0.05, 5.0] {
        let gradient =
            Clipped::new(Linear::new(Loss::Logistic { shift: 0.0 }, 50, 2.0), clip_norm, Grid::new(-30)).unwrap();
        let of = |formed| SparseGridSum::of(&gradient, &examples, None, &weights, formed).unwrap();
        let (sparse, dense) = (of(Formed::BySparseEntries), of(Formed::OverAllCoordinates));
        let (sparse, dense) = (&sparse.expose().entries, &dense.expose().entries);
        assert_eq!(dense.len(), 50);
        assert!(sparse.windows(2).all(|p| p[0].0 < p[1].0));
        let nonzero = |e: &[(u32, i64)]| e.iter().copied().filter(|e| e.1 != 0).collect::<Vec<_>>();
        assert_eq!(nonzero(sparse), nonzero(dense));
    }
}

#[test]
fn vectors_combine() {
    let (a, b) = (SparseVector::new([(1, 1.0), (4, 2.0)]), SparseVector::new([(0, 1.0), (4, -1.0), (9, 3.0)]));
    let c = a.combined(2.0, &b, 0.5);
    assert_eq!(c, SparseVector::new([(0, 0.5), (1, 2.0), (4, 3.5), (9, 1.5)]));
    assert_eq!(c.dense(10)[4], 3.5);
    assert_eq!((c.at(9), c.at(8)), (1.5, 0.0));
    assert_eq!(a.combined(1.0, &SparseVector::default(), 1.0), a);
}

#[test]
fn the_largest_coordinates_stay() {
    assert_eq!(SparseVector::largest(&[3.0, -1.0, 2.0, -4.0], 2, None), SparseVector::new([(0, 3.0), (3, -4.0)]));
    assert_eq!(SparseVector::largest(&[1.0, -1.0, 1.0], 1, None), SparseVector::new([(0, 1.0)]));
    assert_eq!(SparseVector::largest(&[3.0, 0.1, 2.0], 1, Some(1)), SparseVector::new([(0, 3.0), (1, 0.1)]));
    assert_eq!(SparseVector::largest(&[1.0], 0, None).len(), 0);
    assert_eq!(SparseVector::largest(&[1.0, 2.0], 7, None).len(), 2);
}
