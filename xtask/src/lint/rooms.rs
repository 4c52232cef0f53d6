//! The folders of the library depend on each other in one direction.
//!
//! [`ROOMS`] has the folders of `crates/arrow-device/src` from the bottom up. A file may name what
//! its own folder and the folders above it in that list define, by a path that begins with
//! `crate::`, and nothing else. Tests at the end of a file may name everything.

use std::collections::BTreeMap;

use super::source::{self, Language};

/// Where the library's source is.
pub(super) const FOLDER: &str = "crates/arrow-device/src/";

/// The rooms of the library: what stands at the root of its source, from the bottom up.
const ROOMS: &[&str] = &[
    "errno",
    "clock",
    "sync",
    "once",
    "numbered",
    "bits",
    "utf8",
    "node_path",
    "device_id",
    "error",
    "unwind",
    "trace",
    "process",
    "convention",
    "pool",
    "device",
    "ffi",
    "schema",
    "array",
    "copy",
    "stream",
    "async_stream",
    "dlpack",
    "values",
    "validate",
    "types",
    "serialized",
    "prelude",
];

/// Files that need a room above theirs: text becomes ids, and errors name ids; an error owns one of
/// another library, whose drop is bounded and guarded as the drop of an owner of memory is.
const ALLOWED: &[(&str, &str)] =
    &[("device_id/parse.rs", "error"), ("error.rs", "device"), ("error.rs", "ffi")];

/// What a file of the library does that its room may not do. `files` are all of them, by their path
/// in [`FOLDER`].
pub(super) fn problems(files: &BTreeMap<String, String>) -> Vec<String> {
    let root = files.get("lib.rs").map(|text| names_of_root(text)).unwrap_or_default();
    let mut problems = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| *file != "lib.rs") {
        let room = room_of(file);
        let Some(floor) = floor_of(room) else {
            problems.push(format!("{FOLDER}{file}: `{room}` has no place among the rooms"));
            continue;
        };
        for (line, name) in names_of(&code_of(text)) {
            let other = root.get(&name).map_or(name.as_str(), String::as_str);
            let is_allowed = ALLOWED.contains(&(file, other));
            if floor_of(other).is_some_and(|other| other > floor) && !is_allowed {
                let place = format!("{FOLDER}{file}:{line}");
                problems.push(format!("{place}: `{room}` needs `{other}`, which is above it"));
            }
        }
    }
    problems
}

/// The folder, or the file at the root, that a file belongs to.
fn room_of(file: &str) -> &str {
    let room = file.split_once('/').map_or(file, |(room, _)| room);
    room.strip_suffix(".rs").unwrap_or(room)
}

fn floor_of(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

/// The code of a file, its tests and all strings and comments left out.
fn code_of(text: &str) -> String {
    let lines = source::lines(text, Language::Rust);
    let code = lines.into_iter().map(|line| line.code);
    let before_tests = code.take_while(|line| !line.starts_with("mod tests {"));
    before_tests.collect::<Vec<_>>().join("\n")
}

/// The first names of all paths that begin with `crate::`, each with its line.
fn names_of(code: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (start, path) in code.match_indices("crate::") {
        let line = code.get(..start).unwrap_or_default().matches('\n').count() + 1;
        let rest = code.get(start + path.len()..).unwrap_or_default();
        names.extend(first_names(rest).into_iter().map(|name| (line, name)));
    }
    names
}

/// The name at the beginning of a path, or the first names of all paths in braces.
fn first_names(path: &str) -> Vec<String> {
    let Some(inside) = path.strip_prefix('{') else { return vec![word(path)] };
    let mut names = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for (index, character) in inside.char_indices() {
        match character {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && !character.is_whitespace() => {
                names.push(word(inside.get(index..).unwrap_or_default()));
                begins = false;
            }
            _ => {}
        }
    }
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The rooms of the names that the root re-exports.
fn names_of_root(text: &str) -> BTreeMap<String, String> {
    let code = code_of(text);
    let mut names = BTreeMap::new();
    for part in code.split("pub use ").skip(1) {
        let statement = part.split(';').next().unwrap_or_default();
        let Some((room, rest)) = statement.split_once("::") else { continue };
        names.extend(first_names(rest).into_iter().map(|name| (name, room.to_owned())));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "pub use array::{Array, Batch};\npub use stream::ArrayStream;\n";

    fn problems_of(file: &str, text: &str) -> Vec<String> {
        let files = [("lib.rs", ROOT), (file, text)];
        problems(&files.map(|(file, text)| (file.to_owned(), text.to_owned())).into())
    }

    #[test]
    fn a_room_may_use_itself_and_what_is_below_it() {
        for text in [
            "use crate::pool::block;\n",
            "use crate::array::{Tree, check};\n",
            "use crate::{Array, Batch};\n",
            "// crate::stream is where arrays go\nlet text = \"crate::stream\";\n",
            "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::stream::Manner;\n}\n",
        ] {
            assert!(problems_of("array/tree.rs", text).is_empty(), "{text}");
        }
        assert!(problems_of("device_id/parse.rs", "use crate::error::Error;\n").is_empty());
    }

    #[test]
    fn a_room_that_needs_one_above_it_is_found_with_the_line() {
        for text in [
            "\nuse crate::stream::c_stream::Manner;\n",
            "\nuse crate::{Array, ArrayStream};\n",
            "\nuse crate::{\n    Array, ArrayStream,\n};\n",
            "\nfn a(stream: crate::ArrayStream) {}\n",
        ] {
            let problems = problems_of("array/tree.rs", text);
            let [problem] = problems.as_slice() else { panic!("{text}: {problems:?}") };
            assert!(problem.contains("array/tree.rs:2: `array` needs `stream`"), "{problem}");
        }
    }

    #[test]
    fn a_room_that_nobody_has_placed_is_found() {
        assert_eq!(problems_of("cellar/barrel.rs", "").len(), 1);
    }
}
