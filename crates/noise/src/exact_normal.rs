//! |N(0,1)| by rejection from the exponential law, decided by interval arithmetic: slow, and simple enough to check by
//! reading. The fast samplers are tested against it.
use crate::fixed::{Fixed, Interval};
use crate::lazy_uniform::LazyUniform;
use crate::stream::Stream;

/// round(|X|·s), X ~ N(0,1), s = `mantissa`·2^`exponent`.
///
/// E1 ~ Exp(1) is accepted iff 2·E2 > (E1 − 1)²: the half-normal density is proportional to e^-x · e^-(x-1)²/2
/// (von Neumann 1951). Digits of the two uniforms are drawn to 128, then 256 places; what is still open (probability
/// below 2^-180) counts as rejected, or rounds down.
pub(crate) fn rounded_half_normal(mantissa: u64, exponent: i32, stream: &mut Stream) -> u64 {
    loop {
        let (mut u1, mut u2) = (LazyUniform::new(), LazyUniform::new());
        let accepted = match accepts::<4>(&mut u1, &mut u2, stream) {
            Some(decided) => decided,
            None => accepts::<6>(&mut u1, &mut u2, stream).unwrap_or(false),
        };
        if !accepted {
            continue;
        }
        if let Some(rounded) = u1.exponential::<4>(stream).rounded(mantissa, exponent) {
            return rounded;
        }
        return u1.exponential::<6>(stream).low.scaled_and_rounded(mantissa, exponent);
    }
}

fn accepts<const L: usize>(u1: &mut LazyUniform, u2: &mut LazyUniform, stream: &mut Stream) -> Option<bool> {
    let e1 = u1.exponential::<L>(stream);
    let e2 = u2.exponential::<L>(stream);
    let from_one = e1.distance(&Interval::point(Fixed::integer(1)));
    from_one.times(&from_one).half().less_than(&e2)
}
