//! Modules stand on floors: docs/architecture.md lists them from the ground up, and a module uses only modules below it in
//! that list. Inside a module no two parts use each other, directly or in a circle. Test code may look anywhere.
//!
//! Read are the `use` items and the paths that begin with `crate`, `self` or `super`, of every source file, after comments,
//! strings and items under `#[cfg(test)]` or `#[cfg(doctest)]` have been taken out. A module's face (its `mod.rs`) and its parts are
//! one: a face hands on what its parts define, and parts use what their face defines.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A path of a module or of something in it, from the crate's root.
type Place = Vec<String>;

/// Identifiers, `::`, and single characters; comments are gone, literals are `"`.
fn tokens(source: &str) -> Vec<String> {
    let c: Vec<char> = source.chars().collect();
    let at = |i: usize| c.get(i).copied().unwrap_or('\0');
    let word = |x: char| x.is_alphanumeric() || x == '_';
    let (mut out, mut i) = (Vec::new(), 0);
    while i < c.len() {
        if at(i) == '/' && at(i + 1) == '/' {
            while i < c.len() && at(i) != '\n' {
                i += 1;
            }
        } else if at(i) == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            while i < c.len() {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 {
                    break;
                }
            }
        } else if at(i) == '"' {
            i = after_string(&c, i);
            out.push("\"".into());
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < c.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
            out.push("\"".into());
        } else if word(at(i)) {
            let start = i;
            while word(at(i)) {
                i += 1;
            }
            let text: String = c[start..i].iter().collect();
            let hashes = c[i..].iter().take_while(|x| **x == '#').count();
            if matches!(text.as_str(), "r" | "br" | "cr") && at(i + hashes) == '"' {
                let end: String = std::iter::once('"').chain("#".repeat(hashes).chars()).collect();
                let rest: String = c[i + hashes + 1..].iter().collect();
                let length = rest.find(&end).map_or(rest.chars().count(), |b| rest[..b].chars().count() + end.len());
                i += hashes + 1 + length;
                out.push("\"".into());
            } else if matches!(text.as_str(), "b" | "c") && at(i) == '"' {
                i = after_string(&c, i);
                out.push("\"".into());
            } else if text == "r" && at(i) == '#' {
                i += 1;
            } else {
                out.push(text);
            }
        } else if at(i) == ':' && at(i + 1) == ':' {
            out.push("::".into());
            i += 2;
        } else {
            if !at(i).is_whitespace() {
                out.push(at(i).to_string());
            }
            i += 1;
        }
    }
    out
}

/// Where a string that begins at `i` has ended.
fn after_string(c: &[char], mut i: usize) -> usize {
    i += 1;
    while i < c.len() && c[i] != '"' {
        i += if c[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The token after the group that opens at `i`.
fn after_group(t: &[String], mut i: usize) -> usize {
    let mut depth = 0;
    while i < t.len() {
        match t[i].as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        i += 1;
        if depth == 0 {
            break;
        }
    }
    i
}

/// The token after the item that begins at `i`.
fn after_item(t: &[String], mut i: usize) -> usize {
    let ends_with_semicolon =
        t[i..].iter().find(|w| !matches!(w.as_str(), "pub" | "(" | ")" | "crate" | "super" | "in" | "::"));
    let statement = ends_with_semicolon.is_some_and(|w| matches!(w.as_str(), "use" | "const" | "static" | "type"))
        && t.get(i + 1).is_none_or(|w| w != "fn");
    while i < t.len() {
        match t[i].as_str() {
            ";" => return i + 1,
            "{" if !statement => return after_group(t, i),
            "(" | "[" | "{" => i = after_group(t, i),
            _ => i += 1,
        }
    }
    i
}

/// Where the item of test code ends whose attribute begins at `i`, and the module it declares, if its text is in another file.
fn test_item(t: &[String], i: usize) -> Option<(usize, Option<String>)> {
    let end = after_group(t, i + 1);
    let attribute = &t[i + 1..end];
    let is = |word: &str| attribute.iter().any(|w| w == word);
    // what a feature switches on too is no test code
    if !(attribute.get(1)? == "cfg" && (is("test") || is("doctest")) && !is("not") && !is("feature")) {
        return None;
    }
    let mut i = end;
    while t.get(i).is_some_and(|w| w == "#") {
        i = after_group(t, i + 1);
    }
    let end = after_item(t, i);
    let module = (i..end).find(|&k| t[k] == "mod" && t.get(k + 2).is_some_and(|w| w == ";")).map(|k| t[k + 1].clone());
    Some((end, module))
}

/// The tokens that are not test code.
fn without_tests(t: &[String]) -> Vec<String> {
    let (mut out, mut i) = (Vec::new(), 0);
    while i < t.len() {
        match (t[i] == "#" && t.get(i + 1).is_some_and(|w| w == "[")).then(|| test_item(t, i)).flatten() {
            Some((end, _)) => i = end,
            None => {
                out.push(t[i].clone());
                i += 1;
            }
        }
    }
    out
}

/// What one source file says.
#[derive(Debug, Default)]
struct File {
    /// Absolute paths that it uses, without those of test code.
    uses: BTreeSet<Place>,
    /// Names it imports or hands on, and where they lead; a name of an inline module stands behind that module's name.
    names: BTreeMap<Place, Place>,
    /// Modules in files of their own that are test code.
    tests: BTreeSet<String>,
}

/// Reads the source of the module at `place`.
fn read(place: &[String], source: &str) -> File {
    let t = tokens(source);
    let mut file = File::default();
    let parts: BTreeSet<&String> = t.windows(2).filter(|w| w[0] == "mod").map(|w| &w[1]).collect();
    // inline modules around the current token, and the depth of braces at which they end
    let (mut inside, mut depth, mut i): (Vec<(String, usize)>, usize, usize) = (Vec::new(), 0, 0);
    while i < t.len() {
        let here = |inside: &[(String, usize)]| -> Place {
            place.iter().cloned().chain(inside.iter().map(|(name, _)| name.clone())).collect()
        };
        let next = |k: usize| t.get(i + k).map_or("", String::as_str);
        match t[i].as_str() {
            "#" if next(1) == "[" => match test_item(&t, i) {
                Some((end, module)) => {
                    file.tests.extend(module);
                    i = end;
                }
                None => i = after_group(&t, i + 1),
            },
            "use" => {
                let end = (i..t.len()).find(|&k| t[k] == ";").unwrap_or(t.len());
                let mut found = Vec::new();
                tree(&t[i + 1..end], &[], &mut found);
                for (path, name) in found {
                    // a path may begin with a part of the module that it stands in
                    let path = if parts.contains(&path[0]) {
                        here(&inside).into_iter().chain(path).collect()
                    } else if let Some(path) = absolute(&here(&inside), &path) {
                        path
                    } else {
                        continue;
                    };
                    if name != "_" && name != "*" {
                        let key = here(&inside)[place.len()..].iter().cloned().chain([name]).collect();
                        file.names.insert(key, path.clone());
                    }
                    file.uses.insert(path);
                }
                i = end + 1;
            }
            "mod" if next(2) == "{" => {
                depth += 1;
                inside.push((next(1).to_string(), depth));
                i += 3;
            }
            "crate" | "super" | "self" if next(1) == "::" && (i == 0 || t[i - 1] != "::") => {
                let mut path = vec![t[i].clone()];
                i += 1;
                while i + 1 < t.len() && t[i] == "::" && t[i + 1].starts_with(|c: char| c.is_alphabetic() || c == '_') {
                    path.push(t[i + 1].clone());
                    i += 2;
                }
                file.uses.extend(absolute(&here(&inside), &path));
            }
            brace => {
                match brace {
                    "{" => depth += 1,
                    "}" => {
                        inside.retain(|(_, end)| *end != depth);
                        depth = depth.saturating_sub(1);
                    }
                    _ => {}
                }
                i += 1;
            }
        }
    }
    file
}

/// The paths of a `use` tree, with the name that each gets.
fn tree(t: &[String], before: &[String], out: &mut Vec<(Place, String)>) {
    let (mut path, mut i, mut name) = (before.to_vec(), 0, None);
    while i < t.len() {
        match t[i].as_str() {
            "::" => i += 1,
            "as" => {
                name = t.get(i + 1).cloned();
                i += 2;
            }
            "{" => {
                let end = after_group(t, i);
                let mut part = i + 1;
                while part < end - 1 {
                    let mut k = part;
                    while k < end - 1 && t[k] != "," {
                        k = if t[k] == "{" { after_group(t, k) } else { k + 1 };
                    }
                    if k > part {
                        tree(&t[part..k], &path, out);
                    }
                    part = k + 1;
                }
                return;
            }
            word => {
                path.push(word.to_string());
                i += 1;
            }
        }
    }
    if path.len() > 1 && path.last().is_some_and(|w| w == "self") {
        path.pop();
    }
    if let Some(last) = path.last().cloned() {
        out.push((path, name.unwrap_or(last)));
    }
}

/// The path from the crate's root; `None` for a path that does not say where it begins (another crate, or an own part).
fn absolute(here: &[String], path: &[String]) -> Option<Place> {
    let mut base = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => here.to_vec(),
        _ => return None,
    };
    let mut rest = path.iter().peekable();
    while let Some(word) = rest.next_if(|w| matches!(w.as_str(), "crate" | "self" | "super")) {
        if word == "super" {
            base.pop();
        }
    }
    base.extend(rest.cloned());
    Some(base)
}

/// A crate's modules by path.
type Crate = BTreeMap<Place, File>;

/// The module whose text a file below `src` holds.
fn place_of(name: &str) -> Place {
    let mut place: Place = name.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    if place.last().is_some_and(|w| w == "mod") || place == ["lib"] {
        place.pop();
    }
    place
}

/// Reads (path of the file below `src`, text) pairs.
fn crate_of(files: &[(String, String)]) -> Crate {
    let mut all = Crate::new();
    for (name, source) in files {
        let place = place_of(name);
        let file = read(&place, source);
        all.insert(place, file);
    }
    // `tests` of a module `m` in `m.rs` is `m/tests.rs`, or `m_tests.rs` beside it by an attribute
    let tests: Vec<Place> = all
        .iter()
        .flat_map(|(place, file)| {
            file.tests.iter().flat_map(move |test| {
                let below = place.iter().cloned().chain([test.clone()]).collect();
                let beside = place
                    .split_last()
                    .map(|(own, around)| around.iter().cloned().chain([format!("{own}_{test}")]).collect());
                [Some(below), beside]
            })
        })
        .flatten()
        .collect();
    all.retain(|place, _| !tests.iter().any(|test| place.starts_with(test)));
    all
}

/// The module that `path` leads to, through whatever hands its names on.
fn home(all: &Crate, path: &[String]) -> Place {
    let mut path = path.to_vec();
    // more than any chain of faces
    for _ in 0..16 {
        let known = (0..=path.len()).rev().find(|&k| all.contains_key(&path[..k])).unwrap_or(0);
        let lead = (known + 1..=path.len()).rev().find_map(|k| {
            let target = all.get(&path[..known])?.names.get(&path[known..k])?;
            Some(target.iter().chain(&path[k..]).cloned().collect::<Place>())
        });
        match lead {
            Some(lead) if lead != path => path = lead,
            _ => return path[..known].to_vec(),
        }
    }
    path
}

/// Every use of one module by another: (who, whom).
fn edges(all: &Crate) -> BTreeSet<(Place, Place)> {
    all.iter().flat_map(|(place, file)| file.uses.iter().map(|path| (place.clone(), home(all, path)))).collect()
}

/// What breaks the order of `floors` (top modules, from the ground up).
fn upward(all: &Crate, floors: &[String]) -> Vec<String> {
    let floor = |top: &String| floors.iter().position(|f| f == top);
    let tops: BTreeSet<&String> = all.keys().filter_map(|place| place.first()).collect();
    let mut wrong: Vec<String> =
        tops.iter().filter(|top| floor(top).is_none()).map(|top| format!("`{top}` stands on no floor")).collect();
    wrong.extend(floors.iter().filter(|f| !tops.contains(f)).map(|f| format!("there is no module `{f}`")));
    for (from, to) in edges(all) {
        if let (Some(user), Some(used)) = (from.first(), to.first())
            && user != used
            && floor(user).zip(floor(used)).is_some_and(|(user, used)| used >= user)
        {
            wrong.push(format!("{} uses {}, which stands above it", from.join("::"), to.join("::")));
        }
    }
    wrong
}

/// Circles among the parts of one module, at any depth: each as the uses that close it.
fn circles(all: &Crate) -> Vec<String> {
    // parent → part → (part that it uses → one of the uses)
    let mut parts: BTreeMap<Place, BTreeMap<String, BTreeMap<String, String>>> = BTreeMap::new();
    for (from, to) in edges(all) {
        let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
        if common < from.len() && common < to.len() {
            let by = parts.entry(from[..common].to_vec()).or_default().entry(from[common].clone()).or_default();
            by.insert(to[common].clone(), format!("{} -> {}", from.join("::"), to.join("::")));
        }
    }
    let mut found = Vec::new();
    for graph in parts.values() {
        for start in graph.keys() {
            // breadth first from `start` back to itself
            let mut came: BTreeMap<&String, &String> = BTreeMap::new();
            let mut queue = vec![start];
            while let Some(part) = queue.pop() {
                for next in graph.get(part).into_iter().flat_map(BTreeMap::keys) {
                    if !came.contains_key(next) {
                        came.insert(next, part);
                        queue.push(next);
                    }
                }
            }
            let mut way = Vec::new();
            let mut at = start;
            while let Some(before) = came.get(at) {
                way.push(graph[*before][at].clone());
                at = before;
                if at == start {
                    way.reverse();
                    found.push(way.join(", "));
                    break;
                }
            }
        }
    }
    found
}

/// All `.rs` files below `src`.
fn sources(src: &Path) -> Vec<(String, String)> {
    let (mut files, mut folders): (Vec<_>, Vec<PathBuf>) = (Vec::new(), vec![src.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(src).expect("below src").to_str().expect("UTF-8").replace('\\', "/");
                files.push((name, std::fs::read_to_string(&path).expect("UTF-8")));
            }
        }
    }
    files.sort();
    files
}

/// The numbered list below `heading`: the first name in code quotes of each line.
fn floors(document: &str, heading: &str) -> Vec<String> {
    let section = document.split("\n## ").find(|s| s.starts_with(heading)).unwrap_or_else(|| panic!("{heading}"));
    let numbered = |line: &&str| line.split_once(". `").is_some_and(|(n, _)| n.parse::<usize>().is_ok());
    let names: Vec<String> =
        section.lines().filter(numbered).filter_map(|line| line.split('`').nth(1).map(str::to_string)).collect();
    for (k, line) in section.lines().filter(numbered).enumerate() {
        assert!(line.starts_with(&format!("{}. ", k + 1)), "{heading}: {line}");
    }
    names
}

fn held_against_the_list(source: &str, heading: &str, at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = std::fs::read_to_string(root.join("docs/architecture.md")).expect("the list of floors");
    let mut files = sources(&root.join(source));
    // the binary is no module of the library
    files.retain(|(name, _)| name != "main.rs");
    let all = crate_of(&files);
    // the reader sees what is there: a reader that saw nothing would find nothing wrong
    assert!(edges(&all).iter().filter(|(a, b)| a.first() != b.first()).count() >= at_least, "{source}: few uses seen");
    let wrong = upward(&all, &floors(&document, heading));
    assert!(wrong.is_empty(), "against docs/architecture.md:\n{}", wrong.join("\n"));
    let circles = circles(&all);
    assert!(circles.is_empty(), "parts of one module in a circle:\n{}", circles.join("\n"));
}

#[test]
fn every_crate_stands_on_its_floors() {
    for (name, source, at_least) in [
        ("dpopt-objective", "crates/objective/src", 10),
        ("dpopt-event", "crates/event/src", 5),
        ("dpopt-privacy", "crates/privacy/src", 5),
        ("dpopt-noise", "crates/noise/src", 20),
        ("dpopt-draws", "crates/draws/src", 5),
        ("dpopt-kernel", "crates/kernel/src", 30),
        ("dpopt-mechanism", "crates/mechanism/src", 10),
        ("dpopt-optimize", "crates/optimize/src", 100),
        ("dpopt-data", "crates/data/src", 10),
        ("dpopt-audit", "crates/audit/src", 10),
        ("dpopt", "crates/dpopt/src", 10),
        ("dpopt-reproduce", "research/reproduce/src", 50),
        ("dpopt-self-audit", "research/self-audit/src", 60),
    ] {
        held_against_the_list(source, &format!("Floors of `{name}`"), at_least);
    }
}

/// Folders with a crate each, by name: those of what ships, and those of what looks into it.
fn crate_folders() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = ["crates", "research"].map(|rooms| std::fs::read_dir(root.join(rooms)).expect("a folder of crates"));
    let folder = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        (entry.file_name().into_string().expect("UTF-8"), entry.path())
    };
    entries.into_iter().flatten().map(folder).collect()
}

/// The crates of the workspace that a manifest asks for, outside of its tests.
fn crates_used(manifest: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut used = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_string();
        } else if section == "dependencies" && line.starts_with("dpopt") {
            used.insert(line.split(['.', ' ', '=']).next().expect("a name").to_string());
        }
    }
    used.remove("dpopt-features");
    used
}

#[test]
fn a_crate_uses_only_crates_above_it_in_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (listed, folders) = (floors(&read("docs/architecture.md"), "Crates"), crate_folders());
    for (k, name) in listed.iter().enumerate() {
        let folder = folders.get(name.strip_prefix("dpopt-").unwrap_or(name)).unwrap_or_else(|| panic!("no {name}"));
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let used = crates_used(&manifest);
        for other in &used {
            assert!(listed[..k].contains(other), "{name} uses {other}, which the list has not above it");
        }
        if folder.parent().is_some_and(|rooms| rooms.ends_with("research")) {
            assert!(manifest.lines().any(|line| line == "publish = false"), "{name} is research: it is not published");
        }
        // what is trusted for privacy, and who may read what is sensitive
        let stands_on: &[&str] = match name.as_str() {
            "dpopt-kernel" => &["dpopt-noise", "dpopt-objective", "dpopt-privacy", "dpopt-process"],
            "dpopt-mechanism" => {
                &["dpopt-draws", "dpopt-kernel", "dpopt-noise", "dpopt-objective", "dpopt-privacy", "dpopt-process"]
            }
            _ => continue,
        };
        assert_eq!(used, stands_on.iter().map(|on| on.to_string()).collect(), "what {name} stands on");
    }
    assert_eq!(listed.len() + 1, folders.len(), "every crate but `features` is in the list");
    assert_eq!(
        crates_used("[dependencies]\ndpopt-a.workspace = true\ndpopt = { x }\n[dev-dependencies]\ndpopt-b = 1\n").len(),
        2
    );
}

/// How often the code names the way past the curator, by file; and files that hand it on. Test code may name it.
fn past_the_curator(files: &[(String, String)]) -> (BTreeMap<String, usize>, Vec<String>) {
    const WAY: &str = "past_the_curator";
    let (mut named, mut handed_on) = (BTreeMap::new(), Vec::new());
    let all = crate_of(files);
    for (name, text) in files.iter().filter(|(name, _)| all.contains_key(&place_of(name))) {
        let t = without_tests(&tokens(text));
        let count = t.iter().filter(|token| *token == WAY).count();
        if count > 0 {
            named.insert(name.clone(), count);
        }
        // `pub use … past_the_curator …;`, whatever stands between
        let statements = t.split(|token| token == ";" || token == "}");
        let public = |s: &&[String]| s.iter().any(|x| x == "pub") && s.iter().any(|x| x == "use");
        if statements.filter(public).any(|s| s.iter().any(|x| x == WAY)) {
            handed_on.push(name.clone());
        }
    }
    (named, handed_on)
}

#[test]
fn only_the_self_audit_goes_past_the_curator() {
    let (mut audits, mut others) = (0, Vec::new());
    for (folder, path) in crate_folders() {
        let (mut named, handed_on) = past_the_curator(&sources(&path.join("src")));
        match folder.as_str() {
            "mechanism" => {
                assert_eq!(named.remove("lib.rs"), Some(1), "it is handed to audits, behind the feature of its name");
                others.extend(named.into_keys().map(|name| format!("{folder}/{name}")));
            }
            "self-audit" => {
                audits = named.len();
                others.extend(handed_on);
            }
            _ => others.extend(named.into_keys().chain(handed_on).map(|name| format!("{folder}/{name}"))),
        }
    }
    assert!(audits > 8, "only {audits}: has the module another name?");
    assert_eq!(others, Vec::<String>::new());
    // and it is seen in whatever form
    for text in [
        "use dpopt_mechanism::{past_the_curator as p};",
        "fn f() { dpopt_mechanism::past_the_curator::made_up(&x); }",
        "#[cfg(test)] mod tests { use a::b; } use dpopt_mechanism::past_the_curator;",
    ] {
        assert_eq!(past_the_curator(&[("a.rs".into(), text.into())]).0.len(), 1, "{text}");
    }
    let handed = "mod b { fn f() {} } pub(crate) use dpopt_mechanism::past_the_curator::made_up;";
    assert_eq!(past_the_curator(&[("audit/a.rs".into(), handed.into())]).1, ["audit/a.rs"]);
}

/// Where code runs in parallel, or asks how many threads there are, without going through `in_threads` and `thread_count`.
fn threads_of_nobody(source: &str) -> Vec<String> {
    let t = without_tests(&tokens(source));
    let parallel =
        |word: &str| word.starts_with("par_") || word.starts_with("into_par_") || word == "current_num_threads";
    let (mut found, mut i) = (Vec::new(), 0);
    while i < t.len() {
        let called = t.get(i + 1).is_some_and(|next| next == "(");
        match t[i].as_str() {
            // whatever is inside of its brackets
            "in_threads" if called => i = after_group(&t, i + 1),
            word => {
                // a method or a path: a function of the same name may be anything
                if parallel(word) && i > 0 && matches!(t[i - 1].as_str(), "." | "::") && called {
                    found.push(word.to_string());
                }
                i += 1;
            }
        }
    }
    found
}

#[test]
fn parallel_work_is_done_by_threads_of_the_own_process() {
    let (mut through, mut wrong) = (0, Vec::new());
    for (folder, path) in crate_folders() {
        // figures are programs of their own
        if matches!(folder.as_str(), "process" | "reproduce") {
            continue;
        }
        let files = sources(&path.join("src"));
        let all = crate_of(&files);
        for (name, text) in files.iter().filter(|(name, _)| all.contains_key(&place_of(name))) {
            through += usize::from(text.contains("in_threads("));
            wrong.extend(threads_of_nobody(text).into_iter().map(|word| format!("{folder}/{name}: {word}")));
        }
    }
    assert!(through > 12, "only {through}: has in_threads another name?");
    assert_eq!(
        wrong,
        Vec::<String>::new(),
        "a forked process has no threads for these: wrap them in in_threads(|| ...)"
    );
    for (text, expected) in [
        ("fn f() { x.par_iter().map(g).collect() }", 1),
        ("fn f() { in_threads(|| x.par_iter().map(g).collect()) }", 0),
        ("fn f() { in_threads(|| x.par_chunks_mut(3).for_each(g)); x.into_par_iter().sum() }", 1),
        ("fn f() { rayon::current_num_threads() }", 1),
        ("#[cfg(test)] mod tests { fn f() { x.par_iter() } }", 0),
        ("fn par_of(x: u8) { par_of(x) }", 0),
    ] {
        assert_eq!(threads_of_nobody(text).len(), expected, "{text}");
    }
}

/// A house of two floors, `low` and `high`, and what is wrong in it.
fn house(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let files: Vec<_> = files.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect();
    let all = crate_of(&files);
    (upward(&all, &["low".into(), "high".into()]), circles(&all))
}

#[test]
fn an_upward_use_is_seen_in_whatever_form() {
    let high = ("high/mod.rs", "pub mod part;\npub struct High;");
    let part = ("high/part.rs", "pub fn f() {}");
    for low in [
        "use crate::high::High;",
        "pub use crate::high::High;",
        "use crate::{high};",
        "use crate::{low::Own, high::{part::{self, f}, High as H}};",
        "use super::high::part;",
        "use crate::high::*;",
        "fn g() { crate::high::part::f() }",
        "fn g(h: &super::high::High) {}",
        "mod inner { fn g() { super::super::high::part::f() } }",
        "mod inner { use super::super::high::High; }",
        "macro_rules! m { () => { $crate::high::part::f() } }",
        "// a comment's \" is none\nfn g<'a>(x: &'a str) -> char { let _ = \"crate::low\"; crate::high::part::f(); '\"' }",
        "const R: &str = r#\"a \" b\"#; const C: char = '\\''; use crate::high::High;",
        "#[cfg(not(test))]\nuse crate::high::High;",
        "#[cfg(test)]\nuse crate::low::Own;\nuse crate::high::High;",
        "#[cfg(test)]\nconst N: [u8; 2] = [1; { 2 }];\nuse crate::high::High;",
        "#[cfg(test)]\nmod tests { fn t() { let _ = 1; } }\nuse crate::high::High;",
        "use crate::Handed;",
    ] {
        let root =
            ("lib.rs", "pub mod low; pub mod high; pub use high::High as Handed; pub use self::high::High as Handed;");
        let (wrong, _) = house(&[root, ("low.rs", low), high, part]);
        assert!(!wrong.is_empty() && wrong.iter().all(|w| w.starts_with("low uses high")), "{low}: {wrong:?}");
    }
}

#[test]
fn what_is_no_upward_use_is_none() {
    for low in [
        "// use crate::high::High;\n/* crate::high::f() /* crate::high */ crate::high */",
        "const TEXT: &str = \"use crate::high::High; \\\" crate::high::f()\";",
        "const TEXT: &[u8] = br##\"crate::high::\"# f()\"##;",
        "#[cfg(test)]\nmod tests { use crate::high::High; fn t() { crate::high::part::f() } }",
        "#[cfg(test)]\n#[allow(unused)]\nuse crate::{high::High};",
        "#[cfg(test)]\nmod tests;",
        "use dpopt::high::High; use crate::low::Own; use super::low::Other; use std::fmt;",
        "mod high { pub fn f() {} } fn g() { self::high::f() }",
        "pub(crate) fn g(value: crate::low::Own) {}",
    ] {
        let files = [
            ("lib.rs", "mod low; mod high;"),
            ("low/mod.rs", low),
            ("low/tests.rs", "use crate::high::High;"),
            ("high.rs", ""),
        ];
        // the file of tests is one only where it is declared so
        let files: Vec<_> = files.into_iter().filter(|f| low.contains("mod tests;") || f.0 != "low/tests.rs").collect();
        let (wrong, _) = house(&files);
        assert_eq!(wrong, Vec::<String>::new(), "{low}");
    }
}

#[test]
fn downward_uses_are_allowed_and_every_module_has_a_floor() {
    let (wrong, _) = house(&[("low.rs", ""), ("high.rs", "use crate::low::f; fn g() { super::low::h() }")]);
    assert_eq!(wrong, Vec::<String>::new());
    let (wrong, _) = house(&[("low.rs", ""), ("high.rs", ""), ("attic.rs", "")]);
    assert_eq!(wrong, ["`attic` stands on no floor"]);
    let (wrong, _) = house(&[("low.rs", "")]);
    assert_eq!(wrong, ["there is no module `high`"]);
}

#[test]
fn circles_inside_a_module_are_seen() {
    let low = ("low.rs", "");
    // through the face that hands the names on, and one floor further down
    let face = (
        "high/mod.rs",
        "mod a; mod b; mod c; pub use self::a::A; pub(crate) use b::B; use self::b::B as _; pub use self::b::B;",
    );
    for (a, b, c, expected) in [
        ("use super::b::B;", "use super::A;", "", 2),
        ("use crate::high::B;", "use super::c::C;", "fn f() { super::a::g() }", 3),
        ("use super::B;", "use super::c::C;", "use super::Face;", 0),
        ("use super::B;", "use super::B as _;", "use crate::low::f;", 0),
        ("#[cfg(test)] mod tests { use crate::high::B; }", "use super::A;", "", 0),
    ] {
        let (wrong, circles) = house(&[low, face, ("high/a.rs", a), ("high/b.rs", b), ("high/c/mod.rs", c)]);
        assert_eq!((wrong.len(), circles.len()), (0, expected), "{a} {b} {c}: {circles:?}");
    }
}

#[test]
fn the_list_is_read_in_its_order() {
    let document =
        "# A\n\n## Floors of `x`\n\n1. `low`: `high` is above it\n2. `high`: uses `low`\n\n## Other\n\n1. `no`: none\n";
    assert_eq!(floors(document, "Floors of `x`"), ["low", "high"]);
}
