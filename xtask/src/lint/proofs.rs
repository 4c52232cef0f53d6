//! A proof above unsafe code stands alone.
//!
//! Whoever changes the code between two comments does not see that the second one refers to the
//! first. So no proof begins with a reference to another place, and none says only that the caller
//! promises something: it says what, or names an obligation of `docs/safety.md`.

/// How a comment begins that refers to another proof.
const REFERENCES: &[&str] = &[
    "as above",
    "as below",
    "as before",
    "as for",
    "as in",
    "as there",
    "again",
    "ditto",
    "here too",
    "likewise",
    "see above",
    "see below",
    "see there",
    "the same",
];

/// What a whole comment says that names nothing.
const EMPTY: &[&str] =
    &["promised by the caller", "as promised by the caller", "the caller promises", "safe", "fine"];

/// The proofs of a Rust file that cannot be understood alone.
pub(super) fn dependent(file: &str, text: &str) -> Vec<String> {
    if !file.ends_with(".rs") {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut problems = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(first) = comment(line).and_then(|text| text.strip_prefix("SAFETY:")) else {
            continue;
        };
        let more = lines.iter().skip(index + 1).map_while(|line| comment(line));
        let more = more.take_while(|text| !text.starts_with("SAFETY:"));
        let proof: Vec<&str> = std::iter::once(first.trim()).chain(more).collect();
        let proof = proof.join(" ").trim().to_lowercase();
        let place = format!("{file}:{}", index + 1);
        if let Some(start) = REFERENCES.iter().find(|start| begins_with(&proof, start)) {
            problems
                .push(format!("{place}: a proof that begins with `{start}` does not stand alone"));
        } else if EMPTY.contains(&proof.trim_end_matches('.')) {
            problems
                .push(format!("{place}: `{proof}` is no proof: say what, or name an obligation"));
        }
    }
    problems
}

/// Whether a text begins with these words, and not only with their letters.
fn begins_with(text: &str, words: &str) -> bool {
    let rest = text.strip_prefix(words);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}

/// The text of a line that is a comment and nothing else, documentation left aside.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim().strip_prefix("//")?;
    (!text.starts_with(['/', '!'])).then(|| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<String> {
        dependent("a.rs", &lines.join("\n"))
    }

    #[test]
    fn a_proof_that_refers_to_another_one_is_found() {
        for start in REFERENCES {
            for proof in [format!("// SAFETY: {start}"), format!("    // SAFETY: {start} it is.")] {
                let problems = found(&["fn a() {", &proof, "unsafe { b() }"]);
                let [problem] = problems.as_slice() else { panic!("{proof}: {problems:?}") };
                assert!(problem.starts_with("a.rs:2: "), "{problem}");
                assert!(problem.contains(start), "{problem}");
            }
        }
        assert_eq!(found(&["// SAFETY: As above; and more."]).len(), 1, "capital letters");
        assert_eq!(found(&["// SAFETY:", "// as above, in the next line."]).len(), 1);
    }

    #[test]
    fn a_proof_that_says_nothing_is_found() {
        for proof in EMPTY {
            assert_eq!(found(&[&format!("// SAFETY: {proof}.")]).len(), 1, "{proof}");
            let more = format!("// SAFETY: {proof}: the table is not empty.");
            assert_eq!(found(&[&more]), [""; 0], "{more}");
        }
        assert_eq!(found(&["// SAFETY: promised by the", "// caller."]).len(), 1);
    }

    #[test]
    fn a_proof_that_stands_alone_may_use_these_words_later() {
        for proof in [
            "// SAFETY: UNS-22, which the caller keeps.",
            "// SAFETY: the slot is open, as above.",
            "// SAFETY: as many bytes were written as are read.",
            "// SAFETY: as inner nodes have children, the table is there.",
            "// SAFETY: promised by the caller: null or a struct.",
        ] {
            assert_eq!(found(&[proof]), [""; 0], "{proof}");
        }
    }

    #[test]
    fn each_proof_is_looked_at_by_itself() {
        let two = ["// SAFETY: the event is alive.", "// SAFETY: as above."];
        assert_eq!(found(&two).len(), 1);
        assert!(found(&two)[0].starts_with("a.rs:2: "));
        let empty_beside_another = ["// SAFETY: promised by the caller.", "// SAFETY: UNS-1."];
        assert_eq!(found(&empty_beside_another).len(), 1);
    }

    #[test]
    fn only_comments_of_rust_files_are_proofs() {
        let line = "// SAFETY: as above.";
        assert_eq!(dependent("a.c", line), [""; 0]);
        for line in [
            "let text = \"// SAFETY: as above.\";",
            "/// SAFETY: as above.",
            "//! SAFETY: as above.",
            "// The words SAFETY: as above.",
            "// as above",
        ] {
            assert_eq!(found(&[line]), [""; 0], "{line}");
        }
    }
}
