//! Random events that love corners, and exact one-step truths that share no code with the accountants.

use dpopt_privacy::event::GlmLink;
use dpopt_privacy::special::gaussian_ln_delta;
use dpopt_privacy::{Event, Relation};

/// SplitMix64: the case's number is the seed.
pub struct Corners(u64);

impl Corners {
    pub fn new(number: u64) -> Self {
        Self(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x00c0_ffee)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// Uniform in the logarithm, or one of the ends.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        match self.below(16) {
            0 => low,
            1 => high,
            _ => (low.ln() + (high.ln() - low.ln()) * self.unit()).exp().clamp(low, high),
        }
    }

    fn count(&mut self, most: u64) -> u64 {
        self.scale(1.0, most as f64) as u64
    }

    pub fn relation(&mut self) -> Relation {
        [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne][self.below(3) as usize]
    }

    /// From 5e-324 to .99, and 0.
    pub fn delta(&mut self) -> f64 {
        match self.below(12) {
            0 => 0.0,
            1 => f64::from_bits(1),
            2 => self.scale(1e-320, 1e-290),
            3 => self.scale(0.01, 0.99),
            _ => self.scale(1e-40, 1e-2),
        }
    }

    /// From 0 to beyond where e^ε overflows.
    pub fn epsilon(&mut self) -> f64 {
        match self.below(10) {
            0 => 0.0,
            1 => self.scale(100.0, 1e5),
            _ => self.scale(1e-6, 100.0),
        }
    }

    fn probability(&mut self) -> f64 {
        match self.below(8) {
            0 => 1.0 - self.scale(1e-12, 0.1),
            _ => self.scale(1e-12, 1.0),
        }
    }

    fn sigma(&mut self) -> f64 {
        self.scale(1e-3, 1e4)
    }

    /// A random leaf event, of any kind.
    pub fn leaf(&mut self) -> Event {
        // losses of one step up to beyond 700 nats
        let cost = |c: &mut Self| c.scale(1e-9, 800.0);
        match self.below(29) {
            0 => {
                Event::RandomizedResponse { noise_parameter: self.scale(1e-12, 1.0), num_buckets: 1 + self.count(1000) }
            }
            1..=3 => Event::gaussian(self.sigma()),
            4 | 5 => Event::laplace(self.scale(1e-3, 1e6)),
            6 => Event::DiscreteLaplace { noise_parameter: self.scale(1e-6, 100.0), sensitivity: self.count(100) },
            7..=10 => {
                let sensitivity = if self.below(2) == 0 { self.count(100) as f64 } else { self.scale(1.0, 100.0) };
                let dimension = [None, Some(1), Some(1), Some(3)][self.below(4) as usize];
                Event::DiscreteGaussian { sigma: self.scale(1e-2, 1e4), sensitivity, dimension }
            }
            11 => Event::ExponentialMechanism { epsilon: cost(self) },
            12 => Event::PermuteAndFlip { epsilon: cost(self) },
            13 => Event::Gdp { mu: self.scale(1e-6, 100.0) },
            14 => {
                let (a, rho) = (1.0 + self.scale(1e-3, 100.0), self.scale(1e-9, 100.0));
                Event::Rdp { orders: vec![a, 2.0 * a], divergences: vec![rho, rho * (1.0 + self.unit())] }
            }
            15 => Event::Zcdp {
                rho: self.scale(1e-12, 1e3),
                xi: if self.below(3) == 0 { self.scale(1e-6, 10.0) } else { 0.0 },
            },
            16 => {
                let (e, d) = (self.scale(1e-3, 300.0), self.scale(1e-20, 0.5));
                Event::PrivacyProfile { epsilons: vec![0.0, e, 2.0 * e], deltas: vec![d, d, d * self.unit()] }
            }
            17 => Event::PureStream { epsilon: cost(self) },
            18 => Event::ChiSquareGaussian { degrees_of_freedom: self.count(100_000), mu: self.scale(1e-4, 100.0) },
            19 => {
                let (q, c) = (self.probability(), self.scale(1e-3, 100.0));
                Event::MixtureOfGaussians {
                    standard_deviation: self.sigma(),
                    sensitivities: vec![0.0, c, 2.0 * c],
                    sampling_probs: vec![1.0 - q, 0.5 * q, 0.5 * q],
                }
            }
            20 => Event::SingleEpochTreeAggregation {
                noise_multiplier: self.sigma(),
                step_counts: vec![self.count(1_000_000), self.count(10)],
            },
            21 => {
                let n = self.count(100_000);
                Event::TruncatedSubsampledGaussian {
                    dataset_size: n,
                    sampling_probability: self.probability(),
                    truncated_batch_size: self.count(n),
                    noise_multiplier: self.sigma(),
                }
            }
            22 => Event::EpsilonDelta { epsilon: cost(self), delta: self.scale(1e-300, 0.9) },
            23 => Event::ApproxDp { epsilon: cost(self), delta: self.scale(1e-300, 0.9) },
            24 | 25 => {
                let link = match self.below(3) {
                    0 => GlmLink::Monotone,
                    1 => GlmLink::Smooth { smoothness: self.scale(1e-3, 10.0) },
                    _ => GlmLink::Softmax { classes: 2 + self.count(100) as u32 },
                };
                let (noise_multiplier, regularization) = (self.scale(1e-2, 1e4), self.scale(1e-4, 1e6));
                Event::ObjectivePerturbation { noise_multiplier, regularization, link }
            }
            26 => Event::NoOp,
            27 => Event::ProposeTestRelease {
                epsilon: cost(self),
                delta: self.scale(1e-300, 0.9),
                noise_multiplier: self.sigma(),
            },
            _ => [Event::NonPrivate, Event::Unsupported][self.below(2) as usize].clone(),
        }
    }

    /// Every combinator around `event`.
    fn around(&mut self, event: Event) -> Event {
        let boxed = Box::new(event.clone());
        match self.below(46) {
            0..8 => event.poisson_sampled(self.probability()),
            8..12 => {
                let n = self.count(100_000);
                let m = self.count(n);
                event.sampled_without_replacement(n, m)
            }
            12..16 => {
                let n = self.count(10_000);
                Event::SampledWithReplacement { source_dataset_size: n, sample_size: self.count(1000), event: boxed }
            }
            16..20 => Event::Parallel { blocks: vec![event, self.leaf()] },
            20..24 => Event::UserUnit { records_per_user: self.count(100), event: boxed },
            24..32 => event.self_composed(self.count(1_000_000_000)),
            32..36 => Event::composed(vec![self.leaf(), event]),
            36..40 => event.approximate(self.scale(1e-300, 1e-3)),
            40 => {
                let num_steps = self.count(1_000_000);
                let num_selected = if self.below(2) == 0 { 1 } else { self.count(num_steps) };
                Event::RandomAllocation { event: boxed, num_selected, num_steps }
            }
            42..46 => event.gated(self.probability()),
            // an accountant takes up to half a minute for it
            _ => {
                let shape = [0.0, 1.0, 0.5, f64::INFINITY][self.below(4) as usize];
                Event::RepeatAndSelect { event: boxed, mean: self.scale(1.0, 1000.0), shape }
            }
        }
    }

    /// A leaf under up to three combinators; one that the check lets pass in four of five cases.
    pub fn event(&mut self, relation: Relation) -> Event {
        let mut event = self.leaf();
        for _ in 0..16 {
            event = self.leaf();
            for _ in 0..self.below(4) {
                event = self.around(event);
            }
            if self.below(5) == 0 || event.check(relation).is_ok() {
                break;
            }
        }
        event
    }
}

/// δ(ε) that one part of the event has alone, for parts whose profile has a closed form; 0 for the others.
pub fn truth(event: &Event, relation: Relation, epsilon: f64) -> f64 {
    let Ok(exact) = event.exact(relation) else { return 0.0 };
    exact.parts.iter().map(|(part, _)| alone(part, relation, epsilon)).fold(0.0, f64::max)
}

fn alone(part: &Event, relation: Relation, epsilon: f64) -> f64 {
    let shift = relation.sum_sensitivity();
    match part {
        Event::Gaussian { noise_multiplier } => gaussian_ln_delta(epsilon, shift / noise_multiplier).exp(),
        Event::Gdp { mu } => gaussian_ln_delta(epsilon, *mu).exp(),
        Event::Laplace { noise_multiplier } => laplace(shift / noise_multiplier, epsilon),
        Event::PermuteAndFlip { epsilon: s } => laplace(*s, epsilon),
        // (e^(s−ε) − 1)/(e^s + 1)·e^ε, by exponentials that do not overflow
        Event::PureStream { epsilon: s } => coin(*s, epsilon),
        Event::ApproxDp { epsilon: s, delta } | Event::EpsilonDelta { epsilon: s, delta } => {
            delta + (1.0 - delta) * coin(*s, epsilon)
        }
        // (1 − e^((ε−s)/2))²/(1 − e^−s)
        Event::ExponentialMechanism { epsilon: s } if epsilon < *s => {
            (-(0.5 * (epsilon - s)).exp_m1()).powi(2) / -(-s).exp_m1()
        }
        Event::DiscreteGaussian { sigma, sensitivity, dimension: Some(1) } if *sigma < 100.0 => {
            integers(*sigma, sensitivity.floor() * shift, epsilon)
        }
        // a shift along one of the sums
        Event::DiscreteGaussian { sigma, sensitivity, .. } if *sigma < 100.0 => {
            integers(*sigma, sensitivity.floor() * shift, epsilon)
        }
        // (with → without): q·δ(ln(1 + (e^ε − 1)/q)) of the base
        Event::PoissonSampled { sampling_probability: q, event }
            if relation != Relation::ReplaceOne && epsilon < 600.0 =>
        {
            let inner = if epsilon > 30.0 { epsilon - q.ln() } else { (epsilon.exp_m1() / q).ln_1p() };
            // rounding of the inner ε moves δ
            (1.0 - 1e-9) * q * alone(event, relation, inner * (1.0 + 1e-12))
        }
        _ => 0.0,
    }
}

fn laplace(s: f64, epsilon: f64) -> f64 {
    if epsilon < s { -(0.5 * (epsilon - s)).exp_m1() } else { 0.0 }
}

fn coin(s: f64, epsilon: f64) -> f64 {
    if epsilon < s { -(epsilon - s).exp_m1() / (1.0 + (-s).exp()) } else { 0.0 }
}

/// Σ (P(y) − e^ε P(y + s))₊ term by term.
fn integers(sigma: f64, s: f64, epsilon: f64) -> f64 {
    let reach = (40.0 * sigma).ceil() as i64 + 1;
    let law = |y: f64| (-0.5 * (y / sigma).powi(2)).exp();
    let total: f64 = (-reach..=reach).map(|y| law(y as f64)).sum();
    // a loss is s(s + 2y)/(2σ²)
    let terms = (-reach..=reach).map(|y| {
        let loss = 0.5 * (s / sigma) * ((s + 2.0 * y as f64) / sigma);
        if loss > epsilon { -law(y as f64) * (epsilon - loss).exp_m1() } else { 0.0 }
    });
    terms.sum::<f64>() / total
}
