//! Grids of cells that cover a ball or a box, as public nets: the centres of cells, those outside of a ball moved onto it (docs/proofs/net.md); and the numbers of a tree of
//! cells, whose points are never listed (docs/proofs/tree.md).

use serde::Serialize;

/// Most points: they are held in memory, with their scores.
pub(super) const MAX_POINTS: u64 = 1 << 24;

/// A net of cells: the points nearest to the start in a grid of cells that cover the domain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NetSchedule {
    /// |P|: number of points of the net.
    pub points: u64,
    /// Cells along each side, an odd number: the start is one of the points.
    pub cells: u64,
    /// h: sides of a cell.
    pub spacing: f64,
    /// r = h√d/2: every point of the domain is so near to one of the net's.
    pub cover_radius: f64,
    /// R: how far the furthest point is from the start at most.
    pub reach: f64,
    /// ε of the choice.
    pub choice_epsilon: f64,
    /// B: losses are cut to 0 … B, where B was given, and not by distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_bound: Option<f64>,
}

/// A tree of cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TreeSchedule {
    /// L: every side of the domain is cut into 2^L.
    pub levels: u32,
    /// h: sides of the smallest cells.
    pub spacing: f64,
    /// r = h√d/2: every point of the domain is so near to one of the tree's.
    pub cover_radius: f64,
    /// R: how far the furthest point is from the start at most.
    pub reach: f64,
    /// ε of the choice.
    pub choice_epsilon: f64,
    /// How many scores a draw asks for, as a guess: for losses with kinks as measured on distances, and (βG²/M)^(d/2) more where the mean loss has a curvature of M.
    pub predicted_scores: f64,
    /// B: losses are cut to 0 … B, where B was given, and not by distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_bound: Option<f64>,
}

/// Cells of a cube of `cells` along each side, as doubled distances of their centres from the middle along each axis; of a ball those that it meets.
pub(super) struct Cells {
    dimension: usize,
    pub(super) cells: i64,
    ball: bool,
}

impl Cells {
    fn each(&self, mut visit: impl FnMut(&[i64])) {
        let mut place = vec![0; self.dimension];
        let all = (self.cells as u64).pow(self.dimension as u32);
        for number in 0..all {
            let mut left = number as i64;
            for at in &mut place {
                *at = 2 * (left % self.cells) - (self.cells - 1);
                left /= self.cells;
            }
            if self.has(&place) {
                visit(&place);
            }
        }
    }

    /// Whether the domain meets the cell: in units of half a cell its nearest point to the middle is |p| − 1 away along an axis, and the radius is `cells`.
    fn has(&self, place: &[i64]) -> bool {
        !self.ball || place.iter().map(|p| (p.abs() - 1).max(0).pow(2)).sum::<i64>() <= self.cells.pow(2)
    }

    pub(super) fn count(&self) -> u64 {
        if !self.ball {
            return (self.cells as u64).pow(self.dimension as u32);
        }
        let mut count = 0;
        self.each(|_| count += 1);
        count
    }
}

/// Share of the box that the domain fills.
fn filled(dimension: usize, ball: bool) -> f64 {
    match dimension {
        2 if ball => std::f64::consts::FRAC_PI_4,
        3 if ball => std::f64::consts::FRAC_PI_6,
        _ => 1.0,
    }
}

/// An odd number of cells along a side, at most `wanted`, whose net has at most `most` points.
pub(super) fn cells_within(dimension: usize, ball: bool, wanted: f64, most: u64) -> Cells {
    let room = (most as f64 / filled(dimension, ball)).powf(1.0 / dimension as f64);
    let most_cells = wanted.min(room).clamp(1.0, MAX_POINTS as f64) as i64;
    let mut found = Cells { dimension, cells: most_cells - i64::from(most_cells % 2 == 0), ball };
    // cells that the ball meets but does not fill
    while found.cells > 1 && found.count() > most {
        found.cells -= 2;
    }
    found
}

/// Points of the schedule's net around `start`, side by side: centres of cells, those outside of a ball moved onto it.
pub(super) fn points(net: &NetSchedule, start: &[f64], ball: bool) -> Vec<f64> {
    let cells = Cells { dimension: start.len(), cells: net.cells as i64, ball };
    let mut all = Vec::with_capacity(net.points as usize * start.len());
    cells.each(|place| {
        let length = (place.iter().map(|p| p * p).sum::<i64>() as f64).sqrt();
        let shrink = if ball && length > net.cells as f64 { net.cells as f64 / length } else { 1.0 };
        all.extend(place.iter().zip(start).map(|(&p, s)| s + 0.5 * net.spacing * shrink * p as f64));
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
    }

    fn net(dimension: usize, ball: bool, half: f64, cells: u64) -> (NetSchedule, Vec<f64>) {
        let spacing = 2.0 * half / cells as f64;
        let grid = Cells { dimension, cells: cells as i64, ball };
        let net = NetSchedule {
            points: grid.count(),
            cells,
            spacing,
            cover_radius: 0.5 * spacing * (dimension as f64).sqrt(),
            reach: half * if ball { 1.0 } else { (dimension as f64).sqrt() },
            choice_epsilon: 1.0,
            loss_bound: None,
        };
        let start: Vec<f64> = (0..dimension).map(|j| 10.0 * j as f64).collect();
        let all = points(&net, &start, ball);
        (net, all)
    }

    #[test]
    fn nets_lie_in_the_domain_have_the_start_and_are_counted() {
        for (d, ball, cells, count) in [
            (1, true, 5, 5),
            (1, false, 5, 5),
            (2, false, 5, 25),
            (3, false, 3, 27),
            // of 25 cells of a square the corners' nearest points are √(3² + 3²) = 4.2 half cells away, the circle's radius is 5
            (2, true, 5, 25),
            // and of 81 the four corners are beyond 9: √(7² + 7²) = 9.9; 7² + 5² = 74 is within
            (2, true, 9, 77),
        ] {
            let (net, all) = net(d, ball, 2.0, cells);
            let start: Vec<f64> = (0..d).map(|j| 10.0 * j as f64).collect();
            assert_eq!((net.points, all.len()), (count, count as usize * d), "{d} {ball} {cells}");
            assert!(all.chunks(d).any(|p| p == start));
            for p in all.chunks(d) {
                assert!(distance(p, &start) <= net.reach * (1.0 + 1e-12));
                assert!(p.iter().zip(&start).all(|(x, s)| (x - s).abs() <= 2.0 * (1.0 + 1e-12)));
            }
        }
    }

    #[test]
    fn every_point_of_the_domain_is_near_one_of_the_nets() {
        let mut random = dpopt_objective::synthetic::Lcg::new(5);
        for (d, ball, cells) in [(1, true, 7), (2, true, 9), (2, false, 9), (3, true, 7), (3, false, 5), (2, true, 1)] {
            let (net, all) = net(d, ball, 1.5, cells);
            let start: Vec<f64> = (0..d).map(|j| 10.0 * j as f64).collect();
            let mut worst = 0.0f64;
            for _ in 0..4000 {
                let mut x: Vec<f64> = (0..d).map(|_| 1.5 * (2.0 * random.uniform() - 1.0)).collect();
                let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
                if ball && norm > 1.5 {
                    x.iter_mut().for_each(|v| *v *= 1.5 / norm);
                }
                x.iter_mut().zip(&start).for_each(|(v, s)| *v += s);
                worst = worst.max(all.chunks(d).map(|p| distance(p, &x)).fold(f64::MAX, f64::min));
            }
            assert!(worst <= net.cover_radius * (1.0 + 1e-12), "{d} {ball}: {worst} {}", net.cover_radius);
            assert!(worst > 0.6 * net.cover_radius || cells == 1, "{d} {ball}: {worst} {}", net.cover_radius);
        }
    }

    #[test]
    fn a_net_has_no_more_points_than_asked_for() {
        for d in 1..=3 {
            for ball in [false, true] {
                for most in [3u64, 10, 1000, 200_000] {
                    let found = cells_within(d, ball, 1e9, most);
                    let wider = Cells { cells: found.cells + 2, ..Cells { ..found } };
                    assert!(found.count() <= most && found.cells % 2 == 1, "{d} {ball} {most}");
                    assert!(wider.count() > most || wider.cells as f64 > MAX_POINTS as f64, "{d} {ball} {most}");
                }
            }
        }
        assert_eq!(cells_within(2, false, 4.9, 1000).cells, 3);
    }
}
