//! Reads the options of a method; the reads themselves list which options the method has.

use super::{MethodOptions, OptionInfo, Setting, nearest};
use crate::plan::NotApplicable;
use dpopt_objective::loss::embedding::Embedding;
use dpopt_refusal::{Refusal, Text, option, text};
use std::cell::RefCell;

/// What a user said, as a method asks for it. Every option that the method has must be asked for, whatever others say.
pub struct OptionReader<'a> {
    options: &'a MethodOptions,
    asked: RefCell<Vec<OptionInfo>>,
    clash: RefCell<Option<NotApplicable>>,
}

impl<'a> OptionReader<'a> {
    /// A reader of `options` that has read none yet.
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
        self.options.given(setting.name()).and_then(|value| setting.read(value))
    }

    /// Refuses both options at once.
    pub fn only_one<A, B>(&self, first: &'static Setting<A>, second: &'static Setting<B>) {
        let (first, second) = (first.name(), second.name());
        if self.options.given(first).is_some() && self.options.given(second).is_some() {
            let both = text![option(first), " and ", option(second), " are two ways to set one thing"];
            self.refuse(Refusal::of(both).or("give one of them"));
        }
    }

    /// Refuses an option that has no effect without another one.
    pub fn needs<A, B>(&self, first: &'static Setting<A>, other: &'static Setting<B>) {
        let (first, other) = (first.name(), other.name());
        if self.options.given(first).is_some() && self.options.given(other).is_none() {
            let alone = text![option(first), " has no effect without ", option(other)];
            self.refuse(Refusal::of(alone).or("give both").or("leave it out"));
        }
    }

    fn refuse(&self, why: Refusal) {
        self.clash.borrow_mut().get_or_insert(NotApplicable::Option(why));
    }

    /// The feature that is always kept.
    pub fn intercept(&self) -> Option<u32> {
        self.options.intercept
    }

    /// Whether rows are in remote partitions.
    pub fn remote(&self) -> bool {
        self.options.remote
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
            let known: Vec<&'static str> = asked.iter().map(|info| info.name).collect();
            let stray_option = option(stray.to_string());
            return Err(NotApplicable::Option(match self.options.method.as_deref() {
                Some(name) if name == method => {
                    let near = nearest(stray, &known)
                        .map_or(Text::default(), |near| text![" (nearest: ", option(near.to_string()), ")"]);
                    let has = text![format!("{method} has no option "), stray_option].and(near);
                    Refusal::of(has).or(has_options(&known))
                }
                _ => text![NO_SUCH_OPTION, stray_option].into(),
            }));
        }
        self.clash.into_inner().map_or(Ok(()), Err)
    }
}

/// How a method begins that has not all options of those that were said.
pub(crate) const NO_SUCH_OPTION: &str = "it has no option ";

/// Which options a method has.
fn has_options(known: &[&'static str]) -> Text {
    let each =
        known.iter().enumerate().flat_map(|(i, name)| [if i > 0 { ", " } else { "it has " }.into(), option(*name)]);
    if known.is_empty() { "it has none".into() } else { each.collect() }
}

/// The options that `read` asks for.
pub fn options_of(read: impl Fn(&OptionReader<'_>)) -> Vec<OptionInfo> {
    let nothing = MethodOptions::default();
    let said = OptionReader::new(&nothing);
    read(&said);
    said.asked()
}
