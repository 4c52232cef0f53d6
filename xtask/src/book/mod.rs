//! `cargo xtask book`: builds the book, with the reference pages and the references of the
//! interfaces in Rust, C and Python, into `target/book`. `cargo xtask lint book` checks the sources
//! of the book without building it.
//!
//! The chapters are `book/src`. They link to reference pages of the repository, which are not below
//! that folder. So the book is built from a copy, `target/book-source`, which has the pages of
//! [`reference_pages`] as well. In the copy, each link leads to a page of the book; a link to any
//! other file of the repository becomes the text of the link, because a reader of the site does not
//! have the file. `header` and `reference.py` write the pages about the interfaces of C and Python,
//! and rustdoc writes those of Rust. `live` adds the demonstration of the package for JavaScript.

mod header;
mod live;
mod markdown;
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{lint, python, setup, shell};

pub(crate) use sources::check;

/// Where the chapters are.
const CHAPTERS: &str = "book/src";
/// The list of chapters, which mdBook reads.
const LIST: &str = "SUMMARY.md";
/// What mdBook reads, made anew for each run.
const STAGED: &str = "target/book-source";
/// The site.
const SITE: &str = "target/book";
/// The folder of the site with what rustdoc wrote.
const RUST: &str = "rust";
/// The folder of the reference pages in the book.
const REFERENCE: &str = "reference";
/// Reference pages outside of `docs`: the path, the name in the book, the title in its list.
const OTHER_PAGES: [(&str, &str, &str); 3] = [
    ("python/README.md", "python-package.md", "The Python package"),
    ("js/README.md", "javascript-package.md", "The package for JavaScript"),
    ("benchmarks/results/results.md", "results.md", "Results of the benchmarks"),
];
/// The part of the list that the reference pages stand before.
const LAST: &str = "[Glossary]";

/// How much of the site is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    All,
    /// All but what rustdoc writes, which takes longest.
    Pages,
}

/// Builds the site.
pub(crate) fn build(extent: Extent) -> Result<(), String> {
    check()?;
    let mdbook = setup::MDBOOK;
    if !mdbook.is_present() {
        return Err(format!("{} is not there: {}", mdbook.name, mdbook.advice()));
    }
    if extent == Extent::All {
        lint::documentation_of_all()?;
    }
    stage()?;
    let site = shell::root().join(SITE);
    remove(&site)?;
    let (staged, destination) = (STAGED.to_owned(), site.display().to_string());
    let said =
        shell::run_showing_failures(&["mdbook", "build", &staged, "--dest-dir", &destination])?;
    let warnings: Vec<String> = said
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .map(str::to_owned)
        .collect();
    shell::none_of(&warnings)?;
    if live::is_there() {
        live::add_to(&site)?;
    }
    shell::none_of(&foreign_loads(&site)?)?;
    if extent == Extent::All {
        copy(&rustdoc(), &site.join(RUST))?;
    }
    println!("the book is {}", site.join("index.html").display());
    Ok(())
}

/// Where rustdoc writes.
fn rustdoc() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| shell::root().join("target")).join("doc")
}

/// The pages of the repository that are also pages of the book: their names there, by their paths.
fn reference_pages() -> Result<BTreeMap<String, String>, String> {
    let mut pages = BTreeMap::new();
    for file in shell::project_files(&["md"])? {
        let path = file.to_string_lossy().into_owned();
        let name = path.strip_prefix("docs/").filter(|name| !name.contains('/'));
        if let Some(name) = name {
            pages.insert(path.clone(), format!("{REFERENCE}/{name}"));
        }
    }
    for (path, name, _) in OTHER_PAGES {
        pages.insert(path.to_owned(), format!("{REFERENCE}/{name}"));
    }
    Ok(pages)
}

/// Makes the copy of the sources.
fn stage() -> Result<(), String> {
    let staged = shell::root().join(STAGED);
    remove(&staged)?;
    copy(&shell::root().join("book"), &staged)?;
    let reference = reference_pages()?;
    let mut pages = reference.clone();
    for file in shell::project_files(&["md"])? {
        let path = file.to_string_lossy().into_owned();
        if let Some(name) = path.strip_prefix("book/src/") {
            pages.insert(path.clone(), name.to_owned());
        }
    }
    // Pictures of the reference pages.
    for file in shell::project_files(&["svg"])? {
        if let Ok(name) = file.strip_prefix("benchmarks/results") {
            let path = file.to_string_lossy().into_owned();
            pages.insert(path.clone(), format!("{REFERENCE}/{}", name.display()));
            let text = shell::read(&file)?;
            write(&staged.join("src").join(REFERENCE).join(name), &text)?;
        }
    }
    for (path, name) in pages.iter().filter(|(path, _)| path.ends_with(".md")) {
        // The copy is one folder deeper than the original.
        let text = shell::read(path)?.replace("{{#include ../../", "{{#include ../../../");
        write(&staged.join("src").join(name), &markdown::relinked(&text, path, name, &pages))?;
    }
    let mut list = String::from("# Reference pages\n\n");
    for (path, name) in &reference {
        let text = shell::read(path)?;
        let own = OTHER_PAGES.iter().find(|(other, ..)| other == path).map(|(_, _, title)| *title);
        let title = own.or_else(|| markdown::title(&text));
        let title = title.ok_or_else(|| format!("{path} has no title"))?;
        list += &format!("- [{title}]({name})\n");
    }
    list += "\n# Interfaces\n\n";
    for (title, name, text) in interfaces()? {
        let name = format!("{REFERENCE}/{name}");
        list += &format!("- [{title}]({name})\n");
        write(&staged.join("src").join(&name), &text)?;
    }
    let chapters = shell::read(Path::new(CHAPTERS).join(LIST))?;
    let (before, after) =
        chapters.split_once(LAST).ok_or("the list of chapters has no glossary")?;
    write(&staged.join("src").join(LIST), &format!("{before}{list}\n{LAST}{after}"))
}

/// The pages about interfaces: the title, the name and the text of each.
fn interfaces() -> Result<Vec<(&'static str, &'static str, String)>, String> {
    let mut pages = vec![
        ("Rust: the crates", "rust-interface.md", rust()?),
        ("C: the headers", "c-interface.md", header::c()?),
        ("C++: the headers", "cpp-interface.md", header::cpp()?),
    ];
    match python::reference("xtask/src/book/reference.py") {
        Some(text) => pages.push(("Python: the package", "python-interface.md", text)),
        None => println!(
            "left out: the interface in Python, because the package is not installed in target/python; \
             `cargo xtask python` installs it"
        ),
    }
    if live::is_there() {
        pages.push(live::page());
    } else {
        println!(
            "left out: the page on which the library runs, because its module is not built; \
             `npm ci && npm run build` in js builds it"
        );
    }
    Ok(pages)
}

/// The page that leads to what rustdoc wrote.
fn rust() -> Result<String, String> {
    let mut text = String::from(
        "# Rust: the crates\n\nThe pages that rustdoc writes, one for each crate. Each has a search of its own.\n\n\
         | crate | what it is |\n|---|---|\n",
    );
    for name in crate::dist::readme::crates()? {
        let manifest = shell::read(format!("crates/{name}/Cargo.toml"))?;
        let description = crate::dist::readme::member(&manifest, "description").unwrap_or_default();
        let library = name.replace('-', "_");
        if rustdoc().join(&library).join("index.html").is_file() {
            text += &format!("| [`{name}`](../{RUST}/{library}/index.html) | {description} |\n");
        }
    }
    Ok(text)
}

/// What the pages of the site would load from elsewhere. A link that a reader follows loads
/// nothing.
fn foreign_loads(site: &Path) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for file in files_below(site)? {
        let ending = file.extension().and_then(|ending| ending.to_str());
        if !matches!(ending, Some("html" | "css")) {
            continue;
        }
        let text = fs::read(&file).map_err(|error| shell::said(&file, &error))?;
        let loads = sources::foreign(&String::from_utf8_lossy(&text));
        problems.extend(loads.iter().map(|load| format!("{}: loads {load}", file.display())));
    }
    Ok(problems)
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| shell::said(folder, &error))? {
        let path = entry.map_err(|error| shell::said(folder, &error))?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    for file in files_below(from)? {
        let inside = file.strip_prefix(from).unwrap_or(&file);
        let target = to.join(inside);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(|error| shell::said(folder, &error))?;
        }
        fs::copy(&file, &target).map_err(|error| shell::said(&target, &error))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| shell::said(folder, &error))?;
    }
    fs::write(path, text).map_err(|error| shell::said(path, &error))
}

/// Removes a folder of an earlier run.
fn remove(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| shell::said(folder, &error))?;
    }
    Ok(())
}
