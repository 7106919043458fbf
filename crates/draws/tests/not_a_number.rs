//! Nothing is sampled from, or clipped to, what is not a positive finite number: every public constructor refuses it.

use dpopt_draws::{
    DiscreteGaussian, EllipsoidQuantizer, ExponentialChoice, LaplaceMaximum, LeveledChoice, NoisyMax, Repetitions,
};
use dpopt_noise::correlated::Factor;
use dpopt_noise::{
    DiscreteLaplace, Geometric, Grid, NoiseSource, Norm, PoissonSkips, Purpose, Quantizer, RoundedGaussian,
    RoundedLaplace,
};

#[test]
fn every_sampler_and_clip_refuses_what_is_no_positive_number() {
    let grid = Grid::new(-20);
    for x in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        assert!(RoundedGaussian::new(x, grid).is_err(), "{x}");
        assert!(RoundedLaplace::new(x, grid).is_err(), "{x}");
        assert!(DiscreteLaplace::at_least(x, grid).is_err(), "{x}");
        assert!(DiscreteGaussian::new(x).is_err(), "{x}");
        assert!(Geometric::new(x).is_err(), "{x}");
        assert!(NoisyMax::new(x, 1, false).is_err(), "{x}");
        assert!(ExponentialChoice::new(x, 1, false).is_err(), "{x}");
        assert!(LaplaceMaximum::new(x, 1).is_err(), "{x}");
        assert!(LeveledChoice::new(x, 1, &[0, 1], 3).is_err(), "{x}");
        assert!(PoissonSkips::new(x).is_err(), "{x}");
        assert!(
            Repetitions::negative_binomial(1.0, x).is_err() && Repetitions::negative_binomial(x, 2.0).is_err(),
            "{x}"
        );
        assert!(Repetitions::truncated_poisson(x).is_err(), "{x}");
        for norm in [Norm::L1, Norm::L2, Norm::LInfinity] {
            assert!(Quantizer::new(norm, x, grid).is_err(), "{x}");
        }
        assert!(EllipsoidQuantizer::new(&[1.0, 2.0], x, grid).is_err(), "{x}");
        assert!(EllipsoidQuantizer::new(&[1.0, x], 1.0, grid).is_err(), "{x}");
        assert!(Factor::blt(&[(x, 0.5)]).is_err() && Factor::blt(&[(0.5, x)]).is_err(), "{x}");
    }
    assert!(Factor::banded(&[1.0, f64::NAN]).is_err() && Factor::banded(&[f64::NAN]).is_err());
}

#[test]
fn a_coin_of_no_probability_shows_tails() {
    let mut stream = NoiseSource::insecure(1).stream(Purpose::Audit, 0);
    assert!((0..100).all(|_| !stream.bernoulli_exp(f64::NAN) && !stream.bernoulli_exp(-f64::NAN)));
}
