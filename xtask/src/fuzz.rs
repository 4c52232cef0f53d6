//! `cargo xtask fuzz`: a short run of each fuzz target, from the corpus that is kept in the
//! repository.
//!
//! What is found on the way goes into a folder below `target`, never into that corpus:
//! `docs/fuzzing.md` says how an input gets there.

use crate::shell;

/// The targets, and how long their inputs may be.
const TARGETS: [(&str, u32); 12] = [
    ("formats", 64),
    ("metadata", 200),
    ("schemas", 300),
    ("arrays", 300),
    ("data", 300),
    ("tensors", 80),
    ("api", 400),
    ("twins", 400),
    ("ipc", 2000),
    ("share", 2000),
    ("dissociated", 1000),
    ("flight", 1000),
];

/// How long each target is run where nothing is said.
pub(crate) const SECONDS: u32 = 15;

/// Runs one target or all of them, and prints the line that counts them as tests.
pub(crate) fn fuzz(only: Option<&str>, seconds: u32) -> Result<(), String> {
    let chosen: Vec<_> =
        TARGETS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        return Err(format!("there is no fuzz target called `{}`", only.unwrap_or_default()));
    }
    let mut problems = Vec::new();
    for (name, longest) in &chosen {
        problems.extend(run(name, *longest, seconds).err());
    }
    let (passed, failed) = (chosen.len() - problems.len(), problems.len());
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    if failed == 0 { Ok(()) } else { Err(problems.join("\n")) }
}

fn run(name: &str, longest: u32, seconds: u32) -> Result<(), String> {
    // libFuzzer writes to the first folder, and reads the others.
    let (found, corpus) = (format!("target/fuzz/{name}"), format!("fuzz/corpus/{name}"));
    std::fs::create_dir_all(shell::root().join(&found))
        .map_err(|error| format!("{found}: {error}"))?;
    let (longest, seconds) = (format!("-max_len={longest}"), format!("-max_total_time={seconds}"));
    let words = ["cargo", "+nightly", "fuzz", "run", name, &found, &corpus, "--"];
    // The same seed takes the same way, as far as the time allows. Long inputs are tried from the
    // start.
    let options = [&*longest, &seconds, "-seed=1", "-len_control=0", "-verbosity=0"];
    let words = [&words[..], &options, &["-print_final_stats=1"]].concat();
    // Besides what it counted it prints a dictionary of hundreds of lines, which nobody needs where
    // nothing is found.
    let said = shell::run_showing_failures(&words)?;
    said.lines().filter(|line| line.starts_with("stat::")).for_each(|line| println!("{line}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_program_and_a_corpus_for_each_target_and_no_other() {
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(shell::root().join(folder)).unwrap();
            let mut names: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().to_string_lossy().replace(".rs", ""))
                .collect();
            names.sort();
            names
        };
        let mut expected = TARGETS.map(|(name, _)| name);
        expected.sort_unstable();
        assert_eq!(names("fuzz/fuzz_targets"), expected);
        assert_eq!(names("fuzz/corpus"), expected);
    }

    #[test]
    fn a_target_that_is_not_there_is_refused() {
        assert!(fuzz(Some("format"), 1).is_err());
    }
}
