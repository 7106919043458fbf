//! Binary tree noise for prefix sums (Dwork et al. 2010; Chan, Shi, Song 2010), with the corrected node
//! set of docs/proofs/correlated.md.
//!
//! Covers: thesis theorem 7.2.2, algorithm 20, proposition 8.2.5 (certified: with the node that the listing forgets)
use crate::gaussian::RoundedGaussian;
use crate::stream::Stream;
use dpopt_process::stop::whole;

/// Number of used nodes that contain the first leaf: floor(log2 `steps`) + 1. One record in one leaf moves at most so many
/// noisy nodes, each by its contribution, so the whole stream is one Gaussian mechanism with sensitivity ζ·√depth.
pub fn tree_depth(steps: u64) -> u32 {
    u64::BITS - steps.max(1).leading_zeros()
}

/// More steps were asked for than the noise was calibrated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {0} planned steps of the tree are used; plan more, or start a new tree (a new release)")]
pub struct TreeNoiseError(u64);

/// Noise of the prefix sums of a stream of at most `max_steps` vectors: prefix t gets the sum of the noises of the nodes
/// that tile 1..=t. Nodes are integers, so each noisy node is a rounded Gaussian release, exactly.
///
/// A restarted sum needs a fresh tree: one tree across restarts can cost more than its depth (docs/proofs/restarted-sums.md).
#[derive(Debug)]
pub struct TreeNoise {
    node_noise: RoundedGaussian,
    max_steps: u64,
    steps: u64,
    /// Noise of the node of size 2^l in the current tiling; meaningful where bit l of `steps` is set.
    levels: Vec<Vec<i64>>,
    dimension: usize,
}

impl TreeNoise {
    /// `node_noise` per node and coordinate; d = `dimension`. Memory d·log2(max_steps).
    pub fn new(node_noise: RoundedGaussian, dimension: usize, max_steps: u64) -> Self {
        Self { node_noise, max_steps, steps: 0, levels: Vec::new(), dimension }
    }

    /// Square root of [`tree_depth`]: divide the noise multiplier of a node by it to get that of the stream.
    pub fn sensitivity(&self) -> f64 {
        f64::from(tree_depth(self.max_steps)).sqrt()
    }

    /// Upper bound on the samples drawn over the whole stream, for the sampler's share of δ.
    pub fn max_samples(&self) -> u64 {
        self.max_steps.saturating_mul(self.dimension as u64)
    }

    /// Adds the noise of the next prefix to `prefix_sum` (integers on the grid of the node noise), modulo 2^64.
    ///
    /// # Errors
    /// If all planned steps are used up.
    ///
    /// # Panics
    /// If `prefix_sum` has another dimension.
    pub fn add_next(&mut self, prefix_sum: &mut [i64], stream: &mut Stream) -> Result<(), TreeNoiseError> {
        assert_eq!(prefix_sum.len(), self.dimension, "one cell per coordinate");
        if self.steps == self.max_steps {
            return Err(TreeNoiseError(self.max_steps));
        }
        self.steps += 1;
        // the node that ends here: its size is the lowest set bit of t
        let level = self.steps.trailing_zeros() as usize;
        if self.levels.len() <= level {
            self.levels.resize(level + 1, vec![0; self.dimension]);
        }
        self.levels[level].fill(0);
        // noise that is half drawn would be added to later sums
        whole(|| self.node_noise.add_to(&mut self.levels[level], stream));
        for (l, noise) in self.levels.iter().enumerate() {
            if self.steps >> l & 1 == 1 {
                for (cell, z) in prefix_sum.iter_mut().zip(noise) {
                    *cell = cell.wrapping_add(*z);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grid, NoiseSource, Purpose};

    /// The tiling of 1..=t by dyadic nodes, largest first.
    fn nodes(t: u64) -> Vec<(u64, u64)> {
        let mut start = 0;
        (0..64)
            .rev()
            .filter(|l| t >> l & 1 == 1)
            .map(|l| {
                let node = (start + 1, start + (1 << l));
                start += 1 << l;
                node
            })
            .collect()
    }

    #[test]
    fn node_sets() {
        assert_eq!(nodes(6), [(1, 4), (5, 6)]);
        assert_eq!(nodes(7), [(1, 4), (5, 6), (7, 7)]);
        assert_eq!(nodes(8), [(1, 8)]);
        assert_eq!([5, 8, 16, 48, 64, 1024].map(tree_depth), [3, 4, 5, 6, 7, 11]);
        // nodes per leaf for 5 and 8 steps
        let per_leaf = |n: u64| -> Vec<usize> {
            let mut used: Vec<_> = (1..=n).flat_map(nodes).collect();
            used.sort_unstable();
            used.dedup();
            (1..=n).map(|leaf| used.iter().filter(|(a, b)| (*a..=*b).contains(&leaf)).count()).collect()
        };
        assert_eq!(per_leaf(5), [3, 2, 2, 1, 1]);
        assert_eq!(per_leaf(8), [4, 3, 3, 2, 3, 2, 2, 1]);
        for n in 1..70 {
            assert_eq!(per_leaf(n).into_iter().max(), Some(tree_depth(n) as usize));
        }
    }

    #[test]
    fn noise_is_the_sum_over_the_tiling() {
        // the same node noise, drawn again from the same stream, must explain every prefix: exact, no statistics
        let (n, d) = (37u64, 5);
        let noise = RoundedGaussian::new(3.0, Grid::new(-4)).unwrap();
        let stream = || NoiseSource::insecure(4).stream(Purpose::Correlated, 0);
        let mut again = stream();
        let mut by_node = std::collections::BTreeMap::new();
        let mut tree = TreeNoise::new(noise.clone(), d, n);
        let mut drawn = stream();
        let mut last = vec![0; d];
        for t in 1..=n {
            let mut fresh = vec![0i64; d];
            noise.add_to(&mut fresh, &mut again);
            by_node.insert(nodes(t).pop().unwrap(), fresh);
            let mut prefix = vec![0i64; d];
            tree.add_next(&mut prefix, &mut drawn).unwrap();
            let expected: Vec<i64> = (0..d).map(|j| nodes(t).iter().map(|node| by_node[node][j]).sum()).collect();
            assert_eq!(prefix, expected, "step {t}");
            assert_ne!(prefix, last, "each release has noise of its own, also at powers of two");
            last = prefix;
        }
        assert!(tree.add_next(&mut vec![0; d], &mut drawn).is_err());
    }

    #[test]
    fn covariances() {
        // |NODE(a) ∩ NODE(b)| for a, b in 5..=8; and 4 for X_8 − X_7 (the set printed in Liu 2024, Algorithm 20 has 0)
        let common = |a: u64, b: u64| nodes(a).iter().filter(|node| nodes(b).contains(node)).count();
        let table: Vec<Vec<usize>> = (5..=8).map(|a| (5..=8).map(|b| common(a, b)).collect()).collect();
        assert_eq!(table, [[2, 1, 1, 0], [1, 2, 2, 0], [1, 2, 3, 0], [0, 0, 0, 1]]);
        assert_eq!(nodes(8).len() + nodes(7).len() - 2 * common(7, 8), 4);
    }
}
