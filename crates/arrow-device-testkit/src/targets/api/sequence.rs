//! The calls that a sequence consists of.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_device::copy::{Job, Options};
use arrow_device::dlpack::TensorView;
use arrow_device::{
    Array, Batch, Buffer, DataType, Device, DeviceId, Error, ErrorKind, Field, Memory, Queue,
    Result, View, deferred,
};
use arrow_device_sim::{Call, Sim};

use super::owners::{self, Block, Habit};
use super::twins::is_same;
use super::values::{ExpectedRead, Values};
use super::world::{Thing, World, discard};
use crate::generate::Choices;

/// The most things that one thread has.
const MOST_THINGS: usize = 24;

/// Whether an error may come where nothing was told to fail: two devices, a kind of device or a
/// conversion may not support something, and the host may ask for data that a queue still writes
/// and that has no event.
pub(super) fn may_come(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotReachable | ErrorKind::Unsupported | ErrorKind::NotReady)
}

/// Whether a complaint is about a lost device or failed work.
fn is_told_to_fail(complaint: &str) -> bool {
    complaint.contains("device lost") || complaint.contains("work failed")
}

/// The calls of the driver that can be told to fail.
const CALLS: [Call; 8] = [
    Call::Allocate,
    Call::MakeEvent,
    Call::Record,
    Call::Wait,
    Call::Submit,
    Call::HostWait,
    Call::Map,
    Call::Part,
];

impl World<'_> {
    /// Makes one call, or a few that belong together.
    pub(super) fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(24) {
            0 | 1 => self.build_on_device(choices),
            2 => self.build_on_host(choices),
            3 => self.build_of_others(choices),
            4 | 5 => self.view(choices),
            6 => self.take_part(choices),
            7 => self.export(choices),
            8 => self.import(choices),
            9 | 10 => self.copy(choices),
            11 => self.read_on_host(choices),
            12 => self.make_tensor(choices),
            13 => self.use_tensor(choices),
            14 => self.make_stream(choices),
            15 => self.use_stream(choices),
            16 => self.make_async(choices),
            17 => self.use_async(choices),
            18 => self.run_jobs(choices),
            19 => self.use_event(choices),
            20 => self.share(choices),
            21 => self.ask_for_releases(choices),
            22 => self.plan_a_fault(choices),
            _ => self.drop_one(choices),
        }
        if self.things.len() > MOST_THINGS {
            self.drop_one(choices);
        }
    }

    // ---- arrays out of nothing

    fn build_on_device(&mut self, choices: &mut Choices<'_>) {
        let numbers = self.shared.fresh_numbers(1 + choices.below(20));
        if choices.once_in(4) {
            let built = self.build_on_block(choices, &numbers);
            self.keep("a block", built, Values::Numbers(numbers));
            return;
        }
        let Some((buffer, device)) = self.device_buffer(choices, &numbers) else { return };
        let builder = Array::builder(DataType::Int64).len(numbers.len()).null_count(0);
        let builder = builder.buffers([None, Some(buffer)]);
        let finished = if choices.once_in(2) {
            builder.finish_ready()
        } else {
            builder.finish_on(&self.queue_of(choices, &device))
        };
        self.keep("finish", finished, Values::Numbers(numbers));
    }

    /// Builds an array of memory that is freed as soon as the library lets go of it.
    fn build_on_block(&self, choices: &mut Choices<'_>, numbers: &[i64]) -> Result<Array> {
        let (queue, sim) = self.queue(choices);
        let len = 8 * numbers.len() as u64;
        let block = Block::new(queue.device(), len)?;
        let values = numbers.to_vec();
        let kernel = sim.kernel("make").writes(block.spot(), len);
        let launched = kernel.launch(&queue, move |memory| memory.set_values(0, &values));
        let written = match choices.below(2) {
            0 => launched.map(|()| None),
            _ => launched.and_then(|()| queue.record()).map(Some),
        };
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                queue.keep_until_done(block);
                return Err(error);
            }
        };
        let builder = Array::builder(DataType::Int64).len(numbers.len()).null_count(0);
        let builder = builder.buffers([None, Some(block.into_buffer())]);
        match written {
            None => builder.finish_on(&queue),
            // SAFETY: UNS-32: the event was recorded behind the kernel, which is all that writes.
            Some(written) => unsafe { builder.finish_after(written) },
        }
    }

    /// Makes a buffer that a kernel on one queue or the host fills. Returns it with its device.
    fn device_buffer(
        &mut self,
        choices: &mut Choices<'_>,
        numbers: &[i64],
    ) -> Option<(Buffer, Device)> {
        let device = self.device(choices);
        let len = 8 * numbers.len() as u64;
        let allocated = if choices.once_in(2) {
            device.allocate(len)
        } else {
            self.queue_of(choices, &device).allocate(len)
        };
        let mut memory = self.may_fail("allocate", allocated)?;
        if self.shared.is_of_twins(device.id()) && choices.once_in(4) {
            self.use_in_twin(&mut memory, &device);
        }
        // The queue may differ from the one that the memory was allocated for.
        let queue = self.queue_of(choices, &device);
        if choices.once_in(12) {
            self.share_unwritten(memory, &queue);
            return None;
        }
        let sim = self.sim_of(&device);
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_ne_bytes()).collect();
        match (sim, choices.below(3)) {
            (Some(sim), way @ (1 | 2)) => {
                let spot = self.may_fail("spot", memory.spot(&queue))?;
                if way == 2 {
                    // Another write comes in between. The queue still knows the place.
                    let other = self.queue_of(choices, &device);
                    self.may_fail("write", memory.write(&other, &bytes))?;
                }
                let values = numbers.to_vec();
                let kernel = sim.kernel("make").writes(spot, len);
                let launched = kernel.launch(&queue, move |memory| memory.set_values(0, &values));
                self.may_fail("launch", launched)?;
                // SAFETY: UNS-33: the kernel writes all of it, in the order of its queue.
                unsafe { memory.assume_written(len) };
            }
            _ => self.may_fail("write", memory.write(&queue, &bytes))?,
        }
        Some((memory.into_buffer(), device))
    }

    /// Checks that bytes that nobody has written cannot be had.
    fn share_unwritten(&self, mut memory: Memory, queue: &Queue) {
        let len = memory.len();
        self.may_fail("write", memory.write(queue, &[0x55; 4]));
        let buffer = memory.into_buffer();
        let builder = Array::builder(DataType::Int64).len(len as usize / 8).null_count(0);
        if builder.buffers([None, Some(buffer)]).finish_ready().is_ok() {
            self.shared.findings.add("an array has bytes that nobody has written");
        }
    }

    fn build_on_host(&mut self, choices: &mut Choices<'_>) {
        let numbers = self.shared.fresh_numbers(1 + choices.below(20));
        let habit = match choices.below(6) {
            3 => Habit::Calls,
            4 => Habit::Panics,
            5 => self.array(choices).map_or(Habit::Quiet, |(array, _)| Habit::Owns(array)),
            _ => Habit::Quiet,
        };
        let buffer = owners::buffer(&numbers, habit, &self.shared.books);
        let builder = Array::builder(DataType::Int64).len(numbers.len()).null_count(0);
        let finished = builder.buffers([None, Some(buffer)]).finish_ready();
        self.keep("finish", finished, Values::Numbers(numbers));
    }

    /// Builds a struct of two arrays of one device, which may be ready at different times, or
    /// lists.
    fn build_of_others(&mut self, choices: &mut Choices<'_>) {
        let (Some((one, left)), Some((other, right))) = (self.array(choices), self.array(choices))
        else {
            return;
        };
        if choices.once_in(2) && left.numbers().is_some() {
            self.build_lists(choices, &one, &left);
            return;
        }
        if one.device() != other.device() {
            return;
        }
        let (device, rows) = (one.device(), left.len().min(right.len()));
        let fields = [("a", &one), ("b", &other)]
            .map(|(name, array)| Field::new(name, array.data_type().clone(), true));
        let columns = [&one, &other].map(|array| array.slice(0, rows));
        let [Ok(one), Ok(other)] = columns else {
            self.shared.findings.add("a slice from the start is refused");
            return;
        };
        let builder = Array::builder(DataType::struct_(fields)).len(rows).null_count(0);
        let builder = builder.buffers([None]).children([one, other]);
        let finished = match choices.below(2) {
            0 => builder.finish_ready(),
            _ => {
                let (queue, _) = self.queue(choices);
                let finished = builder.finish_on(&queue);
                self.check_that_it_is_used_on("a built array", &finished, &queue);
                let id = queue.device().id();
                if finished.is_ok() && device != DeviceId::CPU && !self.may_be_related(id, device) {
                    self.shared.findings.add("an array is finished on a queue of another runtime");
                }
                finished
            }
        };
        let refusal = finished.as_ref().err().map(Error::kind);
        if matches!(refusal, Some(ErrorKind::InvalidArgument | ErrorKind::LimitExceeded)) {
            // The queue may be of another device, which is refused, or the type may have too many
            // fields.
            return;
        }
        let both = [left.slice(0, rows), right.slice(0, rows)];
        self.keep("finish", finished, Values::Pair(Box::new(both)));
    }

    /// Builds two lists of the items of an array, on the array's device.
    fn build_lists(&mut self, choices: &mut Choices<'_>, child: &Array, values: &Values) {
        let Some(numbers) = values.numbers() else { return };
        let first = numbers.len().min(choices.below(4));
        let offsets = [0, first, numbers.len()].map(|offset| offset as i32);
        let buffer = if child.device() == DeviceId::CPU {
            Buffer::from(offsets.to_vec())
        } else {
            let devices = self.shared.devices.iter().filter(|one| one.id() == child.device());
            let devices: Vec<&Device> = devices.collect();
            // One of two twins may be chosen that does not have the child. That is refused.
            let device = match *devices {
                [] => return,
                [only] => only,
                _ => choices.pick(&devices),
            };
            let Some(mut memory) = self.may_fail("allocate", device.allocate(12)) else { return };
            let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect();
            let queue = self.queue_of(choices, device);
            if self.may_fail("write", memory.write(&queue, &bytes)).is_none() {
                return;
            }
            memory.into_buffer()
        };
        let builder = Array::builder(DataType::list(DataType::Int64)).len(2).null_count(0);
        let built = builder.buffers([None, Some(buffer)]).children([child.clone()]).finish_ready();
        if self.shared.are_twins
            && built.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument)
        {
            // The offsets are in the memory of the other runtime.
            return;
        }
        let lists = [&numbers[..first], &numbers[first..]].map(<[i64]>::to_vec);
        self.keep("lists", built, Values::Lists(lists.into()));
    }

    // ---- views

    fn view(&mut self, choices: &mut Choices<'_>) {
        let is_view = |thing: &Thing| matches!(thing, Thing::View(..) | Thing::TensorView(..));
        if choices.once_in(3)
            && let Some(view) = self.take(choices, is_view)
        {
            match &view {
                Thing::View(view, values) => self.look(view, values),
                Thing::TensorView(view, numbers) => self.look_at_tensor(view, numbers),
                _ => {}
            }
            self.things.push(view);
            return;
        }
        let Some((array, values)) = self.array(choices) else { return };
        let (queue, _) = self.queue(choices);
        let Some(view) = self.may_fail("view", array.on(&queue)) else {
            self.check_that_a_runtime_has(&array);
            return;
        };
        drop(array);
        self.look(&view, &values);
        if choices.once_in(3) {
            self.things.push(Thing::View(view, values));
        }
    }

    /// Has a kernel read all that a view shows.
    pub(super) fn look(&self, view: &View, values: &Values) {
        let reads = match values.reads(view.root()) {
            Ok(reads) => reads,
            Err(error) => {
                self.shared.findings.add(format!("a view of a child: {error}"));
                return;
            }
        };
        self.launch(view.queue(), reads);
    }

    pub(super) fn look_at_tensor(&self, view: &TensorView, numbers: &[i64]) {
        if view.tensor().is_compact() && !numbers.is_empty() {
            let len = 8 * numbers.len() as u64;
            let (spot, expected) = (view.location().spot(), Some(numbers.to_vec()));
            self.launch(view.queue(), vec![ExpectedRead { spot, len, expected }]);
        }
    }

    pub(super) fn launch(&self, queue: &Queue, reads: Vec<ExpectedRead>) {
        let Some((_, sim)) = self.shared.queues.iter().find(|(known, _)| known.is_same(queue))
        else {
            return;
        };
        let mut kernel = self.shared.sims[*sim].kernel("look");
        let mut expected = Vec::new();
        for read in reads {
            kernel = kernel.reads(read.spot, read.len);
            expected.push(read.expected);
        }
        let findings = self.shared.findings.clone();
        let launched = kernel.launch(queue, move |memory| {
            for (number, expected) in expected.iter().enumerate() {
                let found = memory.values::<i64>(number);
                if expected.as_ref().is_some_and(|expected| found != *expected) {
                    findings.add(format!("a kernel found {found:?} for {expected:?}"));
                }
            }
        });
        self.may_fail("launch", launched);
    }

    // ---- parts

    fn take_part(&mut self, choices: &mut Choices<'_>) {
        let Some((array, values)) = self.array(choices) else { return };
        match choices.below(3) {
            0 => self.things.push(Thing::Array(array, values)),
            1 => {
                let offset = choices.below(values.len() + 1);
                let length = choices.below(values.len() - offset + 1);
                let part = values.slice(offset, length);
                self.keep("slice", array.slice(offset, length), part);
            }
            _ => {
                let number = choices.below(2);
                let Some(part) = values.child(number) else { return };
                let (offset, length) = (array.offset(), array.len());
                let child = if choices.once_in(2) {
                    Batch::try_from(array).and_then(|batch| batch.column(number))
                } else {
                    array.child(number).and_then(|child| child.slice(offset, length))
                };
                self.keep("child", child, part);
            }
        }
    }

    // ---- copies

    fn copy(&mut self, choices: &mut Choices<'_>) {
        let Some((array, values)) = self.array(choices) else { return };
        let queue = match choices.below(4) {
            3 => Queue::host(),
            _ => self.queue(choices).0,
        };
        let mut options = Options::new().always(choices.once_in(2)).separate(choices.once_in(3));
        if choices.once_in(3) {
            options = options.chunk(64).trim(choices.once_in(2));
        }
        if choices.once_in(3) {
            options = options.allocator(self.shared.recycler.clone());
        } else if let Some(number) = self.number_of(queue.device())
            && choices.once_in(3)
        {
            options = options.allocator(self.untidy(number));
        }
        if !choices.once_in(3) {
            let copied = array.copy_with(&queue, &options);
            self.check_that_it_is_used_on("a copy", &copied, &queue);
            self.keep("copy", copied, values);
            return;
        }
        if choices.once_in(2) {
            let copying = array.copy_polled(&queue, &options);
            let Some(copying) = self.may_fail("a polled copy", copying) else { return };
            return self.things.push(Thing::Polled(copying, values));
        }
        let Some(plan) = self.may_fail("plan", array.plan_copy(&queue, &options)) else { return };
        drop(array);
        let jobs = self.jobs.clone();
        let copying = match choices.below(3) {
            0 => plan.start(&|job: Job| job()),
            1 => plan.start(&|job: Job| jobs.lock().unwrap().push(job)),
            _ => plan.start(&|job: Job| drop(std::thread::spawn(job).join())),
        };
        self.things.push(Thing::Copying(copying, values));
    }

    /// Runs or drops some of the work of copies, and takes the copies that are done.
    fn run_jobs(&mut self, choices: &mut Choices<'_>) {
        let job = self.jobs.lock().unwrap().pop();
        match (job, choices.below(4)) {
            (Some(job), 3) => drop(job),
            (Some(job), 2) => drop(std::thread::spawn(job).join()),
            (Some(job), _) => job(),
            (None, _) => {}
        }
        let is_polled = |thing: &Thing| matches!(thing, Thing::Polled(..));
        if let Some(Thing::Polled(mut copying, values)) = self.take(choices, is_polled) {
            match copying.poll() {
                Ok(None) => self.things.push(Thing::Polled(copying, values)),
                Ok(Some(copied)) => self.keep("a polled copy", Ok(copied), values),
                Err(error) => self.keep("a polled copy", Err(error), values),
            }
        }
        let is_copying =
            |thing: &Thing| matches!(thing, Thing::Copying(copying, _) if copying.is_done());
        if let Some(Thing::Copying(copying, values)) = self.take(choices, is_copying) {
            match copying.wait() {
                // The work of this copy was dropped.
                Err(error) if error.kind() == ErrorKind::Cancelled => {}
                waited => self.keep("a copy", waited, values),
            }
        }
    }

    fn read_on_host(&mut self, choices: &mut Choices<'_>) {
        let Some((array, values)) = self.array(choices) else { return };
        // Reads in place where the host can read the memory, otherwise by a copy.
        let readable = if choices.once_in(2) {
            array.host().map(|host| host.array().clone())
        } else {
            array.to_host()
        };
        let Some(host) = self.may_fail("to the host", readable) else { return };
        // Only now may a driver be asked to show some of the bytes.
        if let Err(complaint) = values.compare(&host)
            && !self.shared.has_faults.load(Ordering::Relaxed)
            && !(self.shared.has_losses() && is_told_to_fail(&complaint))
        {
            self.shared.findings.add(format!("the host read {complaint}"));
        }
    }

    // ---- the rest

    fn use_event(&mut self, choices: &mut Choices<'_>) {
        let (queue, _) = self.queue(choices);
        let events = self.things.iter().filter_map(|thing| match thing {
            Thing::Event(event) => Some(event.clone()),
            _ => None,
        });
        let events: Vec<_> = events.collect();
        match (choices.below(6), events.is_empty()) {
            (0 | 1, _) | (_, true) => {
                if let Some(event) = self.may_fail("record", queue.record()) {
                    self.things.push(Thing::Event(event));
                }
            }
            (2, _) => {
                let waited = queue.wait(&events[choices.below(events.len())]);
                self.may_fail("wait", waited);
            }
            (3, _) => {
                self.may_fail("is_complete", events[choices.below(events.len())].is_complete());
            }
            (4, _) => {
                self.may_fail("synchronize", events[choices.below(events.len())].synchronize());
            }
            _ => {
                let kept = self.array(choices);
                queue.keep_until_done(kept);
            }
        }
    }

    /// Gives an array to the other thread, or takes one from it.
    fn share(&mut self, choices: &mut Choices<'_>) {
        if choices.once_in(2) {
            if let Some(item) = self.array(choices) {
                self.shared.pool.lock().unwrap().push(item);
            }
            return;
        }
        let mut pool = self.shared.pool.lock().unwrap();
        let count = pool.len();
        if count > 0 {
            let at = choices.below(count);
            let (array, values) =
                if choices.once_in(2) { pool.swap_remove(at) } else { pool[at].clone() };
            drop(pool);
            self.things.push(Thing::Array(array, values));
        }
    }

    fn ask_for_releases(&mut self, choices: &mut Choices<'_>) {
        match choices.below(4) {
            0 => self.shared.sims[choices.below(2)].run_until_idle(),
            1 => self.shared.recycler.clear(),
            2 => drop(self.may_fail("synchronize", self.queue(choices).0.synchronize())),
            _ => drop(deferred::release_finished()),
        }
    }

    fn plan_a_fault(&mut self, choices: &mut Choices<'_>) {
        // Most sequences have no failing calls, because errors hide findings.
        if choices.once_in(8) {
            let runtime = choices.below(2);
            let (sim, call) = (&self.shared.sims[runtime], choices.pick(&CALLS));
            let byte = choices.byte();
            let (nth, effect) = (1 + u64::from(byte % 4), byte / 4 % 5);
            // Noted before it happens, because another thread may be the first to see it.
            let noted = match effect {
                0 | 1 => &self.shared.has_faults,
                _ => &self.shared.losses[runtime],
            };
            noted.store(true, Ordering::Relaxed);
            match effect {
                0 | 1 => sim.fail(call, nth),
                2 => sim.lose_device_in(call, nth),
                3 => sim.fail_later(nth),
                _ => sim.lose_device(),
            }
        }
    }

    fn drop_one(&mut self, choices: &mut Choices<'_>) {
        if self.things.is_empty() {
            return;
        }
        let thing = self.things.swap_remove(choices.below(self.things.len()));
        if choices.once_in(4) {
            let thing = OnOtherThread(thing);
            let discards = move || {
                let OnOtherThread(thing) = { thing };
                discard(thing);
            };
            // Joined, so that the thread itself is gone when leaks are looked for.
            let joined = std::thread::scope(|threads| threads.spawn(discards).join());
            if joined.is_err() {
                self.shared.findings.add("a drop on another thread panicked");
            }
        } else {
            discard(thing);
        }
    }

    // ---- what the calls need

    /// Returns a clone of one of the arrays.
    pub(super) fn array(&self, choices: &mut Choices<'_>) -> Option<(Array, Values)> {
        let arrays = self.things.iter().filter_map(|thing| match thing {
            Thing::Array(array, values) => Some((array, values)),
            _ => None,
        });
        let arrays: Vec<_> = arrays.collect();
        (!arrays.is_empty()).then(|| {
            let (array, values) = arrays[choices.below(arrays.len())];
            (array.clone(), values.clone())
        })
    }

    /// Takes a thing of a kind.
    pub(super) fn take(
        &mut self,
        choices: &mut Choices<'_>,
        is_wanted: impl Fn(&Thing) -> bool,
    ) -> Option<Thing> {
        let places: Vec<usize> = (0..self.things.len())
            .filter(|place| self.things.get(*place).is_some_and(&is_wanted))
            .collect();
        let place = (!places.is_empty()).then(|| places[choices.below(places.len())])?;
        Some(self.things.swap_remove(place))
    }

    pub(super) fn keep(&mut self, what: &str, array: Result<Array>, values: Values) {
        if let Some(array) = self.may_fail(what, array) {
            if array.len() != values.len() {
                let lengths = (array.len(), values.len());
                self.shared.findings.add(format!("{what}: lengths {lengths:?}"));
            }
            self.things.push(Thing::Array(array, values));
        }
    }

    /// Returns the number of a software device.
    fn number_of(&self, device: &Device) -> Option<usize> {
        (0..3).find(|number| is_same(&self.shared.devices[*number], device))
    }

    /// Whether two devices may belong to one runtime, as far as their ids tell.
    fn may_be_related(&self, one: DeviceId, other: DeviceId) -> bool {
        let second = self.shared.devices[2].id();
        self.shared.are_twins || (one == second) == (other == second)
    }

    /// Returns a queue of this device.
    fn queue_of(&self, choices: &mut Choices<'_>, device: &Device) -> Queue {
        let queues: Vec<&Queue> = self.shared.queues.iter().map(|(queue, _)| queue).collect();
        let own: Vec<_> =
            queues.into_iter().filter(|queue| is_same(queue.device(), device)).collect();
        if own.is_empty() { Queue::host() } else { own[choices.below(own.len())].clone() }
    }

    fn sim_of(&self, device: &Device) -> Option<Arc<Sim>> {
        Some(self.shared.sim(self.number_of(device)?).clone())
    }
}

/// A thing that is dropped on another thread.
struct OnOtherThread(Thing);

// SAFETY: all parts of a thing may be dropped on any thread: those of the library say so, and
// exported structs "can be released from any thread" (UNS-14).
unsafe impl Send for OnOtherThread {}
