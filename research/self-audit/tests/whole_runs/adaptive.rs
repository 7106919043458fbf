//! Descents in the shape of an ellipsoid: what a record adds.

use crate::facts;
use dpopt_linear::{AdaptiveOptions, DescentOptions, MomentSchedule, Moments, Pagan};
use dpopt_mechanism::{Clipped, Curator, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::{Linear, NearestPoint};
use dpopt_objective::records::{Examples, Rows};
use dpopt_optimize::Algorithm;
use dpopt_privacy::Budget;

#[test]
fn every_clip_keeps_a_record_within_the_noise_s_unit() {
    let mut rows = Rows::new(3);
    rows.push_clipped(&mut [(0, 0.5), (1, 0.5), (2, 0.7)], 1.0);
    let one = Examples { rows, targets: vec![1.0] };
    let problem = facts(1, 3, Loss::Squared);
    for euclidean_clip in [false, true] {
        let moments = Some(Moments::Public { spreads: vec![1.0, 0.1, 0.001] });
        let adaptive = AdaptiveOptions { euclidean_clip, moments, ..AdaptiveOptions::default() };
        let descent = DescentOptions {
            steps: Some(1),
            learning_rate: Some(0.1),
            clip_norm: Some(1e-3),
            ..DescentOptions::default()
        };
        let method = Pagan::new(Some(1.0), adaptive, descent);
        // noise that hides nothing: what is left is the clipped gradient
        let plan = method.plan(&problem, Budget::new(1.0, 1e-6).unwrap()).unwrap();
        let MomentSchedule::Public { scales, .. } = &plan.schedule.moments else { panic!("public") };
        let s = &plan.schedule.descent;
        let sensitive = Sensitive::new(one.clone());
        let scaled = sensitive.in_units(scales);
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(4));
        let batch = curator.poisson_sample(1, 1.0).unwrap();
        let grid = Grid::new(s.grid_exponent);
        let weights = [100.0, -100.0, 50.0];
        let linear = Linear::new(s.loss, 3, 1.0);
        let sum = if euclidean_clip {
            let nearest = NearestPoint::new(linear, scales, 3, s.clip_norm);
            Clipped::new(nearest, s.clip_norm, grid).unwrap().sum_batch(&scaled, batch, &weights)
        } else {
            Clipped::new(linear, s.clip_norm, grid).unwrap().sum_batch(&scaled, batch, &weights)
        };
        let norm = dpopt_objective::geometry::norm(
            &past_the_curator::read_for_tests(&sum).quanta().iter().map(|&u| grid.to_f64(u)).collect::<Vec<_>>(),
        );
        assert!(norm <= s.clip_norm && norm > 0.999 * s.clip_norm, "{euclidean_clip}: {norm}");
    }
}
