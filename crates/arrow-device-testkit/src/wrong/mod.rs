//! Wrong peers: for each rule that a peer can break, a peer that breaks only that rule.
//!
//! [`all`] returns the table. Each row names the requirement, describes the mistake, and has the
//! peer itself. It can [`run`](Wrong::run) the peer before the [`judge`] of its direction, who must
//! complain. So the table tests judges, and anything else that has to tell right peers from wrong
//! ones:
//!
//! ```
//! for wrong in arrow_device_testkit::wrong::all() {
//!     if !wrong.crashes {
//!         let complaint = wrong.run().expect_err(wrong.name);
//!         assert!(complaint.contains(wrong.complaint), "{}: {complaint}", wrong.name);
//!     }
//! }
//! ```
//!
//! Wrong peers leak, on purpose.

#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "they are as programs in C are, and trust what they are shown: see the page of the crate"
)]

mod consumers;
mod producers;

use std::fmt;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};

use crate::Verdict;
use crate::judge::{self, Stage};
use crate::relay::{Handwritten, RelayFault};

pub use consumers::right as right_consumer;
pub use producers::Producer;

/// The side of an exchange that a peer is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// Makes structs.
    Producer,
    /// Takes structs over and uses the data.
    Consumer,
    /// Takes structs over and hands the same on.
    Relay,
}

/// A peer in the form that the judges need.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Peer {
    /// For [`judge::producer`].
    Producer(Producer),
    /// For [`judge::consumer`].
    Consumer(fn(&Stage, &mut ArrowSchema, &mut ArrowDeviceArray)),
    /// For [`judge::relay`], or for [`judge::relay_of_unreadable_data`] if it crashes.
    Relay(Handwritten),
}

/// A row of the table: a peer with one mistake.
#[derive(Clone, Copy)]
pub struct Wrong {
    /// The requirement that the peer breaks.
    pub id: &'static str,
    /// What the peer does, as a sentence without a subject. Each peer has a different one.
    pub name: &'static str,
    /// A part of the judge's complaint.
    pub complaint: &'static str,
    /// Whether the peer ends the process, so that it has to be run in a process of its own.
    pub crashes: bool,
    /// The peer.
    pub peer: Peer,
}

impl Wrong {
    /// Returns the side that the peer is on.
    pub fn direction(&self) -> Direction {
        match self.peer {
            Peer::Producer(_) => Direction::Producer,
            Peer::Consumer(_) => Direction::Consumer,
            Peer::Relay(_) => Direction::Relay,
        }
    }

    /// Runs the peer before the judge of its direction, who should complain. Ends the process if
    /// the peer [crashes](Self::crashes).
    pub fn run(&self) -> Verdict {
        match &self.peer {
            Peer::Producer(producer) => judge::producer(&|stage, schema, array| {
                producer.produce(stage, schema, array);
            }),
            Peer::Consumer(consume) => judge::consumer(consume),
            Peer::Relay(relay) if self.crashes => judge::relay_of_unreadable_data(relay),
            Peer::Relay(relay) => judge::relay(relay),
        }
    }
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wrong({} {:?} {})", self.id, self.direction(), self.name)
    }
}

/// Returns all wrong peers.
pub fn all() -> Vec<Wrong> {
    let mut all = producers::all();
    all.extend(consumers::all());
    all.extend(relays());
    all
}

fn relays() -> Vec<Wrong> {
    let relay = |id, name, fault, complaint| {
        let crashes = fault == Some(RelayFault::ReadsData);
        Wrong { id, name, complaint, crashes, peer: Peer::Relay(Handwritten(fault)) }
    };
    use RelayFault::*;
    let moved = "buffers moved";
    let numbers = "length, null count and offset";
    vec![
        relay(
            "ABI-2",
            "keeps 8 bits of the device type",
            Some(TruncatesDeviceType),
            "it lies on 1:",
        ),
        relay(
            "ABI-5",
            "hands on garbage in `reserved`",
            Some(LeavesGarbageInReserved),
            "`reserved`",
        ),
        relay("SCH-2", "forgets names", Some(LosesNames), "the schema is"),
        relay("SCH-3", "forgets flags that it does not know", Some(LosesFlags), "the schema is"),
        relay(
            "SCH-4",
            "forgets that there is a dictionary",
            Some(LosesDictionary),
            "the schema is",
        ),
        relay("SCH-5", "forgets extension types", Some(LosesMetadata), "the schema is"),
        relay("ARR-1", "reads device memory on the host", Some(ReadsData), "a signal"),
        relay(
            "ARR-3",
            "keeps 32 bits of the device's number",
            Some(TruncatesDeviceId),
            "it lies on 2:0",
        ),
        relay(
            "ARR-4",
            "says that all memory is the host's",
            Some(ForgetsDeviceType),
            "it lies on 1:",
        ),
        relay("ARR-5", "loses the event", Some(DropsEvent), "the event is another one"),
        relay("ARR-10", "never releases", Some(Leaks), "0 releases of 1"),
        relay("ARR-12", "does not mark what it moved", Some(LeavesSourceUnreleased), "not marked"),
        relay("ARR-12", "ends moved children with their parent", Some(EndsMovedChildren), moved),
        relay(
            "ARR-13",
            "releases what its consumer has",
            Some(ReleasesEarly),
            "its consumer has it",
        ),
        relay("ARR-13", "releases twice", Some(ReleasesTwice), "released twice"),
        relay("ARR-13", "leaves a released struct unmarked", Some(LeavesReleaseSet), "unreleased"),
        relay("ARR-14", "forgets the offset of a slice", Some(ForgetsOffset), numbers),
        relay("ARR-15", "writes to what it was given", Some(WritesData), "was written to"),
        relay("ARR-16", "hands on copies", Some(CopiesBuffers), moved),
        relay("ARR-17", "makes up a null count", Some(InventsNullCount), numbers),
        relay("ARR-18", "releases children first", Some(ReleasesChildren), "of a child was called"),
        relay(
            "ARR-18",
            "releases children afterwards",
            Some(ReleasesChildrenLast),
            "after that of",
        ),
        relay(
            "ARR-19",
            "keeps the address of a struct",
            Some(KeepsAddressOfStruct),
            "0 releases of 1",
        ),
        relay("SYS-1", "knows no dictionaries", Some(RefusesDictionaries), "beyond me"),
        relay("SYS-2", "hands on nonsense", None, "a length of -1 is handed on"),
    ]
}
