//! Laws of privacy losses on lattices of spacing 2^k with masses rounded up: products, halvings, readings.
//!
//! All terms are non-negative, so one rounding toward larger masses (or larger losses) per operation is a bound, and products need
//! no Fourier transform whose error would have to be bounded.

use super::interval::{Interval, exactly};

/// Masses at (first + i)·2^exponent, and at +∞.
#[derive(Clone, Debug)]
pub(super) struct Law {
    pub first: i64,
    pub exponent: i32,
    pub mass: Vec<f64>,
    pub infinite: f64,
}

/// The next number above a non-negative finite one.
fn up(x: f64) -> f64 {
    debug_assert!(x >= 0.0 && x.is_finite());
    f64::from_bits(x.to_bits() + 1)
}

impl Law {
    pub fn step(&self) -> f64 {
        2f64.powi(self.exponent)
    }

    /// The loss at place `i`: an integer below 2^53 times a power of two, exact.
    fn loss(&self, i: usize) -> f64 {
        (self.first + i as i64) as f64 * self.step()
    }

    /// The sum of independent draws of both, on the coarser of the two lattices.
    pub fn times(mut self, mut other: Self, most: usize, negligible: f64) -> Self {
        while self.exponent < other.exponent {
            self = self.coarser();
        }
        while other.exponent < self.exponent {
            other = other.coarser();
        }
        let (short, long) = if self.mass.len() < other.mass.len() { (&self, &other) } else { (&other, &self) };
        let mut mass = vec![0.0f64; short.mass.len() + long.mass.len() - 1];
        for (i, x) in short.mass.iter().enumerate().filter(|(_, x)| **x > 0.0) {
            for (sum, y) in mass[i..].iter_mut().zip(&long.mass) {
                *sum = up(*sum + up(x * y));
            }
        }
        let first = self.first + other.first;
        let infinite = up(self.infinite + other.infinite);
        Self { first, exponent: self.exponent, mass, infinite }.trimmed(negligible).within(most)
    }

    /// The law of the sum of `times` independent draws.
    pub fn power(&self, times: u64, most: usize, negligible: f64) -> Self {
        let mut out = self.clone();
        for bit in (0..u64::BITS - 1 - times.leading_zeros()).rev() {
            out = out.clone().times(out, most, negligible);
            if times >> bit & 1 == 1 {
                out = out.times(self.clone(), most, negligible);
            }
        }
        out
    }

    /// Highest masses of at most `negligible` go to +∞, lowest ones to the lowest loss kept.
    fn trimmed(mut self, negligible: f64) -> Self {
        let mut above = 0.0;
        while self.mass.len() > 1 && up(above + self.mass[self.mass.len() - 1]) <= negligible {
            above = up(above + self.mass.pop().unwrap_or(0.0));
        }
        self.infinite = up(self.infinite + above);
        let (mut below, mut cut) = (0.0, 0);
        while cut + 1 < self.mass.len() && up(below + self.mass[cut]) <= negligible {
            below = up(below + self.mass[cut]);
            cut += 1;
        }
        self.mass.drain(..cut);
        self.first += cut as i64;
        self.mass[0] = up(self.mass[0] + below);
        self
    }

    /// This law on a lattice that is coarse enough for `most` points.
    pub fn within(mut self, most: usize) -> Self {
        while self.mass.len() > most {
            self = self.coarser();
        }
        self
    }

    /// Twice the spacing: a mass m between two points goes to both, m/(1 + e^Δ) of it to the lower one (connect the dots).
    fn coarser(&self) -> Self {
        let share = exactly(1.0) / (exactly(1.0) + exactly(self.step()).exp());
        let first = self.first.div_euclid(2);
        let last = (self.first + self.mass.len() as i64 - 1).div_euclid(2) + 1;
        let mut mass = vec![0.0f64; (last - first + 1) as usize];
        for (i, m) in self.mass.iter().enumerate() {
            let place = self.first + i as i64;
            let at = (place.div_euclid(2) - first) as usize;
            if place.rem_euclid(2) == 0 {
                mass[at] = up(mass[at] + m);
            } else {
                let lower = (m * share.lo).next_down().max(0.0);
                mass[at] = up(mass[at] + lower);
                mass[at + 1] = up(mass[at + 1] + up(m - lower));
            }
        }
        Self { first, exponent: self.exponent + 1, mass, infinite: self.infinite }
    }

    /// Upper bound of δ(ε) = P(∞) + Σ_{x > ε} m(x)·(1 − e^(ε − x)).
    pub fn delta(&self, epsilon: f64) -> f64 {
        let mut sum = self.infinite;
        for (i, m) in self.mass.iter().enumerate() {
            let loss = self.loss(i);
            if loss > epsilon && *m > 0.0 {
                let kept: Interval = exactly(1.0) - (exactly(epsilon) - exactly(loss)).exp();
                sum = up(sum + up(m * kept.hi.clamp(0.0, 1.0)));
            }
        }
        sum
    }

    /// An ε with δ(ε) ≤ `delta` (read above), nearly the smallest; `None` if none is.
    pub fn epsilon(&self, delta: f64) -> Option<f64> {
        if self.delta(0.0) <= delta {
            return Some(0.0);
        }
        let (mut low, mut high) = (0.0, self.loss(self.mass.len() - 1).max(0.0));
        if self.delta(high) > delta {
            return None;
        }
        // the upper end stays verified
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if self.delta(middle) <= delta { high = middle } else { low = middle }
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fair coins of loss ±1: Σ over the binomial law, in exact arithmetic.
    #[test]
    fn coins_add_up() {
        let p = 1.0 / (1.0 + (-1f64).exp());
        let coin = Law { first: -1, exponent: 0, mass: vec![1.0 - p, 0.0, p], infinite: 0.0 };
        let ten = coin.power(10, 1 << 10, 0.0);
        let (mut exact, mut binomial) = (0.0, 1.0);
        for k in (0..=10).rev() {
            let loss = f64::from(2 * k - 10);
            if loss > 3.0 {
                exact += binomial * p.powi(k) * (1.0 - p).powi(10 - k) * -(3.0 - loss).exp_m1();
            }
            binomial *= f64::from(k) / f64::from(11 - k);
        }
        let got = ten.delta(3.0);
        assert!(got >= exact * (1.0 - 1e-14) && got < exact * (1.0 + 1e-12), "{got} {exact}");
        // a coarser lattice is an upper bound
        assert!(ten.coarser().delta(3.0) >= got && ten.coarser().delta(3.0) < got * 1.5);
        assert!(coin.power(10, 12, 0.0).delta(3.0) >= got);
        let e = ten.epsilon(exact).unwrap();
        assert!((3.0..3.0 + 1e-9).contains(&e), "{e}");
        // what is trimmed is not lost
        assert!(coin.power(10, 1 << 10, 1e-3).delta(3.0) >= got);
    }
}
