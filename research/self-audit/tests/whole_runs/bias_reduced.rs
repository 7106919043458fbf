//! SGD with random numbers of steps, with next to no noise.

use crate::{LOGISTIC, facts};
use dpopt_linear::NoisyGradientDescent;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive, past_the_curator};
use dpopt_methods::BiasReducedSgd;
use dpopt_noise::NoiseSource;
use dpopt_objective::synthetic::{mean_loss, table};
use dpopt_optimize::plan::Problem;
use dpopt_optimize::{Algorithm, Run};
use dpopt_privacy::Budget;

/// With the noise taken out of a plan what remains is plain SGD, and it learns.
#[test]
fn without_noise_to_speak_of_it_learns() {
    let examples = table(3, 4096, 2, 20, 3.0, LOGISTIC);
    let problem = Problem { nonzeros: 3, ..facts(4096, examples.rows.columns(), LOGISTIC) };
    let options = BiasReducedSgd { radius: Some(6.0), learning_rate: Some(0.5), ..BiasReducedSgd::default() };
    let mut plan = options.plan(&problem, Budget::new(1.0, 1e-6).unwrap()).unwrap();
    (plan.schedule.noise_multiplier, plan.schedule.grid_exponent) = (1e-6, -30);
    let mut curator = past_the_curator::uncharged(&plan.schedule.event(4096), NoiseSource::insecure(1));
    let sensitive = Sensitive::new(examples.clone());
    let best = {
        let method = NoisyGradientDescent::default();
        let plan = method.plan(&problem, Budget::new(50.0, 1e-6).unwrap()).unwrap();
        let mut curator = Curator::new(&plan.summary.certificate, NoiseSource::insecure(1));
        let run = Run::new(&problem, &sensitive, &mut curator, &Silent).unwrap();
        method.run(&plan, run).unwrap().into_inner().weights
    };
    let at = |w: &[f64]| mean_loss(&examples, LOGISTIC, w);
    let (best, zero) = (at(&best), at(&vec![0.0; examples.rows.columns()]));
    let run = Run::new(&problem, &sensitive, &mut curator, &Silent).unwrap();
    let learned = at(&options.run(&plan, run).unwrap().into_inner().weights);
    assert!(curator.is_spent());
    assert!(zero - learned > 0.67 * (zero - best), "{learned} {best} {zero}");
}
