//! Exact ziggurat for |N(0,1)|: 256 pieces of equal area, tables of integers rounded outward and certified when they are
//! built, and interval arithmetic on lazily drawn digits wherever 64 bits don't decide (Marsaglia, Tsang 2000;
//! docs/proofs/rounded-gaussian.md).
//!
//! Let f(x) = e^(−x²/2), heights in units of f(r), 1/λ = 71/256, W_0 = r + 1/λ. Piece 0 is the rectangle
//! \[0,r\]×\[0,1\] and, beyond r, the region under the envelope e^(−λ(x−r)), of area 1/λ: in all W_0 exactly. It needs no
//! integral of the tail, since f/f(r) ≤ e^(−r(x−r)) ≤ e^(−λ(x−r)) as λ ≤ r. Piece i is
//! \[0,W_i\]×\[H_{i−1},H_i\] with H_0 = 1 and H_i = H_{i−1} + W_0/W_i. Every W_i is an integer multiple of 2^-61, so the
//! table does not depend on the noise scale.
use crate::fixed::{Fixed, Interval, ln};
use crate::lazy_uniform::LazyUniform;
use crate::stream::Stream;
use std::sync::OnceLock;

/// r = 3833280/2^20 = 3.6557006…: the largest multiple of 2^-20 with which 255 rectangles reach the peak, less one.
const R: (u64, u32) = (3_833_280, 20);
/// 1/λ = 71/256, λ the rate of the exponential tail.
const INVERSE_RATE: (u64, u32) = (71, 8);
/// Widths are integers in units of 2^-WIDTH_BITS.
pub(crate) const WIDTH_BITS: u32 = 61;
/// Low bits of a word that choose piece (8) and sign (1); the other 55 are the first digits of the position.
const CHOICE_BITS: u32 = 9;

/// Words of the table's fixed-point numbers.
const L: usize = 6;

struct Piece {
    /// Width of the piece: W_i·2^61.
    width: u64,
    /// C_i·2^9: words below it lie in the core (an integer multiple of 2^9).
    core: u64,
    /// H_{i−1} (0 for the first piece).
    bottom: Interval<L>,
    /// H_i − H_{i−1} = W_0/W_i.
    height: Interval<L>,
    /// height/bottom and r²/2 − ln bottom in f64, to 2^-49: for the first look at a wedge.
    relative_height: f64,
    gap: f64,
}

/// The certified table of all pieces.
pub(crate) struct Ziggurat {
    pieces: Vec<Piece>,
}

/// r as a fixed-point number.
fn r<const M: usize>() -> Fixed<M> {
    Fixed::<M>::negative_power_of_two(R.1 as usize).times_integer(R.0)
}

/// r²/2 as a fixed-point number.
fn half_r_squared<const M: usize>() -> Fixed<M> {
    Fixed::<M>::negative_power_of_two(2 * R.1 as usize + 1).times_integer(R.0 * R.0)
}

/// x·2^122 as an integer, rounded down, for x < 16.
fn in_width_squares(x: &Fixed<L>) -> u128 {
    let high = u128::from(x.0[L - 1]) << 122;
    high | u128::from(x.0[L - 2]) << 58 | u128::from(x.0[L - 3] >> 6)
}

/// The table, built and certified at the first call (a few milliseconds), the same on every machine: only integers enter.
pub(crate) fn table() -> &'static Ziggurat {
    static TABLE: OnceLock<Ziggurat> = OnceLock::new();
    TABLE.get_or_init(|| {
        let ziggurat = build();
        // can't fail at run time: the input is a constant and the arithmetic is integer; a test runs it too
        assert!(certified(&ziggurat), "the ziggurat's certificate does not hold");
        ziggurat
    })
}

fn build() -> Ziggurat {
    let r_squared = half_r_squared::<L>().times_integer(2);
    let r_units = R.0 << (WIDTH_BITS - R.1);
    let width_0 = r_units + (INVERSE_RATE.0 << (WIDTH_BITS - INVERSE_RATE.1));
    let core_of = |reach: u64, width: u64| ((u128::from(reach) << 55) / u128::from(width)) as u64;

    let mut pieces = vec![Piece {
        width: width_0,
        core: core_of(r_units, width_0) << CHOICE_BITS,
        bottom: Interval::point(Fixed::ZERO),
        height: Interval::point(Fixed::integer(1)),
        relative_height: 0.0,
        gap: 0.0,
    }];
    let mut bottom = Interval::point(Fixed::<L>::integer(1));
    let mut ln_bottom = Interval::point(Fixed::<L>::ZERO);
    for _ in 1..256 {
        // W = √(r² − 2 ln bottom), rounded up
        let reach_squared = r_squared.minus(&ln_bottom.low.times_integer(2));
        let width = (in_width_squares(&reach_squared) + 1).isqrt() as u64 + 1;
        let quotient = Fixed::<L>::integer(width_0).over_integer(width);
        let height = Interval { low: quotient, high: quotient.plus(&Fixed::ulps(1)) };
        let top = bottom.plus(&height);
        let ln_top = Interval { low: ln(&top.low).low, high: ln(&top.high).high };
        // the core ends where the curve has sunk to the top of the piece, rounded down
        let core_squared = r_squared.minus(&ln_top.high.times_integer(2));
        let core = core_of(in_width_squares(&core_squared).isqrt() as u64, width).saturating_sub(1);
        pieces.push(Piece {
            width,
            core: core << CHOICE_BITS,
            bottom,
            height,
            relative_height: height.low.to_f64() / bottom.low.to_f64(),
            gap: half_r_squared::<L>().minus(&ln_bottom.low).to_f64(),
        });
        (bottom, ln_bottom) = (top, ln_top);
    }
    Ziggurat { pieces }
}

/// The inequalities on which the sampler's exactness rests, between interval ends:
/// (a) each rectangle covers its slice: f(W_i) ≤ H_{i−1};  (b) each core lies under the curve: f(W_i·C_i/2^55) ≥ H_i;
/// (c) the last top covers the peak: H_255 ≥ e^(r²/2);  (d) λ ≤ r;  (e) the pieces follow on each other with area W_0;
/// (f) the core of piece 0 ends at or before r.
fn certified(ziggurat: &Ziggurat) -> bool {
    let half_r_squared = half_r_squared::<L>();
    // x²/2 for x = units·2^-61·count/2^55, rounded up
    let half_square_up = |units: u64, count: u64| {
        let x = Fixed::<L>::negative_power_of_two(WIDTH_BITS as usize + 55).times_integer(units).times_integer(count);
        x.times_up(&x).half().plus(&Fixed::ulps(1))
    };
    let half_square_down = |units: u64| {
        let x = Fixed::<L>::negative_power_of_two(WIDTH_BITS as usize).times_integer(units);
        x.times_down(&x).half()
    };
    let pieces = &ziggurat.pieces;
    let width_0 = pieces[0].width;
    let d = u128::from(R.0) * u128::from(INVERSE_RATE.0) >= 1 << (R.1 + INVERSE_RATE.1);
    let f =
        u128::from(pieces[0].core >> CHOICE_BITS) * u128::from(width_0) <= u128::from(R.0 << (WIDTH_BITS - R.1)) << 55;
    let mut bottom = Interval::point(Fixed::<L>::integer(1));
    let slices = pieces[1..].iter().all(|piece| {
        let ln_bottom_low = ln(&piece.bottom.low).low;
        let top = piece.bottom.plus(&piece.height);
        let a = half_square_down(piece.width).plus(&ln_bottom_low) >= half_r_squared;
        let core = piece.core >> CHOICE_BITS;
        let b = core == 0 || half_square_up(piece.width, core).plus(&ln(&top.high).high) <= half_r_squared;
        // height·W_i encloses W_0
        let e = piece.bottom.low == bottom.low
            && piece.bottom.high == bottom.high
            && piece.height.low.times_integer(piece.width) <= Fixed::integer(width_0)
            && piece.height.high.times_integer(piece.width) >= Fixed::integer(width_0);
        bottom = top;
        a && b && e
    });
    let c = ln(&bottom.low).low >= half_r_squared;
    pieces.len() == 256 && slices && c && d && f
}

/// A point x ≥ 0 with the half-normal law, its digits drawn as far as needed.
pub(crate) enum Point {
    /// W·U, W the width of a piece and U uniform.
    Scaled(u64, LazyUniform),
    /// r + E/λ, E = −ln of the uniform.
    Tail(LazyUniform),
    /// l + E/l, l = eighths/8.
    Beyond {
        /// The level l in eighths.
        eighths: u64,
        /// The uniform number whose −ln is E.
        u: LazyUniform,
    },
}

impl Point {
    /// The interval of values given 128 (M = 4) or 256 (M = 6) digits.
    pub(crate) fn interval<const M: usize>(&mut self, stream: &mut Stream) -> Interval<M> {
        match self {
            Point::Scaled(width, u) => scaled(*width, &u.interval::<M>(stream)),
            Point::Tail(u) => {
                let beyond = over_rate(&u.exponential::<M>(stream));
                Interval::point(r::<M>()).plus(&beyond)
            }
            Point::Beyond { eighths, u } => {
                let beyond = over_eighths(&u.exponential::<M>(stream), *eighths);
                Interval::point(Fixed::integer(*eighths).over_integer(8)).plus(&beyond)
            }
        }
    }

    /// round(x·s), s = `mantissa`·2^`exponent`; undecided after 256 digits (probability below 2^-180): the lower one.
    pub(crate) fn rounded(&mut self, mantissa: u64, exponent: i32, stream: &mut Stream) -> u64 {
        self.interval::<4>(stream).rounded(mantissa, exponent).unwrap_or_else(|| {
            let x = self.interval::<6>(stream);
            x.low.scaled_and_rounded(mantissa, exponent)
        })
    }
}

/// The interval of W·u.
fn scaled<const M: usize>(width: u64, u: &Interval<M>) -> Interval<M> {
    let times = |u: &Fixed<M>| u.times_integer(width).shifted_right(WIDTH_BITS);
    Interval { low: times(&u.low), high: times(&u.high).plus(&Fixed::ulps(1)) }
}

/// The interval of e/λ = e·71/256.
fn over_rate<const M: usize>(e: &Interval<M>) -> Interval<M> {
    let times = |e: &Fixed<M>| e.times_integer(INVERSE_RATE.0).shifted_right(INVERSE_RATE.1);
    Interval { low: times(&e.low), high: times(&e.high).plus(&Fixed::ulps(1)) }
}

/// e/l for l = eighths/8.
pub(crate) fn over_eighths<const M: usize>(e: &Interval<M>, eighths: u64) -> Interval<M> {
    let times = |e: &Fixed<M>| e.times_integer(8).over_integer(eighths);
    Interval { low: times(&e.low), high: times(&e.high).plus(&Fixed::ulps(1)) }
}

impl Ziggurat {
    /// (C_i·2^9, W_i·2^61) of all pieces.
    pub(crate) fn cores_and_widths(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.pieces.iter().map(|piece| (piece.core, piece.width))
    }

    /// The point that starts with `word`, or `None` if it is rejected: then the caller draws a new word.
    pub(crate) fn point(&self, word: u64, stream: &mut Stream) -> Option<Point> {
        let index = (word & 255) as usize;
        let piece = &self.pieces[index];
        // the nine bits that chose piece and sign are replaced by fresh ones
        let fraction_mask = (1u64 << CHOICE_BITS) - 1;
        let mut u = LazyUniform::starting_with(word & !fraction_mask | stream.word() & fraction_mask);
        if word < piece.core {
            return Some(Point::Scaled(piece.width, u));
        }
        if index > 0 {
            return piece.under_curve(&mut u, stream).then_some(Point::Scaled(piece.width, u));
        }
        let inside = |x: &Interval<4>| x.less_than(&Interval::point(r::<4>()));
        let in_rectangle = inside(&scaled(piece.width, &u.interval::<4>(stream))).unwrap_or_else(|| {
            let x = scaled(piece.width, &u.interval::<6>(stream));
            x.less_than(&Interval::point(r::<6>())).unwrap_or(false)
        });
        if in_rectangle {
            return Some(Point::Scaled(piece.width, u));
        }
        // A uniform point under the envelope: x = r + a, a = E1/λ, kept iff it lies under f, which is
        // E2 > (r − λ)·a + a²/2. A rejected one goes back to the choice of the piece: the envelope's area belongs to it.
        let (mut u1, mut u2) = (LazyUniform::new(), LazyUniform::new());
        let kept = match tail_kept::<4>(&mut u1, &mut u2, stream) {
            Some(decided) => decided,
            None => tail_kept::<6>(&mut u1, &mut u2, stream).unwrap_or(false),
        };
        kept.then_some(Point::Tail(u1))
    }

    /// A half-normal point and a fair sign (true: negative).
    pub(crate) fn signed(&self, stream: &mut Stream) -> (Point, bool) {
        loop {
            let word = stream.word();
            if let Some(point) = self.point(word, stream) {
                return (point, word >> 8 & 1 == 1);
            }
        }
    }
}

#[cfg(test)]
impl Ziggurat {
    /// The density f(r) = e^(−r²/2).
    pub(crate) fn density_at_r(&self) -> Fixed<7> {
        crate::geometric::exp_minus(&half_r_squared::<7>())
    }

    /// The ends of cores and pieces.
    pub(crate) fn edges(&self) -> Vec<Fixed<7>> {
        let unit = Fixed::<7>::negative_power_of_two(WIDTH_BITS as usize);
        let ends = self.pieces.iter().flat_map(|piece| {
            let core = unit.shifted_right(55).times_integer(piece.width).times_integer(piece.core >> CHOICE_BITS);
            [core, unit.times_integer(piece.width)]
        });
        ends.filter(|x| *x > Fixed::negative_power_of_two(90)).chain([r()]).collect()
    }

    /// The height that all pieces together accept at x, over f(r), from the table's integers: what the sampler's steps do, one
    /// by one, with the exact curve where they compare with it.
    pub(crate) fn accepted(&self, x: &Fixed<7>) -> Fixed<7> {
        // f(x)/f(r) = 1/e^((x² − r²)/2): by exp_minus on either side of r
        let (square, r_square) = (x.times_down(x).half(), half_r_squared::<7>());
        let unit = Fixed::<7>::negative_power_of_two(WIDTH_BITS as usize);
        if *x >= r() {
            // beyond r only the tail: the envelope is e^(−λ(x−r)), kept with probability f(x)/f(r) over it
            return crate::geometric::exp_minus(&square.minus(&r_square));
        }
        let curve = {
            // e^(r²/2 − x²/2) up to e^6.7: the reciprocal of a number in (0, 1], by Newton
            let y = crate::geometric::exp_minus(&r_square.minus(&square));
            let zeros = y.leading_zeros() - 64;
            let scaled = y.shifted_left(zeros + 1).half(); // in [1/2, 1)
            let mut inverse = Fixed::<7>::integer(1);
            for _ in 0..12 {
                inverse = inverse.times_down(&Fixed::integer(2).minus(&scaled.times_down(&inverse)));
            }
            inverse.shifted_left(zeros)
        };
        let mut total = Fixed::<7>::integer(1); // piece 0 up to r: its rectangle
        for piece in &self.pieces[1..] {
            let end = unit.times_integer(piece.width);
            if *x >= end {
                continue;
            }
            let core = unit.shifted_right(55).times_integer(piece.width).times_integer(piece.core >> CHOICE_BITS);
            let (bottom, height) = (piece.bottom.low.resized::<7>(), piece.height.low.resized::<7>());
            total = total.plus(&if *x < core { height } else { curve.minus(&bottom).min(height) });
        }
        total
    }
}

/// E2 > (r − λ)·a + a²/2 with a = E1/λ, i.e. E2 + E1 > r·a + a²/2.
fn tail_kept<const M: usize>(u1: &mut LazyUniform, u2: &mut LazyUniform, stream: &mut Stream) -> Option<bool> {
    let e1 = u1.exponential::<M>(stream);
    let e2 = u2.exponential::<M>(stream);
    let a = over_rate(&e1);
    let bound = Interval::point(r::<M>()).times(&a).plus(&a.times(&a).half());
    bound.less_than(&e1.plus(&e2))
}

impl Piece {
    /// Whether a uniform height in the piece at x = W·u lies under the curve: bottom + V·height < e^((r²−x²)/2).
    fn under_curve(&self, u: &mut LazyUniform, stream: &mut Stream) -> bool {
        let first = stream.word();
        if let Some(decided) = self.under_curve_f64(u.first_word(), first) {
            return decided;
        }
        let mut v = LazyUniform::starting_with(first);
        match self.under_curve_within::<4>(u, &mut v, stream) {
            Some(decided) => decided,
            None => self.under_curve_within::<6>(u, &mut v, stream).unwrap_or(false),
        }
    }

    /// The decision in f64 where its margin allows it. With y = V·relative_height and t = gap − x²/2 the point is under the
    /// curve iff 1 + y < e^t. Only +, −, × of IEEE 754 enter: y is within 2^-48 and t within 2^-46 of the truth (numbers
    /// up to 8, a handful of roundings of 2^-53 relatively, digits cut at 2^-64); the polynomial of degree 24 errs by less
    /// than 2^-46 for 0 ≤ t ≤ 0.75 (49 roundings of terms that sum to less than 2.2, remainder 0.75^25/25! < 2^-93).
    /// The margin 2^-40 exceeds all of it.
    #[inline]
    fn under_curve_f64(&self, u: u64, v: u64) -> Option<bool> {
        const MARGIN: f64 = 1.0 / (1u64 << 40) as f64;
        const DIGITS: f64 = 1.0 / 18446744073709551616.0;
        let x = self.width as f64 * (1.0 / (1u64 << WIDTH_BITS) as f64) * (u as f64 * DIGITS);
        let y = v as f64 * DIGITS * self.relative_height;
        let t = self.gap - 0.5 * x * x;
        if !(0.0..=0.75).contains(&t) {
            return None; // the edge of the piece
        }
        // 1 + t ≤ e^t ≤ 1 + t + t² for 0 ≤ t ≤ 1.79 settles most points
        if y < t - MARGIN {
            return Some(true);
        }
        if y > t + t * t + MARGIN {
            return Some(false);
        }
        let mut series = 1.0;
        for k in (1..=24).rev() {
            series = 1.0 + t * RECIPROCALS[k] * series;
        }
        let difference = series - (1.0 + y);
        (difference.abs() > MARGIN).then_some(difference > 0.0)
    }

    fn under_curve_within<const M: usize>(
        &self,
        u: &mut LazyUniform,
        v: &mut LazyUniform,
        stream: &mut Stream,
    ) -> Option<bool> {
        let resized = |x: &Interval<L>| Interval::<M> {
            low: x.low.resized(),
            high: x.high.resized().plus(&Fixed::ulps(u64::from(M < L))),
        };
        let x = scaled(self.width, &u.interval::<M>(stream));
        let y = resized(&self.bottom).plus(&resized(&self.height).times(&v.interval::<M>(stream)));
        let ln_y = Interval { low: ln(&y.low).low, high: ln(&y.high).high };
        ln_y.plus(&x.times(&x).half()).less_than(&Interval::point(half_r_squared::<M>()))
    }
}

/// 1/k at place k, from k = 1 on.
const RECIPROCALS: [f64; 25] = {
    let mut table = [1.0; 25];
    let mut k = 1;
    while k < 25 {
        table[k] = 1.0 / k as f64;
        k += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

    #[test]
    fn the_certificate_holds() {
        let started = std::time::Instant::now();
        let ziggurat = build();
        assert!(certified(&ziggurat));
        println!("table built and certified in {:?}", started.elapsed());
    }

    #[test]
    fn the_certificate_sees_a_wrong_table() {
        for spoil in [
            (|z: &mut Ziggurat| z.pieces[7].width -= 1 << 20) as fn(&mut Ziggurat),
            |z| z.pieces[200].core += 1 << 20,
            |z| z.pieces[0].core += 1 << 10,
            |z| z.pieces[31].bottom.low = z.pieces[31].bottom.low.plus(&Fixed::ulps(1)),
            |z| z.pieces[255].height.low = z.pieces[255].height.low.half(),
            |z| {
                z.pieces.pop();
            },
        ] {
            let mut ziggurat = build();
            spoil(&mut ziggurat);
            assert!(!certified(&ziggurat));
        }
    }

    #[test]
    fn table_values() {
        // computed independently with mpmath at 60 digits
        let pieces = &table().pieces;
        assert_eq!(pieces[0].width, (R.0 << 41) + (71 << 53));
        let fast: f64 = pieces.iter().map(|p| p.core as f64 / 2f64.powi(64)).sum::<f64>() / 256.0;
        assert!((fast - 0.985).abs() < 0.001, "fast acceptance {fast}");
        let top = pieces[255].bottom.plus(&pieces[255].height).low.to_f64();
        let peak = half_r_squared::<L>().to_f64().exp();
        assert!((top / peak - 1.0 - 2.755e-5).abs() < 1e-7, "{}", top / peak - 1.0);
    }

    #[test]
    fn first_look_in_f64_agrees_with_intervals() {
        let mut stream = NoiseSource::insecure(5).stream(Purpose::Audit, 0);
        let mut decided = 0;
        for i in 0..4000usize {
            let piece = &table().pieces[1 + i % 255];
            // positions in the wedge, heights near the curve
            let u = piece.core + stream.below(u64::MAX - piece.core);
            let x = piece.width as f64 / 2f64.powi(61) * (u as f64 / 2f64.powi(64));
            let y = (piece.gap - x * x / 2.0).exp_m1() / piece.relative_height;
            let v = ((y + (stream.below(1 << 20) as f64 - 2f64.powi(19)) * 2f64.powi(-48)).clamp(0.0, 0.999999)
                * 2f64.powi(64)) as u64;
            let first = piece.under_curve_f64(u, v);
            let exact = piece.under_curve_within::<6>(
                &mut LazyUniform::starting_with(u),
                &mut LazyUniform::starting_with(v),
                &mut stream,
            );
            if let Some(first) = first {
                decided += 1;
                assert_eq!(Some(first), exact, "piece {} u {u} v {v}", 1 + i % 255);
            }
        }
        assert!(decided > 1000, "{decided}");
    }

    #[test]
    fn law_of_the_tail() {
        // words that fall beyond the core of piece 0: all of them outside the rectangle but for the last digit
        let mut stream = NoiseSource::insecure(7).stream(Purpose::Audit, 0);
        let core = table().pieces[0].core;
        let (mut kept, n) = (0.0, 60_000);
        let mut cells = [0.0; 5];
        for _ in 0..n {
            let word = (core + (2 << CHOICE_BITS) + stream.below(u64::MAX - core - (2 << CHOICE_BITS))) & !255;
            if let Some(mut point) = table().point(word, &mut stream) {
                let x = point.interval::<4>(&mut stream).low.to_f64();
                assert!(x >= 3.65570068359375);
                kept += 1.0;
                cells[[3.8, 4.0, 4.5, 5.0].iter().filter(|&&edge| x >= edge).count()] += 1.0;
            }
        }
        // mpmath at 40 digits: tail area over envelope area, and P(X > x | X > r)
        let p = 0.924_876_226_386_476_4;
        crate::tests::assert_multinomial(&[kept, f64::from(n) - kept], |i| if i == 0 { p } else { 1.0 - p });
        let beyond = [1.0, 0.564_160_249_715_200_7, 0.246_968_055_139_907, 0.026_494_594_940_013_21, 0.002_235_270_141];
        crate::tests::assert_multinomial(&cells, |i| beyond[i] - beyond.get(i + 1).unwrap_or(&0.0));
    }

    #[test]
    fn acceptance_probability() {
        // √(π/2)/(256·W_0·f(r)), mpmath at 40 digits: the pieces have the area that the proof says
        let w0 = R.0 as f64 / 1048576.0 + 71.0 / 256.0;
        let r = R.0 as f64 / 1048576.0;
        let exact = (std::f64::consts::PI / 2.0).sqrt() / (256.0 * w0 * (-r * r / 2.0).exp());
        assert!((exact - 0.993_296_431_000_285).abs() < 1e-14);
        let mut stream = NoiseSource::insecure(8).stream(Purpose::Audit, 0);
        let n = 300_000;
        let kept = (0..n)
            .filter(|_| {
                let word = stream.word();
                table().point(word, &mut stream).is_some()
            })
            .count() as f64;
        crate::tests::assert_multinomial(&[kept, n as f64 - kept], |i| if i == 0 { exact } else { 1.0 - exact });
    }

    #[test]
    fn precisions_agree() {
        let mut stream = NoiseSource::insecure(6).stream(Purpose::Audit, 0);
        for _ in 0..3000 {
            let mut point = table().signed(&mut stream).0;
            let (short, long) = (point.interval::<4>(&mut stream), point.interval::<6>(&mut stream));
            assert!(short.low <= long.low.resized().plus(&Fixed::ulps(1)) && long.high.resized() <= short.high);
            assert!(short.high.to_f64() - short.low.to_f64() < 1e-30);
        }
    }
}
