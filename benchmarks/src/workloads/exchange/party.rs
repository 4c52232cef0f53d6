//! What every implementation does, and the workloads that are made of it.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};

use super::data::Data;
use crate::case::{Case, Peer, WorkloadKey};

/// An implementation of the C data interface. What goes wrong panics.
pub(super) trait Party: Copy + Send + Sync + 'static {
    /// An array or a batch in the form that it has them in.
    type Held: Send + Sync + 'static;
    /// A schema that it has imported.
    type Known: 'static;
    /// Where it imports to. It stays where it is.
    type Target: Default + 'static;

    fn peer(self) -> Peer;
    /// Takes the data over.
    fn hold(self, data: &Data) -> Self::Held;
    fn export(self, held: &Self::Held, out: &mut ArrowDeviceArray);
    fn export_schema(self, held: &Self::Held, out: &mut ArrowSchema);
    fn know(self, schema: &mut ArrowSchema, is_batch: bool) -> Self::Known;
    /// Imports an array whose schema is known.
    fn import(
        self,
        known: &mut Self::Known,
        array: &mut ArrowDeviceArray,
        place: &mut Self::Target,
    );
    fn import_both(
        self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
        is_batch: bool,
        place: &mut Self::Target,
    );
    fn clear(self, place: &mut Self::Target);
    /// The length of a column of an imported batch, got at as a user gets at it.
    fn column(self, place: &Self::Target, column: usize) -> usize;
    /// A number of a column of an imported batch, or of an imported array; nothing where it is
    /// null.
    #[cfg_attr(
        not(all(test, feature = "peers")),
        allow(dead_code, reason = "tests look at the outcome")
    )]
    fn number(self, place: &Self::Target, column: usize, row: usize) -> Option<i64>;
}

/// Room for one exchange.
pub(super) struct ExchangeSlot<P: Party> {
    pub(super) schema: ArrowSchema,
    pub(super) array: ArrowDeviceArray,
    pub(super) place: P::Target,
}

impl<P: Party> ExchangeSlot<P> {
    pub(super) fn new() -> Self {
        let (schema, array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        Self { schema, array, place: P::Target::default() }
    }
}

/// Does nothing.
fn nothing<T>(_: &mut T) {}

/// One case: what is prepared, timed and cleared away.
fn case<P: Party>(
    party: P,
    (workload, shape, size): WorkloadKey,
    before: impl FnMut(&mut ExchangeSlot<P>) + 'static,
    timed: impl FnMut(&mut ExchangeSlot<P>) + 'static,
    after: impl FnMut(&mut ExchangeSlot<P>) + 'static,
) -> Case {
    // What is small is lost in the cost of looking at the clock. Of what is large only one is there
    // at a time, as it would be in a program.
    let slots = if size >= 100 { 1 } else { 16 };
    let slots = (0..slots).map(|_| ExchangeSlot::new()).collect();
    Case::in_place((workload, shape, size), party.peer(), slots, before, timed, after)
}

/// Export, with and without a schema, and release.
pub(super) fn as_producer<P: Party>(party: P, data: &Data) -> Vec<Case> {
    let of = |workload| (workload, data.shape, data.size);
    let held = || party.hold(data);
    let export =
        move |held: &P::Held, slot: &mut ExchangeSlot<P>| party.export(held, &mut slot.array);
    let (a, b, c, d) = (held(), held(), held(), held());
    let export_both = move |slot: &mut ExchangeSlot<P>| {
        party.export_schema(&b, &mut slot.schema);
        export(&b, slot);
    };
    let mut cases = vec![
        case(party, of("export"), nothing, move |slot| export(&a, slot), release_array),
        case(party, of("export with schema"), nothing, export_both, |slot| {
            release_array(slot);
            release_schema(&mut slot.schema);
        }),
        case(party, of("release"), move |slot| export(&c, slot), release_array, nothing),
    ];
    let schema = move |slot: &mut ExchangeSlot<P>| party.export_schema(&d, &mut slot.schema);
    if data.shape == "batch" || data.shape == "int64" {
        let done = |slot: &mut ExchangeSlot<P>| release_schema(&mut slot.schema);
        cases.push(case(party, of("export of a schema"), nothing, schema, done));
    }
    cases
}

/// Import, with and without a schema, of what this library exports.
pub(super) fn as_consumer<P: Party>(party: P, data: &Data) -> Vec<Case> {
    let of = |workload| (workload, data.shape, data.size);
    let is_batch = data.is_batch;
    let mut known = known(party, data);
    let clear = move |slot: &mut ExchangeSlot<P>| {
        party.clear(&mut slot.place);
        // Some read a schema and leave it to the caller.
        release_schema(&mut slot.schema);
    };
    let (a, b, c) = (data.clone(), data.clone(), data.clone());
    let before_both = move |slot: &mut ExchangeSlot<P>| {
        b.export(&mut slot.array);
        b.export_schema(&mut slot.schema);
    };
    let both = move |slot: &mut ExchangeSlot<P>| {
        party.import_both(&mut slot.schema, &mut slot.array, is_batch, &mut slot.place);
    };
    let one = move |slot: &mut ExchangeSlot<P>| {
        party.import(&mut known, &mut slot.array, &mut slot.place);
    };
    let mut cases = vec![
        case(party, of("import"), move |slot| a.export(&mut slot.array), one, clear),
        case(party, of("import with schema"), before_both, both, clear),
    ];
    if data.shape == "batch" {
        let learn = move |slot: &mut ExchangeSlot<P>| {
            drop(black_box(party.know(&mut slot.schema, is_batch)));
        };
        let done = |slot: &mut ExchangeSlot<P>| release_schema(&mut slot.schema);
        let before = move |slot: &mut ExchangeSlot<P>| c.export_schema(&mut slot.schema);
        cases.push(case(party, of("import of a schema"), before, learn, done));
    }
    cases
}

/// Import of a batch, and a look at some of its columns.
pub(super) fn project<P: Party>(party: P, data: &Data, columns: u64) -> Case {
    let mut known = known(party, data);
    let source = data.clone();
    let timed = move |slot: &mut ExchangeSlot<P>| {
        party.import(&mut known, &mut slot.array, &mut slot.place);
        for column in 0..columns as usize {
            black_box(party.column(&slot.place, column));
        }
    };
    let clear = move |slot: &mut ExchangeSlot<P>| party.clear(&mut slot.place);
    let before = move |slot: &mut ExchangeSlot<P>| source.export(&mut slot.array);
    let slots = vec![ExchangeSlot::new()];
    let key = ("import and get at columns", "of a batch of 1000", columns);
    Case::in_place(key, party.peer(), slots, before, timed, clear)
}

/// Export by one, import by another who knows the schema, and release.
pub(super) fn pair<P: Party, C: Party>(
    (workload, shape): (&'static str, &'static str),
    (producer, consumer): (P, C),
    data: &Data,
) -> Case {
    let held = producer.hold(data);
    let mut known = known(consumer, data);
    let mut slot: ExchangeSlot<C> = ExchangeSlot::new();
    let once = move || {
        producer.export(&held, &mut slot.array);
        consumer.import(&mut known, &mut slot.array, &mut slot.place);
        consumer.clear(&mut slot.place);
    };
    Case::whole((workload, shape, data.size), consumer.peer(), once)
}

/// Export and release of one batch by several threads at once: the time of one export on one
/// thread.
pub(super) fn contended<P: Party>(
    party: P,
    data: &Data,
    shape: &'static str,
    threads: u32,
) -> Case {
    let held = Arc::new(party.hold(data));
    let run = move |turns: u32| {
        let start = Arc::new(Barrier::new(threads as usize));
        let one = || {
            let (held, start) = (Arc::clone(&held), Arc::clone(&start));
            thread::spawn(move || {
                let mut slot = ExchangeSlot::<P>::new();
                let mut once = || {
                    party.export(&held, &mut slot.array);
                    release(&mut slot.array);
                };
                once();
                start.wait();
                let begin = Instant::now();
                (0..turns).for_each(|_| once());
                begin.elapsed()
            })
        };
        let running: Vec<_> = (0..threads).map(|_| one()).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or(Duration::ZERO)
    };
    let (workload, size, peer) = ("contended export", data.size, party.peer());
    Case { workload, shape, size, peer, bytes: 0, run: Box::new(run) }
}

pub(super) fn known<P: Party>(party: P, data: &Data) -> P::Known {
    let mut schema = ArrowSchema::empty();
    data.export_schema(&mut schema);
    let known = party.know(&mut schema, data.is_batch);
    release_schema(&mut schema);
    known
}

fn release_array<P: Party>(slot: &mut ExchangeSlot<P>) {
    release(&mut slot.array);
}

pub(super) fn release(array: &mut ArrowDeviceArray) {
    let release = array.array.release.expect("it was exported");
    // SAFETY: "the consumer must call the release callback"; it was not called before, as it is not
    // null.
    unsafe { release(&raw mut array.array) };
}

/// Where it was not released by who imported it.
pub(super) fn release_schema(schema: &mut ArrowSchema) {
    if let Some(release) = schema.release {
        // SAFETY: "the consumer must call the release callback"; it was not called before, as it is
        // not null.
        unsafe { release(&raw mut *schema) };
    }
}
