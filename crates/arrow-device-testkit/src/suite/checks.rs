//! The checks, each for one array on one device.

use std::cell::Cell;
use std::sync::Arc;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{HostAccess, Raw, Readiness, Region, Route, Spot};
use arrow_device::{Array, Device, DeviceType, ErrorKind, Memory, Queue, Result};

use super::busy::{Busy, Lane};
use super::data::{self, HeldStructs, Landing, text};
use super::pace::Pace;
use super::{ApplicationCall, Check, Exchange, Hold};
use crate::consumer::{self, Order, Seen, SeenSchema};
use crate::deposit::{self, Timing};
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::producer::{self, Manner};
use crate::{Verdict, require};

/// The devices, queues and means with which a check works.
pub(super) struct Scene<'a> {
    pub(super) exchange: &'a dyn Exchange,
    pub(super) device: &'a Device,
    pub(super) writer: Queue,
    pub(super) reader: Queue,
    /// A queue of another device.
    pub(super) elsewhere: Option<Queue>,
    /// Keeps the queues busy.
    pub(super) busy: &'a Busy<'a>,
    /// Gives a queue work until its end is called.
    pub(super) hold: Option<&'a Hold>,
    /// Has the runtime run a callback.
    pub(super) call_back: Option<&'a dyn Fn(Option<ApplicationCall>)>,
    /// Whether copies were seen to wait.
    pub(super) copies_wait: Cell<bool>,
    /// How the suite waits.
    pub(super) pace: Pace<'a>,
    /// The number of the case. Where there are several ways to do something, the number chooses
    /// one.
    pub(super) number: usize,
}

/// Returns why a check makes no sense on this device, if it does not.
pub(super) fn reason_to_skip(check: Check, device: &Device, has_other: bool) -> Option<String> {
    let properties = device.properties();
    match check {
        Check::Copy if device.id().device_type == DeviceType::CPU => {
            Some("arrays that are on the host stay where they are".into())
        }
        Check::Order if properties.readiness == Readiness::HostWait => {
            Some("it has no events: whoever exports waits on the host first".into())
        }
        Check::ReadInPlace if properties.host_access == HostAccess::None => {
            Some("the host cannot read its memory".into())
        }
        Check::AnotherDevice if !has_other => Some("no other device was named".into()),
        _ => None,
    }
}

pub(super) fn run(check: Check, scene: &Scene<'_>, plan: &Plan) -> Verdict {
    match check {
        Check::Import => import(scene, plan),
        Check::Export => export(scene, plan),
        Check::ReExport => hand_on(scene, plan, Order::Whole),
        Check::MoveChildren => hand_on(scene, plan, Order::ALL[1 + scene.number % 3]),
        Check::Copy => copy(scene, plan),
        Check::Order => order(scene, plan),
        Check::DeferredRelease => deferred_release(scene, plan),
        Check::ReadInPlace => read_in_place(scene, plan),
        Check::AnotherDevice => another_device(scene, plan),
        // Checks of the driver itself look at no arrays.
        Check::Waits | Check::Memory | Check::Bytes | Check::Mappings => Ok(()),
    }
}

/// When the data of an array is written.
#[derive(Clone, Copy)]
enum Written {
    /// Before the array is made.
    Before,
    /// By work that was submitted and is not done.
    Later,
    /// By work behind this many pieces of slow work.
    BehindWork(usize),
}

impl Scene<'_> {
    fn manner(&self) -> Manner {
        [Manner::NodeByNode, Manner::AllByTheBase][self.number % 2]
    }

    /// Makes an array of a producer that the library does not know, with its books. The schema and
    /// the array have one base structure each.
    fn foreign(&self, plan: &Plan, written: Written) -> Result<(HeldStructs, Arc<Ledger>), String> {
        let (ledger, queue, manner) = (Ledger::new(), &self.writer, self.manner());
        let behind = || match written {
            Written::BehindWork(times) => {
                (0..times).try_for_each(|_| self.busy.occupy(queue, Lane::Writer))
            }
            _ => Ok(()),
        };
        let timing = match written {
            Written::Before => Timing::Settled,
            Written::Later => Timing::Pending,
            Written::BehindWork(_) => Timing::Behind(&behind),
        };
        let wait = |queue: &Queue| self.pace.synchronize(queue);
        let array = deposit::array(plan, queue, &ledger, manner, timing, &wait);
        let array = array.map_err(text)?;
        Ok((HeldStructs { schema: producer::schema(plan, &ledger), array }, ledger))
    }

    /// Takes an array over, and checks that the structs were moved.
    fn import(&self, held: &mut HeldStructs, ledger: &Ledger) -> Result<Array, String> {
        let array = self.exchange.import(&mut held.schema, &mut held.array).map_err(text)?;
        let is_moved = held.schema.is_released() && held.array.is_released();
        require(is_moved, || "the source was not marked as released".into())?;
        let released = ledger.base_releases();
        require(released == 1, || "the array was released while its consumer has it".into())?;
        Ok(array)
    }

    /// Calls [`Ledger::settle_soon`]. Before that, turns a device that needs turns until the queues
    /// have passed everything.
    fn settle(&self, ledger: &Ledger, bases: usize) -> Verdict {
        if !self.pace.may_wait() {
            // A queue that answers wrongly could keep the device from getting a turn.
            self.pace.turn();
            self.pace.synchronize(&self.writer).map_err(text)?;
            self.pace.synchronize(&self.reader).map_err(text)?;
        }
        ledger.settle_soon(bases)
    }

    fn export(&self, array: &Array) -> Result<HeldStructs, String> {
        let (schema, array) = self.exchange.export(array).map_err(text)?;
        Ok(HeldStructs { schema, array })
    }
}

fn import(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let (mut held, ledger) = scene.foreign(plan, Written::Before)?;
    let schema = SeenSchema::of(&held.schema);
    let expected = Seen::of(&held.array.array).with_known_nulls(&schema);
    let array = scene.import(&mut held, &ledger)?;
    let view = scene.exchange.view(&array, &scene.reader).map_err(text)?;
    data::seen_by(&view).require_same(&expected)?;
    Landing::of(&view, plan, scene.pace).map_err(text)?.finish(&scene.reader, scene.pace)?;
    drop(view);
    require(ledger.base_releases() == 1, || "released while its consumer has it".into())?;
    drop(array);
    scene.settle(&ledger, 2)
}

fn hand_on(scene: &Scene<'_>, plan: &Plan, order: Order) -> Verdict {
    let (mut held, ledger) = scene.foreign(plan, Written::Later)?;
    let schema = SeenSchema::of(&held.schema);
    let expected = Seen::of(&held.array.array).with_known_nulls(&schema);
    let (id, event) = (scene.device.id(), held.array.sync_event);
    for _ in 0..2 {
        let array = scene.import(&mut held, &ledger)?;
        held = scene.export(&array)?;
        drop(array);
        let handed_on = SeenSchema::of(&held.schema);
        require(handed_on == schema, || format!("the schema is {handed_on:?} and was {schema:?}"))?;
        Seen::of(&held.array.array).with_known_nulls(&schema).require_same(&expected)?;
        let c_array = &held.array;
        require((c_array.device_type, c_array.device_id) == (id.device_type.0, id.id), || {
            format!("it lies on {}:{} now", c_array.device_type, c_array.device_id)
        })?;
        require(c_array.sync_event == event, || "the event is another one now".into())?;
        require(c_array.reserved == [0; 3], || "`reserved` is not zero".into())?;
    }
    // The consumer promises that it does not use the data, and does not wait for it.
    let moved = consumer::move_and_scribble(held.take_array());
    consumer::release_in_order(moved.array, order)?;
    drop(held);
    scene.settle(&ledger, 2)
}

/// Checks what a consumer gets of an array that is built here while its data is still on the way to
/// the device.
fn export(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let queue = &scene.writer;
    scene.busy.occupy(queue, Lane::Writer).map_err(text)?;
    let (mut regions, mut staged, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut place = |bytes: &[u8]| {
        let mut memory: Memory = queue.allocate(bytes.len() as u64)?;
        let to = memory.spot(queue)?;
        places.push(to.base.as_ptr().expose_provenance());
        if !bytes.is_empty() {
            let mut source = bytes.to_vec();
            source.resize(scene.pace.whole(queue, bytes.len()), 0);
            let from = Spot { base: Raw::from_ptr(source.as_ptr().cast_mut().cast()), offset: 0 };
            regions.push(Region { from, to, len: source.len() as u64 });
            staged.push(source);
        }
        // SAFETY: one region, both sides of which are kept: the source below, the memory by its
        // buffer.
        let submitted =
            regions.pop().map(|region| unsafe { queue.copy(Route::FromHost, &[region]) });
        submitted.unwrap_or(Ok(()))?;
        // SAFETY: the copy, if there are any bytes, was submitted just now to this queue.
        unsafe { memory.assume_written(bytes.len() as u64) };
        Ok(memory.into_buffer())
    };
    let built = data::schema_of(plan).and_then(|schema| {
        data::build(plan, schema.field().clone(), queue.device().id(), &mut place)
    });
    queue.keep_until_done(staged);
    let array = scene.exchange.finish(built.map_err(text)?, queue).map_err(text)?;
    let mut held = scene.export(&array)?;
    drop(array);

    let schema = SeenSchema::of(&held.schema);
    let written = producer::schema(plan, &Ledger::new());
    let written = HeldStructs { schema: written, array: ArrowDeviceArray::empty() };
    let expected_schema = SeenSchema::of(&written.schema);
    require(schema == expected_schema, || {
        format!("the schema is {schema:?} and was to be {expected_schema:?}")
    })?;
    let expected = data::planned(plan, &schema, &mut places.into_iter());
    let seen = Seen::of(&held.array.array);
    data::without_supplied(seen.with_known_nulls(&schema), &expected, &schema)
        .require_same(&expected)?;
    let (c_array, id) = (&held.array, scene.device.id());
    require((c_array.device_type, c_array.device_id) == (id.device_type.0, id.id), || {
        format!("it lies on {}:{}", c_array.device_type, c_array.device_id)
    })?;
    require(c_array.reserved == [0; 3], || "`reserved` is not zero".into())?;
    let has_event = !c_array.sync_event.is_null();
    match scene.device.properties().readiness {
        Readiness::Event => require(has_event, || "no event, and the work is pending".into())?,
        _ => require(!has_event, || "an event on a device that has none".into())?,
    }
    // The consumer has nothing but the structs and the driver.
    let read = read_struct(scene, &held, plan);
    if read.is_err()
        && scene
            .pace
            .synchronize(&scene.reader)
            .is_err_and(|error| error.kind() != ErrorKind::DeviceLost)
    {
        // The device may still be reading, so the structs may not be released.
        std::mem::forget(held);
        return read;
    }
    read?;
    let order = Order::ALL[scene.number % Order::ALL.len()];
    consumer::release_in_order(held.take_array().array, order)
}

/// Reads the bytes of a struct behind its event.
fn read_struct(scene: &Scene<'_>, held: &HeldStructs, plan: &Plan) -> Verdict {
    data::wait_for(&scene.reader, held.array.sync_event, scene.pace)?;
    let mut parts = Vec::new();
    data::parts_of_struct(&held.array.array, plan, &mut parts);
    Landing::submit(&scene.reader, parts, scene.pace)
        .map_err(text)?
        .finish(&scene.reader, scene.pace)
}

fn copy(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let ledger = Ledger::new();
    let original = data::on_host(plan, &ledger).map_err(text)?;
    scene.busy.occupy(&scene.writer, Lane::Writer).map_err(text)?;
    let there = scene.exchange.to_device(&original, &scene.writer).map_err(text)?;
    require(there.device() == scene.device.id(), || format!("it is on {}", there.device()))?;
    let mut held = scene.export(&there)?;
    drop(there);
    let again = scene.exchange.import(&mut held.schema, &mut held.array).map_err(text)?;
    let back = scene.exchange.to_host(&again, &scene.reader).map_err(text)?;
    drop(again);
    let numbers = |array: &Array| (array.len(), array.offset(), array.null_count());
    require(numbers(&back) == numbers(&original), || {
        format!("{:?} and not {:?} came back", numbers(&back), numbers(&original))
    })?;
    data::compare_on_host(&back.host().map_err(text)?, plan)?;
    let is_equal = back.equals(&original).map_err(text)?;
    require(is_equal, || "other values came back".into())?;
    drop((back, original));
    // The host memory is kept until the queue has passed the copy.
    scene.pace.synchronize(&scene.writer).map_err(text)?;
    scene.settle(&ledger, 0)
}

fn order(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let (mut held, ledger) = scene.foreign(plan, Written::BehindWork(RUNTIMES_TAKE))?;
    let array = scene.import(&mut held, &ledger)?;
    let view = scene.exchange.view(&array, &scene.reader).map_err(text)?;
    let landing = Landing::of(&view, plan, scene.pace).map_err(text)?;
    drop(view);
    landing.finish(&scene.reader, scene.pace)?;
    drop(array);
    scene.settle(&ledger, 2)
}

fn deferred_release(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let (mut held, ledger) = scene.foreign(plan, Written::BehindWork(1))?;
    let array = scene.import(&mut held, &ledger)?;
    let view = scene.exchange.view(&array, &scene.reader).map_err(text)?;
    // A child and a slice count as uses of the whole array.
    let part = array.slice(0, array.len() / 2).map_err(text)?;
    drop(array);
    let landing = Landing::of(&view, plan, scene.pace).map_err(text)?;
    drop((view, part));
    arrow_device::deferred::release_finished();
    let is_released = ledger.base_releases() > 1;
    require(!(is_released && is_pending(&scene.reader)?), || {
        "released while a queue still uses it".into()
    })?;
    landing.finish(&scene.reader, scene.pace)?;
    scene.settle(&ledger, 2)
}

/// Whether a queue still has work. An idle queue may take a moment to notice that it is idle.
fn is_pending(queue: &Queue) -> std::result::Result<bool, String> {
    for _ in 0..1000 {
        if queue.is_idle().map_err(text)? {
            return Ok(false);
        }
        std::thread::yield_now();
    }
    Ok(true)
}

/// How many slow copies it takes to outlast a mapping in some runtimes, or the handing over of one
/// queue's event to another queue.
const RUNTIMES_TAKE: usize = 3;

fn read_in_place(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let (mut held, ledger) = scene.foreign(plan, Written::BehindWork(RUNTIMES_TAKE))?;
    let array = scene.import(&mut held, &ledger)?;
    if !scene.pace.may_wait() {
        scene.pace.until(|| array.is_ready()).map_err(text)?;
    }
    data::compare_on_host(&array.host().map_err(text)?, plan)?;
    drop(array);
    scene.settle(&ledger, 2)
}

fn another_device(scene: &Scene<'_>, plan: &Plan) -> Verdict {
    let Some(queue) = &scene.elsewhere else { return Ok(()) };
    let (mut held, ledger) = scene.foreign(plan, Written::BehindWork(1))?;
    let array = scene.import(&mut held, &ledger)?;
    let is_reached = queue.reaches(scene.device.id());
    match (scene.exchange.view(&array, queue), is_reached) {
        (Ok(view), Ok(())) => across(scene, &view, plan)?,
        (Err(error), Err(_)) => {
            let kind = error.kind();
            require(kind == ErrorKind::NotReachable, || format!("{error} and not NotReachable"))?;
        }
        (Ok(_), Err(_)) => return Err("memory that cannot be reached was shown".into()),
        (Err(error), Ok(())) => return Err(text(error)),
    }
    drop(array);
    scene.settle(&ledger, 2)
}

/// Copies from one device to another, and from there to the host.
fn across(scene: &Scene<'_>, view: &arrow_device::View, plan: &Plan) -> Verdict {
    let queue = view.queue();
    let (mut regions, mut copies, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for (from, bytes) in data::parts(view, plan) {
        let len = scene.pace.whole(queue, bytes.len()) as u64;
        let mut memory = queue.allocate(len).map_err(text)?;
        let to = memory.spot(queue).map_err(text)?;
        regions.push(Region { from, to, len });
        parts.push((to, bytes));
        copies.push(memory);
    }
    // SAFETY: the sources hold as many bytes, as the plan says, and are kept by the view; the
    // targets are new.
    unsafe { queue.copy(Route::FromPeer(&**scene.device.driver()), &regions) }.map_err(text)?;
    Landing::submit(queue, parts, scene.pace).map_err(text)?.finish(queue, scene.pace)
}
