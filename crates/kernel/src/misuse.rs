//! What must not compile: reading, printing, comparing, serialising, cloning or taking a sensitive value, forging a release,
//! and a mechanism of one's own.
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
        "use dpopt_kernel::{Public, Sensitive};\nlet secret = Sensitive::new(3.0_f64);\nlet open = Public::declare(3.0_f64);"
    };
}

misuse!(Debug, "E0277", values!(), r#"println!("{:?}", secret);"# instead_of r#"println!("{:?}", open);"#);
misuse!(Display, "E0277", values!(), r#"println!("{}", secret);"# instead_of r#"println!("{}", open.get());"#);
misuse!(Equality, "E0369", values!(), "let _ = secret == Sensitive::new(3.0);" instead_of "let _ = open == Public::declare(3.0);");
misuse!(Clone, "E0599", values!(), "let _ = secret.clone();" instead_of "let _ = open.clone();");
misuse!(Field, "E0616", values!(), "let _: f64 = secret.0;" instead_of "let _: f64 = *open.get();");
misuse!(Read, "E0624", values!(), "let _: &f64 = secret.expose();" instead_of "let _: &f64 = open.get();");
misuse!(Take, "E0599", values!(), "let _: f64 = Sensitive::into_inner(secret);" instead_of "let _: f64 = *Public::get(&open);");
misuse!(IntoPublic, "E0277", values!(), "let _: Public<f64> = secret.into();" instead_of "let _: Public<f64> = open.into();");
misuse!(
    Serialize,
    "E0277",
    concat!(values!(), "\nfn json<T: serde::Serialize>(_: &T) {}"),
    "json(&secret);" instead_of "json(open.get());"
);
misuse!(
    SecretPart,
    "E0616",
    "use dpopt_kernel::BatchSum;",
    "fn f(sum: &BatchSum) -> usize { sum.units.len() }" instead_of "fn f(sum: &BatchSum) -> usize { size_of_val(sum) }"
);
misuse!(
    SecretSets,
    "E0624",
    "use dpopt_kernel::{ClippedVectors, Sensitive};",
    "fn f(c: &ClippedVectors, sets: &[Sensitive<f64>]) { c.sum_of_sets(sets, None, 1, |x, out| out.push(*x)); }"
        instead_of "fn f(c: &ClippedVectors, sets: &[f64]) { c.sum(sets.len(), 1, |i, out| out.push(sets[i])); }"
);
misuse!(
    SecretSample,
    "E0624",
    "use dpopt_kernel::Batch;",
    "fn f(batch: &Batch) -> usize { batch.records().len() }" instead_of "fn f(batch: &Batch) -> usize { size_of_val(batch) }"
);
misuse!(ForgedRelease, "E0624", "", "let _ = dpopt_kernel::Released::new(3.0_f64);" instead_of "let _ = dpopt_kernel::Public::declare(3.0_f64);");
misuse!(
    SealOfMechanisms,
    "E0603",
    "",
    "use dpopt_kernel::curator::mechanism::sealed::Sealed;" instead_of "use dpopt_kernel::Mechanism;"
);

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
        "use dpopt_kernel::{CuratorError, Mechanism};
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
