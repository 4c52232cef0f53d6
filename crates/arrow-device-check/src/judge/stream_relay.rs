//! Relays of streams: what is handed on is judged as a producer's, and the original sees how it is called.

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device_testkit::stream::{Books, ProducerFault, Script, Step, Watch, produce_watched};

use super::stream_consumer::{of_the_host, script, settle, stray};
use super::stream_producer::{self, Held};
use super::{RUNS, Scenario};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::{Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a stream on the host", place: Where::Host, run: good },
    Scenario {
        name: "a stream that fails",
        place: Where::Host,
        run: |peer, bench, notes| {
            failing(
                peer,
                bench,
                notes,
                script().then(Step::Error(libc::EIO, Some("the cable was pulled"))),
                "STR-5",
            )
        },
    },
    Scenario {
        name: "an array on another type of device",
        place: Where::Host,
        run: |peer, bench, notes| failing(peer, bench, notes, stray(), "STR-2"),
    },
    Scenario {
        name: "an array of the host in a stream on a device",
        place: Where::Host,
        run: |peer, bench, notes| failing(peer, bench, notes, of_the_host(), "STR-2"),
    },
    Scenario {
        name: "a stream on a type of device that nobody has",
        place: Where::Host,
        run: unknown,
    },
];

struct Relayed {
    source: ArrowDeviceArrayStream,
    books: Books,
    script: Script,
}

fn relay(peer: &Peer, bench: &Bench, script: Script) -> (Relayed, Result<Held, i32>) {
    let books = Books::default();
    let fault = Some(ProducerFault::MixesTypes);
    let mut source = produce_watched(&script, fault, &books, Watch(std::time::Duration::ZERO));
    let mut out = Box::new(ArrowDeviceArrayStream::empty());
    let code = match &peer.entry {
        Entry::RelayStream(relay) => relay(bench, &raw mut source, &raw mut *out),
        _ => libc::ENOSYS,
    };
    let held = if code == 0 && !out.is_released() { Ok(Held::new(out, false)) } else { Err(code) };
    (Relayed { source, books, script }, held)
}

fn good(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now(RUNS, "handing a stream on");
    let (relayed, held) = relay(peer, bench, script());
    match held {
        Ok(held) => drop(stream_producer::judge(held, bench, notes)),
        Err(code) => notes.fail("SYS-1", format!("a good stream was refused with {code}")),
    }
    settle(&relayed.source, &relayed.books, &relayed.script, notes);
}

fn failing(peer: &Peer, bench: &Bench, notes: &Notes, script: Script, id: &'static str) {
    notes.now(id, "handing a stream on that fails");
    let (relayed, held) = relay(peer, bench, script);
    if let Ok(mut held) = held {
        let failed = loop {
            match held.next(notes) {
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let strays =
            held.chunks.iter().any(|(chunk, _)| chunk.device_type != held.stream.device_type);
        notes.check(id, failed && !strays, || {
            let what =
                if id == "STR-2" { "an array on another type of device" } else { "an error" };
            format!("{what} was swallowed or handed on as if it were good")
        });
        stream_producer::release(held, notes);
    } else {
        notes.pass(id);
    }
    settle(&relayed.source, &relayed.books, &relayed.script, notes);
}

fn unknown(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now("STR-2", "handing a stream on whose type of device nobody has");
    let mut script = script();
    script.device_type = 12;
    script.steps.truncate(1);
    let (relayed, held) = relay(peer, bench, script);
    match held {
        Ok(mut held) => {
            while matches!(held.next(notes), Ok(Some(_))) {}
            let named = held.stream.device_type;
            notes.check("STR-1", named == 12, || {
                format!("the stream is on type of device {named} now")
            });
            stream_producer::release(held, notes);
        }
        Err(code) => {
            notes.skip("STR-1", format!("it refuses type of device 12: it returned {code}"))
        }
    }
    settle(&relayed.source, &relayed.books, &relayed.script, notes);
}
