//! Public candidates that one record moves in opposite directions: points of a net, of a tree of cells, two checkpoints, and a stream of them of which the first is taken that is good enough
//! (Liu 2024, Theorem 6.4.8 and Algorithm 18).

use dpopt_audit::draws::Draws;
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{
    Choice, ChoiceLaw, ClippedVectors, Counts, Curator, CuratorError, Interactive, Mechanism, Sensitive, Stationarity,
    TreeChoice, TreeShape, past_the_curator,
};
use dpopt_minimize::stationary::{self, StationaryOptions, StationaryPlan, StationaryProblem, gradient_sum};
use dpopt_minimize::{InMemory, MinimizePlan, MinimizeProblem, NetSchedule, Rule, choose, run};
use dpopt_noise::NoiseSource;
use dpopt_objective::objective::{Closures, Evidence};
use dpopt_optimize::MethodOptions;
use dpopt_privacy::{Budget, Event, Neighbours, Relation};

/// A net of 3^d points of a box, whose corners one record of three makes better or worse: two others are against the low end.
pub(crate) struct Net {
    problem: MinimizeProblem,
    plan: MinimizePlan,
    worlds: [Sensitive<Vec<f64>>; 2],
}

impl Net {
    /// A net in `dimension` dimensions, planned for `epsilon`.
    pub(crate) fn new(dimension: usize, epsilon: f64) -> Result<Self, String> {
        let problem = MinimizeProblem::new(3, dimension, Neighbours::of_records(Relation::ReplaceOne));
        let budget = Budget::new(epsilon, 0.0).map_err(|e| e.to_string())?;
        let options = MethodOptions::of("net").with("points", 3u64.pow(dimension as u32)).with("box_radius", 1.0);
        let plan = choose(&problem, budget, &options).map_err(|e| e.to_string())?;
        let world = |with: bool| Sensitive::new(vec![if with { 1e3 } else { -1e3 }, -1e3, -1e3]);
        Ok(Self { problem, plan, worlds: [false, true].map(world) })
    }

    pub(crate) fn event(&self) -> &Event {
        self.plan.certificate.event()
    }

    /// Gives the plan the noise of a net whose furthest point is so many times nearer.
    pub(crate) fn made_for_nearer(mut self, times: f64) -> Self {
        if let Rule::Net(net) = &mut self.plan.schedule.rule {
            *net = NetSchedule { choice_epsilon: times * net.choice_epsilon, ..*net };
        }
        self
    }

    fn epsilon(&self) -> f64 {
        if let Rule::Net(net) = self.plan.schedule.rule { net.choice_epsilon } else { f64::NAN }
    }

    /// Sum of the coordinates of the chosen point.
    pub(crate) fn chosen(&self, with: bool, draws: &mut Draws) -> f64 {
        let objective = Closures::new(
            self.problem.dimension,
            |x: &[f64], slope: &f64| slope * x.iter().sum::<f64>(),
            |_: &[f64], _: &f64, _: &mut [f64]| {},
        );
        let event = Event::ExponentialMechanism { epsilon: self.epsilon() };
        let mut curator = past_the_curator::uncharged(&event, NoiseSource::insecure(draws.word()));
        let source = InMemory::new(objective, &self.worlds[usize::from(with)]);
        let start = vec![0.0; self.problem.dimension];
        let found = run(&self.problem, &self.plan, &start, source, &mut curator, &Silent);
        found.map_or(f64::NAN, |x| x.get().iter().sum())
    }

    /// ln of the largest ratio of the probabilities of a point: three points of a line, of whom the low end is rarest.
    pub(crate) fn loss(epsilon: f64) -> f64 {
        let low = |slopes: f64| {
            let weights = [-1.0, 0.0, 1.0].map(|x: f64| (-0.25 * epsilon * slopes * x).exp());
            weights[0] / weights.iter().sum::<f64>()
        };
        (low(-1.0) / low(-3.0)).ln()
    }
}

/// A loss over the interval from −1 to 1, for which records are numbers.
type Loss = fn(&[f64], &f64) -> f64;

/// Points of an interval, the centres of the cells of a tree.
pub(crate) struct Tree {
    choice: TreeChoice,
    loss: Loss,
    worlds: [Sensitive<Vec<f64>>; 2],
}

impl Tree {
    fn of(
        levels: u32,
        (bound, slope): (f64, f64),
        (epsilon, relation): (f64, Relation),
        loss: Loss,
        worlds: [Vec<f64>; 2],
    ) -> Result<Self, CuratorError> {
        let shape = TreeShape::new(&[0.0], 1.0, false, levels)?;
        let records = worlds[1].len() as u64;
        let choice = TreeChoice::within(shape, (bound, slope), records, epsilon, relation)?;
        Ok(Self { choice, loss, worlds: worlds.map(Sensitive::new) })
    }

    /// Eight points. A record of three is for one half or for the other, two are against the low one; a record is replaced.
    pub(crate) fn halves(epsilon: f64) -> Result<Self, CuratorError> {
        let loss = |x: &[f64], side: &f64| if x[0] * side > 0.0 { 0.0 } else { 2.0 };
        let of = (epsilon, Relation::ReplaceOne);
        Self::of(3, (2.0, 1e3), of, loss, [vec![1.0, 1.0, 1.0], vec![-1.0, 1.0, 1.0]])
    }

    /// ln of the ratio of the probabilities of the low half.
    pub(crate) fn loss_of_halves(epsilon: f64) -> f64 {
        // scale 4/ε: scores −3 and 3, or −1 and 1
        let low = |score: f64| 1.0 / (1.0 + (0.5 * epsilon * score).exp());
        (low(1.0) / low(3.0)).ln()
    }

    /// 2^8 points, and scores of neighbouring cells that may hardly differ. The only record is for and against the cells of the low half by turns of the level, or absent.
    pub(crate) fn turns(epsilon: f64) -> Result<Self, CuratorError> {
        let loss = |x: &[f64], _: &f64| 1.0 - turn(x[0]);
        Self::of(TURNS, (2.0, 1e-9), (epsilon, Relation::ZeroOut), loss, [vec![], vec![1.0]])
    }

    pub(crate) fn event(&self) -> Event {
        self.choice.event()
    }

    /// The chosen point.
    pub(crate) fn chosen(&self, with: bool, draws: &mut Draws) -> f64 {
        let objective = Closures::new(1, self.loss, |_: &[f64], _: &f64, _: &mut [f64]| {});
        let mut curator = past_the_curator::uncharged(&self.event(), NoiseSource::insecure(draws.word()));
        let open = curator.open(&self.choice);
        let chosen = open.and_then(|open| open.choose(&self.worlds[usize::from(with)], &objective));
        chosen.map_or(f64::NAN, |x| x.get()[0])
    }
}

/// Levels of the tree with turns.
const TURNS: u32 = 8;

/// What the record says of the centre of a cell: on odd levels for it, on even ones against it, and nothing in the high half.
fn turn(x: f64) -> f64 {
    let odd = (x * f64::from(1 << TURNS)).abs() as u64;
    let level = if odd == 0 { 0 } else { TURNS - odd.trailing_zeros() };
    match (x < 0.0, level % 2) {
        (false, _) => 0.0,
        (true, 1) => 1.0,
        (true, _) => -1.0,
    }
}

/// A cell of the altered draw: its level, its centre, what its score is cut to, the bound on its points.
struct Waiting {
    level: u32,
    centre: f64,
    around: f64,
    bound: f64,
}

/// Index of an entry, by its weight.
fn by_weight(weights: &[f64], draws: &mut Draws) -> usize {
    let mut left = draws.uniform() * weights.iter().sum::<f64>();
    let passed = |weight: &&f64| {
        left -= **weight;
        left >= 0.0
    };
    weights[..weights.len() - 1].iter().take_while(passed).count()
}

/// The tree with turns, where scores are cut to within (hardly) anything of their parents' scores *before those were cut*: in the low half of the interval?
pub(crate) fn cut_around_uncut(epsilon: f64, with: bool, draws: &mut Draws) -> bool {
    let scale = 2.0 / epsilon;
    let score = |x: f64| if with { turn(x) } else { 0.0 };
    let halves = |level: u32, x: f64, around: f64, bound: f64| {
        let step = 0.5f64.powi(level as i32 + 1);
        [x - step, x + step].map(|centre| Waiting { level: level + 1, centre, around, bound })
    };
    let mut frontier: Vec<Waiting> = halves(0, 0.0, 0.0, 0.0).into();
    loop {
        let weight = |cell: &Waiting| 2f64.powi((TURNS - cell.level) as i32) * (cell.bound / scale).exp();
        let weights: Vec<f64> = frontier.iter().map(weight).collect();
        let mut cell = frontier.swap_remove(by_weight(&weights, draws));
        loop {
            // nothing is left of a step: the cut score is what the parent says
            let own = cell.around;
            let kept = draws.coin(((own - cell.bound) / scale).exp().min(1.0));
            if cell.level == TURNS {
                if kept {
                    return cell.centre < 0.0;
                }
                frontier.push(Waiting { bound: own, ..cell });
                break;
            }
            let [low, high] = halves(cell.level, cell.centre, score(cell.centre), own);
            if !kept {
                frontier.extend([low, high]);
                break;
            }
            let (next, other) = if draws.coin(0.5) { (low, high) } else { (high, low) };
            frontier.push(other);
            cell = next;
        }
    }
}

/// Scores of two candidates, of whom the replaced record makes one more stationary and the other less: (−5, 0) against (−3, −2), in clip norms.
pub(crate) struct Checkpoints {
    score: Stationarity,
    counts: [Sensitive<Counts>; 2],
}

impl Checkpoints {
    pub(crate) fn new() -> Result<Self, CuratorError> {
        let score = Stationarity::of_gradients(1.0)?;
        let clipped = ClippedVectors::new(1.0, score.grid())?;
        let counts = |with: bool| {
            let own = if with { 1.0 } else { -1.0 };
            // four records and one, and the replaced one on the same or on the other side
            let gradients = [vec![1.0, 1.0, 1.0, 1.0, own], vec![1.0, -own]];
            let scores = gradients.map(|all| score.score(&clipped.sum(all.len(), 1, |i, out| out.push(all[i])), None));
            score.together(&scores.into_iter().collect::<Result<Vec<_>, _>>()?)
        };
        Ok(Self { counts: [counts(false)?, counts(true)?], score })
    }

    /// The choice for ε, made for neighbours under `relation`.
    pub(crate) fn choice(&self, epsilon: f64, relation: Relation) -> Result<Choice, CuratorError> {
        Choice::new(ChoiceLaw::Exponential, epsilon, self.score.sensitivity(), false, relation)
    }

    /// Index of the candidate that is chosen; NaN if the choice is refused.
    pub(crate) fn chosen(&self, choice: &Choice, with: bool, draws: &mut Draws) -> f64 {
        let mut curator: Curator = past_the_curator::uncharged(&choice.event(), NoiseSource::insecure(draws.word()));
        curator.release(choice, &self.counts[usize::from(with)]).map_or(f64::NAN, |index| *index.get() as f64)
    }
}

/// What a record says of the two kinds of candidates of a stream, and of its curvature at all of them.
#[derive(Clone, Copy)]
pub(crate) struct Says {
    pub(crate) kinds: [f64; 2],
    pub(crate) curvature: f64,
}

/// Candidates of two kinds, one after the other: the first that is good enough is taken.
pub(crate) struct Stream {
    plan: StationaryPlan,
    /// Without the last record and with it; it keeps its place.
    worlds: [Vec<Says>; 2],
    gradients: [Sensitive<Vec<[f64; 2]>>; 2],
    kind: fn(usize) -> usize,
}

impl Stream {
    /// Of so many candidates, `kind` of each, for ε.
    pub(crate) fn new(
        (candidates, kind): (u64, fn(usize) -> usize),
        epsilon: f64,
        options: &StationaryOptions,
        all: &[Says],
    ) -> Result<Self, String> {
        let neighbours = Neighbours::of_records(Relation::ZeroOut);
        let problem =
            StationaryProblem { records: all.len() as u64, candidates, neighbours, own_evidence: Evidence::Proved };
        let budget = Budget::new(epsilon, 0.0).map_err(|e| e.to_string())?;
        let plan = stationary::plan(&problem, budget, options).map_err(|e| e.to_string())?;
        let world = |with: bool| {
            let mut own = all.to_vec();
            if let Some(last) = own.last_mut().filter(|_| !with) {
                *last = Says { kinds: [0.0; 2], curvature: 0.0 };
            }
            own
        };
        let worlds = [false, true].map(world);
        let gradients = [0, 1].map(|i: usize| Sensitive::new(worlds[i].iter().map(|says| says.kinds).collect()));
        Ok(Self { plan, worlds, gradients, kind })
    }

    pub(crate) fn event(&self) -> &Event {
        self.plan.certificate.event()
    }

    /// Which is taken, which may be none; an outer `None` if the run is refused.
    pub(crate) fn taken(&self, with: bool, draws: &mut Draws) -> Option<Option<usize>> {
        let objective = Closures::new(
            1,
            |_: &[f64], _: &[f64; 2]| 0.0,
            |x: &[f64], says: &[f64; 2], g: &mut [f64]| g[0] = says[usize::from(x[0] > 0.0)],
        );
        let (world, gradients) = (&self.worlds[usize::from(with)], &self.gradients[usize::from(with)]);
        let mut curator = past_the_curator::uncharged(self.event(), NoiseSource::insecure(draws.word()));
        let taken = stationary::run(&self.plan, &mut curator, &Silent, |curator, candidate| {
            let sum = gradient_sum(&self.plan, objective, gradients, &[(self.kind)(candidate) as f64])?;
            if !self.plan.score.has_curvature() {
                return Ok((sum, None));
            }
            let (batch, all) = curator.all_for_loader(world.len())?;
            let mut bent = self.plan.score.curvatures(batch, 1);
            if let Some(bent) = &mut bent {
                bent.add(all.len(), |i, out| out.push(world[i].curvature))?;
            }
            Ok((sum, bent))
        });
        taken.ok().map(|taken| *taken.get())
    }
}
