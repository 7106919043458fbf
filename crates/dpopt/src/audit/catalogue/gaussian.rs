//! Bugs of Gaussian releases that the ledger describes wrongly (spec 20 §1.5). Units of the clip norm C.

use super::{Code, PlantedBug, indicator};
use crate::audit::statistics::Claim;
use dpopt_privacy::special::{gaussian_mu, gaussian_noise_multiplier};

fn shift(with: bool) -> f64 {
    indicator(with)
}

pub(super) fn bugs() -> Vec<PlantedBug> {
    let mut bugs = Vec::new();

    let (epsilon, delta) = (20.0f64, 1e-5f64);
    bugs.push(PlantedBug::counting(
        "20.4",
        "classical formula sqrt(2 ln(1.25/delta))/epsilon used at epsilon = 20 (true epsilon 25.44)",
        "canary C, coordinate",
        Claim::gaussian(gaussian_mu(epsilon, delta)),
        (1_600, 1),
        move |code, with, draws| {
            let classical = (2.0 * (1.25 / delta).ln()).sqrt() / epsilon;
            shift(with) + code.pick(gaussian_noise_multiplier(epsilon, delta), classical) * draws.gaussian()
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.5",
        "tree of partial sums: one of 5 levels not counted",
        "a leaf of all 5 levels, sum of its nodes",
        Claim::gaussian(1.0),
        (12_000, 5),
        |code, with, draws| {
            // a record is in one node per level: sensitivity √levels
            let noise = code.pick(5f64, 4f64).sqrt();
            (0..5).map(|_| shift(with) + noise * draws.gaussian()).sum()
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.8",
        "two Gaussian releases in a step, one in the ledger",
        "sum of both",
        Claim::gaussian(1.0),
        (1_050, 2),
        |code, with, draws| {
            let noise = code.pick(2f64.sqrt(), 1.0);
            (0..2).map(|_| shift(with) + noise * draws.gaussian()).sum()
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.12",
        "an empty batch gets no noise (q = .1)",
        "canary alone in the data; 1{output is not 0}",
        Claim::gaussian(1.0),
        (2_100, 2),
        |code, with, draws| {
            let in_batch = with && draws.coin(0.1);
            let noise = if in_batch || code == Code::Correct { draws.gaussian() } else { 0.0 };
            indicator(shift(in_batch) + noise != 0.0)
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.13",
        "federated average divided by the noisy weight's floor: sensitivity S/(q W_min) instead of 2S",
        "all other users at -S, one user at +S",
        Claim::gaussian(0.5),
        (664, 1),
        |code, with, draws| {
            // 1000 users of weight 1 reach the floor W_min; the user adds +S and weight 1
            let (others, floor, bound) = (1000.0, 1000.0f64, 1.0);
            let sum = -others * bound + shift(with) * bound;
            let average = sum / floor.max(others + shift(with));
            let sensitivity = code.pick(2.0, 1.0) * bound / floor;
            average / sensitivity + 2.0 * draws.gaussian()
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.16",
        "adaptive filtering of embeddings accounted with the gradient noise only (sigma1 = sigma2 = 1)",
        "bucket count plus gradient",
        Claim::gaussian(1.0),
        (1_050, 2),
        |code, with, draws| {
            let noise = code.pick(2f64.sqrt(), 1.0);
            let count = shift(with) + noise * draws.gaussian();
            let gradient = shift(with) + noise * draws.gaussian();
            count + gradient
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.18",
        "buckets that no record touched get no count noise (threshold 3 sigma)",
        "canary alone; 1{bucket passes}",
        Claim::gaussian(1.0),
        (16_000, 1),
        |code, with, draws| {
            let touched = with;
            let noise = if touched || code == Code::Correct { draws.gaussian() } else { 0.0 };
            indicator(shift(touched) + noise > 3.0)
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.19",
        "a choice by un-noised counts or scores",
        "1{the record's candidate is chosen}",
        Claim::gaussian(1.0),
        (40, 1),
        |code, with, draws| {
            let noise = code.pick(draws.gaussian(), 0.0);
            indicator(shift(with) + noise > 0.5)
        },
    ));

    bugs.push(PlantedBug::counting(
        "20.23",
        "noise clamped at 4 standard deviations",
        "canary C, coordinate",
        Claim::gaussian(1.0),
        (580_000, 1),
        |code, with, draws| {
            let z = draws.gaussian();
            shift(with) + code.pick(z, z.clamp(-4.0, 4.0))
        },
    ));
    bugs
}
