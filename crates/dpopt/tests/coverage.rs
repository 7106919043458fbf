//! docs/coverage.md says of every theorem and algorithm of the sources where it is, and what is claimed of it. It is made from
//! docs/coverage/statements.tsv, which lists the statements, and from lines that begin with `Covers:` in the first comment of a source file
//! and below the title of a proof note:
//!
//! ```text
//! //! Covers: thesis algorithm 5, algorithm 37 (certified: blocks of public sizes)
//! ```
//!
//! Exactly one place says what becomes of a statement: a line in the code, or the list itself, with the reason. In audits the brackets
//! name injected faults, in reproduced figures the figures. `make coverage` writes the page; without it the page is held against the files,
//! and no link in the documentation may be dead.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Name in the list, title and authors of a source.
const DOCUMENTS: [(&str, &str, &str); 5] = [
    (
        "thesis",
        "Advancing Differentially Private Optimization: Efficiency, Utility, and Applications",
        "Daogao Liu, dissertation, University of Washington, 2024",
    ),
    (
        "adaptive-gradients",
        "Private Adaptive Gradient Methods for Convex Optimization",
        "Hilal Asi, John Duchi, Alireza Fallah, Omid Javidbakht, Kunal Talwar, 2021",
    ),
    (
        "hard-thresholding",
        "Stochastic Privacy-Preserving Methods for Nonconvex Sparse Learning",
        "Guannan Liang, Qianqian Tong, Jiahao Ding, Miao Pan, Jinbo Bi",
    ),
    (
        "sparse-v1",
        "Differentially Private Optimization with Sparse Gradients, first version",
        "Badih Ghazi, Cristóbal Guzmán, Pritish Kamath, Ravi Kumar, Pasin Manurangsi, 2024",
    ),
    ("sparse-v2", "Differentially Private Optimization with Sparse Gradients, second version", "the same authors"),
];

/// What can become of a statement: its name, whether code says so (or the list), and what it means.
const STATUSES: [(&str, bool, &str); 8] = [
    ("certified", true, "built, and the code makes its claim of differential privacy"),
    ("part", true, "a part is built, or claimed; which, stands there"),
    ("research", true, "built behind its name, without a claim of privacy"),
    ("not private", true, "built; no privacy is claimed, here or in the source"),
    ("refused", false, "not offered, and why"),
    ("false", false, "does not hold as printed, and why"),
    ("not built", false, "could be built, and is not"),
    ("no code", false, "nothing to run: a limit of every algorithm, or a tool of proofs"),
];

const KINDS: [&str; 4] = ["theorem", "algorithm", "corollary", "proposition"];

/// A document and a statement of it, `("thesis", "algorithm 5")`.
type Name = (String, String);

#[derive(Debug, PartialEq)]
struct Statement {
    name: Name,
    part: String,
    says: String,
    /// Status and reason, where the list says them.
    status: Option<(String, String)>,
}

#[derive(Debug, PartialEq)]
struct Annotation {
    name: Name,
    /// Path of the file from the repository's root.
    file: String,
    /// What stands in brackets.
    detail: String,
}

impl Annotation {
    fn place(&self) -> Place {
        match self.file.as_str() {
            file if file.starts_with("docs/") => Place::Proof,
            file if file.starts_with("research/self-audit/") => Place::Audit,
            file if file.starts_with("research/reproduce/") => Place::Figure,
            _ => Place::Code,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Code,
    Proof,
    Audit,
    Figure,
}

/// `algorithm 5`, or why it is none.
fn statement_name(text: &str) -> Result<String, String> {
    let well_formed = text.split_once(' ').is_some_and(|(kind, number)| {
        KINDS.contains(&kind)
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase() || c == '.')
    });
    if well_formed {
        Ok(text.to_string())
    } else {
        Err(format!("`{text}` is no theorem, algorithm, corollary or proposition with a number"))
    }
}

/// The statements of the list, and what is wrong with it.
fn statements(list: &str) -> (Vec<Statement>, Vec<String>) {
    let (mut all, mut wrong, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (line, row) in list.lines().enumerate().skip(1) {
        let mut cells = row.split('\t').map(str::trim);
        let mut cell = || cells.next().unwrap_or("").to_string();
        let (document, part, statement, says, status, why) = (cell(), cell(), cell(), cell(), cell(), cell());
        let mut complain = |what: String| wrong.push(format!("statements.tsv, line {}: {what}", line + 1));
        if let Err(what) = statement_name(&statement) {
            complain(what);
        }
        if !DOCUMENTS.iter().any(|(name, _, _)| *name == document) {
            complain(format!("there is no source `{document}`"));
        }
        if says.is_empty() {
            complain("what does it say?".into());
        }
        if !status.is_empty() && !STATUSES.iter().any(|(name, in_code, _)| *name == status && !in_code) {
            complain(format!("`{status}` is not for the list: the code says so, or nobody"));
        }
        if !status.is_empty() && why.is_empty() {
            complain(format!("`{status}`, but why?"));
        }
        let name = (document, statement);
        if !seen.insert(name.clone()) {
            complain(format!("{} {} is there twice", name.0, name.1));
        }
        all.push(Statement { name, part, says, status: (!status.is_empty()).then_some((status, why)) });
    }
    (all, wrong)
}

/// What a line `Covers: …` of a file says, without that word.
fn annotations_of(line: &str, file: &str) -> Result<Vec<Annotation>, String> {
    let line = line.trim();
    let (names, detail) = match line.strip_suffix(')').and_then(|line| line.split_once(" (")) {
        Some((names, detail)) => (names, detail.to_string()),
        None => (line, String::new()),
    };
    let (document, names) = names.split_once(' ').ok_or("a source and its statements are wanted")?;
    names
        .split(", ")
        .map(|name| {
            let name = (document.to_string(), statement_name(name)?);
            Ok(Annotation { name, file: file.to_string(), detail: detail.clone() })
        })
        .collect()
}

fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file's name from the root, with slashes.
fn from_root(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).expect("below the root").to_str().expect("UTF-8").replace('\\', "/")
}

/// All annotations of sources and proof notes, and what is wrong with them.
fn annotations(root: &Path) -> (Vec<Annotation>, Vec<String>) {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    let sources = ["crates", "research"].into_iter().flat_map(|folder| files_below(&root.join(folder), "rs"));
    let sources = sources.map(|path| (path, "//! Covers:"));
    let notes = files_below(&root.join("docs/proofs"), "md").into_iter().map(|path| (path, "Covers:"));
    for (path, mark) in sources.chain(notes).filter(|(path, _)| !path.ends_with("tests/coverage.rs")) {
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        for line in text.lines().filter_map(|line| line.strip_prefix(mark)) {
            match annotations_of(line, &from_root(&path, root)) {
                Ok(found) => all.extend(found),
                Err(what) => wrong.push(format!("{}: {what}", from_root(&path, root))),
            }
        }
    }
    (all, wrong)
}

/// Status and detail of code, `part: of it`.
fn code_status(detail: &str) -> Option<(&str, &str)> {
    let (status, rest) = detail.split_once(": ").unwrap_or((detail, ""));
    STATUSES.iter().any(|(name, in_code, _)| *name == status && *in_code).then_some((status, rest))
}

/// What is wrong between list and annotations.
fn contradictions(statements: &[Statement], annotations: &[Annotation]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut statuses: BTreeMap<&Name, Vec<String>> = statements
        .iter()
        .map(|s| (&s.name, s.status.iter().map(|(status, _)| format!("list: {status}")).collect()))
        .collect();
    for a in annotations {
        let Some(statuses) = statuses.get_mut(&a.name) else {
            wrong.push(format!("{}: {} {} is not in the list", a.file, a.name.0, a.name.1));
            continue;
        };
        match (a.place(), code_status(&a.detail)) {
            (Place::Code, Some(("part", ""))) => {
                wrong.push(format!("{}: {} {}: which part?", a.file, a.name.0, a.name.1))
            }
            (Place::Code, Some((status, _))) => statuses.push(format!("{}: {status}", a.file)),
            (Place::Code, None) if !a.detail.is_empty() => {
                wrong.push(format!("{}: `{}` is no status of code", a.file, a.detail))
            }
            (Place::Proof, _) if !a.detail.is_empty() => {
                wrong.push(format!("{}: a proof note has no brackets", a.file))
            }
            _ => {}
        }
    }
    for ((document, statement), statuses) in statuses {
        match statuses.len() {
            0 => wrong.push(format!("{document} {statement}: neither code nor the list says what becomes of it")),
            1 => {}
            _ => wrong.push(format!("{document} {statement} is claimed twice: {}", statuses.join("; "))),
        }
    }
    wrong
}

/// Names in the brackets of audits and figures that their files do not have.
fn missing_names(annotations: &[Annotation], root: &Path) -> Vec<String> {
    let of_these = |a: &&Annotation| matches!(a.place(), Place::Audit | Place::Figure) && !a.detail.is_empty();
    let mut wrong = Vec::new();
    for a in annotations.iter().filter(of_these) {
        let text = std::fs::read_to_string(root.join(&a.file)).expect("UTF-8");
        let absent = a.detail.split(", ").filter(|name| !text.contains(&format!("\"{name}\"")));
        wrong.extend(absent.map(|name| format!("{} has no `{name}`", a.file)));
    }
    wrong
}

/// The name of a file's module: `crates/minimize/src/phases.rs` is `minimize::phases`.
fn module(file: &str) -> String {
    let path = file
        .trim_start_matches("crates/")
        .trim_start_matches("research/")
        .trim_end_matches(".rs")
        .trim_end_matches("/mod")
        .trim_end_matches("/lib");
    path.replacen("/src", "", 1).replace('/', "::")
}

/// Names of the figures that a file of the reproduction describes.
fn figures(source: &str) -> Vec<&str> {
    source.lines().filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\",")).collect()
}

/// The links of an annotation, as they stand on the page.
fn links_of(a: &Annotation, root: &Path) -> Vec<String> {
    let file = format!("../{}", a.file);
    match a.place() {
        Place::Code => vec![format!("[{}]({file})", module(&a.file))],
        Place::Proof => {
            let name = a.file.rsplit('/').next().unwrap_or(&a.file).trim_end_matches(".md");
            vec![format!("[{name}]({})", a.file.trim_start_matches("docs/"))]
        }
        Place::Audit if a.detail.is_empty() => {
            vec![format!("[rows of {}]({file})", module(&a.file).rsplit("::").next().unwrap_or(""))]
        }
        Place::Audit => a.detail.split(", ").map(|bug| format!("[{bug}]({file})")).collect(),
        Place::Figure => {
            let source = std::fs::read_to_string(root.join(&a.file)).expect("UTF-8");
            let names = if a.detail.is_empty() { figures(&source) } else { a.detail.split(", ").collect() };
            names.iter().map(|name| format!("[{name}](reproduce.md#{name})")).collect()
        }
    }
}

/// Status as it stands in the table: word and detail.
fn status_of<'a>(statement: &'a Statement, annotations: &[&'a Annotation]) -> (&'a str, &'a str) {
    let in_code = annotations.iter().filter(|a| a.place() == Place::Code).find_map(|a| code_status(&a.detail));
    in_code.or(statement.status.as_ref().map(|(status, why)| (status.as_str(), why.as_str()))).unwrap_or(("", ""))
}

fn page(statements: &[Statement], annotations: &[Annotation], root: &Path) -> String {
    let of = |name: &Name| -> Vec<&Annotation> { annotations.iter().filter(|a| a.name == *name).collect() };
    let mut out = String::from(
        "# Coverage: what became of every statement\n\nEvery numbered theorem and algorithm of the five sources, and their corollaries and propositions, one line each. \
         Lemmas are left out. Made by `make coverage`\nfrom [the list of statements](coverage/statements.tsv) and from the lines `Covers:` of code and proof notes; a test holds it \
         against them.\n\n| status | means |\n|---|---|\n",
    );
    for (status, _, means) in STATUSES {
        writeln!(out, "| {status} | {means} |").expect("a string grows");
    }
    writeln!(
        out,
        "\n| source | {} | all |\n|---|{}",
        STATUSES.map(|s| s.0).join(" | "),
        "---|".repeat(STATUSES.len() + 1)
    )
    .expect("a string grows");
    for (document, title, _) in DOCUMENTS {
        let words: Vec<&str> =
            statements.iter().filter(|s| s.name.0 == document).map(|s| status_of(s, &of(&s.name)).0).collect();
        let counts: Vec<String> =
            STATUSES.iter().map(|(status, _, _)| words.iter().filter(|w| *w == status).count().to_string()).collect();
        writeln!(out, "| {title} | {} | {} |", counts.join(" | "), words.len()).expect("a string grows");
    }
    out += "\nWhat a source writes as a rate is claimed nowhere unless its line says so: plans predict, and [figures](reproduce.md) measure.\n";
    for (document, title, authors) in DOCUMENTS {
        write!(out, "\n## {title}\n\n{authors}.\n").expect("a string grows");
        let mut part = None;
        for s in statements.iter().filter(|s| s.name.0 == document) {
            if part != Some(&s.part) {
                part = Some(&s.part);
                if !s.part.is_empty() {
                    write!(out, "\n### {}\n", s.part).expect("a string grows");
                }
                out +=
                    "\n| statement | says | status | code | proof | audit | figure |\n|---|---|---|---|---|---|---|\n";
            }
            let found = of(&s.name);
            let (status, detail) = status_of(s, &found);
            let column = |place: Place| -> String {
                let links: Vec<String> =
                    found.iter().filter(|a| a.place() == place).flat_map(|a| links_of(a, root)).collect();
                links.join(", ")
            };
            let status = if detail.is_empty() { status.to_string() } else { format!("{status}: {detail}") };
            let [code, proof, audit, figure] = [Place::Code, Place::Proof, Place::Audit, Place::Figure].map(column);
            writeln!(out, "| {} | {} | {status} | {code} | {proof} | {audit} | {figure} |", capital(&s.name.1), s.says)
                .expect("a string grows");
        }
    }
    out
}

/// `theorem a.4` as `Theorem A.4`.
fn capital(statement: &str) -> String {
    let up = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    statement.split(' ').map(up).collect::<Vec<_>>().join(" ")
}

/// Lines of a page outside of blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// What follows `](` on a line outside of quoted code.
fn targets(line: &str) -> Vec<&str> {
    let outside = line.split('`').step_by(2);
    // a link's text may be quoted: its target then begins the next piece
    outside.flat_map(|piece| piece.split("](").skip(1)).filter_map(|rest| rest.split(')').next()).collect()
}

/// Anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let text = |heading: &str| {
        let mut pieces = heading.split("](");
        let first = pieces.next().unwrap_or("").to_string();
        pieces.fold(first, |text, rest| text + rest.split_once(')').map_or("", |(_, after)| after))
    };
    let anchor = |line: &str| -> String {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
        text(line.trim_start_matches('#').trim()).to_lowercase().replace(' ', "-").chars().filter(kept).collect()
    };
    prose(page).filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// Links of a page to files or headings that are not there.
fn dead_links(page: &str, file: &Path) -> Vec<String> {
    let folder = file.parent().expect("a folder");
    let dead = |target: &str| -> bool {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let place = if path.is_empty() { file.to_path_buf() } else { folder.join(path) };
        let headed = || anchors(&std::fs::read_to_string(&place).unwrap_or_default()).contains(anchor);
        !place.exists() || !(anchor.is_empty() || headed())
    };
    let here = |target: &&str| !target.contains("://") && !target.starts_with("mailto:");
    prose(page).flat_map(targets).filter(here).filter(|target| dead(target)).map(str::to_string).collect()
}

#[test]
fn the_page_says_what_list_code_and_notes_say() {
    let root = root();
    let (statements, mut wrong) =
        statements(&std::fs::read_to_string(root.join("docs/coverage/statements.tsv")).expect("the list"));
    let (annotations, malformed) = annotations(&root);
    // the readers see what is there: readers that saw nothing would find nothing wrong
    assert!(statements.len() >= 250 && annotations.len() >= 300, "{} {}", statements.len(), annotations.len());
    wrong.extend(malformed);
    wrong.extend(contradictions(&statements, &annotations));
    wrong.extend(missing_names(&annotations, &root));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (file, made) = (root.join("docs/coverage.md"), page(&statements, &annotations, &root));
    if std::env::var_os("DPOPT_WRITE_COVERAGE").is_some() {
        std::fs::write(&file, &made).expect("the page can be written");
    }
    let dead = dead_links(&made, &file);
    assert!(dead.is_empty(), "dead links: {}", dead.join(", "));
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(made == written, "docs/coverage.md is not what list and annotations say; run `make coverage`");
}

#[test]
fn no_link_in_the_documentation_is_dead() {
    let root = root();
    let mut pages = files_below(&root.join("docs"), "md");
    pages.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(|name| root.join(name)));
    let (mut seen, mut wrong) = (0, Vec::new());
    for path in &pages {
        let page = std::fs::read_to_string(path).expect("UTF-8");
        seen += prose(&page).flat_map(targets).count();
        wrong.extend(dead_links(&page, path).into_iter().map(|link| format!("{}: {link}", from_root(path, &root))));
    }
    assert!(seen > 300, "{seen} links seen");
    assert!(wrong.is_empty(), "dead links:\n{}", wrong.join("\n"));
}

/// A list of one statement with the given last cells.
fn one(cells: &str) -> (Vec<Statement>, Vec<String>) {
    statements(&format!("document\tpart\tstatement\tsays\tstatus\twhy\nthesis\t1. One\talgorithm 5\tPhases\t{cells}\n"))
}

fn note(line: &str, file: &str) -> Vec<Annotation> {
    annotations_of(line, file).expect("well formed")
}

#[test]
fn each_statement_has_one_fate() {
    let code = "crates/minimize/src/phases.rs";
    let (free, wrong) = one("");
    assert!(wrong.is_empty());
    let against = |statements: &[Statement], line: &str, file: &str| contradictions(statements, &note(line, file));
    assert!(against(&free, "thesis algorithm 5 (certified: blocks)", code).is_empty());
    assert!(contradictions(&free, &[])[0].contains("neither code nor the list"));
    assert!(against(&free, "thesis algorithm 5", "docs/proofs/blocks.md")[0].contains("neither"));
    assert!(
        against(&free, "thesis algorithm 5, algorithm 6 (certified)", code)[0]
            .contains("algorithm 6 is not in the list")
    );
    assert!(against(&free, "thesis algorithm 5 (part)", code)[0].contains("which part"));
    assert!(against(&free, "thesis algorithm 5 (refused: no)", code)[0].contains("no status of code"));
    let (refused, wrong) = one("refused\tit leaks");
    assert!(wrong.is_empty());
    assert!(against(&refused, "thesis algorithm 5 (certified)", code)[0].contains("claimed twice"));
    assert!(
        against(&refused, "thesis algorithm 5 (02.a-bug)", "research/self-audit/src/catalogue/phased.rs").is_empty()
    );
}

#[test]
fn mistakes_of_list_and_lines_are_found() {
    assert!(one("refused\t").1[0].contains("but why"));
    assert!(one("certified\tso it is").1[0].contains("not for the list"));
    assert!(annotations_of("thesis lemma 5", "a.rs").is_err() && annotations_of("thesis algorithm", "a.rs").is_err());
    assert_eq!(
        note("thesis algorithm 5, theorem 1.1.2 (part: a (small) one)", "a.rs")[1].detail,
        "part: a (small) one"
    );
    let absent = note("thesis algorithm 5 (no.such-bug)", "research/self-audit/src/catalogue/phased.rs");
    assert!(missing_names(&absent, &root())[0].contains("no.such-bug"));
    let there = note("thesis algorithm 5 (02.halved-draws)", "research/self-audit/src/catalogue/phased.rs");
    assert!(missing_names(&there, &root()).is_empty());
}

#[test]
fn dead_links_are_found() {
    let file = root().join("docs/coverage.md");
    let page = "# A page: `of` [two](b.md) words\n[a](proofs/blocks.md) [b](proofs/no-such.md) `[c](no.md)` [`d`](e.md)\n[f](#a-page-of-two-words) \
                [g](audit.md#no-such-heading) [h](https://example.org)\n```\n[i](j.md)\n```\n";
    assert_eq!(
        dead_links(page, &file),
        ["b.md", "proofs/no-such.md", "e.md", "#a-page-of-two-words", "audit.md#no-such-heading"]
    );
    assert!(anchors(page).contains("a-page-of-two-words"));
    assert!(!dead_links("[a](audit.md#the-librarys-own-rows)", &file).iter().any(|_| true));
}
