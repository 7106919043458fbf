//! Sources without what is compiled for tests only, found as the compiler finds them, by `mod` declarations, and parsed by
//! `syn`; and the lists of docs/architecture.md that they are held against.

use quote::ToTokens;
use std::collections::BTreeMap;
use std::path::Path;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Meta};

/// A path from the crate's root: of a module, or of something in it.
pub type Place = Vec<String>;

/// The modules in files of their own of the library or program whose root is `root`; `read` gives a file's text.
pub fn files(root: &str, read: &dyn Fn(&str) -> Option<String>) -> BTreeMap<Place, syn::File> {
    let (folder, _) = root.rsplit_once('/').expect("a folder");
    let (mut all, mut open) = (BTreeMap::new(), vec![Place::new()]);
    while let Some(place) = open.pop() {
        let path = if place.is_empty() { root.to_string() } else { format!("{folder}/{}.rs", place.join("/")) };
        let text = read(&path).unwrap_or_else(|| panic!("no file {path}"));
        let mut file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut without_tests = WithoutTests { here: place.clone(), other_files: Vec::new() };
        without_tests.visit_file_mut(&mut file);
        open.extend(without_tests.other_files);
        all.insert(place, file);
    }
    all
}

/// The text of a file on disk.
pub fn on_disk(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Whether `node` is compiled for tests only. What a feature switches on too is not.
fn for_tests(node: &impl ToTokens) -> bool {
    let leading = |input: ParseStream| {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<proc_macro2::TokenStream>().map(|_| attributes)
    };
    let attributes = leading.parse2(node.to_token_stream()).expect("attributes and the rest");
    attributes.iter().filter(|a| a.path().is_ident("cfg")).any(|attribute| {
        let Meta::List(list) = &attribute.meta else { return false };
        let text = list.tokens.to_string();
        let has = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|w| w == word);
        (has("test") || has("doctest")) && !has("not") && !has("feature")
    })
}

/// Several nodes, of which those for tests can be taken out.
trait Nodes {
    fn strip(&mut self);
}

impl<T: ToTokens> Nodes for Vec<T> {
    fn strip(&mut self) {
        self.retain(|node| !for_tests(node));
    }
}

impl<T: ToTokens, P: Default> Nodes for Punctuated<T, P> {
    fn strip(&mut self) {
        *self = std::mem::take(self).into_pairs().filter(|pair| !for_tests(pair.value())).collect();
    }
}

/// Takes out what is for tests, and notes which modules have files of their own.
struct WithoutTests {
    here: Place,
    other_files: Vec<Place>,
}

macro_rules! strip {
    ($($visit:ident $node:ident $nodes:ident,)*) => {
        $(fn $visit(&mut self, node: &mut syn::$node) {
            node.$nodes.strip();
            visit_mut::$visit(self, node);
        })*
    };
}

impl VisitMut for WithoutTests {
    strip! {
        visit_file_mut File items, visit_item_impl_mut ItemImpl items, visit_item_trait_mut ItemTrait items, visit_block_mut Block stmts,
        visit_fields_named_mut FieldsNamed named, visit_fields_unnamed_mut FieldsUnnamed unnamed, visit_item_enum_mut ItemEnum variants,
        visit_expr_struct_mut ExprStruct fields, visit_expr_match_mut ExprMatch arms,
    }

    fn visit_item_mod_mut(&mut self, node: &mut syn::ItemMod) {
        self.here.push(node.ident.to_string());
        match &mut node.content {
            Some((_, items)) => items.strip(),
            None => self.other_files.push(self.here.clone()),
        }
        visit_mut::visit_item_mod_mut(self, node);
        self.here.pop();
    }
}

/// The text of docs/architecture.md.
#[allow(dead_code, reason = "not every test program reads it")]
pub fn architecture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    std::fs::read_to_string(path).expect("docs/architecture.md")
}

/// The numbered list below `heading`: the first name in code quotes of each line.
#[allow(dead_code, reason = "not every test program reads a list")]
pub fn listed(document: &str, heading: &str) -> Option<Vec<String>> {
    let section = document.split("\n## ").find(|section| section.lines().next() == Some(heading))?;
    let mut names = Vec::new();
    for line in section.lines() {
        if let Some((n, rest)) = line.split_once(". `")
            && let Ok(n) = n.parse::<usize>()
        {
            names.extend(rest.split('`').next().map(str::to_string));
            assert_eq!(n, names.len(), "{heading}: {line}");
        }
    }
    Some(names)
}
