//! The trusted core has at most 10,000 lines of code. Its crates are those that docs/architecture.md lists under "The trusted core".
//!
//! A line of code has a token on it, or part of one; comments, documentation and what is compiled for tests only are none.
//! `cargo test -p dpopt --test sources trusted_core -- --nocapture` prints the table.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;

/// Most lines of code of all crates together.
const MOST: usize = 10_000;

/// Notes the lines of `code`.
fn lines(code: TokenStream, found: &mut BTreeSet<usize>) {
    // `#[doc = "…"]` is what a comment for the documentation parses to
    let mut documents = false;
    for token in code.into_iter().collect::<Vec<_>>().into_iter().rev() {
        documents = match &token {
            TokenTree::Group(group) => group.stream().to_string().starts_with("doc ="),
            TokenTree::Punct(p) => documents && matches!(p.as_char(), '#' | '!'),
            _ => false,
        };
        match token {
            _ if documents => {}
            TokenTree::Group(group) => {
                found.extend([group.span_open(), group.span_close()].map(|span| span.start().line));
                lines(group.stream(), found);
            }
            token => found.extend(token.span().start().line..=token.span().end().line),
        }
    }
}

fn count(file: &syn::File) -> usize {
    let mut found = BTreeSet::new();
    lines(file.to_token_stream(), &mut found);
    found.len()
}

#[test]
fn the_trusted_core_is_small_enough_to_read() {
    let core =
        super::reader::listed(&super::reader::architecture(), "The trusted core").expect("the list of its crates");
    assert_eq!(
        core,
        ["dpopt-event", "dpopt-privacy", "dpopt-lanes", "dpopt-noise", "dpopt-kernel"],
        "docs/architecture.md"
    );
    let mut all = 0;
    for name in core {
        let folder = name.strip_prefix("dpopt-").expect("a crate of the workspace");
        let root = format!("{}/../{folder}/src/lib.rs", env!("CARGO_MANIFEST_DIR"));
        let files = super::reader::files(&root, &super::reader::on_disk);
        let counts: Vec<_> = files.iter().map(|(place, file)| (place.join("::"), count(file))).collect();
        // a reader that saw nothing would find it small
        assert!(!counts.is_empty() && counts.iter().all(|(_, lines)| *lines > 0), "{name}: {counts:?}");
        let lines: usize = counts.iter().map(|(_, lines)| lines).sum();
        counts.iter().for_each(|(module, lines)| println!("{lines:>8}  {name} {module}"));
        println!("{lines:>8}  {name}\n");
        all += lines;
    }
    println!("{all:>8}  in all, of at most {MOST}");
    assert!(all > 5_000, "only {all} lines seen");
    assert!(all <= MOST, "the trusted core has {all} lines of code, of at most {MOST}: what can stand beside it?");
}

#[test]
fn what_is_counted_is_code() {
    for (source, expected) in [
        ("//! a\n\n/// b\nfn f() {\n    // c\n    g(); // d\n}\n", 3),
        ("/* a\nb /* c */\n*/\nuse a::{\n    b,\n};\n", 3),
        ("const A: &str = \"// no comment\n\n/* none\";\n", 3),
        ("const A: &str = r#\"\"// none\"#;\nconst B: char = '\"';\nconst C: char = '\\'';\n", 3),
        ("m! {\n    /// a\n    #[b]\n    f()\n}\nstruct S {\n    /** a\n    b */\n    c: u8,\n}\n", 7),
        ("#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn g() {}\n", 1),
        ("#[cfg(test)]\nuse a::{b};\n#[a]\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\nfn g<'a>() {}\n", 1),
        ("#[cfg(doctest)]\nmod a;\n#[cfg(test)]\npub(crate) fn f(x: [u8; 2]) -> u8 {\n    x[0]\n}\nfn g() {}\n", 1),
        ("struct S {\n    a: u8,\n    #[cfg(test)]\n    b: u8,\n}\nenum E {\n    #[cfg(test)]\n    A,\n}\n", 5),
        (
            "impl S {\n    #[cfg(test)]\n    fn f() {}\n    fn g() -> S {\n        S { a, #[cfg(test)] b: 2 }\n    }\n}\n",
            5,
        ),
        ("fn f() {\n    #[cfg(test)]\n    a = 1;\n    #[cfg(test)]\n    return {\n        b\n    };\n    g();\n}\n", 3),
        ("#[cfg(not(test))]\nfn f() {}\n#[cfg(any(test, feature = \"a\"))]\nfn g() {}\n", 4),
    ] {
        let files = super::reader::files("src/lib.rs", &|_| Some(source.to_string()));
        assert_eq!(files.values().map(count).collect::<Vec<_>>(), [expected], "{source}");
    }
}
