//! What must not compile with this crate: reading a sensitive value, forging a release or the numbers of a chain, a mechanism of one's own, and naming what
//! the kernel keeps for this crate. The kernel's own doctests have the rest.
//!
//! Each misuse stands beside a twin that differs in the one offending line and compiles, so that it is that line which
//! is refused. (The error codes are compared by nightly rustdoc; a stable one takes any error, and the twin says which.)

/// Two doctests: `$setup` with `$refused` fails with `$code`, and with `$accepted` in its place compiles.
macro_rules! misuse {
    ($name:ident, $code:literal, $setup:expr, $refused:literal instead_of $accepted:literal) => {
        #[doc = concat!("```compile_fail,", $code, "\n", $setup, "\n", $refused, "\n```")]
        #[doc = concat!("```\n", $setup, "\n", $accepted, "\n```")]
        pub struct $name;
    };
}

/// A sensitive value, and the same value open.
macro_rules! values {
    () => {
        "use dpopt_mechanism::{Public, Sensitive};\nlet secret = Sensitive::new(3.0_f64);\nlet open = Public::declare(3.0_f64);"
    };
}

misuse!(Read, "E0624", values!(), "let _: &f64 = secret.expose();" instead_of "let _: &f64 = open.get();");
misuse!(ForgedRelease, "E0624", "", "let _ = dpopt_mechanism::Released::new(3.0_f64);" instead_of "let _ = dpopt_mechanism::Public::declare(3.0_f64);");
misuse!(
    ToldChain,
    "E0616",
    "use dpopt_mechanism::GibbsDraw;",
    "fn f(draw: &mut GibbsDraw) { draw.chain.rounds = 1; }" instead_of "fn f(draw: &mut GibbsDraw) { let _ = draw.chain().rounds; }"
);
misuse!(BesideTheKernel, "E0433", "", "let _ = dpopt_mechanism::beside::released(3.0_f64);" instead_of "let _ = dpopt_mechanism::Public::declare(3.0_f64);");
misuse!(ReadBeside, "E0432", values!(), "use dpopt_mechanism::beside::Expose;" instead_of "use dpopt_mechanism::Mechanism;");
misuse!(SealBeside, "E0432", "", "use dpopt_mechanism::beside::Sealed;" instead_of "use dpopt_mechanism::Mechanism;");

/// The offending line comes before the body of the implementation here: the trait's seal makes it fail, and the same body
/// implements an open trait of the same shape.
macro_rules! body {
    () => {
        "    type Input = f64;
    type Output = f64;
    fn event(&self) -> Event { Event::NoOp }
    fn label(&self) -> &'static str { \"leak\" }
    fn check(&self, _: &f64) -> Result<(), CuratorError> { Ok(()) }
    fn apply(&self, x: &f64, _: &mut NoiseSource) -> Result<f64, CuratorError> { Ok(*x) }
}"
    };
}
macro_rules! open_trait {
    () => {
        "use dpopt_mechanism::{CuratorError, Mechanism};
use dpopt_noise::NoiseSource;
use dpopt_privacy::Event;
trait Open {
    type Input;
    type Output;
    fn event(&self) -> Event;
    fn label(&self) -> &'static str;
    fn check(&self, input: &Self::Input) -> Result<(), CuratorError>;
    fn apply(&self, input: &Self::Input, noise: &mut NoiseSource) -> Result<Self::Output, CuratorError>;
}
struct Leak;"
    };
}

#[doc = concat!("```compile_fail,E0277\n", open_trait!(), "\nimpl Mechanism for Leak {\n", body!(), "\n```")]
#[doc = concat!("```\n", open_trait!(), "\nimpl Open for Leak {\n", body!(), "\n```")]
pub struct ForeignMechanism;
