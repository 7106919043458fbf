//! No function of what ships is longer than a person reads at a glance: from the line of its `fn` to its closing brace.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::path::Path;

/// Lines of the longest function that is allowed.
const MOST: usize = 100;

/// Notes name and lines of every function, those in macros too.
fn functions(code: TokenStream, found: &mut Vec<(String, usize)>) {
    let all: Vec<TokenTree> = code.into_iter().collect();
    for (at, token) in all.iter().enumerate() {
        match (token, all.get(at + 1)) {
            (TokenTree::Group(group), _) => functions(group.stream(), found),
            (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "fn" => {
                // a declaration has no body
                let end = all[at..].iter().find(|token| match token {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    TokenTree::Punct(p) => p.as_char() == ';',
                    _ => false,
                });
                let last = end.map_or(name.span(), TokenTree::span).end().line;
                found.push((name.to_string(), last + 1 - word.span().start().line));
            }
            _ => {}
        }
    }
}

#[test]
fn no_function_is_long() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut all, mut long) = (0, Vec::new());
    for entry in std::fs::read_dir(&crates).expect("the folder of crates is readable").flatten() {
        let roots = ["lib.rs", "main.rs"].map(|name| entry.path().join("src").join(name));
        for root in roots.iter().filter(|root| root.exists()) {
            for (place, file) in
                super::reader::files(&root.to_string_lossy().replace('\\', "/"), &super::reader::on_disk)
            {
                let mut found = Vec::new();
                functions(file.to_token_stream(), &mut found);
                all += found.len();
                found.retain(|(_, lines)| *lines > MOST);
                let module = format!("crates/{} {}", entry.file_name().display(), place.join("::"));
                long.extend(found.iter().map(|(name, lines)| format!("{module}: {name} has {lines} lines")));
            }
        }
    }
    assert!(all > 5000, "{all} functions: not all were read");
    assert!(long.is_empty(), "split them along their steps ({MOST} lines at most):\n{}", long.join("\n"));
}

#[test]
fn lines_are_counted_from_the_name_to_the_brace() {
    let body = "        let x = if y { 1 } else { 2 };\n        {\n            x\n        };\n";
    let source = format!(
        "fn one() {{}}\n\npub trait T {{\n    fn declared(\n        a: [u8; 2],\n    ) -> u8;\n    fn short() -> u8;\n    \
         pub(crate) const fn long<T>(\n        a: T,\n    ) -> u8\n    where\n        T: Copy,\n    {{\n{body}    }}\n}}\n\n\
         #[cfg(test)]\nmod tests {{\n    fn test() {{\n    }}\n}}\n\nm! {{ fn within() {{\n\n}} }}\n\n#[cfg(test)]\n\
         mod declared_outside;\n\nfn last(f: fn(u8)) {{\n    fn inner() {{}}\n}}\n"
    );
    let mut found = Vec::new();
    for file in super::reader::files("src/lib.rs", &|_| Some(source.clone())).values() {
        functions(file.to_token_stream(), &mut found);
    }
    let expected = [("one", 1), ("declared", 3), ("short", 1), ("long", 11), ("within", 3), ("last", 3), ("inner", 1)];
    assert_eq!(found.iter().map(|(name, lines)| (name.as_str(), *lines)).collect::<Vec<_>>(), expected);
}
