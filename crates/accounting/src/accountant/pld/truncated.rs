//! Poisson samples of which at most m records are kept, a uniform choice of them if there are more (the proof is in
//! docs/proofs/accounting-pld.md).
//!
//! Let B be the number of *other* records that pass their coin. With B < m nothing is cut. With B ≥ m the kept set of the
//! others is a uniform m-subset S whatever B is, and record i takes the place of a uniform j in S with probability
//! q·m/(B+1), so that the sum moves by at most 2C. B does not depend on record i: a public mixture of both cases bounds.
//!
//! Under add-or-remove the number of records is no public number, and the pair of one number is no bound for a smaller one
//! (fewer others make the record's own place likelier). There `n` is the largest number of records that data may have, and the
//! mixture is one that grows with n.

use super::fixed_size::without_replacement;
use super::mixture::{PoissonReplacePair, PublicMixture};
use super::pair::{GaussianPair, Pair};
use super::poisson::PoissonPair;
use dpopt_event::Relation;
use dpopt_event::special::ln_binomial_mass;
use std::sync::Arc;

/// Enlargement of the binomial sums and of the masses made of them.
const INFLATION: f64 = 1e-9;

/// P{Bin(n, q) ≥ k}, rounded up.
fn at_least(k: u64, n: u64, q: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    let (mean, deviation) = (n as f64 * q, (n as f64 * q * (1.0 - q)).sqrt());
    if (k as f64) < mean - 12.0 * deviation - 20.0 {
        return 1.0;
    }
    let mut sum = 0.0f64;
    for j in k..=n {
        let mass = ln_binomial_mass(j, n, q, 1.0 - q).exp();
        sum += mass;
        // beyond the mode the rest is smaller than the terms so far
        if j as f64 > mean + 1.0 && mass <= 1e-18 * sum.max(1e-290) {
            break;
        }
    }
    // an underflow is not nothing
    (sum * (1.0 + INFLATION)).clamp(if k <= n && q > 0.0 { 1e-290 } else { 0.0 }, 1.0)
}

/// (m/n)·P{Bin(n, q) > m}, rounded up: the record is kept and another one is left out.
fn taken(n: u64, q: f64, most: u64) -> f64 {
    most as f64 / n as f64 * at_least(most.saturating_add(1), n, q)
}

/// How often a record is in the batch, E[q·min(1, m/(B+1))], rounded down.
pub(crate) fn inclusion(n: u64, q: f64, most: u64) -> f64 {
    let alone = q * (1.0 - at_least(most, n - 1, q)).max(0.0);
    (alone + taken(n, q, most) / (1.0 + 4.0 * INFLATION)) * (1.0 - INFLATION)
}

/// The pair for `n` records (at most `n` under add-or-remove), sampled with `q`, at most `most` of them kept, Gaussian noise
/// of `mu` = C over noise. The same in both orders under replace-one.
pub(crate) fn pair(n: u64, q: f64, most: u64, mu: f64, relation: Relation) -> PublicMixture {
    let full = at_least(most, n - 1, q);
    let kept = match relation {
        // whatever B is: a step function of B that grows, so that its mean grows with n
        Relation::AddOrRemove => q,
        // E[q·m/(B+1); B ≥ m] = (m/n)·P{Bin(n, q) > m}
        _ if full > 0.0 => (taken(n, q, most) / full * (1.0 + 4.0 * INFLATION)).min(q),
        _ => 0.0,
    };
    let moved = GaussianPair { mu: (2.0 * mu).next_up() };
    let (plain, cut): (Arc<dyn Pair>, Arc<dyn Pair>) = match relation {
        Relation::ReplaceOne => {
            (Arc::new(PoissonReplacePair { probability: q, mu }), Arc::new(without_replacement(kept, moved)))
        }
        // the size of the data is protected: an absent record takes no place
        Relation::AddOrRemove => (
            Arc::new(PoissonPair { probability: q, base: GaussianPair { mu } }),
            Arc::new(PoissonPair { probability: kept, base: moved }),
        ),
        // an absent record may keep its place, with nothing in it: above both readings
        Relation::ZeroOut => (
            Arc::new(PoissonPair { probability: q, base: GaussianPair { mu } }),
            Arc::new(without_replacement(kept, moved)),
        ),
    };
    let mut parts = vec![((1.0 - full) * (1.0 + 2.0 * INFLATION) + 1e-300, plain)];
    if full > 0.0 && kept > 0.0 {
        parts.push((full * (1.0 + INFLATION), cut));
    }
    PublicMixture { parts, infinite: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_the_binomial_law() {
        // P{Bin(10, .3) ≥ 4} = .3503892816
        let tail = at_least(4, 10, 0.3);
        assert!((0.3503892816..0.3503892816 * (1.0 + 1e-8)).contains(&tail), "{tail}");
        assert_eq!(at_least(0, 10, 0.3), 1.0);
        assert!(at_least(11, 10, 0.3) == 0.0);
    }

    /// The release's law, by enumeration: (centre, probability) over coins and kept subsets.
    fn law(records: &[f64], q: f64, most: usize) -> Vec<(f64, f64)> {
        let mut out = vec![];
        for coins in 0u32..(1 << records.len()) {
            let inside: Vec<f64> = (0..records.len()).filter(|i| coins >> i & 1 == 1).map(|i| records[i]).collect();
            let k = inside.len();
            let p = q.powi(k as i32) * (1.0 - q).powi((records.len() - k) as i32);
            if k <= most {
                out.push((inside.iter().sum(), p));
                continue;
            }
            let subsets: Vec<f64> = (0u32..(1 << k))
                .filter(|s| s.count_ones() as usize == most)
                .map(|s| (0..k).filter(|i| s >> i & 1 == 1).map(|i| inside[i]).sum())
                .collect();
            out.extend(subsets.iter().map(|c| (*c, p / subsets.len() as f64)));
        }
        out
    }

    /// The profile of two mixtures of Gaussians at e^`e`, by a sum that is exact to 1e-6.
    fn hockey(a: &[(f64, f64)], b: &[(f64, f64)], sigma: f64, e: f64) -> f64 {
        let density = |law: &[(f64, f64)], x: f64| -> f64 {
            law.iter().map(|(c, p)| p * (-0.5 * ((x - c) / sigma).powi(2)).exp()).sum::<f64>()
                / (sigma * std::f64::consts::TAU.sqrt())
        };
        (0..4000)
            .map(|i| -14.0 + 0.007 * f64::from(i))
            .map(|x| (density(a, x) - e.exp() * density(b, x)).max(0.0) * 0.007)
            .sum()
    }

    fn profile(pair: &dyn Pair, e: f64) -> f64 {
        let m = pair.masses(&[e]);
        m.p[1] - e.exp() * m.q[1]
    }

    /// Under add-or-remove no data of at most four records exceed the bound, whatever their number.
    #[test]
    fn data_of_any_allowed_size_stay_below() {
        let (q, most, sigma) = (0.4f64, 2usize, 1.3);
        let bound = pair(4, q, most as u64, 1.0 / sigma, Relation::AddOrRemove);
        let back = super::super::pair::Reversed(bound.clone());
        let mut closest = f64::INFINITY;
        for others in 0..4u32 {
            for code in 0..3u32.pow(others) {
                let mut records: Vec<f64> = (0..others).map(|i| f64::from(code / 3u32.pow(i) % 3) - 1.0).collect();
                let without = law(&records, q, most);
                records.push(1.0);
                let with = law(&records, q, most);
                for e in [-0.3, 0.0, 0.2, 0.6, 1.2] {
                    let seen = hockey(&with, &without, sigma, e);
                    assert!(seen <= profile(&bound, e) + 1e-6, "{records:?} {e}: {seen}");
                    let seen_back = hockey(&without, &with, sigma, e);
                    assert!(seen_back <= profile(&back, e) + 1e-6, "{records:?} {e}: {seen_back}");
                    closest = closest.min(profile(&bound, e) - seen);
                }
            }
        }
        assert!(closest < 0.02, "the bound should be near some data: {closest}");
    }

    /// What holds for data of a known size does not hold for fewer records: with 40 of them a record is in one batch of eight,
    /// with two in two of five.
    #[test]
    fn the_bound_of_a_known_size_is_none_for_smaller_data() {
        let (q, most, sigma) = (0.4f64, 2usize, 1.3);
        let alone = hockey(&law(&[1.0], q, most), &law(&[], q, most), sigma, 0.2);
        let known = profile(&pair(40, q, most as u64, 1.0 / sigma, Relation::ZeroOut), 0.2);
        let any = profile(&pair(40, q, most as u64, 1.0 / sigma, Relation::AddOrRemove), 0.2);
        assert!(known < alone - 0.01 && alone < any, "{known} {alone} {any}");
    }

    /// E[q·min(1, m/(B+1))] by its sum.
    #[test]
    fn how_often_a_record_is_in_the_batch() {
        for (n, q, most) in [(1u64, 0.3f64, 1u64), (7, 0.3, 2), (100, 0.2, 21), (1000, 0.01, 5)] {
            let mass = |b: u64| ln_binomial_mass(b, n - 1, q, 1.0 - q).exp();
            let sum: f64 = (0..n).map(|b| mass(b) * q * (most as f64 / (b + 1) as f64).min(1.0)).sum();
            let got = inclusion(n, q, most);
            assert!(got <= sum && got > sum * (1.0 - 1e-7), "{n} {q} {most}: {got} {sum}");
        }
    }

    /// All instances of n = 4 records in one dimension, at most 2 kept: the release's exact profile never exceeds the pair.
    #[test]
    fn exact_instances_stay_below() {
        let (n, q, most, sigma) = (4u64, 0.4f64, 2usize, 1.3);
        let law = |records: &[f64]| law(records, q, most);
        let hockey = |a: &[(f64, f64)], b: &[(f64, f64)], e: f64| hockey(a, b, sigma, e);
        // an absent record still counts in n: its contribution is 0
        let bound = pair(n, q, most as u64, 1.0 / sigma, Relation::ZeroOut);
        let replaced = pair(n, q, most as u64, 1.0 / sigma, Relation::ReplaceOne);
        let mut closest = f64::INFINITY;
        for others in 0..27 {
            let o = |k: i32| f64::from(others / 3i32.pow(k as u32) % 3 - 1);
            for own in [-1.0, 1.0] {
                let with = law(&[own, o(0), o(1), o(2)]);
                // the record does not take part: the others' coins alone
                let without = law(&[o(0), o(1), o(2)]);
                let other = law(&[-own, o(0), o(1), o(2)]);
                // it takes part and contributes nothing
                let zeroed = law(&[0.0, o(0), o(1), o(2)]);
                for e in [0.0, 0.2, 0.6, 1.2] {
                    let limit = profile(&bound, e);
                    let seen = hockey(&with, &without, e);
                    assert!(seen <= limit + 1e-6, "{own} {others} {e}: {seen} {limit}");
                    let back = hockey(&without, &with, e);
                    let limit_back = profile(&super::super::pair::Reversed(bound.clone()), e);
                    assert!(back <= limit_back + 1e-6, "{own} {others} {e}: {back} {limit_back}");
                    assert!(hockey(&with, &zeroed, e) <= limit + 1e-6, "{own} {others} {e}");
                    assert!(hockey(&zeroed, &with, e) <= limit_back + 1e-6, "{own} {others} {e}");
                    assert!(hockey(&with, &other, e) <= profile(&replaced, e) + 1e-6);
                    closest = closest.min(limit - seen);
                }
            }
        }
        assert!(closest < 0.02, "the bound should be near some instance: {closest}");
    }
}
