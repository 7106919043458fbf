//! What each library makes public is written down in docs/public-api, so that a change of it is seen where changes are read.
//!
//! `make public-api` writes the files. A line is a path and a declaration: types with their fields, variants and derived traits, functions, methods, constants,
//! traits with what they ask for, and names that are handed on from other crates. Items that are hidden from the documentation are no promise.

use super::reader::{Place, architecture, files, listed, on_disk};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, Fields, FnArg, ImplItem, Item, Signature, TraitItem, UseTree, Visibility};

/// Libraries that are published: crates in the list of docs/architecture.md up to the façade.
fn libraries() -> Vec<String> {
    let all = listed(&architecture(), "Crates").expect("the list of crates");
    let last = all.iter().position(|name| name == "dpopt").expect("the façade");
    all[..=last].to_vec()
}

/// Tokens as a person writes them.
fn text(tokens: impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" ;", ";"),
        (" :", ":"),
        ("& ", "&"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
        ("[ ", "["),
        (" ]", "]"),
        ("' ", "'"),
        ("* ", "*"),
        (" !", "!"),
        ("->(", "-> ("),
        ("+'", "+ '"),
        (" ?", "?"),
        ("? ", "?"),
        ("dyn(", "dyn ("),
        (",>", ">"),
        (",)", ")"),
        ("= >", "=>"),
        ("->Self", "-> Self"),
    ] {
        text = text.replace(from, to);
    }
    text.replace(">for ", "> for ").replace("- >", "->").replace(">->", "> ->")
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| a.path().is_ident("doc") && a.to_token_stream().to_string().contains("hidden"))
}

/// `#[non_exhaustive]` and derived traits.
fn marks(attributes: &[Attribute]) -> String {
    let mut marks = String::new();
    for attribute in attributes {
        if attribute.path().is_ident("derive") {
            let mut traits: Vec<String> = text(&attribute.meta)
                .trim_start_matches("derive(")
                .trim_end_matches(')')
                .split(", ")
                .map(String::from)
                .collect();
            traits.sort();
            marks.push_str(&format!(" [{}]", traits.join(", ")));
        } else if attribute.path().is_ident("non_exhaustive") {
            marks.push_str(" [non_exhaustive]");
        }
    }
    marks
}

/// A signature without the names of arguments that are patterns.
fn declared(signature: &Signature) -> String {
    let mut signature = signature.clone();
    for input in &mut signature.inputs {
        if let FnArg::Typed(argument) = input {
            argument.attrs.clear();
        }
    }
    text(signature)
}

/// The modules of one crate.
struct Sources {
    files: BTreeMap<Place, syn::File>,
}

impl Sources {
    fn items(&self, place: &Place) -> Vec<&Item> {
        if let Some(file) = self.files.get(place) {
            return file.items.iter().collect();
        }
        // a module within a file
        let Some((name, parent)) = place.split_last() else { return Vec::new() };
        let found = self.items(&parent.to_vec()).into_iter().find_map(|item| match item {
            Item::Mod(module) if module.ident == name => module.content.as_ref().map(|(_, items)| items),
            _ => None,
        });
        found.map_or(Vec::new(), |items| items.iter().collect())
    }

    fn is_module(&self, place: &Place) -> bool {
        self.files.contains_key(place) || !self.items(place).is_empty()
    }

    /// Where a path that is written in the module `here` leads to within the crate.
    fn resolve(&self, here: &Place, path: &[String]) -> Option<(Place, String)> {
        let (name, modules) = path.split_last()?;
        let mut at = here.clone();
        for (i, step) in modules.iter().enumerate() {
            match step.as_str() {
                "crate" if i == 0 => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                module => at.push(module.into()),
            }
            if !self.is_module(&at) {
                return None;
            }
        }
        Some((at, name.clone()))
    }

    /// The public names of the crate with their declarations.
    fn lines(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        let mut exported: BTreeSet<(Place, String)> = BTreeSet::new();
        self.export(&Place::new(), &Place::new(), &mut lines, &mut exported);
        lines
    }

    /// What the module `place` makes public under `shown`.
    fn export(&self, place: &Place, shown: &Place, lines: &mut BTreeSet<String>, seen: &mut BTreeSet<(Place, String)>) {
        if !seen.insert((place.clone(), shown.join("::"))) {
            return;
        }
        for item in self.items(place) {
            match item {
                Item::Use(import) if is_public(&import.vis) && !is_hidden(&import.attrs) => {
                    self.import(place, shown, &import.tree, &mut Vec::new(), lines, seen);
                }
                Item::Mod(module) if is_public(&module.vis) && !is_hidden(&module.attrs) => {
                    let name = module.ident.to_string();
                    self.export(&joined(place, &name), &joined(shown, &name), lines, seen);
                }
                item => self.declare(place, shown, item, None, lines),
            }
        }
    }

    fn import(
        &self,
        place: &Place,
        shown: &Place,
        tree: &UseTree,
        path: &mut Vec<String>,
        lines: &mut BTreeSet<String>,
        seen: &mut BTreeSet<(Place, String)>,
    ) {
        let name =
            |path: &[String], name: String, renamed: Option<String>, lines: &mut BTreeSet<String>, seen: &mut _| {
                let mut path = path.to_vec();
                path.push(name.clone());
                let local = self.resolve(place, &path).filter(|(at, name)| {
                    self.is_module(&joined(at, name))
                        || self.items(at).iter().any(|item| named(item).as_deref() == Some(name) || imports(item, name))
                });
                match local {
                    Some((at, name)) if self.is_module(&joined(&at, &name)) => {
                        self.export(&joined(&at, &name), &joined(shown, &renamed.unwrap_or(name)), lines, seen);
                    }
                    Some((at, name)) => self.named(&at, shown, &name, renamed.as_deref(), lines),
                    None => {
                        let renamed = renamed.map_or(String::new(), |renamed| format!(" as {renamed}"));
                        lines.insert(format!("{}use {}{renamed}", prefix(shown), path.join("::")));
                    }
                }
            };
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.import(place, shown, &step.tree, path, lines, seen);
                path.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(place, shown, tree, path, lines, seen));
            }
            UseTree::Name(found) => name(path, found.ident.to_string(), None, lines, seen),
            UseTree::Rename(found) => name(path, found.ident.to_string(), Some(found.rename.to_string()), lines, seen),
            UseTree::Glob(_) => {
                let end = [path.clone(), vec!["*".into()]].concat();
                match self.resolve(place, &end) {
                    Some((at, _)) if at != *place => self.export(&at, shown, lines, seen),
                    _ => {
                        lines.insert(format!("{}use {}::*", prefix(shown), path.join("::")));
                    }
                }
            }
        }
    }

    /// The item `name` of the module `at`, which may have it from elsewhere.
    fn named(&self, at: &Place, shown: &Place, name: &str, renamed: Option<&str>, lines: &mut BTreeSet<String>) {
        for item in self.items(at) {
            if named(item).as_deref() == Some(name) {
                self.declare(at, shown, item, renamed, lines);
            } else if let Item::Use(import) = item
                && let Some(path) = imported(&import.tree, name, &mut Vec::new())
            {
                match self.resolve(at, &path) {
                    Some((at, name)) => self.named(&at, shown, &name, renamed, lines),
                    None => {
                        lines.insert(format!("{}use {}", prefix(shown), path.join("::")));
                    }
                }
            }
        }
    }

    fn declare(&self, place: &Place, shown: &Place, item: &Item, renamed: Option<&str>, lines: &mut BTreeSet<String>) {
        let prefix = prefix(shown);
        let name = |own: String| renamed.map_or(own, str::to_string);
        let fields = |of: &str, fields: &Fields, lines: &mut BTreeSet<String>| {
            for (i, field) in
                fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis) && !is_hidden(&field.attrs))
            {
                let name = field.ident.as_ref().map_or(i.to_string(), ToString::to_string);
                lines.insert(format!("{prefix}{of}.{name}: {}", text(&field.ty)));
            }
        };
        match item {
            Item::Struct(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                let own = name(item.ident.to_string());
                lines.insert(format!("{prefix}struct {own}{}{}", text(&item.generics), marks(&item.attrs)));
                fields(&own, &item.fields, lines);
                self.methods(place, &item.ident.to_string(), &format!("{prefix}{own}"), lines);
            }
            Item::Enum(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                let own = name(item.ident.to_string());
                lines.insert(format!("{prefix}enum {own}{}{}", text(&item.generics), marks(&item.attrs)));
                for variant in &item.variants {
                    let mut variant = variant.clone();
                    variant.attrs.clear();
                    variant.fields.iter_mut().for_each(|field| field.attrs.clear());
                    lines.insert(format!("{prefix}{own}::{}", text(&variant)));
                }
                self.methods(place, &item.ident.to_string(), &format!("{prefix}{own}"), lines);
            }
            Item::Trait(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                let own = name(item.ident.to_string());
                let supertraits =
                    if item.supertraits.is_empty() { String::new() } else { format!(": {}", text(&item.supertraits)) };
                lines.insert(format!("{prefix}trait {own}{}{supertraits}", text(&item.generics)));
                for of in &item.items {
                    let line = match of {
                        TraitItem::Fn(of) if is_hidden(&of.attrs) => continue,
                        TraitItem::Fn(of) => {
                            format!("{}{}", declared(&of.sig), if of.default.is_some() { " { … }" } else { "" })
                        }
                        TraitItem::Const(of) => {
                            format!(
                                "const {}: {}{}",
                                of.ident,
                                text(&of.ty),
                                if of.default.is_some() { " = …" } else { "" }
                            )
                        }
                        TraitItem::Type(of) => format!("type {}: {}", of.ident, text(&of.bounds)),
                        _ => continue,
                    };
                    lines.insert(format!("{prefix}{own}::{line}"));
                }
            }
            Item::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                lines.insert(format!("{prefix}{}", declared(&item.sig)));
            }
            Item::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                lines.insert(format!("{prefix}const {}: {}", name(item.ident.to_string()), text(&item.ty)));
            }
            Item::Static(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                lines.insert(format!("{prefix}static {}: {}", name(item.ident.to_string()), text(&item.ty)));
            }
            Item::Type(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                lines.insert(format!("{prefix}type {}{} = {}", item.ident, text(&item.generics), text(&item.ty)));
            }
            _ => {}
        }
    }

    /// Methods and traits of the type `own` of the module `home`, wherever in the crate they are written.
    fn methods(&self, home: &Place, own: &str, shown: &str, lines: &mut BTreeSet<String>) {
        for place in self.files.keys() {
            for item in self.items(place) {
                let Item::Impl(block) = item else { continue };
                let syn::Type::Path(of) = &*block.self_ty else { continue };
                let path: Vec<String> = of.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                if path.last().map(String::as_str) != Some(own) || self.home(place, &path).as_ref() != Some(home) {
                    continue;
                }
                if let Some((of, _)) = &block.trait_ {
                    lines.insert(format!("{shown} impl {}", text(of)));
                    continue;
                }
                for item in &block.items {
                    match item {
                        ImplItem::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                            lines.insert(format!("{shown}::{}", declared(&item.sig)));
                        }
                        ImplItem::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                            lines.insert(format!("{shown}::const {}: {}", item.ident, text(&item.ty)));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// The module that declares what `path` names in the module `here`.
    fn home(&self, here: &Place, path: &[String]) -> Option<Place> {
        let (mut at, mut name) = self.resolve(here, path)?;
        for _ in 0..8 {
            if self.items(&at).iter().any(|item| named(item).as_ref() == Some(&name)) {
                return Some(at);
            }
            let next = self.items(&at).into_iter().find_map(|item| match item {
                Item::Use(import) => {
                    let path = imported(&import.tree, &name, &mut Vec::new()).or_else(|| {
                        glob(&import.tree, &mut Vec::new()).map(|path| [path, vec![name.clone()]].concat())
                    })?;
                    let (place, name) = self.resolve(&at, &path)?;
                    self.items(&place)
                        .iter()
                        .any(|item| named(item).as_ref() == Some(&name) || imports(item, &name))
                        .then_some((place, name))
                }
                _ => None,
            })?;
            (at, name) = next;
        }
        None
    }
}

fn joined(place: &Place, name: &str) -> Place {
    [place.clone(), vec![name.to_string()]].concat()
}

fn prefix(shown: &Place) -> String {
    shown.iter().map(|module| format!("{module}::")).collect()
}

/// The name of a type, trait, function or constant.
fn named(item: &Item) -> Option<String> {
    match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        Item::Trait(item) => Some(item.ident.to_string()),
        Item::Fn(item) => Some(item.sig.ident.to_string()),
        Item::Const(item) => Some(item.ident.to_string()),
        Item::Static(item) => Some(item.ident.to_string()),
        Item::Type(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

fn imports(item: &Item, name: &str) -> bool {
    matches!(item, Item::Use(import) if imported(&import.tree, name, &mut Vec::new()).is_some())
}

/// The path of `name` where `tree` imports it.
fn imported(tree: &UseTree, name: &str, path: &mut Vec<String>) -> Option<Vec<String>> {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            let found = imported(&step.tree, name, path);
            path.pop();
            found
        }
        UseTree::Group(group) => group.items.iter().find_map(|tree| imported(tree, name, path)),
        UseTree::Name(found) if found.ident == name => Some([path.clone(), vec![name.into()]].concat()),
        UseTree::Rename(found) if found.rename == name => Some([path.clone(), vec![found.ident.to_string()]].concat()),
        _ => None,
    }
}

/// The path of a module of which all is imported.
fn glob(tree: &UseTree, path: &mut Vec<String>) -> Option<Vec<String>> {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            let found = glob(&step.tree, path);
            path.pop();
            found
        }
        UseTree::Glob(_) => Some(path.clone()),
        _ => None,
    }
}

fn written(root: &str, read: &dyn Fn(&str) -> Option<String>) -> String {
    let lines = Sources { files: files(root, read) }.lines();
    lines.into_iter().map(|line| line + "\n").collect()
}

#[test]
fn what_is_public_is_written_down() {
    let here = env!("CARGO_MANIFEST_DIR");
    let mut all = 0;
    for name in libraries() {
        let folder = name.strip_prefix("dpopt-").unwrap_or(&name);
        let found = written(&format!("{here}/../{folder}/src/lib.rs"), &on_disk);
        all += found.lines().count();
        let path = format!("{here}/../../docs/public-api/{name}.txt");
        if std::env::var_os("WRITE_PUBLIC_API").is_some() {
            std::fs::write(&path, &found).expect("docs/public-api");
            continue;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let (new, old): (BTreeSet<&str>, BTreeSet<&str>) = (found.lines().collect(), kept.lines().collect());
        let change = |from: &BTreeSet<&str>, to: &BTreeSet<&str>, sign: &str| {
            to.difference(from).take(20).map(|line| format!("{sign} {line}\n")).collect::<String>()
        };
        assert!(
            found == kept,
            "the public interface of {name} is not what docs/public-api/{name}.txt says; if it should change, `make public-api` writes it:\n{}{}",
            change(&new, &old, "-"),
            change(&old, &new, "+")
        );
    }
    // a reader that saw nothing would find nothing changed
    assert!(all > 2_000, "only {all} lines");
}

#[test]
fn names_are_followed_to_where_they_are_declared() {
    let read = |path: &str| {
        let text = match path {
            "x/lib.rs" => {
                "mod a; pub mod b; pub use a::{A, inner::Deep as D}; pub use dpopt_event::Event; pub use b::c::*; #[doc(hidden)] pub fn no() {}"
            }
            "x/a.rs" => {
                "pub mod inner { pub struct Deep(pub u8, u8); } #[derive(Debug, Clone)] pub struct A { pub x: u64, y: u8 } \
                 impl A { pub fn new(x: u64) -> Self { todo() } fn own(&self) {} } struct Private; impl Private { pub fn new() {} }"
            }
            "x/b.rs" => {
                "pub mod c; use crate::A; impl A { pub fn more<'a>(&'a self, f: impl Fn(u8) -> u8) -> &'a [u8] { &[] } } impl Default for A { fn default() -> Self { A } }"
            }
            "x/b/c.rs" => {
                "#[non_exhaustive] pub enum E { One, Two { x: f64 } } pub trait T: Send { const N: u8; fn f(&self) -> u8 { 1 } } pub const C: u8 = 1; pub(crate) fn no() {}"
            }
            _ => return None,
        };
        Some(text.to_string())
    };
    let expected = "\
A impl Default
A.x: u64
A::fn more<'a>(&'a self, f: impl Fn(u8) -> u8) -> &'a [u8]
A::fn new(x: u64) -> Self
D.0: u8
E::One
E::Two { x: f64 }
T::const N: u8
T::fn f(&self) -> u8 { … }
b::c::E::One
b::c::E::Two { x: f64 }
b::c::T::const N: u8
b::c::T::fn f(&self) -> u8 { … }
b::c::const C: u8
b::c::enum E [non_exhaustive]
b::c::trait T: Send
const C: u8
enum E [non_exhaustive]
struct A [Clone, Debug]
struct D
trait T: Send
use dpopt_event::Event
";
    assert_eq!(written("x/lib.rs", &read), expected);
}
