//! The types between which every mechanism stands.
//!
//! [`Sensitive<T>`] depends on records and cannot be printed, compared, serialised or read outside this crate.
//! [`Released<T>`] went through a planned, certified and charged mechanism, or is what post-processing made of such values. Only the
//! [`Curator`](crate::Curator) turns one into the other. [`Public<T>`] never was sensitive, or was released.

use dpopt_objective::records::RecordSet;

/// A value that depends on sensitive records.
///
/// ```compile_fail,E0277
/// let secret = dpopt_kernel::Sensitive::new(3.0_f64);
/// println!("{secret:?}"); // no Debug; no Display, comparison, copy or way out either
/// ```
pub struct Sensitive<T>(T);

impl<T> Sensitive<T> {
    /// Marks a value as sensitive. This direction is always safe.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Reads the value, for mechanisms and for steps whose result is again [`Sensitive`]: only the kernel can call it.
    pub(crate) fn expose(&self) -> &T {
        &self.0
    }

    /// Takes the value out, where nobody needs the [`Sensitive`] afterwards: only the kernel can call it.
    pub(crate) fn into_exposed(self) -> T {
        self.0
    }

    /// Changes a value that stays [`Sensitive`]: only the kernel can call it.
    pub(crate) fn expose_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<R: RecordSet> Sensitive<R> {
    /// Whether a record keeps its number whatever the others hold: a fact of the kind of set, and not of what it holds.
    pub fn keeps_places(&self) -> bool {
        self.0.keeps_places()
    }
}

/// A value that may leave: the output of a mechanism, or post-processing of such outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Released<T>(T);

impl<T> Released<T> {
    /// Only the kernel makes released values.
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    /// Reads the value.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Takes the value.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Post-processing: `f` must not look at records (it cannot: they are [`Sensitive`]).
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Released<U> {
        Released(f(self.0))
    }
}

/// A value that tells nothing about sensitive records: declared so by the caller, or released before.
///
/// Diagnostics that are not private ask for it, so that nobody passes them records by accident.
///
/// ```compile_fail,E0277
/// let secret = dpopt_kernel::Sensitive::new(3.0_f64);
/// let open: dpopt_kernel::Public<f64> = secret.into(); // only a release makes it public
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Public<T>(T);

impl<T> Public<T> {
    /// The caller's promise that `value` does not depend on sensitive records: other people's public data, synthetic data,
    /// a gradient of a public loss. What is computed from it carries no privacy claim of its own.
    pub fn declare(value: T) -> Self {
        Self(value)
    }

    /// Reads the value.
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> From<Released<T>> for Public<T> {
    /// What was released has been paid for.
    fn from(released: Released<T>) -> Self {
        Self(released.into_inner())
    }
}
