//! The child's side: runs one scenario with one peer, in a process that may end at any point.

use std::env;
use std::path::PathBuf;

use crate::judge;
use crate::notes::Notes;
use crate::peer::{Kind, Peer, Side};

/// The variable that tells a process that it is a child, and which file it writes to.
pub(crate) const NOTES: &str = "ARROW_DEVICE_CHECK_NOTES";
/// The variable that has the peer, the kind, the side and the scenario, a line each.
pub(crate) const TASK: &str = "ARROW_DEVICE_CHECK_TASK";

/// The task of a child.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) peer: String,
    pub(crate) kind: Kind,
    pub(crate) side: Side,
    pub(crate) scenario: String,
    pub(crate) notes: PathBuf,
}

impl Task {
    /// Returns the task of this process, if it is a child.
    pub(crate) fn of_this_process() -> Option<Self> {
        let (notes, task) = (env::var_os(NOTES)?, env::var(TASK).ok()?);
        let mut lines = task.split('\n');
        Some(Self {
            peer: lines.next()?.to_owned(),
            kind: lines.next()?.parse().ok()?,
            side: lines.next()?.parse().ok()?,
            scenario: lines.next()?.to_owned(),
            notes: notes.into(),
        })
    }

    /// Returns the value of the variable [`TASK`] for a child.
    pub(crate) fn variable(&self) -> String {
        let Self { peer, kind, side, scenario, .. } = self;
        [peer, kind.name(), side.name(), scenario].join("\n")
    }

    /// Tries the peer, which `open` finds.
    pub(crate) fn run(&self, open: impl FnOnce(&Self) -> Result<Peer, String>) {
        let Ok(notes) = Notes::to(&self.notes) else { return };
        notes.now(judge::RUNS, "loading the peer");
        match open(self) {
            Ok(peer) => self.try_peer(&peer, &notes),
            Err(why) => notes.absent(why),
        }
        notes.done();
    }

    fn try_peer(&self, peer: &Peer, notes: &Notes) {
        let all = judge::scenarios(self.kind, self.side);
        let Some(scenario) = all.iter().find(|scenario| scenario.name == self.scenario) else {
            return notes.fail(judge::RUNS, format!("there is no scenario `{}`", self.scenario));
        };
        match (peer.open.0)(scenario.place) {
            Err(why) => notes.skip(judge::RUNS, why),
            Ok(bench) => {
                (scenario.run)(peer, &bench, notes);
                judge::look_at_leaks(bench, notes);
            }
        }
    }
}
