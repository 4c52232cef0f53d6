//! [`Notes`]: what a child has seen so far, a line for each note, in a file that outlives a crash
//! of the child; and [`read`], the parent's side.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;
use std::path::Path;

use arrow_device_testkit::Verdict;

use crate::parent::read_written;
use crate::under;

/// A note about one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A rule, and what is done from here on. If the process ends meanwhile, that breaks this rule.
    Now(String, String),
    /// The rule was kept.
    Pass(String),
    /// The rule was broken, and this was seen.
    Fail(String, String),
    /// The rule could not be looked at, for this reason.
    Skip(String, String),
    /// There is nothing to try, for this reason.
    Absent(String),
    /// The peer's own text about an error, such as a traceback.
    Said(String),
    /// The peer takes record batches only.
    Batches,
    /// How many bytes the tool had written about memory when the next step began.
    Heard(u64),
    /// The child has finished.
    Done,
}

/// The notes that a child writes.
pub(crate) struct Notes {
    file: RefCell<File>,
    has_left: Cell<bool>,
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notes")
    }
}

/// Notes written from a callback that runs while something else goes on, on any thread.
pub(crate) struct Aside(Option<File>);

impl Aside {
    /// Writes what [`Notes::now`] writes.
    pub(crate) fn now(&mut self, id: &str, what: &str) {
        if let Some(file) = &mut self.0 {
            if let Some(length) = under::heard() {
                let _ = writeln!(file, "heard\t\t{length}");
            }
            let _ = writeln!(file, "now\t{id}\t{what}");
        }
    }
}

/// Words of complaints, and the rule that each is about. The first words that fit count.
pub(crate) type Words = [(&'static str, &'static str)];

impl Notes {
    pub(crate) fn to(path: &Path) -> std::io::Result<Self> {
        File::create(path)?;
        // A script that the peer runs in may write to the file too.
        let file = RefCell::new(File::options().append(true).open(path)?);
        Ok(Self { file, has_left: Cell::new(false) })
    }

    fn line(&self, kind: &str, id: &str, text: &str) {
        let text = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', " ");
        // If nothing can be written, the parent sees a child that did not finish.
        let _ = writeln!(self.file.borrow_mut(), "{kind}\t{id}\t{text}");
    }

    /// Returns the same file for a callback that runs while something else goes on.
    pub(crate) fn aside(&self) -> Aside {
        Aside(self.file.borrow().try_clone().ok())
    }

    /// Notes what is done next, and which rule is broken if that never ends.
    pub(crate) fn now(&self, id: &str, what: &str) {
        if let Some(length) = under::heard() {
            self.line("heard", "", &length.to_string());
        }
        self.line("now", id, what);
    }

    /// Notes that the rule was kept.
    pub(crate) fn pass(&self, id: &str) {
        self.line("pass", id, "");
    }

    /// Notes that the rule was broken.
    pub(crate) fn fail(&self, id: &str, seen: impl AsRef<str>) {
        self.line("fail", id, seen.as_ref());
    }

    /// Notes that the rule could not be looked at.
    pub(crate) fn skip(&self, id: &str, why: impl AsRef<str>) {
        self.line("skip", id, why.as_ref());
    }

    /// Notes that the peer takes record batches only.
    pub(crate) fn batches(&self) {
        self.line("batches", "", "");
    }

    /// Notes that there is nothing to try.
    pub(crate) fn absent(&self, why: impl AsRef<str>) {
        self.line("absent", "", why.as_ref());
    }

    /// Notes that a broken value is not released, so that leaks prove nothing about the peer.
    pub(crate) fn leave(&self) {
        self.has_left.set(true);
    }

    /// Whether a value was not released on purpose.
    pub(crate) fn has_left_something(&self) -> bool {
        self.has_left.get()
    }

    pub(crate) fn done(&self) {
        self.line("done", "", "");
    }

    /// Notes whether the rule was kept, and what was seen if not. Returns whether it was kept.
    pub(crate) fn check(&self, id: &str, holds: bool, seen: impl FnOnce() -> String) -> bool {
        if holds {
            self.pass(id)
        } else {
            self.fail(id, seen())
        }
        holds
    }

    /// Notes a verdict. Each complaint belongs to the rule whose words it has.
    pub(crate) fn verdict(&self, verdict: Verdict, words: &Words, otherwise: &str) -> bool {
        let Err(complaints) = verdict else { return true };
        for complaint in complaints.split("; ") {
            let found = words.iter().find(|(part, _)| complaint.contains(part));
            self.fail(found.map_or(otherwise, |(_, id)| id), complaint);
        }
        false
    }
}

/// Reads what a child has written. A last line that was cut off is left out.
pub(crate) fn read(path: &Path) -> Vec<Note> {
    let text = read_written(path);
    let text = String::from_utf8_lossy(&text);
    text.split_inclusive('\n').filter_map(|line| parse(line.strip_suffix('\n')?)).collect()
}

fn parse(line: &str) -> Option<Note> {
    let mut parts = line.splitn(3, '\t');
    let (kind, id, text) = (parts.next()?, parts.next()?.to_owned(), parts.next()?);
    let text = unescape(text);
    Some(match kind {
        "now" => Note::Now(id, text),
        "pass" => Note::Pass(id),
        "fail" => Note::Fail(id, text),
        "skip" => Note::Skip(id, text),
        "absent" => Note::Absent(text),
        "said" => Note::Said(text),
        "batches" => Note::Batches,
        "heard" => Note::Heard(text.parse().ok()?),
        "done" => Note::Done,
        _ => return None,
    })
}

fn unescape(text: &str) -> String {
    let mut characters = text.chars();
    let mut plain = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(if characters.next() == Some('n') { '\n' } else { '\\' }),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{Note, Notes, read};

    #[test]
    fn what_is_written_is_read_and_a_line_that_was_cut_off_is_not() {
        let path = std::env::temp_dir().join(format!("notes-{}", std::process::id()));
        let notes = Notes::to(&path).unwrap();
        notes.now("ARR-1", "a\\n\nb\tc");
        notes.verdict(Err("one thing; another".into()), &[("other", "ARR-2")], "ARR-3");
        notes.absent("no such function");
        notes.batches();
        notes.done();
        let expected = [
            Note::Now("ARR-1".into(), "a\\n\nb c".into()),
            Note::Fail("ARR-3".into(), "one thing".into()),
            Note::Fail("ARR-2".into(), "another".into()),
            Note::Absent("no such function".into()),
            Note::Batches,
            Note::Done,
        ];
        assert_eq!(read(&path), expected);
        let cut = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &cut[..cut.len() - 2]).unwrap();
        assert_eq!(read(&path), expected[..5]);
        std::fs::remove_file(&path).unwrap();
    }
}
