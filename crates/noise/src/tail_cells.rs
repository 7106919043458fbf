//! Cell probabilities of the samplers, computed from their own integer tables to more than 30 digits, far into the tails, and
//! compared with an independent computation (mpmath, 60 digits). No sampling: where 10^8 draws see nothing, these tests do.
use crate::fixed::Fixed;
use crate::geometric::{Geometric, L, exp_minus};
use crate::levels::tail_probabilities;
use crate::ziggurat::table;

/// A decimal number such as `3.25e-2`.
fn decimal(text: &str) -> Fixed<L> {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap();
    // 0.d1d2d3…, from the last digit
    let fraction = digits
        .bytes()
        .rev()
        .filter(u8::is_ascii_digit)
        .fold(Fixed::<L>::ZERO, |sum, digit| sum.plus(&Fixed::integer(u64::from(digit - b'0'))).over_integer(10));
    (0..-(exponent + 1)).fold(fraction, |x, _| x.over_integer(10)).times_integer(if exponent == 0 { 10 } else { 1 })
}

/// |a − b| ≤ b·10^-28.
#[track_caller]
fn equal(a: &Fixed<L>, b: &Fixed<L>, what: &str) {
    let off = a.minus(b).plus(&b.minus(a));
    let allowed = b.over_integer(100_000_000_000_000).over_integer(100_000_000_000_000);
    assert!(off <= allowed && *b > Fixed::ZERO, "{what}: {} is not {}", a.to_f64(), b.to_f64());
}

/// √(2/π)·∫_0^x e^(−t²/2) dt of a positive fraction, by the series of positive terms.
fn within(numerator: u64, denominator: u64) -> Fixed<L> {
    let x = Fixed::<L>::integer(numerator).over_integer(denominator);
    let square = x.times_down(&x);
    // e^(−x²/2) comes first, so that no term overflows: its error of 2^-365 grows by e^(x²/2) < 2^90 at 11 deviations
    let (mut term, mut unscaled) = (x.times_down(&exp_minus(&square.half())), Fixed::<L>::ZERO);
    for k in 1.. {
        if term == Fixed::ZERO {
            break;
        }
        unscaled = unscaled.plus(&term);
        term = term.over_integer(2 * k + 1).times_down(&square);
    }
    // the constant, from the tabulated tail at one standard deviation: 1 − P(|N| > 1) = c·e^(−1/2)·Σ
    let one = {
        let (mut term, mut sum) = (Fixed::<L>::integer(1), Fixed::<L>::ZERO);
        for k in 1.. {
            if term == Fixed::ZERO {
                break;
            }
            sum = sum.plus(&term);
            term = term.over_integer(2 * k + 1);
        }
        exp_minus(&Fixed::integer(1).half()).times_down(&sum)
    };
    // unscaled·(1 − P(|N| > 1))/one, by Newton's reciprocal of a number in (1/2, 1)
    let mut inverse = Fixed::<L>::integer(1);
    for _ in 0..12 {
        inverse = inverse.times_down(&Fixed::integer(2).minus(&one.times_down(&inverse)));
    }
    unscaled.times_down(&Fixed::integer(1).minus(&tail_probabilities()[8])).times_down(&inverse)
}

/// (s in quarters, k, P(round(s·N) = k)).
const ROUNDED: [(u64, u64, &str); 29] = [
    (3, 0, "4.9501492490615417387187635122116535e-1"),
    (3, 1, "2.29742405598743705863779187222883888e-1"),
    (3, 2, "2.2321071614982369717219053827833482e-2"),
    (3, 3, "4.27529706460306416509544846894338554e-4"),
    (3, 4, "1.52964014888602885589779094148452944e-6"),
    (3, 5, "9.86475396224984585908541042664698889e-10"),
    (3, 6, "1.12246587937576281883640397217204319e-13"),
    (3, 7, "2.22476835865741528881005995198613673e-18"),
    (3, 8, "7.61984853796802069788230833288937588e-24"),
    (13, 0, "1.22268958498283951631557508723743242e-1"),
    (13, 3, "8.01208474574484233568100363268063753e-2"),
    (13, 8, "6.05177664484015333182130983381118563e-3"),
    (13, 12, "1.41239733895344980214039720228736754e-4"),
    (13, 13, "4.36465690813428301527604946743773799e-5"),
    (13, 16, "7.32855543075922795376779194062657109e-7"),
    (13, 21, "1.23083932485186705851861941423775132e-10"),
    (13, 26, "1.96868851489436016939994354877893598e-15"),
    (13, 31, "2.99477485427017362666774730341552579e-21"),
    (13, 36, "4.32673816316590738283018394853855691e-28"),
    (5_452_595, 0, "2.92662323463542575438846269801396019e-7"),
    (5_452_595, 1_363_149, "1.77508639568480929873334993401492227e-7"),
    (5_452_595, 3_407_872, "1.28586821322558526517586837166717678e-8"),
    (5_452_595, 4_983_264, "3.66757369000791489002930387875033156e-10"),
    (5_452_595, 5_452_595, "9.81772721171701663422441624213661676e-11"),
    (5_452_595, 6_815_744, "1.09064997596335526281385738514939901e-12"),
    (5_452_595, 8_860_467, "1.95837396585368139760670366454088885e-16"),
    (5_452_595, 10_905_190, "3.70632411433017087388544569530992893e-21"),
    (5_452_595, 12_949_913, "7.39313605625606095536628282193254772e-27"),
    (5_452_595, 14_994_636, "1.55435973366807929026783974913653327e-33"),
];

#[test]
fn cells_of_the_rounded_gaussian_to_eleven_deviations() {
    for (quarters, k, expected) in ROUNDED {
        // edges (k ± 1/2)/s = (4k ± 2)/quarters; half of the two-sided mass, all of the middle cell
        let above = within(4 * k + 2, quarters);
        let mass = if k == 0 { above } else { above.minus(&within(4 * k - 2, quarters)).half() };
        equal(&mass, &decimal(expected), &format!("s = {quarters}/4, k = {k}"));
    }
}

#[test]
fn levels_of_exceedances_to_nine_deviations() {
    for (eighths, expected) in [
        (1, "9.0052355033977421404140874017905952e-1"),
        (8, "3.17310507862914102829534908735924155e-1"),
        (20, "1.24193306515522703339562091483844423e-2"),
        (32, "6.33424836662398425075415134443025969e-5"),
        (40, "5.73303143758387823347504665749290708e-7"),
        (48, "1.97317529007539628140172826479608404e-9"),
        (56, "2.559625087771670008767247381561666e-12"),
        (64, "1.24419211485435682470319903451763768e-15"),
        (72, "2.25717681190768129547100415193749452e-19"),
    ] {
        equal(&tail_probabilities()[eighths], &decimal(expected), &format!("P(|N| > {eighths}/8)"));
    }
}

#[test]
fn the_ziggurat_has_the_normal_density_to_eleven_deviations() {
    // what all pieces accept at x, from the table's integers, over f(r): it must be f(x)/f(r), to 10^-28 of itself
    let f_r = table().density_at_r();
    let mut points: Vec<Fixed<L>> = (0..1440u64).map(|i| Fixed::integer(i).over_integer(128)).collect();
    // both sides of every edge of a core and of a piece
    for x in table().edges() {
        points.push(x.minus(&Fixed::negative_power_of_two(100)));
        points.push(x.plus(&Fixed::negative_power_of_two(100)));
    }
    for x in points {
        let density = exp_minus(&x.times_down(&x).half());
        equal(&table().accepted(&x).times_down(&f_r), &density, &format!("x = {}", x.to_f64()));
    }
}

#[test]
fn cells_of_the_geometric_to_120_scales() {
    for (scale, k, expected) in [
        (0.40625, 0, "9.14696386364161020998772858866825407e-1"),
        (0.40625, 3, "5.67778902283029683476649430229349813e-4"),
        (0.40625, 16, "7.19044601379525295352465576028820433e-18"),
        (0.40625, 49, "3.79036464303218419338824671429040244e-53"),
        (1.0, 1, "2.32544157934829629701524275188976464e-1"),
        (1.0, 40, "2.68547206595660022723835178775282386e-18"),
        (1.0, 120, "4.84687798526186423131576091402198215e-53"),
        (3.0, 3, "1.04282303055715551516489824527790968e-1"),
        (3.0, 120, "1.20427541296577229683820794541869252e-18"),
        (3.0, 360, "2.17353815043938461923833324777368853e-53"),
        (1000.5, 1000, "3.6769560868009569230497425421106605e-4"),
        (1000.5, 7004, "9.1051577466761951940901251126340653e-7"),
        (1000.5, 40020, "4.24410979200052788639598602599621791e-21"),
        (1000.5, 120_060, "7.65998744826046907160969133521044225e-56"),
    ] {
        equal(&Geometric::new(scale).unwrap().mass(k), &decimal(expected), &format!("scale {scale}, k = {k}"));
    }
}
