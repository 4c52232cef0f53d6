//! Runs peers under a tool that sees each access to memory: valgrind. The tool's errors become
//! findings, each about the rule that was being looked at.
//!
//! The tool writes while the child runs. So with each step the child notes how much the tool had
//! written before. An error belongs to the step during which it was written.

use std::env;
use std::ops::Range;
use std::path::Path;

use crate::judge::RUNS;
use crate::notes::Note;
use crate::parent::{Launcher, read_written};
use crate::peer::{Kind, Side, Subject};

/// The file that the tool writes to, set for each child.
pub(crate) const HEARD: &str = "ARROW_DEVICE_CHECK_HEARD";
/// The variable that tells a child that it runs under a tool.
const UNDER: &str = "ARROW_DEVICE_CHECK_UNDER";

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Under {
    /// Memcheck of valgrind: sees accesses to memory that is freed, or next to an allocation
    Valgrind,
}

/// The arguments of valgrind. It checks addresses only: the interface does not say whether values
/// were ever written.
const ARGUMENTS: &[&str] = &[
    "--tool=memcheck",
    "--quiet",
    "--undef-value-errors=no",
    "--leak-check=no",
    "--redzone-size=512",
    "--child-silent-after-fork=yes",
    "--xml=yes",
    // The tool replaces this by the variable, which is set for each child.
    "--xml-file=%q{ARROW_DEVICE_CHECK_HEARD}",
];

impl Under {
    /// Returns how many times as long everything takes.
    pub(crate) fn slower(self) -> u64 {
        match self {
            Self::Valgrind => 20,
        }
    }

    /// Returns a launcher that starts children under the tool.
    pub(crate) fn around(self, launcher: Launcher) -> Launcher {
        let program = launcher.program.display().to_string();
        let own = ARGUMENTS.iter().map(|argument| (*argument).to_owned());
        let arguments = own.chain([program]).chain(launcher.arguments).collect();
        let mut variables = launcher.variables;
        // Python's own allocator takes whole pages, in which valgrind sees no ends of allocations.
        let pairs = [(UNDER, "valgrind"), ("PYTHONMALLOC", "malloc")];
        variables.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Launcher {
            program: "valgrind".into(),
            arguments,
            variables,
            remedy: "install valgrind, and see that it runs the program, or leave out --under",
        }
    }
}

/// Whether this process is under a tool.
pub(crate) fn is_on() -> bool {
    env::var_os(UNDER).is_some()
}

/// Returns how much the tool has written so far, `None` without a tool.
pub(crate) fn heard() -> Option<u64> {
    let file = env::var_os(HEARD).filter(|_| is_on())?;
    Some(std::fs::metadata(file).map_or(0, |about| about.len()))
}

/// A finding of the tool.
pub(crate) struct Heard {
    pub(crate) id: &'static str,
    pub(crate) text: String,
}

/// Returns the tool's errors in a file as findings of the rules that were being looked at.
pub(crate) fn findings(file: &Path, seen: &[Note], subject: &Subject) -> Vec<Heard> {
    let written = read_written(file);
    let written = String::from_utf8_lossy(&written);
    errors(&written).filter_map(|(at, error)| finding(error, at, seen, subject)).collect()
}

fn errors(written: &str) -> impl Iterator<Item = (u64, &str)> {
    let parts = written.match_indices("<error>");
    parts.filter_map(|(at, _)| {
        let error = written.get(at..)?;
        let end = error.find("</error>")?;
        Some((at as u64, error.get(..end)?))
    })
}

/// Returns the step during which the tool had written so much.
fn done_at(at: u64, seen: &[Note]) -> Option<(&str, &str)> {
    let mut heard = 0;
    let mut doing = None;
    for note in seen {
        match note {
            Note::Heard(length) => heard = *length,
            Note::Now(id, what) if heard <= at => doing = Some((id.as_str(), what.as_str())),
            _ => {}
        }
    }
    doing
}

fn finding(error: &str, at: u64, seen: &[Note], subject: &Subject) -> Option<Heard> {
    let what = within(error, "<what>", "</what>")?;
    let whose = error.split_once("<auxwhat>");
    let about = whose.and_then(|(_, rest)| rest.split_once("</auxwhat>"));
    let (doing, place) = done_at(at, seen).unwrap_or((RUNS, "starting"));
    let stack = frames(within(error, "<stack>", "</stack>")?);
    if stack.first().is_some_and(Frame::is_linker) {
        return None;
    }
    let told = match about {
        None => String::new(),
        Some((about, rest)) => {
            let made = frames(within(rest, "<stack>", "</stack>").unwrap_or(""));
            let by = made.iter().find(|frame| !frame.is_allocator());
            let by = by.map_or(String::new(), |frame| format!(" by {}", frame.told()));
            // The address differs each time.
            let place = about.split_once(" is ").map_or(about, |(_, place)| place);
            format!("; the address is {}{by}", plain(place))
        }
    };
    let is_ours = about.is_some_and(|(_, rest)| {
        let made = frames(within(rest, "<stack>", "</stack>").unwrap_or(""));
        made.iter().find(|frame| !frame.is_allocator()).is_some_and(Frame::is_checker)
    });
    let id = rule(doing, about.map_or("", |(about, _)| about), what, is_ours, subject);
    let stack: Vec<String> = stack.iter().take(DEPTH).map(Frame::told).collect();
    let stack = stack.join(", called by ");
    let what = plain(what).to_lowercase();
    let text = format!("valgrind saw an {what} while {place}, in {stack}{told}");
    Some(Heard { id, text })
}

/// How many functions of a stack are shown.
const DEPTH: usize = 4;

/// Returns the rule that was broken. The checker looks at a producer's data, under the rule that it
/// is about. A consumer does what it likes, so the rule depends on the memory.
fn rule(doing: &str, about: &str, what: &str, is_ours: bool, subject: &Subject) -> &'static str {
    let known = |id: &str| crate::rules::find(id).map_or(RUNS, |(_, rule)| rule.id);
    if subject.side == Side::Producer {
        return known(doing);
    }
    let is_tensor = matches!(subject.kind, Kind::Dlpack | Kind::DlpackLegacy);
    let pick = |of_arrays, of_tensors| if is_tensor { of_tensors } else { of_arrays };
    match () {
        () if !is_ours => RUNS,
        () if what.starts_with("Invalid free") => pick("ARR-13", "DLP-6"),
        () if about.contains("free'd") => pick("ARR-18", "DLP-6"),
        () if what.starts_with("Invalid write") => pick("ARR-15", "DLP-12"),
        () => pick("ARR-14", "DLP-7"),
    }
}

/// A function that was running.
struct Frame<'a> {
    function: &'a str,
    object: &'a str,
}

impl Frame<'_> {
    fn is_allocator(&self) -> bool {
        self.object.contains("vgpreload") || self.object.contains("/libc.so")
    }

    /// Whether this is the dynamic linker, which reads whole words of the names that it looks at.
    fn is_linker(&self) -> bool {
        self.object.rsplit('/').next().is_some_and(|object| object.starts_with("ld-"))
    }

    fn is_checker(&self) -> bool {
        self.object.contains("arrow_device_check") || self.object.contains("arrow-device")
    }

    fn told(&self) -> String {
        let object = self.object.rsplit('/').next().unwrap_or_default();
        match (self.function, object) {
            ("", "") => "code of its own".into(),
            ("", object) => object.to_owned(),
            (function, object) => format!("`{}` ({object})", plain(function)),
        }
    }
}

fn frames(stack: &str) -> Vec<Frame<'_>> {
    let frames = stack.split("<frame>").skip(1);
    let frames = frames.map(|frame| Frame {
        function: within(frame, "<fn>", "</fn>").unwrap_or(""),
        object: within(frame, "<obj>", "</obj>").unwrap_or(""),
    });
    frames.collect()
}

fn within<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let Range { start, end } = {
        let start = text.find(from)? + from.len();
        start..start + text.get(start..)?.find(to)?
    };
    text.get(start..end)
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&apos;", "'");
    text.replace("&quot;", "\"").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::{Under, finding};
    use crate::notes::Note;
    use crate::peer::{Kind, Side, Subject};

    fn error(object: &str, about: &str, maker: &str) -> String {
        format!(
            "<error><what>Invalid read of size 4</what><stack><frame><obj>{object}</obj><fn>sum</fn></frame></stack>\
             <auxwhat>Address 0x1 is {about}</auxwhat><stack><frame><obj>/x/vgpreload_memcheck.so</obj><fn>malloc</fn>\
             </frame><frame><obj>{maker}</obj><fn>make&lt;T&gt;</fn></frame></stack>"
        )
    }

    /// Returns the rule and the text of an error at this place of the tool's output.
    fn told(error: &str, at: u64, side: Side, kind: Kind) -> Option<(&'static str, String)> {
        let now = |id: &str, what: &str| Note::Now(id.into(), what.into());
        let seen = [
            Note::Heard(10),
            now("SYS-1", "consuming numbers"),
            Note::Heard(50),
            now("ARR-17", "copying"),
        ];
        let subject = Subject { peer: "p".into(), kind, side };
        finding(error, at, &seen, &subject).map(|heard| (heard.id, heard.text))
    }

    #[test]
    fn an_error_belongs_to_what_was_done_when_it_was_written() {
        let error =
            error("/lib/mine.so", "0 bytes after a block of size 4 alloc'd", "/lib/mine.so");
        let (id, text) = told(&error, 20, Side::Producer, Kind::Array).unwrap();
        assert_eq!(id, "SYS-1");
        assert_eq!(
            text,
            "valgrind saw an invalid read of size 4 while consuming numbers, in `sum` (mine.so); the address is \
             0 bytes after a block of size 4 alloc'd by `make<T>` (mine.so)"
        );
        assert_eq!(told(&error, 50, Side::Producer, Kind::Array).unwrap().0, "ARR-17");
        assert_eq!(told(&error, 0, Side::Producer, Kind::Array).unwrap().0, "PEER");
    }

    #[test]
    fn what_a_consumer_breaks_depends_on_the_memory() {
        let checker = "/bin/arrow-device-check";
        let behind = "0 bytes after a block of size 4 alloc'd";
        let freed = "0 bytes inside a block of size 4 free'd";
        for (about, maker, kind, id) in [
            (behind, checker, Kind::Array, "ARR-14"),
            (behind, checker, Kind::Dlpack, "DLP-7"),
            (freed, checker, Kind::Stream, "ARR-18"),
            (freed, checker, Kind::Dlpack, "DLP-6"),
            // The interface does not speak of the peer's own memory.
            (freed, "/lib/mine.so", Kind::Array, "PEER"),
        ] {
            let error = error("/lib/mine.so", about, maker);
            assert_eq!(told(&error, 60, Side::Consumer, kind).unwrap().0, id, "{about} {maker}");
        }
    }

    #[test]
    fn what_the_dynamic_linker_reads_is_nobodys_fault() {
        let behind = "0 bytes after a block of size 4 alloc'd";
        let linker = "/lib/ld-linux-x86-64.so.2";
        assert!(told(&error(linker, behind, linker), 60, Side::Producer, Kind::Array).is_none());
    }

    #[test]
    fn a_program_under_valgrind_is_given_its_own_arguments() {
        let launcher = crate::parent::Launcher {
            program: "python3".into(),
            arguments: vec!["-c".into()],
            variables: Vec::new(),
            remedy: "",
        };
        let launcher = Under::Valgrind.around(launcher);
        assert_eq!(launcher.program.to_str(), Some("valgrind"));
        assert!(launcher.arguments.ends_with(&["python3".into(), "-c".into()]));
        assert!(launcher.variables.contains(&("PYTHONMALLOC".into(), "malloc".into())));
    }
}
