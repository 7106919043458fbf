//! Federated hard thresholding, simulated in one process (after Liang, Tong, Ding, Pan, Bi 2022): DP-FedGD-HT, DP-FedSGD-HT, and a user-level version.
//!
//! Each round the server sends x, each client makes K local steps, the server keeps the τ largest coordinates of the weighted
//! mean. *Record level*: every local gradient is noised by its client, which does its own accounting and trusts no other party; clients
//! have disjoint records, so nothing composes across them. It does not hide whether a client takes part at all. *User level*:
//! each client is one person; clients enter a round by chance, their whole update is clipped and one trusted server adds noise.

use super::refit::sampled_below_one;
use dpopt_mechanism::{
    ClippedVectors, Curator, CuratorError, Gaussian, LocalUpdates, PublicShape, Released, Sensitive, SparseVector,
};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::Examples;
use dpopt_optimize::RunError;
use dpopt_optimize::oracle::NoisySum;
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::planning::{SamplerError, check_problem, in_range, positive, require_delta, sum_grid};
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation, calibrate};
use dpopt_refusal::option;
use serde::Serialize;

/// Public facts of a federation.
#[derive(Clone, Debug)]
pub struct FederatedProblem {
    /// n_i: records of each client.
    pub records: Vec<u64>,
    /// d: number of features.
    pub features: usize,
    /// R: enforced l2 norm of every row.
    pub row_norm: f64,
    /// A loss with one output.
    pub loss: Loss,
}

/// Who is protected from whom.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protects {
    /// A record, from everybody but its own client. Each local batch holds a record with probability q (1: all records).
    Records {
        /// q in (0, 1].
        sampling_probability: f64,
    },
    /// A client with all its records, from everybody but the server. Local steps are exact; clients enter with probability q.
    Users {
        /// q in (0, 1].
        sampling_probability: f64,
        /// S > 0: l2 bound on a client's update of a round.
        update_clip: f64,
    },
}

/// Options of federated hard thresholding.
#[derive(Clone, Debug)]
pub struct Federated {
    /// Number of rounds, at least 1.
    pub rounds: u64,
    /// K ≥ 1: local steps of a client in each round.
    pub local_steps: u64,
    /// η > 0 of the local steps, on the client's mean loss.
    pub learning_rate: f64,
    /// C: l2 bound on a record's gradient (record level); user level steps are exact.
    pub clip_norm: f64,
    /// τ ≥ 1: coordinates kept.
    pub max_features: usize,
    /// Also keep only τ coordinates after each local step.
    pub local_threshold: bool,
    /// Record or user level.
    pub protects: Protects,
}

/// The numbers that a plan of the federation settled on.
#[derive(Clone, Debug, Serialize)]
pub struct FederatedSchedule {
    /// z: noise standard deviation of a sum over its clip norm.
    pub noise_multiplier: f64,
    /// p_i: public weights of the clients.
    pub client_weights: Vec<f64>,
    /// log2 of the grid step of each client, or of the server's sum.
    pub grid_exponents: Vec<i32>,
}

/// A certified federation. At record level the certificate is that of *every single client*; at user level that of the server.
#[derive(Clone, Debug)]
pub struct FederatedPlan {
    /// The options as they were given.
    pub options: Federated,
    /// The public facts of the federation.
    pub problem: FederatedProblem,
    /// Noise, weights and grids of the plan.
    pub schedule: FederatedSchedule,
    /// The guarantee, and whom it is about.
    pub certificate: Certificate,
}

/// One Gaussian release on a Poisson sample, or on everything.
fn sampled(z: f64, q: f64, count: u64) -> Event {
    super::descent::releases(z, q, count)
}

impl Federated {
    /// Fixes the noise from public facts.
    pub fn plan(
        &self,
        problem: &FederatedProblem,
        relation: Relation,
        budget: Budget,
    ) -> Result<FederatedPlan, NotApplicable> {
        require_delta(budget)?;
        let neighbours = match self.protects {
            Protects::Records { .. } => Neighbours::of_records(relation),
            Protects::Users { .. } => Neighbours::of_users(relation),
        };
        let total: u64 = problem.records.iter().sum();
        let whole = Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
            record: Default::default(),
            rows: total,
            features: problem.features,
            nonzeros: problem.features,
            row_norm: problem.row_norm,
            loss: problem.loss,
            neighbours,
        };
        check_problem(&whole)?;
        if problem.loss.outputs() != 1 {
            return Err(NotApplicable::Problem(
                "federated runs fit one score per record and cannot fit several classes at once; fit one class \
                 against the rest"
                    .into(),
            ));
        }
        if problem.records.contains(&0) {
            return Err(NotApplicable::Problem("a client has no records; leave it out".into()));
        }
        if relation == Relation::AddOrRemove {
            return Err(NotApplicable::Problem(
                "the numbers of records and clients are public here; use zero-out or replace-one".into(),
            ));
        }
        in_range(option("rounds"), self.rounds as f64, 1.0, 1e9)?;
        in_range(option("local_steps"), self.local_steps as f64, 1.0, 1e9)?;
        in_range(option("max_features"), self.max_features as f64, 1.0, 1e9)?;
        positive("the learning rate", self.learning_rate)?;
        positive("the clip norm", self.clip_norm)?;
        let d = problem.features as f64;
        let (q, count, members, clip) = match self.protects {
            Protects::Records { sampling_probability: q } => {
                // every local step of every round is a release of that client
                let most = problem.records.iter().copied().max().unwrap_or(1);
                (q, self.rounds * self.local_steps, most, self.clip_norm)
            }
            Protects::Users { sampling_probability: q, update_clip } => {
                (q, self.rounds, problem.records.len() as u64, positive("the update's clip norm", update_clip)?)
            }
        };
        let q = in_range("the sampling probability", q, 1e-9, 1.0)?;
        let drawn = (SamplerError::rounded(d) + SamplerError::subset(members)) * count as f64;
        let event = |z: f64| drawn.on(sampled(z, q, count));
        let (noise_multiplier, certificate) = calibrate::noise(event, neighbours.within(budget))?;
        let grid = |members: u64| {
            Ok::<i32, NotApplicable>(sum_grid(clip, noise_multiplier * clip, members, problem.features)?.exponent())
        };
        let grid_exponents = match self.protects {
            Protects::Records { .. } => problem.records.iter().map(|&n| grid(n)).collect::<Result<_, _>>()?,
            Protects::Users { .. } => vec![grid(members)?],
        };
        let client_weights = problem.records.iter().map(|&n| n as f64 / total as f64).collect();
        Ok(FederatedPlan {
            options: self.clone(),
            problem: problem.clone(),
            schedule: FederatedSchedule { noise_multiplier, client_weights, grid_exponents },
            certificate,
        })
    }
}

impl FederatedPlan {
    fn check(&self, clients: &[Sensitive<Examples>], curator: &Curator) -> Result<(), RunError> {
        let fits = clients.len() == self.problem.records.len()
            && clients.iter().zip(&self.problem.records).all(|(c, &n)| {
                let PublicShape { records: rows, features, row_norm, .. } = curator.public_shape(c);
                rows == Some(n) && features == self.problem.features && row_norm <= self.problem.row_norm
            });
        if fits {
            return Ok(());
        }
        Err(RunError::Shape {
            planned: format!("{} clients with their numbers of records", self.problem.records.len()),
            given: format!("{} clients, or other numbers of records, features or norms", clients.len()),
        })
    }

    /// Simulates the federation: one source of noise per client at record level, the first one for the server at user level.
    /// Returns the final model and, at record level, the ledger of each client.
    pub fn run(
        &self,
        clients: &[Sensitive<Examples>],
        sources: Vec<NoiseSource>,
    ) -> Result<Released<SparseVector>, RunError> {
        match self.options.protects {
            Protects::Records { sampling_probability } => self.run_records(clients, sources, sampling_probability),
            Protects::Users { sampling_probability, update_clip } => {
                self.run_users(clients, sources, sampling_probability, update_clip)
            }
        }
    }

    fn threshold(&self, y: &[f64]) -> Vec<f64> {
        SparseVector::largest(y, self.options.max_features, None).dense(y.len())
    }

    fn run_records(
        &self,
        clients: &[Sensitive<Examples>],
        sources: Vec<NoiseSource>,
        q: f64,
    ) -> Result<Released<SparseVector>, RunError> {
        if sources.len() != clients.len() {
            return Err(RunError::Shape {
                planned: format!("{} sources of noise, one per client", clients.len()),
                given: format!("{}", sources.len()),
            });
        }
        let (o, s, d) = (&self.options, &self.schedule, self.problem.features);
        // each client guards its own records
        let mut curators: Vec<Curator> =
            sources.into_iter().map(|noise| Curator::new(&self.certificate, noise)).collect();
        curators.iter().try_for_each(|curator| self.check(clients, curator))?;
        let objective = Linear::new(self.problem.loss, d, self.problem.row_norm);
        let oracle = |grid: &i32| {
            let noise = Gaussian::new(s.noise_multiplier, o.clip_norm, Grid::new(*grid), d, "local gradient");
            Ok(sampled_below_one(NoisySum::new(objective, noise)?, q))
        };
        let gradients = s.grid_exponents.iter().map(oracle).collect::<Result<Vec<_>, CuratorError>>()?;
        let mut x = vec![0.0; d];
        for _ in 0..o.rounds {
            let mut mean = vec![0.0; d];
            for (i, (client, curator)) in clients.iter().zip(&mut curators).enumerate() {
                let mut local = x.clone();
                for _ in 0..o.local_steps {
                    let noisy = gradients[i].release(client, curator, &local)?;
                    let rate = o.learning_rate / (q * self.problem.records[i] as f64);
                    local.iter_mut().zip(noisy.get()).for_each(|(w, g)| *w -= rate * g);
                    if o.local_threshold {
                        local = self.threshold(&local);
                    }
                }
                mean.iter_mut().zip(&local).for_each(|(m, w)| *m += s.client_weights[i] * w);
            }
            x = self.threshold(&mean);
        }
        if curators.iter().any(|c| !c.is_spent()) {
            return Err(RunError::Numerical("a client released less than was planned"));
        }
        let answer = SparseVector::largest(&x, o.max_features, None);
        curators.first().map(|c| c.postprocess(answer)).ok_or(RunError::Numerical("there is no client"))
    }

    fn run_users(
        &self,
        clients: &[Sensitive<Examples>],
        sources: Vec<NoiseSource>,
        q: f64,
        update_clip: f64,
    ) -> Result<Released<SparseVector>, RunError> {
        let (o, s, d) = (&self.options, &self.schedule, self.problem.features);
        let Some(noise) = sources.into_iter().next() else {
            return Err(RunError::Shape { planned: "one source of noise for the server".into(), given: "none".into() });
        };
        let mut server = Curator::new(&self.certificate, noise);
        self.check(clients, &server)?;
        let grid = Grid::new(s.grid_exponents[0]);
        let clipped = ClippedVectors::new(update_clip, grid)?;
        let mechanism = Gaussian::new(s.noise_multiplier, update_clip, grid, d, "sum of the clients' updates");
        let updates = LocalUpdates {
            objective: Linear::new(self.problem.loss, d, self.problem.row_norm),
            learning_rate: o.learning_rate,
            steps: o.local_steps,
            keep: o.local_threshold.then_some(o.max_features),
        };
        let mut x = vec![0.0; d];
        for _ in 0..o.rounds {
            // always a batch: the event of q = 1 is the plain Gaussian, and then all take part
            let (batch, expected) = if q < 1.0 {
                (Some(server.poisson_sample(clients.len(), q)?), q * clients.len() as f64)
            } else {
                (None, clients.len() as f64)
            };
            let noisy = server.release(&mechanism, &updates.sum(&clipped, clients, batch, &x))?;
            let moved: Vec<f64> = x.iter().zip(noisy.get()).map(|(w, u)| w + u / expected).collect();
            x = self.threshold(&moved);
        }
        Ok(server.postprocess(SparseVector::largest(&x, o.max_features, None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::Rows;

    /// `count` clients with different mixtures of classes; features 0 and 1 tell the class.
    fn clients(count: usize, records: usize) -> Vec<Sensitive<Examples>> {
        (0..count)
            .map(|c| {
                let mut rows = Rows::new(40);
                let mut targets = Vec::new();
                for i in 0..records {
                    let positive = (i * 7 + c) % 10 < 2 + 6 * (c % 2);
                    let sign = if positive { 1.0 } else { -1.0 };
                    rows.push_clipped(&mut [(0, sign), (1, -sign), (2 + ((i * 13 + c) % 38) as u32, 1.0)], 1.0);
                    targets.push(sign);
                }
                Sensitive::new(Examples { rows, targets })
            })
            .collect()
    }

    fn federated(protects: Protects, local_threshold: bool) -> Federated {
        Federated {
            rounds: 8,
            local_steps: 3,
            learning_rate: 1.0,
            clip_norm: 0.5,
            max_features: 2,
            local_threshold,
            protects,
        }
    }

    fn facts(count: usize, records: u64) -> FederatedProblem {
        FederatedProblem {
            records: vec![records; count],
            features: 40,
            row_norm: 1.0,
            loss: Loss::Logistic { shift: 0.0 },
        }
    }

    fn sources(count: u64) -> Vec<NoiseSource> {
        (0..count).map(NoiseSource::insecure).collect()
    }

    #[test]
    fn every_client_accounts_all_its_local_steps_and_the_features_are_found() {
        let data = clients(6, 800);
        let budget = Budget::new(4.0, 1e-5).unwrap();
        for (q, local) in [(1.0, false), (0.3, true)] {
            let federated = federated(Protects::Records { sampling_probability: q }, local);
            let plan = federated.plan(&facts(6, 800), Relation::ZeroOut, budget).unwrap();
            // 8 rounds of 3 local steps, whatever the other clients do
            let own = sampled(plan.schedule.noise_multiplier, q, 24);
            assert!(matches!(plan.certificate.event(), Event::Approximate { event, .. } if **event == own));
            let x = plan.run(&data, sources(6)).unwrap().into_inner();
            assert_eq!(x.indices(), [0, 1]);
            assert!(x.values()[0] > 0.0 && x.values()[1] < 0.0);
        }
    }

    #[test]
    fn a_person_is_protected_with_all_records_at_user_level() {
        let data = clients(400, 5);
        let protects = Protects::Users { sampling_probability: 0.5, update_clip: 0.5 };
        let plan = federated(protects, false)
            .plan(&facts(400, 5), Relation::ZeroOut, Budget::new(4.0, 1e-5).unwrap())
            .unwrap();
        let own = sampled(plan.schedule.noise_multiplier, 0.5, 8);
        assert!(matches!(plan.certificate.event(), Event::Approximate { event, .. } if **event == own));
        let x = plan.run(&data, sources(1)).unwrap().into_inner();
        assert_eq!(x.indices(), [0, 1]);
        assert!(x.values()[0] > 0.0 && x.values()[1] < 0.0);
    }

    #[test]
    fn other_federations_are_refused() {
        let budget = Budget::new(1.0, 1e-5).unwrap();
        let records = federated(Protects::Records { sampling_probability: 0.5 }, false);
        let plan = records.plan(&facts(2, 10), Relation::ZeroOut, budget).unwrap();
        assert!(matches!(plan.run(&clients(3, 10), sources(3)), Err(RunError::Shape { .. })));
        assert!(matches!(plan.run(&clients(2, 11), sources(2)), Err(RunError::Shape { .. })));
        assert!(matches!(plan.run(&clients(2, 10), sources(1)), Err(RunError::Shape { .. })));
        assert!(records.plan(&facts(2, 10), Relation::AddOrRemove, budget).is_err());
        assert!(records.plan(&facts(2, 0), Relation::ZeroOut, budget).is_err());
        let wrong = Federated { rounds: 0, ..records };
        assert!(wrong.plan(&facts(2, 10), Relation::ZeroOut, budget).is_err());
    }
}
