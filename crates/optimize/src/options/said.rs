//! A method asks for its options, and by asking says which it has.

use super::{MethodOptions, OptionInfo, Setting, nearest};
use crate::plan::NotApplicable;
use dpopt_objective::loss::embedding::Embedding;
use std::cell::RefCell;

/// What a user said, as a method asks for it. Every option that the method has must be asked for, whatever others say.
pub struct Said<'a> {
    options: &'a MethodOptions,
    asked: RefCell<Vec<OptionInfo>>,
    clash: RefCell<Option<NotApplicable>>,
}

impl<'a> Said<'a> {
    /// Nothing asked yet.
    pub fn new(options: &'a MethodOptions) -> Self {
        Self { options, asked: RefCell::default(), clash: RefCell::default() }
    }

    /// The value of an option, if one was said.
    pub fn get<T>(&self, setting: &'static Setting<T>) -> Option<T> {
        let info = setting.info();
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&info) {
            asked.push(info);
        }
        self.options.said(setting.name()).and_then(|value| setting.read(value))
    }

    /// Refuses both options at once.
    pub fn only_one<A, B>(&self, first: &'static Setting<A>, second: &'static Setting<B>) {
        let (first, second) = (first.name(), second.name());
        if self.options.said(first).is_some() && self.options.said(second).is_some() {
            self.refuse(format!("`{first}` and `{second}` say the same thing in two ways; give one of them"));
        }
    }

    /// Refuses an option that means nothing without another one.
    pub fn needs<A, B>(&self, option: &'static Setting<A>, other: &'static Setting<B>) {
        let (option, other) = (option.name(), other.name());
        if self.options.said(option).is_some() && self.options.said(other).is_none() {
            self.refuse(format!("`{option}` means nothing without `{other}`; give both, or leave it out"));
        }
    }

    fn refuse(&self, why: String) {
        self.clash.borrow_mut().get_or_insert(NotApplicable::Option(why));
    }

    /// The feature that is always kept.
    pub fn intercept(&self) -> Option<u32> {
        self.options.intercept
    }

    /// Whether rows are elsewhere, in parts.
    pub fn elsewhere(&self) -> bool {
        self.options.elsewhere
    }

    /// The embedding model that is asked for.
    pub fn embedding(&self) -> Option<Embedding> {
        self.options.embedding.clone()
    }

    /// The options that were asked for, in the order of asking.
    pub(crate) fn asked(self) -> Vec<OptionInfo> {
        self.asked.into_inner()
    }

    /// Refuses what was said and not asked for, and what excludes each other.
    pub fn all_used(self, method: &str) -> Result<(), NotApplicable> {
        let asked = self.asked.into_inner();
        if let Some(stray) = self.options.names().find(|name| !asked.iter().any(|info| info.name == *name)) {
            let known: Vec<&str> = asked.iter().map(|info| info.name).collect();
            let near = nearest(stray, &known).map_or(String::new(), |name| format!(" (nearest: `{name}`)"));
            let has = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let has = if known.is_empty() { "it has none".into() } else { format!("it has {has}") };
            return Err(NotApplicable::Option(match self.options.method.as_deref() {
                Some(name) if name == method => format!("{method} has no option `{stray}`{near}; {has}"),
                _ => format!("it has no option `{stray}`"),
            }));
        }
        self.clash.into_inner().map_or(Ok(()), Err)
    }
}

/// The options that `read` asks for.
pub fn options_of(read: impl Fn(&Said<'_>)) -> Vec<OptionInfo> {
    let nothing = MethodOptions::default();
    let said = Said::new(&nothing);
    read(&said);
    said.asked()
}
