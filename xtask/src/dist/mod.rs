//! `cargo xtask dist`: everything that is released, made into `target/dist` with checksums, and
//! then proved from nothing but that folder.
//!
//! What is made comes from a copy of the files that git has, so that nothing else that lies in a
//! checkout gets into a package. The copy names the addresses of `addresses.toml`, which are empty
//! as long as nothing is published; what publishing still needs is said at the end.

mod addresses;
mod c;
mod checker;
mod compared;
mod contents;
mod licences;
mod manifests;
mod npm;
mod order;
mod paths;
mod python;
pub(crate) mod readme;
mod rust;
mod versions;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::shell;

/// Where everything is put, relative to the root.
const FOLDER: &str = "target/dist";
/// Where things are built and tried, which is no part of the release.
const WORK: &str = "target/dist-work";
/// The checksums of all files.
const SUMS: &str = "SHA256SUMS";

/// What pages say as long as nothing is published.
const UNPUBLISHED: &str = "Nothing is published yet";

/// Which packages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Packages {
    /// All of them.
    All,
    /// The crates.
    Rust,
    /// The library for C, as an archive and as Debian packages.
    C,
    /// The wheels and the sources of the Python package, and the wheels of the checker.
    Python,
    /// The wheels of the checker alone.
    Checker,
    /// The package for JavaScript.
    Npm,
}

/// Makes and proves packages.
pub(crate) fn dist(packages: Packages) -> Result<(), String> {
    let (folder, work) = (shell::root().join(FOLDER), shell::root().join(WORK));
    if folder.to_string_lossy().contains(char::is_whitespace) {
        return Err(format!(
            "{} has a space, where compilers take a path to end",
            folder.display()
        ));
    }
    versions::check()?;
    empty(&folder)?;
    let source = work.join("source");
    copy_of_sources(&source)?;
    let addresses = addresses::Addresses::read()?;
    addresses.write_into(&source)?;
    if matches!(packages, Packages::All | Packages::Rust) {
        order::check()?;
        rust::make(&source, &work, &folder)?;
        rust::prove(&work, &folder)?;
        manifests::prove(&work)?;
        compared::prove(&source, &work)?;
    }
    if matches!(packages, Packages::All | Packages::C) {
        c::make(&source, &work, &folder, addresses.of_project())?;
        c::prove(&work, &folder)?;
        c::prove_recipe(&source, &work)?;
    }
    if matches!(packages, Packages::All | Packages::Python) {
        python::make(&source, &work, &folder)?;
        python::prove(&work, &folder)?;
    }
    if matches!(packages, Packages::All | Packages::Python | Packages::Checker) {
        checker::make(&source, &work, &folder, &addresses)?;
        checker::prove(&work, &folder)?;
    }
    if matches!(packages, Packages::All | Packages::Npm) {
        npm::make(&source, &work, &folder)?;
        npm::prove(&source, &work, &folder)?;
    }
    paths::check(&work, &folder)?;
    write_sums(&folder)?;
    println!("\n{FOLDER} has {}", count(&folder)?);
    for missing in addresses.missing() {
        println!("publishing still needs: {missing}, in addresses.toml");
    }
    for page in pages_of_the_unpublished()? {
        println!("publishing still needs: another page than {page}, which says `{UNPUBLISHED}`");
    }
    Ok(())
}

/// The pages in packages that say that there is no package. Those of the crates are made of their
/// documentation.
fn pages_of_the_unpublished() -> Result<Vec<String>, String> {
    let crates = readme::crates()?.into_iter();
    let mut pages: Vec<String> =
        crates.map(|name| format!("{}/{name}/README.md", readme::CRATES)).collect();
    pages.extend(
        ["js/README.md", "packaging/checker/README.md", "python/README.md"].map(String::from),
    );
    let mut said = Vec::new();
    for page in pages {
        if shell::read(&page)?.contains(UNPUBLISHED) {
            said.push(page);
        }
    }
    Ok(said)
}

/// Compares the public interface of the crates with that of the last release.
pub(crate) fn compare() -> Result<(), String> {
    compared::prove(&shell::root(), &shell::root().join(WORK))
}

/// Checks the crates with any of their features, and with the oldest versions of other crates.
pub(crate) fn manifests() -> Result<(), String> {
    manifests::prove(&shell::root().join(WORK))
}

/// Makes a folder anew.
fn empty(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| shell::said(folder, &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| shell::said(folder, &error))
}

/// Where cargo keeps the sources of other crates.
fn cargo_home() -> PathBuf {
    let of_user = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(of_user).unwrap_or_default()
}

/// The files that git has, as they are in the working tree, with what symbolic links lead to in
/// their place. A copy that is there already and has the same bytes stays as it is, so that cargo
/// builds anew only what has changed since the last run; all else that is there goes.
fn copy_of_sources(to: &Path) -> Result<(), String> {
    let files = shell::project_files(&["*"])?;
    fs::create_dir_all(to).map_err(|error| shell::said(to, &error))?;
    keep_only(to, &files.iter().map(|file| to.join(file)).collect())?;
    for file in &files {
        let target = to.join(file);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| shell::said(parent, &error))?;
        }
        copy(&shell::root().join(file), &target).map_err(|error| shell::said(file, &error))?;
    }
    gather_headers(to)
}

/// Removes what is in a folder, or below it, and not among these files.
fn keep_only(folder: &Path, files: &BTreeSet<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| shell::said(folder, &error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_folder = path.is_dir() && !path.is_symlink();
        let has_files =
            || files.range(path.clone()..).next().is_some_and(|of| of.starts_with(&path));
        let result = match is_folder {
            true if has_files() => keep_only(&path, files),
            true => fs::remove_dir_all(&path).map_err(|error| shell::said(&path, &error)),
            false if files.contains(&path) => Ok(()),
            false => fs::remove_file(&path).map_err(|error| shell::said(&path, &error)),
        };
        result?;
    }
    Ok(())
}

/// Writes a file anew, as this function makes it of what the file has.
fn change(path: &Path, to: impl Fn(&str) -> String) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| shell::said(path, &error))?;
    fs::write(path, to(&text)).map_err(|error| shell::said(path, &error))
}

/// Copies a file, unless there is a copy.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let is_there = fs::read(to).is_ok_and(|copy| fs::read(from).is_ok_and(|file| file == copy));
    if is_there { Ok(()) } else { fs::copy(from, to).map(|_| ()) }
}

/// Puts the headers of other crates beside those of the library for C, whose package installs all
/// of them.
fn gather_headers(source: &Path) -> Result<(), String> {
    let headers = |name: &str| source.join(readme::CRATES).join(name).join("include/arrow_device");
    let others =
        ["abi", "check", "oneapi", "sim", "vpi-module"].map(|of| format!("arrow-device-{of}"));
    for name in &others {
        for header in files(&headers(name))? {
            let to = headers("arrow-device-capi").join(header.file_name().unwrap_or_default());
            copy(&header, &to).map_err(|error| shell::said(&to, &error))?;
        }
    }
    Ok(())
}

/// Writes the checksum of each file, as `sha256sum --check` reads them.
fn write_sums(folder: &Path) -> Result<(), String> {
    let mut words = vec!["sha256sum".to_owned()];
    words.extend(files(folder)?.iter().map(|file| file.display().to_string()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let sums = shell::output_of(&words).ok_or("`sha256sum` failed")?;
    let prefix = format!("{}/", folder.display());
    let path = folder.join(SUMS);
    fs::write(&path, sums.replace(&prefix, "")).map_err(|error| shell::said(&path, &error))
}

/// The files of a folder, sorted, without those in folders below.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| shell::said(folder, &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Those whose name ends in this, after a dot.
fn files_ending(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = files(folder)?;
    files.retain(|file| file.extension().is_some_and(|of| of == ending));
    Ok(files)
}

fn count(folder: &Path) -> Result<String, String> {
    let files = files(folder)?;
    let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|of| of.len()).sum();
    Ok(format!("{} files, {} KiB", files.len(), bytes >> 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_written_where_the_file_has_changed_and_what_is_no_copy_goes() {
        let place = std::env::temp_dir().join(format!("copies-{}", std::process::id()));
        let (from, to) = (place.join("from"), place.join("to"));
        for folder in [from.clone(), to.join("a"), to.join("a-b"), to.join("gone/deep")] {
            fs::create_dir_all(folder).unwrap();
        }
        let long_ago = std::time::UNIX_EPOCH;
        for (name, file, copied) in [("a/same", "1", "1"), ("a/other", "2", "3")] {
            let (file_of, copy_of) = (from.join(name.replace('/', "-")), to.join(name));
            fs::write(&file_of, file).unwrap();
            fs::write(&copy_of, copied).unwrap();
            fs::File::options()
                .append(true)
                .open(&copy_of)
                .unwrap()
                .set_modified(long_ago)
                .unwrap();
            copy(&file_of, &copy_of).unwrap();
        }
        let changed = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let is_written = [changed("a/same") > long_ago, changed("a/other") > long_ago];
        let text = fs::read_to_string(to.join("a/other")).unwrap();
        for name in ["a/more", "a-b/file", "gone/deep/file"] {
            fs::write(to.join(name), "").unwrap();
        }
        keep_only(&to, &["a/same", "a/other", "b"].iter().map(|name| to.join(name)).collect())
            .unwrap();
        let left =
            ["a/same", "a/other", "a/more", "a-b", "gone"].map(|name| to.join(name).exists());
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(is_written, [false, true]);
        assert_eq!(text, "2");
        assert_eq!(left, [true, true, false, false, false]);
    }

    #[test]
    fn the_pages_in_packages_that_say_that_nothing_is_published_are_two_or_none() {
        let pages = pages_of_the_unpublished().unwrap();
        let both = ["js/README.md", "python/README.md"];
        assert!(pages.is_empty() || pages == both, "{pages:?}");
    }
}
