//! The machine behind both drivers: devices, and tables of all handles that were given out.
//!
//! One for each loaded file. A handle is a number that is looked up: it is no pointer, no other
//! loaded file knows it, and it is not used again unless that is asked for.

use std::collections::BTreeMap;

use arrow_device::ErrorKind;
use arrow_device_sim::Site;
use arrow_device_sim::hardware::{self, Hardware, Lane, Mark};

use crate::capture::Capture;
use crate::code::{Answer, Code};
use crate::config::Config;
use crate::graphs::Graph;
use crate::pools::Pool;
use crate::record::Record;
use crate::thread::{self, Current};

/// See the [module](self).
pub(crate) struct Machine {
    pub(crate) hardware: Hardware,
    pub(crate) config: Config,
    pub(crate) initialised: bool,
    /// The driver's own handler of the end of the process has run.
    pub(crate) is_torn_down: bool,
    pub(crate) devices: Vec<Device>,
    pub(crate) streams: BTreeMap<usize, Stream>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) captures: BTreeMap<usize, Capture>,
    /// Graphs, and what was made of them to be launched.
    pub(crate) graphs: BTreeMap<usize, Graph>,
    /// Contexts that programs have made, beside the primary ones.
    pub(crate) contexts: BTreeMap<usize, Context>,
    pub(crate) pools: BTreeMap<usize, Pool>,
    /// Memory that is mapped by hand.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) mapped: crate::mapped::Mapped,
    /// Modules and functions: what each handle is called.
    pub(crate) modules: BTreeMap<usize, String>,
    next: usize,
    /// Handles of what was destroyed, where they are given out again.
    old_handles: Vec<usize>,
    /// How many questions were answered with "not ready" since the device last made progress.
    pub(crate) questions: u64,
    pub(crate) record: Record,
}

/// A device, and its primary context.
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// How often its primary context was retained.
    pub(crate) retained: u32,
    /// What every call returns since it was lost.
    pub(crate) lost: Option<i32>,
    /// The default stream, once it was used, and those of each thread.
    pub(crate) legacy: Option<usize>,
    pub(crate) per_thread: BTreeMap<u64, usize>,
    /// Devices whose memory this one was given access to.
    pub(crate) peers: Vec<usize>,
    /// The pool that somebody has made the current one.
    pub(crate) pool: Option<usize>,
}

/// A context that a program has made.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) destroyed: Option<Site>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) lane: Lane,
    pub(crate) device: usize,
    pub(crate) context: usize,
    /// Whether it is ordered with the default stream.
    pub(crate) blocking: bool,
    /// Nobody made it: it is a default stream.
    pub(crate) is_default: bool,
    pub(crate) destroyed: Option<Site>,
    pub(crate) capture: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) mark: Mark,
    pub(crate) device: usize,
    pub(crate) context: usize,
    pub(crate) destroyed: Option<Site>,
    /// The capture that it was recorded in last, and the stream.
    pub(crate) capture: Option<(usize, usize)>,
}

/// No program has memory at these numbers, so what takes a handle for an address ends there.
const HANDLES: usize = 0x00c1 << 48;

/// Address space that one loaded file takes for device memory, so that many can be loaded.
const ADDRESS_SPACE: usize = 1 << 36;

impl Machine {
    pub(crate) fn new(config: Config) -> Self {
        hardware::limit_address_space(ADDRESS_SPACE);
        let hardware = Hardware::new(config.devices, config.memory, config.seed);
        let devices = (0..config.devices).map(|_| Device::default()).collect();
        let mut record = Record::default();
        for (name, nth, code) in &config.fails {
            record.plan(name, *nth, *code);
        }
        Self {
            hardware,
            config,
            initialised: false,
            is_torn_down: false,
            devices,
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            contexts: BTreeMap::new(),
            pools: BTreeMap::new(),
            #[cfg(all(target_os = "linux", not(miri)))]
            mapped: crate::mapped::Mapped::default(),
            modules: BTreeMap::new(),
            next: 0,
            old_handles: Vec::new(),
            questions: 0,
            record,
        }
    }

    /// A number that no other object of the process has.
    pub(crate) fn new_handle(&mut self) -> usize {
        static HERE: u8 = 0;
        if let Some(old) = self.old_handles.pop() {
            return old;
        }
        self.next += 16;
        let file = (&raw const HERE).addr() >> 12 & 0xf_ffff;
        HANDLES + (file << 28) + self.next
    }

    /// A handle names nothing any more.
    pub(crate) fn retire_handle(&mut self, handle: usize) {
        if self.config.reuses_handles {
            self.old_handles.push(handle);
        }
    }

    /// The number of a device's primary context.
    pub(crate) fn context(&self, device: usize) -> usize {
        static HERE: u8 = 0;
        let file = (&raw const HERE).addr() >> 12 & 0xf_ffff;
        HANDLES + (1 << 47) + (file << 12) + 16 * (device + 1)
    }

    /// The device of a context that is alive.
    pub(crate) fn device_of_context(&mut self, context: usize) -> Answer<usize> {
        if let Some(made) = self.contexts.get(&context) {
            let (device, destroyed) = (made.device, made.destroyed.clone());
            return match destroyed {
                None => Ok(device),
                Some(_) => {
                    let why = "This context was destroyed.";
                    let what = ("ContextDestroyed", Code::INVALID_CONTEXT, why);
                    Err(self.misuse_of(destroyed, what))
                }
            };
        }
        let known = (0..self.devices.len()).find(|device| self.context(*device) == context);
        let is_alive = |device: &usize| self.device(*device).is_ok_and(|d| d.retained > 0);
        match known.filter(is_alive) {
            Some(device) => Ok(device),
            None => Err(self.misuse(
                "UnknownHandle",
                Code::INVALID_CONTEXT,
                "This handle is no context, or one that was never retained.",
            )),
        }
    }

    /// What has to have happened before nearly all calls of CUDA.
    pub(crate) fn must_be_initialised(&mut self) -> Answer {
        if self.initialised {
            return Ok(());
        }
        Err(self.misuse(
            "NotInitialized",
            Code::NOT_INITIALIZED,
            "Nobody has initialised the driver with success: cuInit comes before all else.",
        ))
    }

    /// The device of the context that is current on this thread.
    pub(crate) fn current(&mut self) -> Answer<usize> {
        self.must_be_initialised()?;
        let Some(Current { device, context }) = thread::current() else {
            return Err(self.misuse(
                "NoContext",
                Code::INVALID_CONTEXT,
                "No context is current on this thread: contexts are bound to threads, and this call needs one.",
            ));
        };
        self.alive(device)?;
        if self.contexts.get(&context).is_some_and(|made| made.destroyed.is_some()) {
            return Err(Code::CONTEXT_IS_DESTROYED);
        }
        Ok(device)
    }

    /// The context that this thread uses a device with: the one that is current, or the primary
    /// one.
    pub(crate) fn context_here(&self, device: usize) -> usize {
        let current = thread::current().filter(|current| current.device == device);
        current.map_or_else(|| self.context(device), |current| current.context)
    }

    /// Ends a context that a program has made, and what belongs to it.
    pub(crate) fn destroy_context(&mut self, context: usize) -> Answer {
        let here = self.hardware.here();
        // The primary one is given back, and not destroyed.
        self.contexts.get_mut(&context).ok_or(Code::INVALID_CONTEXT)?.destroyed = Some(here);
        let is_here = |handle: &usize, of: usize| (of == context).then_some(*handle);
        let streams = self.streams.iter().filter(|(_, stream)| stream.destroyed.is_none());
        let streams: Vec<usize> =
            streams.filter_map(|(handle, stream)| is_here(handle, stream.context)).collect();
        let events = self.events.iter().filter(|(_, event)| event.destroyed.is_none());
        let events: Vec<usize> =
            events.filter_map(|(handle, event)| is_here(handle, event.context)).collect();
        streams.into_iter().try_for_each(|stream| self.destroy_stream(stream))?;
        events.into_iter().try_for_each(|event| self.destroy_event(event))
    }

    /// The same, where a call can do without.
    pub(crate) fn current_if_any(&mut self) -> Answer<Option<usize>> {
        self.must_be_initialised()?;
        Ok(thread::current().map(|current| current.device))
    }

    /// HIP: the device that this thread has chosen, which has a context since somebody used it.
    pub(crate) fn chosen(&mut self) -> Answer<usize> {
        self.hip_devices()?;
        let device = thread::with(|thread| thread.device).unwrap_or(0);
        self.alive(device)?;
        self.device(device)?.retained = 1;
        Ok(device)
    }

    /// HIP initialises itself with the first call.
    pub(crate) fn hip_devices(&mut self) -> Answer<usize> {
        match self.devices.len() {
            0 => Err(Code::NO_DEVICE),
            count => {
                if !std::mem::replace(&mut self.initialised, true) {
                    self.registers_its_end();
                }
                Ok(count)
            }
        }
    }

    /// HIP: whether the driver is said to be older than a version.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn is_older_than(&self, version: i32) -> bool {
        let said = self.config.version;
        let own = if said == 0 { crate::hip::VERSION } else { said };
        own < version
    }

    /// A device by its number, as callers give it.
    pub(crate) fn device_number(&mut self, number: i32) -> Answer<usize> {
        let device = usize::try_from(number).map_err(|_| Code::INVALID_DEVICE)?;
        self.device(device).map(|_| device)
    }

    pub(crate) fn device(&mut self, device: usize) -> Answer<&mut Device> {
        self.devices.get_mut(device).ok_or(Code::INVALID_DEVICE)
    }

    /// Once a device is lost, all calls that are about it say so.
    pub(crate) fn alive(&mut self, device: usize) -> Answer {
        match self.device(device)?.lost {
            Some(code) => Err(Code(code)),
            None => Ok(()),
        }
    }

    pub(crate) fn lose(&mut self, device: usize, code: i32) {
        if let Ok(state) = self.device(device) {
            state.lost = Some(code);
            self.hardware.lose(device);
        }
    }

    /// Who may use managed memory now: the host, or a device that works on something.
    pub(crate) fn take_turns(&self, device: usize) {
        if self.config.managed && !self.config.concurrent_managed {
            self.hardware.take_turns(device);
        }
    }

    /// Notes a mistake of the caller, and returns the code for it.
    pub(crate) fn misuse(&mut self, kind: &'static str, code: Code, why: &'static str) -> Code {
        self.misuse_of(None, (kind, code, why))
    }

    /// The same, of something that was destroyed before.
    pub(crate) fn misuse_of(
        &mut self,
        ended: Option<Site>,
        (kind, code, why): (&'static str, Code, &'static str),
    ) -> Code {
        let here = self.hardware.here();
        if self.config.crashes && ended.is_some() {
            eprintln!("{kind}: {why} A driver may end the process here.");
            std::process::abort();
        }
        self.record.misuse((kind, code, why), ended, here);
        code
    }

    /// The code for an error of the engine.
    pub(crate) fn code_of(&mut self, error: &arrow_device::Error, device: usize) -> Code {
        let lost = self.device(device).ok().and_then(|device| device.lost);
        match error.kind() {
            ErrorKind::OutOfMemory => Code::OUT_OF_MEMORY,
            ErrorKind::DeviceLost => Code(lost.unwrap_or(Code::UNKNOWN.0)),
            ErrorKind::InvalidArgument => Code::INVALID_VALUE,
            _ => Code::UNKNOWN,
        }
    }

    /// The answer to a question that was not ready; now and then the device makes progress.
    pub(crate) fn not_ready(&mut self) -> bool {
        self.questions += 1;
        let is_due = self.config.patience > 0 && self.questions >= self.config.patience;
        if is_due {
            self.questions = 0;
        }
        is_due
    }
}
