//! Messages of the library name options by their identifiers, and a face gives them its words: no string of a library crate holds a flag. A
//! whole command that is shown to be run, `dpopt account --event …`, may stand in one.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::path::Path;

/// What shows messages, and so has words of its own.
const FACES: [&str; 2] = ["cli", "python"];

/// The flags in the strings of `code`, without those of documentation and of whole commands.
fn flags(code: TokenStream, found: &mut Vec<String>) {
    let all: Vec<TokenTree> = code.into_iter().collect();
    for (at, token) in all.iter().enumerate() {
        match token {
            TokenTree::Group(group) => flags(group.stream(), found),
            TokenTree::Literal(literal) if !documents(&all, at) => found.extend(flag_of(&literal.to_string())),
            _ => {}
        }
    }
}

/// Whether the token at `at` is the text of `#[doc = "…"]`, which a comment for the documentation parses to.
fn documents(all: &[TokenTree], at: usize) -> bool {
    at >= 2 && matches!(&all[at - 2], TokenTree::Ident(word) if word == "doc")
}

/// The first flag of a literal that is no part of a whole command.
fn flag_of(literal: &str) -> Option<String> {
    let starts = literal.match_indices("--").map(|(at, _)| at);
    let flag = |at: usize| {
        let word: String = literal[at + 2..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        let letters = word.starts_with(|c: char| c.is_ascii_lowercase());
        let begins = !literal[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
        // the command is within the last sentence or so: nothing but words and values between it and the flag
        let command = literal[..at].rfind("dpopt ").is_some_and(|from| !literal[from..at].contains([';', '(', ',']));
        (letters && begins && !command).then(|| format!("--{word}"))
    };
    starts.filter_map(flag).next()
}

fn found_in(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut all = Vec::new();
    for (place, file) in super::reader::files(root, read) {
        let mut found = Vec::new();
        flags(file.to_token_stream(), &mut found);
        all.extend(found.iter().map(|flag| format!("{root} {}: {flag}", place.join("::"))));
    }
    all
}

#[test]
fn no_message_of_the_library_names_a_flag() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = std::fs::read_dir(workspace.join("crates")).expect("the folder of crates is readable").flatten();
    let library = crates.filter(|entry| !FACES.contains(&&*entry.file_name().to_string_lossy())).map(|e| e.path());
    let roots: Vec<_> =
        library.chain([workspace.join("research/methods")]).map(|path| path.join("src/lib.rs")).collect();
    assert!(roots.len() > 15, "{} crates: not all were read", roots.len());
    let found: Vec<String> = (roots.iter())
        .flat_map(|root| found_in(&root.to_string_lossy().replace('\\', "/"), &super::reader::on_disk))
        .collect();
    assert!(
        found.is_empty(),
        "name options with dpopt_refusal::option or setting, and have the faces spell them:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_flag_is_found_in_a_message_and_nowhere_else() {
    let source = r#"
        /// Documentation may say `--memory`.
        #[error("leave out --memory, or take {other}")]
        struct E;
        fn f() {
            // comments may say --rows
            let a = i - --j;
            m!("give a guess with --rows", "a--b", "---", "-- a dash", "(--bad-cells error)");
            let b = "run dpopt account --event event.json --delta 1";
            let c = "dpopt account says so; pass --delta 1";
        }
        #[cfg(test)]
        mod tests { const T: &str = "--units"; }
    "#;
    let found = found_in("src/lib.rs", &|_| Some(source.into()));
    let found: Vec<&str> = found.iter().map(|found| found.rsplit(' ').next().unwrap_or_default()).collect();
    assert_eq!(found, ["--memory", "--rows", "--bad-cells", "--delta"]);
}
