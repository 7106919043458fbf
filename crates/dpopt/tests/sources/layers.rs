//! docs/architecture.md lists the crates, and the modules of each crate, from the lowest layer up: a crate or module uses
//! only those above it in its list. At no depth do modules use each other in a circle. Test code may use anything.
//!
//! The crates come from `cargo metadata`. A use of what a module re-exports counts as a use of the module that defines it. A module
//! and its parts are one: parts may use what their module defines.

use super::reader::{Place, architecture, listed};
use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

/// What one source file says outside of test code.
#[derive(Debug, Default)]
struct Module {
    /// The paths it uses.
    uses: BTreeSet<Place>,
    /// The names it imports or re-exports, and where they lead. A name of an inline module stands behind that module's name.
    names: BTreeMap<Place, Place>,
    /// The paths all of whose names it imports.
    globs: BTreeSet<Place>,
    /// How often it names the way past the curator, and whether it re-exports it.
    past_the_curator: (usize, bool),
    /// Whether it calls `in_threads`, and the parallel calls it makes outside.
    in_threads: (bool, Vec<String>),
}

/// The modules of one library or program.
type Tree = BTreeMap<Place, Module>;

/// Reads one source file into `module`.
#[derive(Default)]
struct Reader {
    module: Module,
    /// The file's module, then the inline modules around what is being read.
    here: Place,
    /// How many of `here` are the file's.
    file: usize,
    /// The modules declared in the innermost module.
    parts: BTreeSet<String>,
    /// Calls of `in_threads` around what is being read.
    guards: usize,
}

const WAY: &str = "past_the_curator";

/// The paths of a `use` tree, each with the name that it gets; `*` stands for all names.
fn imports(tree: &UseTree, before: &[String], found: &mut Vec<(Place, String)>) {
    let with = |ident: &Ident| -> Place { before.iter().cloned().chain([ident.to_string()]).collect() };
    let (mut path, name) = match tree {
        UseTree::Path(t) => return imports(&t.tree, &with(&t.ident), found),
        UseTree::Group(t) => return t.items.iter().for_each(|t| imports(t, before, found)),
        UseTree::Name(t) => (with(&t.ident), None),
        UseTree::Rename(t) => (with(&t.ident), Some(t.rename.to_string())),
        UseTree::Glob(_) => (before.to_vec(), Some("*".to_string())),
    };
    if path.len() > 1 && path.last().is_some_and(|word| word == "self") {
        path.pop();
    }
    if let Some(last) = path.last().cloned() {
        found.push((path, name.unwrap_or(last)));
    }
}

impl Reader {
    /// The path from the crate's root; `None` for one that begins elsewhere: in another crate or with an imported name.
    fn absolute(&self, path: &[String]) -> Option<Place> {
        let mut base = if path[0] == "crate" { Vec::new() } else { self.here.clone() };
        let known = matches!(path[0].as_str(), "crate" | "self" | "super") || self.parts.contains(&path[0]);
        let mut rest = path.iter().peekable();
        while let Some(word) = rest.next_if(|w| matches!(w.as_str(), "crate" | "self" | "super")) {
            if word == "super" {
                base.pop();
            }
        }
        known.then(|| base.into_iter().chain(rest.cloned()).collect())
    }

    fn items(&mut self, items: &[Item]) {
        let module = |item: &Item| if let Item::Mod(m) = item { Some(m.ident.to_string()) } else { None };
        let parts = std::mem::replace(&mut self.parts, items.iter().filter_map(module).collect());
        items.iter().for_each(|item| self.visit_item(item));
        self.parts = parts;
    }

    /// Notes a call; how much deeper inside `in_threads` its arguments are.
    fn call(&mut self, name: &str) -> usize {
        let parallel =
            ["par_", "into_par_"].iter().any(|start| name.starts_with(start)) || name == "current_num_threads";
        if parallel && self.guards == 0 {
            self.module.in_threads.1.push(name.to_string());
        }
        self.module.in_threads.0 |= name == "in_threads";
        usize::from(name == "in_threads")
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        self.visit_ident(&node.ident);
        self.here.push(node.ident.to_string());
        self.items(node.content.as_ref().map_or(&[], |(_, items)| items));
        self.here.pop();
    }

    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        visit::visit_item_use(self, node);
        let mut found = Vec::new();
        imports(&node.tree, &[], &mut found);
        let public = !matches!(node.vis, Visibility::Inherited);
        self.module.past_the_curator.1 |= public && found.iter().any(|(path, _)| path.iter().any(|word| word == WAY));
        for (path, name) in found {
            let Some(path) = self.absolute(&path) else { continue };
            if name == "*" {
                self.module.globs.insert(path.clone());
            } else if name != "_" {
                self.module.names.insert([&self.here[self.file..], &[name]].concat(), path.clone());
            }
            self.module.uses.insert(path);
        }
    }

    fn visit_path(&mut self, node: &'ast syn::Path) {
        let path: Place = node.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.module.uses.extend(self.absolute(&path));
        visit::visit_path(self, node);
    }

    fn visit_ident(&mut self, node: &'ast Ident) {
        self.module.past_the_curator.0 += usize::from(node == WAY);
    }

    fn visit_expr_method_call(&mut self, node: &'ast syn::ExprMethodCall) {
        self.call(&node.method.to_string());
        visit::visit_expr_method_call(self, node);
    }

    fn visit_expr_call(&mut self, node: &'ast syn::ExprCall) {
        let mut guard = 0;
        if let syn::Expr::Path(f) = &*node.func
            && let Some(last) = f.path.segments.last().map(|segment| segment.ident.to_string())
            // a function of a parallel name may be anybody's
            && (f.path.segments.len() > 1 || last == "in_threads")
        {
            guard = self.call(&last);
        }
        self.guards += guard;
        visit::visit_expr_call(self, node);
        self.guards -= guard;
    }

    /// Macros and attributes: their paths and calls are read from the tokens.
    fn visit_token_stream(&mut self, stream: &'ast TokenStream) {
        self.tokens(stream.clone());
    }
}

impl Reader {
    fn tokens(&mut self, stream: TokenStream) {
        let all: Vec<TokenTree> = stream.into_iter().collect();
        let ident = |k: usize| if let Some(TokenTree::Ident(i)) = all.get(k) { Some(i) } else { None };
        let is = |k: usize, c: char| matches!(all.get(k), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut k = 0;
        while k < all.len() {
            let start = k;
            let follows = |c: char| start > 0 && is(start - 1, c);
            let mut path = Vec::new();
            while let Some(name) = ident(k) {
                self.visit_ident(name);
                path.push(name.to_string());
                k += 1;
                if !(is(k, ':') && is(k + 1, ':') && ident(k + 2).is_some()) {
                    break;
                }
                k += 2;
            }
            if path.first().is_some_and(|word| word == "use")
                && let Some(end) = (k..all.len()).find(|&end| is(end, ';'))
                && let Ok(item) = syn::parse2::<syn::ItemUse>(all[start..=end].iter().cloned().collect())
            {
                self.visit_item_use(&item);
                k = end;
            } else if !path.is_empty() && !follows(':') {
                self.module.uses.extend(self.absolute(&path));
            }
            if let Some(TokenTree::Group(group)) = all.get(k) {
                let call = group.delimiter() == Delimiter::Parenthesis;
                let bound = path.len() > 1 || follows('.') || follows(':');
                let name = path.pop().filter(|name| call && (bound || name == "in_threads"));
                let guard = name.map_or(0, |name| self.call(&name));
                self.guards += guard;
                self.tokens(group.stream());
                self.guards -= guard;
                k += 1;
            } else if path.is_empty() {
                k += 1;
            }
        }
    }
}

/// The modules of the library or program whose root is `path`; `read_text` gives a file's text.
fn tree(path: &str, read_text: &dyn Fn(&str) -> Option<String>) -> Tree {
    let read = |(place, file): (Place, syn::File)| {
        let mut reader = Reader { here: place.clone(), file: place.len(), ..Reader::default() };
        reader.items(&file.items);
        (place, reader.module)
    };
    super::reader::files(path, read_text).into_iter().map(read).collect()
}

/// The module that defines what `path` leads to, through whatever re-exports it.
fn home(all: &Tree, path: &[String]) -> Place {
    let mut path = path.to_vec();
    // more than any chain of re-exports
    for _ in 0..16 {
        let known = (0..=path.len()).rev().find(|&k| all.contains_key(&path[..k])).unwrap_or(0);
        let lead = (known + 1..=path.len()).rev().find_map(|k| {
            let target = all.get(&path[..known])?.names.get(&path[known..k])?;
            Some([target, &path[k..]].concat())
        });
        match lead {
            Some(lead) if lead != path => path = lead,
            _ => return path[..known].to_vec(),
        }
    }
    path
}

/// Every use of one module by another: (user, used).
fn edges(all: &Tree) -> BTreeSet<(Place, Place)> {
    all.iter().flat_map(|(place, module)| module.uses.iter().map(|path| (place.clone(), home(all, path)))).collect()
}

/// The modules at the top of a crate.
fn tops(trees: &[Tree]) -> BTreeSet<String> {
    trees.iter().flat_map(BTreeMap::keys).filter_map(|place| place.first().cloned()).collect()
}

/// What breaks the order of `layers`, the modules at the top from the lowest up.
fn upward(trees: &[Tree], layers: &[String]) -> Vec<String> {
    let layer = |top: &String| layers.iter().position(|name| name == top);
    let tops = tops(trees);
    let unlisted = tops.iter().filter(|top| layer(top).is_none()).map(|top| format!("`{top}` is in no layer"));
    let missing = layers.iter().filter(|name| !tops.contains(*name)).map(|name| format!("there is no module `{name}`"));
    let above = trees.iter().flat_map(edges).filter(|(user, used)| {
        let tops = user.first().zip(used.first()).filter(|(user, used)| user != used);
        tops.and_then(|(user, used)| layer(user).zip(layer(used))).is_some_and(|(user, used)| used > user)
    });
    let above = above.map(|(user, used)| format!("{} uses {}, which is above it", user.join("::"), used.join("::")));
    unlisted.chain(missing).chain(above).collect()
}

/// The uses by which modules with one parent, with all that is in them, use each other in a circle.
fn circles(all: &Tree) -> Vec<String> {
    // parent → (user, used) → one of the uses
    let mut levels: BTreeMap<Place, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (user, used) in edges(all) {
        let common = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
        if common < user.len() && common < used.len() {
            let text = format!("{} uses {}", user.join("::"), used.join("::"));
            let level = levels.entry(user[..common].to_vec()).or_default();
            level.insert((user[common].clone(), used[common].clone()), text);
        }
    }
    let mut found = Vec::new();
    for graph in levels.values() {
        for ((user, used), text) in graph {
            let mut reached = vec![used];
            while let Some(next) = graph.keys().find(|(a, b)| reached.contains(&a) && !reached.contains(&b)) {
                reached.push(&next.1);
            }
            found.extend(reached.contains(&user).then(|| text.clone()));
        }
    }
    found
}

/// Modules all of whose names another one imports: by a glob it can't be seen which of them it uses.
fn globs(all: &Tree) -> Vec<String> {
    let of = |module: &Module| module.globs.iter().filter(|path| all.contains_key(*path)).cloned().collect::<Vec<_>>();
    all.iter()
        .flat_map(|(user, module)| {
            of(module).into_iter().map(|used| format!("{} uses {}::*", user.join("::"), used.join("::")))
        })
        .collect()
}

/// A crate of the workspace.
struct Package {
    name: String,
    research: bool,
    published: bool,
    /// The crates of the workspace that it uses outside of tests.
    uses: BTreeSet<String>,
    /// Syntax trees of the crate's library and of its programs.
    trees: Vec<Tree>,
}

static WORKSPACE: LazyLock<Vec<Package>> = LazyLock::new(|| {
    let mut cargo = std::process::Command::new(std::env::var("CARGO").expect("run by cargo"));
    cargo.args(["metadata", "--offline", "--format-version", "1", "--no-deps"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let metadata: Value = serde_json::from_slice(&cargo.output().expect("cargo metadata").stdout).expect("JSON");
    // `dpopt-features` has no code
    let code = |package: &&Value| package["name"] != "dpopt-features";
    std::thread::scope(|scope| {
        let all = list(&metadata["packages"]).iter().filter(code).map(|p| scope.spawn(|| package(p)));
        all.collect::<Vec<_>>().into_iter().map(|read| read.join().expect("sources that parse")).collect()
    })
});

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").replace('\\', "/")
}

fn package(of: &Value) -> Package {
    let own = |d: &&Value| d.get("path").is_some() && d["kind"] != "dev" && d["name"] != "dpopt-features";
    let ships = |kind: &Value| ["lib", "cdylib", "bin"].iter().any(|name| kind == name);
    let roots = list(&of["targets"]).iter().filter(|target| list(&target["kind"]).iter().any(ships));
    Package {
        name: text(&of["name"]),
        research: text(&of["manifest_path"]).contains("/research/"),
        published: of["publish"].is_null(),
        uses: list(&of["dependencies"]).iter().filter(own).map(|d| text(&d["name"])).collect(),
        trees: roots.map(|t| tree(&text(&t["src_path"]), &super::reader::on_disk)).collect(),
    }
}

/// The modules of all crates: crate, path in it, and what it says.
fn modules() -> impl Iterator<Item = (&'static str, String, &'static Module)> {
    let name = |package: &'static Package| (package.name.as_str(), &package.trees);
    let all = WORKSPACE.iter().map(name).flat_map(|(name, trees)| trees.iter().flatten().map(move |m| (name, m)));
    all.map(|(name, (place, module))| (name, place.join("::"), module))
}

#[test]
fn modules_use_only_lower_layers() {
    let (document, mut wrong) = (architecture(), Vec::new());
    for Package { name, trees, .. } in WORKSPACE.iter() {
        let mut found = match listed(&document, &format!("Layers of `{name}`")) {
            Some(layers) => upward(trees, &layers),
            None if tops(trees).len() > 2 => vec!["has no list of layers".into()],
            None => Vec::new(),
        };
        found.extend(trees.iter().flat_map(circles).map(|uses| format!("{uses}, in a circle")));
        found.extend(trees.iter().flat_map(globs));
        wrong.extend(found.into_iter().map(|what| format!("{name}: {what}\n")));
    }
    assert!(wrong.is_empty(), "against docs/architecture.md:\n{}", wrong.concat());
    // a reader that saw nothing would find nothing wrong
    let seen: usize = WORKSPACE.iter().flat_map(|package| &package.trees).map(|all| edges(all).len()).sum();
    assert!(seen > 2000, "only {seen} uses seen");
}

#[test]
fn crates_use_only_crates_above_them_in_the_list() {
    let listed = listed(&architecture(), "Crates").expect("a list of crates");
    let names: BTreeSet<&String> = WORKSPACE.iter().map(|package| &package.name).collect();
    assert_eq!(listed.iter().collect::<BTreeSet<_>>(), names, "docs/architecture.md lists every crate");
    for Package { name, uses, research, published, .. } in WORKSPACE.iter() {
        let above: BTreeSet<String> = listed.iter().take_while(|other| *other != name).cloned().collect();
        assert!(uses.is_subset(&above), "{name} uses {:?}, not above it", uses.difference(&above));
        let needed = WORKSPACE.iter().any(|other| !other.research && other.uses.contains(name));
        assert!(
            !(*research && *published) || needed,
            "{name} is research that nothing which ships uses: no publishing"
        );
        // what is trusted for privacy, and who may read what is sensitive
        let on: &[&str] = match name.as_str() {
            "dpopt-kernel" => {
                &["dpopt-lanes", "dpopt-noise", "dpopt-objective", "dpopt-privacy", "dpopt-process", "dpopt-refusal"]
            }
            "dpopt-mechanism" => &[
                "dpopt-draws",
                "dpopt-kernel",
                "dpopt-lanes",
                "dpopt-noise",
                "dpopt-objective",
                "dpopt-privacy",
                "dpopt-process",
                "dpopt-refusal",
            ],
            _ => continue,
        };
        assert_eq!(*uses, on.iter().map(ToString::to_string).collect(), "what {name} uses");
    }
}

#[test]
fn only_the_self_audit_names_the_way_past_the_curator() {
    let (mut audits, mut declared, mut others) = (0, 0, Vec::new());
    for (package, name, module) in modules() {
        match (package, module.past_the_curator) {
            (_, (0, _)) => {}
            ("dpopt-self-audit", (_, false)) => audits += 1,
            // the declaration in the root, behind the feature of its name
            ("dpopt-mechanism", (1, false)) if name.is_empty() => declared += 1,
            _ => others.push(format!("{package} {name}")),
        }
    }
    assert_eq!((declared, others), (1, Vec::new()));
    assert!(audits > 8, "only {audits}: has the module another name?");
}

#[test]
fn parallel_work_is_done_by_threads_of_the_own_process() {
    let (mut through, mut wrong) = (0, Vec::new());
    // figures are programs of their own
    for (package, name, module) in modules().filter(|(p, ..)| !matches!(*p, "dpopt-process" | "dpopt-reproduce")) {
        let (called, calls) = &module.in_threads;
        through += usize::from(*called);
        wrong.extend(calls.iter().map(|call| format!("{package} {name}: {call}")));
    }
    assert!(wrong.is_empty(), "a forked process has no threads for these: wrap them in in_threads(|| ...): {wrong:?}");
    assert!(through > 12, "only {through}: has in_threads another name?");
}

/// A crate of these files, and what is wrong in it if `low` and `high` are its layers.
fn for_tests(files: &[(&str, &str)]) -> (Tree, Vec<String>) {
    let files: BTreeMap<String, &str> = files.iter().map(|(name, text)| (format!("src/{name}"), *text)).collect();
    let trees = [tree("src/lib.rs", &|path| files.get(path).map(|text| text.to_string()))];
    let wrong = upward(&trees, &["low".into(), "high".into()]);
    let [all] = trees;
    (all, wrong)
}

const ROOT: (&str, &str) = ("lib.rs", "mod low; mod high;");

#[test]
fn upward_uses_are_seen_in_whatever_form() {
    let high = ("high.rs", "pub mod part;\npub struct High;");
    let root =
        ("lib.rs", "pub mod low; pub mod high; pub use high::High as Handed; pub use self::high::High as Again;");
    for low in [
        "use crate::high::High;",
        "pub use crate::high::High;",
        "use crate::{high};",
        "use crate::{low::Own, high::{part::{self, f}, High as H}};",
        "use super::high::part;",
        "use crate::high::*;",
        "fn g() { crate::high::part::f() }",
        "fn g() { h::<crate::high::High>() }",
        "fn g() { x.h::<crate::high::High>() }",
        "fn g() { let x = vec![1, crate::high::part::f()]; }",
        "fn g() { m! { => if x { use crate::{low, high}; } } }",
        "#[arg(value_parser = crate::high::part::f)] struct S;",
        "fn g(h: &super::high::High) {}",
        "mod inner { fn g() { super::super::high::part::f() } }",
        "mod inner { use super::super::high::High; }",
        "macro_rules! m { () => { $crate::high::part::f() } }",
        "#[cfg(not(test))] use crate::high::High;",
        "#[cfg(any(test, feature = \"f\"))] use crate::high::High;",
        "#[cfg(test)] use crate::low::Own; use crate::high::High;",
        "use crate::Handed;",
        "fn g() { crate::Again::new() }",
    ] {
        let (_, wrong) = for_tests(&[root, ("low.rs", low), high, ("high/part.rs", "pub fn f() {}")]);
        assert!(!wrong.is_empty() && wrong.iter().all(|w| w.starts_with("low uses high")), "{low}: {wrong:?}");
    }
}

#[test]
fn other_uses_are_none() {
    for low in [
        "// use crate::high::High;",
        "const TEXT: &str = \"use crate::high::High; \\\" crate::high::f()\";",
        "#[cfg(test)] mod tests { use crate::high::High; fn t() { crate::high::part::f() } }",
        "#[cfg(test)] #[allow(unused)] use crate::{high::High};",
        "#[cfg(test)] mod tests;",
        "#[cfg(test)] #[path = \"low_tests.rs\"] mod tests;",
        "struct S { #[cfg(test)] injected: crate::high::High }",
        "impl S { #[cfg(test)] fn f() { crate::high::f() } fn g() { #[cfg(test)] let x = crate::high::f(); } }",
        "use dpopt::high::High; use crate::low::Own; use super::low::Other; use std::fmt;",
        "mod high { pub fn f() {} } fn g() { self::high::f() }",
        "pub(crate) fn g(value: crate::low::Own) {}",
    ] {
        let high = ("high.rs", "use crate::low::f; fn g() { super::low::h() }");
        let (_, wrong) = for_tests(&[ROOT, ("low.rs", low), high]);
        assert_eq!(wrong, Vec::<String>::new(), "{low}");
    }
}

#[test]
fn every_module_has_a_layer() {
    let (_, wrong) = for_tests(&[("lib.rs", "mod low; mod third;"), ("low.rs", ""), ("third.rs", "")]);
    assert_eq!(wrong, ["`third` is in no layer", "there is no module `high`"]);
    let document =
        "# A\n## Layers of `x`\n\n1. `low`: below `high`\n2. `high`: uses `low`\n\n## Layers of `x-y`\n\n1. `no`: none";
    assert_eq!(listed(document, "Layers of `x`").unwrap(), ["low", "high"]);
    assert_eq!(listed(document, "Layers of `y`"), None);
}

#[test]
fn circles_and_globs_are_seen() {
    let face = "mod a; mod b; mod c; pub use self::a::A; pub(crate) use b::B; use self::b::B as _; pub use self::b::B;";
    for (a, b, c, expected) in [
        ("use super::b::B;", "use super::A;", "", 2),
        ("use crate::high::B;", "use super::c::C;", "fn f() { super::a::g() }", 3),
        ("use super::B;", "use super::c::C;", "use super::Face;", 0),
        ("use super::B;", "use super::B as _;", "use crate::low::f;", 0),
        ("#[cfg(test)] mod tests { use crate::high::B; }", "use super::A;", "", 0),
        ("use super::c::*;", "use super::*;", "", 0),
    ] {
        let files = [ROOT, ("low.rs", ""), ("high.rs", face), ("high/a.rs", a), ("high/b.rs", b), ("high/c.rs", c)];
        let (all, wrong) = for_tests(&files);
        let found = (wrong.len(), circles(&all).len(), globs(&all).len());
        assert_eq!(found, (0, expected, 2 * usize::from(a.contains('*'))), "{a} {b} {c}");
    }
    let (all, wrong) = for_tests(&[ROOT, ("low.rs", "use crate::high::f;"), ("high.rs", "use crate::low::g;")]);
    assert_eq!((wrong.len(), circles(&all).len()), (1, 2));
}

#[test]
fn the_way_past_the_curator_and_parallel_calls_are_seen() {
    for (text, named, reexported, parallel) in [
        ("use dpopt_mechanism::{past_the_curator as p};", 1, false, 0),
        ("fn f() { dpopt_mechanism::past_the_curator::read_for_tests(&x); }", 1, false, 0),
        ("fn f() { assert!(past_the_curator::read_for_tests(&x)); }", 1, false, 0),
        ("#[cfg(test)] mod tests { use a::past_the_curator; }", 0, false, 0),
        ("mod b { pub(crate) use dpopt_mechanism::past_the_curator::read_for_tests; }", 1, true, 0),
        ("fn f() { x.par_iter().map(g).collect() }", 0, false, 1),
        ("fn f() { assert!(x.par_iter().all(g)) }", 0, false, 1),
        ("fn f() { in_threads(|| x.par_iter().map(g).collect()) }", 0, false, 0),
        ("fn f() { vec![in_threads(|| x.par_iter().map(g).collect())] }", 0, false, 0),
        ("fn f() { in_threads(|| x.par_chunks_mut(3).for_each(g)); x.into_par_iter().sum() }", 0, false, 1),
        ("fn f() { rayon::current_num_threads() }", 0, false, 1),
        ("#[cfg(test)] mod tests { fn f() { x.par_iter() } }", 0, false, 0),
        ("fn par_of(x: u8) { par_of(x) }", 0, false, 0),
    ] {
        let (all, _) = for_tests(&[("lib.rs", text)]);
        let root = &all[&Place::new()];
        assert_eq!((root.past_the_curator, root.in_threads.1.len()), ((named, reexported), parallel), "{text}");
    }
}
