//! The paths of this machine, which no file of a release names: whoever builds the same sources
//! elsewhere can get the same bytes, and nobody learns where the release was made.
//!
//! Each file is unpacked as the people who get it unpack it, and all bytes are looked through.

use std::fs;
use std::path::Path;

use crate::shell;

/// Fails where a file of a release has the name of the project's folder or of that of cargo.
pub(super) fn check(work: &Path, folder: &Path) -> Result<(), String> {
    let [project, cargo] = [shell::root(), super::cargo_home()].map(|of| of.display().to_string());
    shell::none_of(&problems(&work.join("looked-through"), folder, &[&project, &cargo])?)
}

/// A line for each file, packed or not, that has one of these words.
fn problems(unpacked: &Path, folder: &Path, words: &[&str]) -> Result<Vec<String>, String> {
    super::empty(unpacked)?;
    for file in super::files(folder)? {
        let to = unpacked.join(file.file_name().unwrap_or_default());
        fs::create_dir_all(&to).map_err(|error| shell::said(&to, &error))?;
        let (from, into) = (file.display().to_string(), to.display().to_string());
        let ending = file.extension().unwrap_or_default().to_string_lossy().into_owned();
        let unpack: &[&str] = match ending.as_str() {
            "crate" | "gz" | "tgz" => {
                &["tar", "--extract", "--gzip", "--file", &from, "--directory", &into]
            }
            "whl" => &["python3", "-m", "zipfile", "--extract", &from, &into],
            "deb" => &["dpkg-deb", "--extract", &from, &into],
            _ => &["cp", &from, &into],
        };
        shell::output_of(unpack).ok_or_else(|| format!("{from} cannot be unpacked"))?;
    }
    let place = unpacked.display().to_string();
    // `grep` ends with 1 where there is nothing, and with 2 where something cannot be read.
    let script =
        "grep --recursive --text --fixed-strings --files-with-matches \"$@\" || test $? -eq 1";
    let mut search = vec!["sh", "-c", script, "grep"];
    search.extend(words.iter().flat_map(|word| ["-e", word]));
    search.push(&place);
    let found = shell::output_of(&search).ok_or_else(|| format!("{place} cannot be read"))?;
    let name = |line: &str| line.strip_prefix(&format!("{place}/")).unwrap_or(line).to_owned();
    let mut names: Vec<String> = found.lines().map(name).collect();
    names.sort();
    Ok(names.iter().map(|name| format!("{name} names a path of this machine")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_packed_file_is_found() {
        let place = std::env::temp_dir().join(format!("paths-{}", std::process::id()));
        let [made, folder, unpacked] = ["made", "dist", "unpacked"].map(|name| place.join(name));
        for folder in [&made, &folder] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(made.join("library"), b"\0\xff/home/a/crate\0").unwrap();
        fs::write(made.join("page"), "words").unwrap();
        let packed = folder.join("a.tar.gz").display().to_string();
        let made = made.display().to_string();
        shell::run(&["tar", "--create", "--gzip", "--file", &packed, "-C", &made, "."], &[])
            .unwrap();
        let find = |words: &[&str]| problems(&unpacked, &folder, words).unwrap();
        assert_eq!(
            find(&["/home/b", "/home/a"]),
            ["a.tar.gz/library names a path of this machine"]
        );
        assert!(find(&["/home/b"]).is_empty());
        fs::remove_dir_all(&place).unwrap();
    }
}
