//! Noisy running sums that begin anew whenever what was released says so, over batches whose sizes what was released decides (Liu 2024,
//! Algorithms 21 and 22; docs/proofs/restarted-sums.md).
//!
//! A public random order of the records is read once, from its beginning: a record is in one leaf, whatever the sizes and the restarts are. What it adds to that leaf
//! is clipped to one norm, so that sums of weighted vectors have to carry their weights in the objective. Every restart has a fresh tree of noise: one tree
//! over a sum that was restarted costs more than its depth.
//!
//! Covers: thesis algorithm 22 (certified: leaves are clipped, and noise is that of a fresh tree)

use dpopt_kernel::beside::{Expose, Sealed, Seen, Units, opened, released};
use dpopt_kernel::{BatchSum, Clipped, CuratorError, Interactive, InteractiveStart, Released, SamplerError, Sensitive};
use dpopt_noise::correlated::{TreeNoise, tree_depth};
use dpopt_noise::{Grid, Norm, Purpose, Quantizer, RoundedGaussian, Stream};
use dpopt_objective::objective::Objective;
use dpopt_objective::records::RecordSet;
use dpopt_privacy::{Event, Relation};
use dpopt_process::Process;

const LABEL: &str = "restarted sums";

/// What running sums are calibrated for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RestartedPlan {
    /// Public number of records.
    pub records: u64,
    /// Number of coordinates.
    pub dimension: usize,
    /// Leaves between two restarts, at most: the depth of a tree, and so its noise, follows from it.
    pub leaves: u64,
    /// Leaves of the whole run, at most: so much is drawn.
    pub steps: u64,
    /// Most that a record adds to its leaf, in l2 norm.
    pub clip_norm: f64,
    /// What sums are multiples of.
    pub grid: Grid,
    /// z: noise of a node over clip norm times the root of the depth.
    pub noise_multiplier: f64,
    /// Which data sets are neighbours; not add-or-remove, where an added record would move all others to other leaves.
    pub relation: Relation,
}

impl RestartedPlan {
    /// Root of the number of nodes that a record is in: l2 sensitivity of all that a tree releases, per unit of the clip norm (zero-out; the accountant doubles it
    /// for replace-one).
    pub fn sensitivity(leaves: u64) -> f64 {
        f64::from(tree_depth(leaves)).sqrt() * (1.0 + 1e-12)
    }

    /// Standard deviation of a node's noise.
    pub fn noise_std(&self) -> f64 {
        // each product is rounded once: next_up makes the noise at least what was accounted
        let scale = (self.clip_norm * Self::sensitivity(self.leaves)).next_up();
        (self.noise_multiplier * scale).next_up()
    }

    fn check(&self) -> Result<(), CuratorError> {
        let placed = self.relation != Relation::AddOrRemove;
        match placed && self.leaves > 0 && self.steps > 0 && self.dimension > 0 {
            true => Ok(()),
            false => Err(CuratorError::Shape),
        }
    }
}

impl Sealed for RestartedPlan {}

impl Interactive for RestartedPlan {
    type Opened = RestartedSums;

    /// All leaves of all trees together: a record is in one leaf of one of them.
    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self) -> Result<f64, CuratorError> {
        self.check()?;
        Ok(SamplerError::rounded(self.steps as f64 * self.dimension as f64).total_variation())
    }

    fn relation(&self) -> Option<Relation> {
        Some(self.relation)
    }

    fn label(&self) -> &'static str {
        LABEL
    }

    fn start(&self, opening: InteractiveStart<'_>) -> Result<RestartedSums, CuratorError> {
        let opening = opened(opening);
        self.check()?;
        let noise = |e: &dyn std::error::Error| CuratorError::Noise(e.to_string());
        let node = RoundedGaussian::new(self.noise_std(), self.grid).map_err(|e| noise(&e))?;
        Quantizer::new(Norm::L2, self.clip_norm, self.grid).map_err(|e| noise(&e))?;
        let mut order: Vec<u64> = (0..self.records).collect();
        opening.noise.stream(Purpose::Split, 0).shuffle(&mut order);
        Ok(RestartedSums {
            plan: *self,
            order,
            read: 0,
            taken: 0,
            tree: TreeNoise::new(node.clone(), self.dimension, self.leaves),
            node,
            of_tree: self.leaves,
            exact: vec![0; self.dimension],
            randomness: opening.noise.stream(Purpose::Correlated, 0),
            process: Process::here(),
            seen: opening.seen,
        })
    }
}

/// Running sums over batches of a public random order, each record in one batch. Made by [`Curator::open`](crate::Curator::open), which charges all of it at once.
/// Neither printable nor cloneable: it holds noise that later sums have again.
pub struct RestartedSums {
    plan: RestartedPlan,
    order: Vec<u64>,
    /// Records of the order that were read.
    read: usize,
    /// Number of leaves added so far.
    taken: u64,
    node: RoundedGaussian,
    tree: TreeNoise,
    /// Leaves since the last restart; all of them before the first.
    of_tree: u64,
    /// The exact sum since the last restart.
    exact: Vec<i64>,
    randomness: Stream,
    /// The process in which it was opened: a forked copy would go on with the same noise.
    process: Process,
    /// What was released, where a test or an audit watches the curator.
    seen: Option<Seen>,
}

/// What a leaf does to the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A new sum, with noise of its own.
    First,
    /// One more term of the sum.
    Next,
}

impl RestartedSums {
    /// Records that no leaf has read: public, as sizes are.
    pub fn unused(&self) -> u64 {
        (self.order.len() - self.read) as u64
    }

    /// Leaves that the sum may still have before it has to be restarted.
    pub fn leaves_left(&self) -> u64 {
        (self.plan.leaves - self.of_tree).min(self.steps_left())
    }

    /// Leaves that the whole run may still have.
    pub fn steps_left(&self) -> u64 {
        self.plan.steps - self.taken
    }

    /// The noisy sum over all leaves since the last [first](Leaf::First) one, to which this leaf adds `objective`'s gradients at `x` of the next `size` unread
    /// records. Each record's gradient is clipped to `clip_norm`, or to the plan's where that is less.
    ///
    /// # Errors
    /// If no leaf is left, fewer records are unread than are asked for, the data have another shape, or this is a copy of the sums in a forked process; then the
    /// leaf is not. If records can't be read from disk, they count as read, and the sums go on with the next leaf.
    pub fn add<R: RecordSet, O: Objective<R> + Clone>(
        &mut self,
        leaf: Leaf,
        records: &Sensitive<R>,
        objective: &O,
        (size, clip_norm): (u64, f64),
        x: &[f64],
    ) -> Result<Released<Vec<f64>>, CuratorError> {
        let held = records.expose();
        let same = held.len() as u64 == self.plan.records && held.keeps_places();
        if !same || x.len() != self.plan.dimension || objective.dimension() != self.plan.dimension {
            return Err(CuratorError::Shape);
        }
        let gradient = Clipped::new(objective.clone(), self.clip(clip_norm), self.plan.grid)?;
        let batch = self.take(leaf, size)?;
        let sum = gradient.add_up(held, x, batch.len(), |i| batch[i] as usize).map_err(CuratorError::unreadable)?;
        self.noisy(leaf, &sum)
    }

    /// [`add`](Self::add) for vectors that the caller computes: `add` is given the positions of the leaf's records, and adds one vector for each of them, in any number
    /// of calls.
    ///
    /// # Errors
    /// As [`add`](Self::add), and as `add`: then the records count as read, and the sums go on with the next leaf.
    pub fn add_in_parts<E: From<CuratorError>>(
        &mut self,
        leaf: Leaf,
        (size, clip_norm): (u64, f64),
        add: impl FnOnce(&[u64], &mut BatchSum) -> Result<(), E>,
    ) -> Result<Released<Vec<f64>>, E> {
        let clip = Quantizer::new(Norm::L2, self.clip(clip_norm), self.plan.grid);
        let clip = clip.map_err(|e| CuratorError::Noise(e.to_string()))?;
        let batch = self.take(leaf, size)?;
        let mut sum = BatchSum::of_positions(&clip, batch.clone(), self.plan.dimension);
        let id = sum.id();
        add(&batch, &mut sum)?;
        // it was out of these hands: another sum in its place has another clip, or is over another batch
        let quanta = sum.into_units_of(id).ok_or(CuratorError::Shape)?;
        Ok(self.noisy(leaf, &quanta)?)
    }

    /// What a record may add to a leaf; where that is next to nothing, a step of the grid, which is as good as nothing.
    fn clip(&self, asked: f64) -> f64 {
        self.plan.clip_norm.min(asked.max(self.plan.grid.step()))
    }

    /// The next `size` records of the order, increasing, which no other leaf gets. Refused in a forked process: two copies would go on with the same noise.
    fn take(&mut self, leaf: Leaf, size: u64) -> Result<Vec<u64>, CuratorError> {
        CuratorError::unless_opened_in(self.process, "order of sums")?;
        let full = leaf == Leaf::Next && self.of_tree == self.plan.leaves;
        if full || self.taken == self.plan.steps || size > self.unused() {
            return Err(CuratorError::Unforeseen { label: LABEL });
        }
        let next = self.read + size as usize;
        let mut batch = self.order[self.read..next].to_vec();
        batch.sort_unstable();
        self.read = next;
        Ok(batch)
    }

    fn noisy(&mut self, leaf: Leaf, sum: &[i64]) -> Result<Released<Vec<f64>>, CuratorError> {
        if leaf == Leaf::First {
            self.tree = TreeNoise::new(self.node.clone(), self.plan.dimension, self.plan.leaves);
            self.exact.fill(0);
            self.of_tree = 0;
        }
        self.taken += 1;
        self.of_tree += 1;
        self.exact.iter_mut().zip(sum).for_each(|(total, z)| *total = total.wrapping_add(*z));
        let mut noisy = self.exact.clone();
        let used_up = |_| CuratorError::Unforeseen { label: LABEL };
        self.tree.add_next(&mut noisy, &mut self.randomness).map_err(used_up)?;
        let out: Vec<f64> = noisy.into_iter().map(|quanta| self.plan.grid.to_f64(quanta)).collect();
        if let Some(seen) = &self.seen {
            seen.push(&out);
        }
        Ok(released(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;
    use dpopt_noise::NoiseSource;
    use dpopt_objective::objective::Closures;

    const N: u64 = 40;

    fn plan() -> RestartedPlan {
        RestartedPlan {
            records: N,
            dimension: 1,
            leaves: 8,
            steps: 20,
            clip_norm: 1.0,
            grid: Grid::new(-16),
            noise_multiplier: 1.0,
            relation: Relation::ReplaceOne,
        }
    }

    type Slopes = Closures<fn(&[f64], &f64) -> f64, fn(&[f64], &f64, &mut [f64])>;

    /// The objective a·x for records a and one weight x.
    fn slopes() -> Slopes {
        let value: fn(&[f64], &f64) -> f64 = |x, a| a * x[0];
        let slope: fn(&[f64], &f64, &mut [f64]) = |_, a, g| g[0] = *a;
        Closures::new(1, value, slope)
    }

    fn open(plan: &RestartedPlan, seed: u64) -> RestartedSums {
        let mut curator = uncharged(&plan.event(), NoiseSource::insecure(seed));
        let sums = curator.open(plan).unwrap();
        assert!(curator.is_spent());
        sums
    }

    fn released(sums: &mut RestartedSums, records: &Sensitive<Vec<f64>>, leaf: Leaf, size: u64) -> f64 {
        sums.add(leaf, records, &slopes(), (size, 1.0), &[0.0]).unwrap().into_inner()[0]
    }

    const LEAVES: [(Leaf, u64); 8] = [
        (Leaf::First, 5),
        (Leaf::Next, 3),
        (Leaf::Next, 0),
        (Leaf::First, 7),
        (Leaf::Next, 2),
        (Leaf::Next, 4),
        (Leaf::Next, 1),
        (Leaf::First, 6),
    ];

    /// A run with equal noise on records that add nothing shows the exact sums: every record is in one leaf, and moves the sums from there to the next restart.
    #[test]
    fn a_record_is_in_one_leaf_and_forgotten_at_the_next_restart() {
        let all = |records: Vec<f64>| -> Vec<f64> {
            let (records, mut sums) = (Sensitive::new(records), open(&plan(), 3));
            LEAVES.iter().map(|&(leaf, size)| released(&mut sums, &records, leaf, size)).collect()
        };
        let silent = all(vec![0.0; N as usize]);
        let mut in_leaf = [0; LEAVES.len()];
        for record in 0..N as usize {
            let mut records = vec![0.0; N as usize];
            records[record] = 0.5;
            let moved: Vec<f64> = all(records).iter().zip(&silent).map(|(a, b)| a - b).collect();
            let Some(first) = moved.iter().position(|m| *m != 0.0) else { continue };
            in_leaf[first] += 1;
            let end = (first + 1..LEAVES.len()).find(|&i| LEAVES[i].0 == Leaf::First).unwrap_or(LEAVES.len());
            for (i, m) in moved.iter().enumerate() {
                let expected = if (first..end).contains(&i) { 0.5 } else { 0.0 };
                assert!((m - expected).abs() < 1e-9, "record {record}, leaf {i}: {m}");
            }
        }
        assert_eq!(in_leaf, LEAVES.map(|(_, size)| size));
    }

    /// What a record of any size adds is at most the clip norm.
    #[test]
    fn a_leaf_moves_by_the_clip_norm_at_most() {
        for large in [3.0, 1e300, f64::INFINITY, f64::NAN, -7.0] {
            let mut moved = Vec::new();
            for value in [0.0, large] {
                let records = Sensitive::new(vec![value; N as usize]);
                moved.push(released(&mut open(&plan(), 4), &records, Leaf::First, 1));
            }
            let way = moved[1] - moved[0];
            assert!(way.abs() <= 1.0, "{large}: {moved:?}");
            // what is no number counts as 0
            assert_eq!(way.abs() > 0.999, large.is_finite(), "{large}: {moved:?}");
        }
    }

    /// A leaf's own clip may be less than the plan's, and never more.
    #[test]
    fn a_leaf_has_the_smaller_clip() {
        let of = |clip: f64, value: f64| {
            let records = Sensitive::new(vec![value; N as usize]);
            open(&plan(), 4).add(Leaf::First, &records, &slopes(), (1, clip), &[0.0]).unwrap().into_inner()[0]
        };
        for (clip, expected) in
            [(0.25, 0.25), (1.0, 1.0), (7.0, 1.0), (f64::INFINITY, 1.0), (f64::NAN, 0.0), (-1.0, 0.0)]
        {
            let moved = of(clip, 100.0) - of(clip, 0.0);
            assert!(moved <= expected + 2f64.powi(-16) && moved >= expected - 1e-4, "{clip}: {moved}");
        }
    }

    /// Vectors that could not be made leave no trace: their records are read, the sum goes on without them.
    #[test]
    fn a_leaf_that_fails_keeps_its_records() {
        let mut sums = open(&plan(), 4);
        let failed = sums.add_in_parts(Leaf::First, (5, 1.0), |_, _| Err::<(), _>(CuratorError::Shape));
        assert!(failed.is_err());
        assert_eq!((sums.unused(), sums.steps_left()), (N - 5, 20));
        let mut seen = Vec::new();
        for leaf in [Leaf::First, Leaf::Next] {
            sums.add_in_parts(leaf, (7, 1.0), |positions, sum| {
                seen.extend(positions.to_vec());
                sum.add(positions.len(), |_, out| out.push(0.0))
            })
            .unwrap();
        }
        let mut order = open(&plan(), 4).order[5..19].to_vec();
        order.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, order);
    }

    /// Also in the last leaf of a tree whose length is a power of two, which a listing of the nodes forgets; and each tree has noise of its own.
    #[test]
    fn every_leaf_has_noise_and_every_tree_its_own() {
        let records = Sensitive::new(vec![0.0; N as usize]);
        let std = plan().noise_std();
        assert!((std - 2.0).abs() < 1e-9, "four nodes: {std}");
        let mut last = Vec::new();
        let mut between = Vec::new();
        for seed in 0..4000 {
            let mut sums = open(&plan(), seed);
            let first: Vec<f64> = (0..8)
                .map(|i| released(&mut sums, &records, if i == 0 { Leaf::First } else { Leaf::Next }, 1))
                .collect();
            last.push((first[7] - first[6]).powi(2));
            let again = released(&mut sums, &records, Leaf::First, 1);
            between.push(first[0] * again);
        }
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        // the node of all eight in place of three: variance 4·std²; 4000 squares have a relative error of 2.2 %
        assert!((mean(&last) / (4.0 * std * std) - 1.0).abs() < 0.12, "{}", mean(&last));
        assert!(mean(&between).abs() < 6.0 * std * std / 4000f64.sqrt(), "{}", mean(&between));
    }

    #[test]
    fn what_was_not_planned_is_refused() {
        let records = Sensitive::new(vec![0.1; N as usize]);
        let mut sums = open(&plan(), 1);
        let mut next = |leaf, size| sums.add(leaf, &records, &slopes(), (size, 1.0), &[0.0]).map(drop);
        assert!(next(Leaf::Next, 1).is_err(), "no sum was begun");
        next(Leaf::First, 1).unwrap();
        (0..7).for_each(|_| next(Leaf::Next, 1).unwrap());
        assert!(next(Leaf::Next, 1).is_err(), "a ninth leaf of a tree of eight");
        assert!(next(Leaf::First, 33).is_err(), "32 are unread");
        next(Leaf::First, 32).unwrap();
        assert!(next(Leaf::Next, 1).is_err(), "none is unread");
        (0..7).for_each(|_| next(Leaf::Next, 0).unwrap());
        (0..4).for_each(|_| next(Leaf::First, 0).unwrap());
        assert!(next(Leaf::First, 0).is_err(), "a 21st leaf of a run of twenty");
        assert_eq!((sums.unused(), sums.steps_left(), sums.leaves_left()), (0, 0, 0));

        let mut forked = open(&plan(), 1);
        forked.process = Process::another();
        let refused = forked.add(Leaf::First, &records, &slopes(), (1, 1.0), &[0.0]).unwrap_err();
        assert!(matches!(refused, CuratorError::Copied { .. }), "{refused}");
        let mut sums = open(&plan(), 1);
        let fewer = Sensitive::new(vec![0.1; N as usize - 1]);
        assert!(sums.add(Leaf::First, &fewer, &slopes(), (1, 1.0), &[0.0]).is_err(), "other records");
        assert!(sums.add(Leaf::First, &records, &slopes(), (1, 1.0), &[0.0, 0.0]).is_err(), "two coordinates");
        assert_eq!(sums.unused(), N);
        assert!(RestartedPlan { relation: Relation::AddOrRemove, ..plan() }.sampler_error().is_err());
        assert!(RestartedPlan { leaves: 0, ..plan() }.sampler_error().is_err());
    }

    /// Vectors that the caller computes are clipped here, and counted.
    #[test]
    fn vectors_made_elsewhere_are_the_gradients_of_the_leaf() {
        let values: Vec<f64> = (0..N).map(|i| i as f64 / 100.0).collect();
        let (mut here, mut remote) = (open(&plan(), 9), open(&plan(), 9));
        let records = Sensitive::new(values.clone());
        for (leaf, size) in LEAVES {
            let expected = released(&mut here, &records, leaf, size);
            let given = remote.add_in_parts(leaf, (size, 1.0), |positions, sum| {
                sum.add(positions.len(), |k, out| out.push(values[positions[k] as usize]))?;
                assert!(sum.add(1, |_, out| out.push(1.0)).is_err(), "one vector for each record");
                Ok::<_, CuratorError>(())
            });
            assert_eq!(given.unwrap().get()[0], expected);
        }
    }
}
