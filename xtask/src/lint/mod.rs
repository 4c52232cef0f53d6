//! `cargo xtask lint`: everything about the tree that is checked without running it.
//!
//! Every step runs, whatever became of those before it, so that one run shows all there is to mend.

mod comments;
mod inlining;
mod names;
mod proofs;
mod rooms;
mod source;

use std::time::Instant;

use crate::dist::readme;
use crate::{book, requirements, setup, shell, tiers};

/// A source file longer than this is not read in one sitting.
const MOST_LINES: usize = 700;

/// The kinds of file that are source.
const SOURCES: &[&str] = &["rs", "c", "cc", "cpp", "h", "hpp", "py", "pyi"];

/// What no finished source contains. Each is in two parts so that this file does not contain it
/// either.
const UNFINISHED: &[(&str, &str)] =
    &[("todo", "!"), ("unimplemented", "!"), ("#[ig", "nore"), ("FIX", "ME"), ("TO", "DO")];

type Step = (&'static str, fn() -> Result<(), String>);

const STEPS: &[Step] = &[
    ("format", || shell::run(&["cargo", "fmt", "--all", "--check"], &[])),
    ("clippy", clippy),
    ("python package", python_package),
    ("documentation", documentation),
    ("dependencies", dependencies),
    ("dependency tree", dependency_tree),
    ("requirements", requirements::check),
    ("readmes", readme::check),
    ("housekeeping", housekeeping),
    ("comments", comments),
    ("proofs", proofs),
    ("names", names),
    ("rooms", rooms),
    ("inlining", inlining),
    ("decisions", decisions),
    ("book", book::check),
    ("oldest Rust", oldest_rust),
];

/// Runs all steps, or the one of this name, and says which failed.
pub(crate) fn lint(only: Option<&str>) -> Result<(), String> {
    let is_chosen = |step: &&Step| only.is_none_or(|only| only == step.0);
    let steps: Vec<&Step> = STEPS.iter().filter(is_chosen).collect();
    if steps.is_empty() {
        let names: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("lint has no such step, but these: {}", names.join(", ")));
    }
    let mut failed = Vec::new();
    for (name, step) in &steps {
        println!("\n== {name}");
        let start = Instant::now();
        if let Err(problem) = step() {
            println!("{problem}");
            failed.push(*name);
        }
        println!("({name}: {} s)", start.elapsed().as_secs());
    }
    if failed.is_empty() {
        println!("\nlint: all {} steps passed", steps.len());
        return Ok(());
    }
    Err(format!("lint: {} of {} steps failed: {}", failed.len(), steps.len(), failed.join(", ")))
}

/// All packages, in three calls: with all features, that of DataFusion would take in two releases
/// of DataFusion, that of Flight three majors of arrow-flight, and each minutes.
const PACKAGES: [&[&str]; 3] = [
    &[
        "--workspace",
        "--exclude=arrow-device-datafusion",
        "--exclude=arrow-device-flight",
        "--all-features",
    ],
    &["--package=arrow-device-flight", "--features=flight-60"],
    &["--package=arrow-device-datafusion", "--features=datafusion-55,sql"],
];

fn clippy() -> Result<(), String> {
    PACKAGES.iter().try_for_each(|packages| {
        let words = [&["cargo", "clippy", "--all-targets"], *packages, &["--", "--deny=warnings"]];
        shell::run(&words.concat(), &[])
    })
}

/// Format and clippy of the one crate that is outside of the workspace and not built by nightly
/// Rust.
fn python_package() -> Result<(), String> {
    let manifest = "--manifest-path=python/Cargo.toml";
    shell::run(&["cargo", "fmt", manifest, "--check"], &[])?;
    let target = ("CARGO_TARGET_DIR", "target/python/build");
    shell::run(&["cargo", "clippy", manifest, "--locked", "--", "--deny=warnings"], &[target])
}

/// The documentation of the packages that the first tier builds. What DataFusion and Flight are
/// made of would be checked once more than `clippy` does, which takes minutes: the tier `book`
/// writes the documentation of all packages.
fn documentation() -> Result<(), String> {
    let [of_first, ..] = PACKAGES;
    document(of_first)
}

pub(crate) fn documentation_of_all() -> Result<(), String> {
    PACKAGES.into_iter().try_for_each(document)
}

/// The libraries only: the command `arrow-device` and the library `arrow_device` would be written
/// to one place.
fn document(packages: &[&str]) -> Result<(), String> {
    let words = [&["cargo", "doc", "--lib", "--no-deps"], packages];
    shell::run(&words.concat(), &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Licences, sources and versions of what the project depends on, by the rules of `deny.toml`.
fn dependencies() -> Result<(), String> {
    let tool = setup::CARGO_DENY;
    if !tool.is_present() {
        let reason = format!("{} is not there ({})", tool.name, tool.advice());
        if tiers::is_strict() {
            return Err(reason);
        }
        println!("skipped: {reason}");
        return Ok(());
    }
    println!(
        "not checked: security advisories. Their database is fetched from a network that a build need not have;"
    );
    println!("`cargo deny check advisories` checks them where there is one.");
    // Offline, cargo-deny sees only what was fetched, and a build does not fetch what other systems
    // need.
    shell::run(&["cargo", "fetch", "--locked"], &[])?;
    let words = ["cargo", "deny", "--offline", "--all-features", "check"];
    shell::run(&[&words[..], &["bans", "licenses", "sources"]].concat(), &[])
}

/// The library, and what everybody builds who builds the library without features, for any target.
const LIBRARY_TREE: &[&str] = &["arrow-device", "arrow-device-abi", "futures-core", "libc"];

/// The library asks for three crates by default, and for no others.
fn dependency_tree() -> Result<(), String> {
    let words = [
        "cargo",
        "tree",
        "--package=arrow-device",
        "--edges=normal,build",
        "--target=all",
        "--prefix=none",
        "--locked",
    ];
    let tree = shell::output_of(&words).ok_or_else(|| format!("`{}` failed", words.join(" ")))?;
    shell::none_of(&other_crates(&tree, LIBRARY_TREE))
}

/// What a tree of `cargo tree` has besides these crates, and which of them are missing. Each line
/// of the tree begins with the name of a crate and the crate's version.
fn other_crates(tree: &str, expected: &[&str]) -> Vec<String> {
    let lines: std::collections::BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or_default()))
        .collect();
    let others = lines.iter().filter(|(name, _)| !expected.contains(name));
    let others = others.map(|(name, version)| {
        format!("arrow-device is built with {name} {version}, which is not among its dependencies")
    });
    let count = |wanted: &str| lines.iter().filter(|(name, _)| *name == wanted).count();
    let not_once = expected.iter().filter(|name| count(name) != 1);
    let not_once = not_once.map(|name| format!("{name} is there {} times, not once", count(name)));
    others.chain(not_once).collect()
}

fn housekeeping() -> Result<(), String> {
    in_every_source(untidy)
}

/// Fails with what a check finds in the project's sources, given the path and the text of each.
fn in_every_source(check: impl Fn(&str, &str) -> Vec<String>) -> Result<(), String> {
    let mut problems = Vec::new();
    for file in shell::project_files(SOURCES)? {
        problems.extend(check(&file.to_string_lossy(), &shell::read(&file)?));
    }
    shell::none_of(&problems)
}

/// What is untidy in one source file.
fn untidy(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES {
        problems.push(format!("{file}: {lines} lines, {MOST_LINES} at most: split it"));
    }
    for (index, line) in text.lines().enumerate() {
        for (first, second) in UNFINISHED {
            let word = format!("{first}{second}");
            if line.contains(&word) {
                problems.push(format!("{file}:{}: `{word}` in a finished source", index + 1));
            }
        }
    }
    problems
}

/// Lines with comments are not wider than a reader's window.
fn comments() -> Result<(), String> {
    in_every_source(comments::too_wide)
}

/// A proof above unsafe code stands alone.
fn proofs() -> Result<(), String> {
    in_every_source(proofs::dependent)
}

/// A type name has one definition in a package.
fn names() -> Result<(), String> {
    let mut names = names::Names::default();
    for file in shell::project_files(&["rs"])? {
        names.read(&file.to_string_lossy(), &shell::read(&file)?);
    }
    shell::none_of(&names.problems())
}

/// The folders of the library depend on each other in one direction.
fn rooms() -> Result<(), String> {
    let mut files = std::collections::BTreeMap::new();
    for file in shell::project_files(&["rs"])? {
        if let Some(inside) = file.to_string_lossy().strip_prefix(rooms::FOLDER) {
            files.insert(inside.to_owned(), shell::read(&file)?);
        }
    }
    shell::none_of(&rooms::problems(&files))
}

/// Every file that inlines by force is in the table of what that saves.
fn inlining() -> Result<(), String> {
    let mut inlining = inlining::Inlining::default();
    for file in shell::project_files(&["rs"])? {
        inlining.read(&file.to_string_lossy(), &shell::read(&file)?);
    }
    shell::none_of(&inlining.problems(&shell::read(inlining::PAGE)?))
}

/// Where decisions are, and the page with a row for each.
const DECISIONS: &str = "docs/decisions";
const LIST_OF_DECISIONS: &str = "README.md";

/// The list of decisions has a row for each page, in order, and no other.
fn decisions() -> Result<(), String> {
    let files = shell::project_files(&["md"])?;
    let pages = files.iter().filter_map(|file| file.strip_prefix(DECISIONS).ok());
    let pages: Vec<_> = pages.map(|page| page.to_string_lossy().into_owned()).collect();
    let list = shell::read(std::path::Path::new(DECISIONS).join(LIST_OF_DECISIONS))?;
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    shell::none_of(&unlisted(&list, &pages))
}

/// What the list of decisions lacks and has too much, given the names of the pages in order.
fn unlisted(list: &str, pages: &[&str]) -> Vec<String> {
    let row = |line: &str| {
        let (number, rest) = line.strip_prefix("| [")?.split_once("](")?;
        Some((number.to_owned(), rest.split_once(')')?.0.to_owned()))
    };
    let rows: Vec<_> = list.lines().filter_map(row).collect();
    let mut problems = Vec::new();
    for page in pages.iter().filter(|page| **page != LIST_OF_DECISIONS) {
        let number = page.split('-').next().unwrap_or_default();
        let rows = rows.iter().filter(|(said, file)| said == number && file == page).count();
        if rows != 1 {
            problems.push(format!("{DECISIONS}/{page}: has {rows} rows in the list, not one"));
        }
    }
    for (_, file) in rows.iter().filter(|(_, file)| !pages.contains(&file.as_str())) {
        problems.push(format!("{DECISIONS}/{LIST_OF_DECISIONS}: lists {file}, which is not there"));
    }
    if !rows.is_sorted() {
        problems.push(format!("{DECISIONS}/{LIST_OF_DECISIONS}: its rows are not in order"));
    }
    problems
}

/// The workspace manifest says which Rust is the oldest; every other place that says it must agree.
fn oldest_rust() -> Result<(), String> {
    let mut problems = Vec::new();
    for file in shell::project_files(&["toml", "md"])? {
        let (name, text) = (file.to_string_lossy(), shell::read(&file)?);
        // What has a workspace of its own is built by a toolchain of its own.
        let is_member =
            file.ends_with("Cargo.toml") && !text.lines().any(|line| line == "[workspace]");
        if is_member && !text.lines().any(|line| line.trim() == "rust-version.workspace = true") {
            problems.push(format!("{name}: lacks `rust-version.workspace = true`"));
        }
        problems.extend(other_promises(&name, &text, setup::OLDEST_RUST));
    }
    shell::none_of(&problems)
}

/// The lines that promise an oldest Rust other than this one.
fn other_promises(file: &str, text: &str, oldest: &str) -> Vec<String> {
    let promise = |line: &str| {
        let line = line.trim();
        let after = |start: &str| line.split_once(start).map(|(_, rest)| rest.to_owned());
        let in_manifest = ["rust-version = \"", "msrv = \""]
            .into_iter()
            .find(|key| line.starts_with(key))
            .and_then(after);
        let in_prose = after("Rust 1.").filter(|rest| rest.contains("or newer"));
        in_manifest.or(in_prose.map(|rest| format!("1.{rest}"))).map(|rest| {
            rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>()
        })
    };
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(version) = promise(line).filter(|version| version != oldest) {
            let place = format!("{file}:{}", index + 1);
            problems.push(format!("{place}: promises Rust {version}, the workspace {oldest}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_longest_length_is_tidy_and_a_longer_one_is_not() {
        assert!(untidy("a.rs", &"line\n".repeat(MOST_LINES)).is_empty());
        let problems = untidy("a.rs", &"line\n".repeat(MOST_LINES + 1));
        assert_eq!(problems, ["a.rs: 701 lines, 700 at most: split it"]);
    }

    #[test]
    fn every_word_of_unfinished_work_is_found_with_its_line() {
        for (first, second) in UNFINISHED {
            let text = format!("fn a() {{\n    {first}{second}\n}}\n");
            let problems = untidy("a.rs", &text);
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert!(problem.starts_with("a.rs:2: "), "{problem}");
        }
    }

    #[test]
    fn the_tree_of_the_library_has_each_of_its_crates_once_and_no_other() {
        let right = "arrow-device v0.1.0 (/folder)\narrow-device-abi v0.1.0 (/folder)\n\
                     futures-core v0.3.34\nlibc v0.2.191\n";
        assert!(other_crates(right, LIBRARY_TREE).is_empty());
        // A crate that is named again, under another crate.
        assert!(other_crates(&format!("{right}libc v0.2.191 (*)\n"), LIBRARY_TREE).is_empty());
        for (added, problem) in [
            (
                "syn v2.0.1\n",
                "arrow-device is built with syn v2.0.1, which is not among its dependencies",
            ),
            ("libc v1.0.0\n", "libc is there 2 times, not once"),
        ] {
            assert_eq!(other_crates(&format!("{right}{added}"), LIBRARY_TREE), [problem]);
        }
        let fewer = right.replace("futures-core v0.3.34\n", "");
        assert_eq!(other_crates(&fewer, LIBRARY_TREE), ["futures-core is there 0 times, not once"]);
    }

    #[test]
    fn the_list_of_decisions_has_one_row_for_each_page() {
        let pages = ["0001-a.md", "0002-b.md", "README.md"];
        let (first, second) =
            ("| [0001](0001-a.md) | day | A |\n", "| [0002](0002-b.md) | day | B |\n");
        assert!(unlisted(&[first, second].concat(), &pages).is_empty());
        for wrong in [
            &[first][..],
            &[first, second, second],
            &[second, first],
            &[first, second, "| [0003](0003-c.md) | day | C |\n"],
            &[first, "| [0003](0002-b.md) | day | B |\n"],
        ] {
            assert_eq!(unlisted(&wrong.concat(), &pages).len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn a_different_oldest_rust_is_found_wherever_it_is_promised() {
        for line in [
            "rust-version = \"1.87\"",
            "msrv = \"1.90.0\"",
            "You need Rust 1.85 or newer.",
            "- Rust 1.188 or newer",
        ] {
            assert_eq!(other_promises("a.md", line, "1.88").len(), 1, "{line}");
        }
    }

    #[test]
    fn the_same_oldest_rust_and_other_versions_are_no_problem() {
        for line in [
            "rust-version = \"1.88\"",
            "rust-version.workspace = true",
            "msrv = \"1.88\"",
            "You need Rust 1.88 or newer.",
            "Rust 1.95 prints it differently.",
            "version = \"1.2\"",
        ] {
            assert!(other_promises("a.md", line, "1.88").is_empty(), "{line}");
        }
    }
}
