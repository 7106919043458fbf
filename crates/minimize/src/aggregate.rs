//! One point out of several, most of which are near where all should be: the failure of a few chunks does not show (Liu 2024, Fact 12.2.9).
//!
//! Post-processing of released points. Of records it would not be private.
//!
//! Covers: thesis algorithm 38 (certified: of released answers only)

/// Position of the point whose ball around it holds ⌈.51·J⌉ of the J points at the least radius, itself among them; the first of several.
///
/// If so many of the points lie within R of some z, the one that is returned lies within 3R of z: around a good point the ball has a radius of 2R at most, the
/// chosen one no more, and it holds a good point too.
pub(super) fn central(points: &[Vec<f64>]) -> usize {
    let most = (0.51 * points.len() as f64).ceil() as usize;
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt();
    let radius = |point: &Vec<f64>| {
        let mut all: Vec<f64> = points.iter().map(|other| distance(point, other)).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[most - 1]
    };
    (0..points.len()).min_by(|&a, &b| radius(&points[a]).total_cmp(&radius(&points[b]))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::synthetic::Lcg;

    #[test]
    fn of_seven_points_one_of_the_square_is_taken() {
        let points = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [10.0, 10.0], [10.0, 11.0], [-8.0, 3.0]];
        let all = points.map(|p| p.to_vec());
        // four of seven within √2 of each corner; the first
        assert_eq!(central(&all), 0);
        let reversed: Vec<Vec<f64>> = all.iter().rev().cloned().collect();
        assert!(all[..4].contains(&reversed[central(&reversed)]));
        assert_eq!(central(&all[..1]), 0);
    }

    #[test]
    fn it_is_within_three_times_the_spread_of_the_good() {
        let mut random = Lcg::new(4);
        let mut worst = 0.0f64;
        for _ in 0..3000 {
            let count = 3 + (9.0 * random.uniform()) as usize;
            let good = (0.51 * count as f64).ceil() as usize;
            let d = 1 + (3.0 * random.uniform()) as usize;
            // the good ones within 1 of 0, half of the time on the sphere, the others in one direction
            let mut points: Vec<Vec<f64>> = (0..count)
                .map(|i| {
                    let x: Vec<f64> = (0..d).map(|_| random.normal()).collect();
                    let norm = x.iter().map(|v| v * v).sum::<f64>().sqrt();
                    let size = if i >= good {
                        4.0 * random.uniform()
                    } else if random.uniform() < 0.5 {
                        1.0
                    } else {
                        random.uniform()
                    };
                    x.iter().map(|v| v * size / norm).collect()
                })
                .collect();
            (1..count).rev().for_each(|i| points.swap(i, (random.uniform() * (i + 1) as f64) as usize));
            let chosen = &points[central(&points)];
            worst = worst.max(chosen.iter().map(|v| v * v).sum::<f64>().sqrt());
        }
        assert!(worst <= 3.0 && worst > 1.5, "{worst}");
    }
}
