//! A runtime that is bound to a thread, behind a driver that hands its work to that thread: the way
//! that the module `driver` describes for the page of a browser.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Driver, Properties, Raw, Readiness, Region, Route, Runtime, SyncEvent, Waiting,
    may_not_wait,
};
use arrow_device::{
    Device, DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result, deferred,
};
use arrow_device_testkit::recipe::*;

use crate::copies::list_of_one;

/// The objects of the runtime, which never leave their thread.
struct Page {
    work: Receiver<PageWork>,
    blocks: RefCell<HashMap<usize, Rc<RefCell<Vec<u8>>>>>,
    counts: Arc<Counts>,
}

enum PageWork {
    Allocate(usize, u64),
    Free(usize),
    Copy { regions: Vec<Region>, to_host: bool },
}

/// What the driver knows without the page.
#[derive(Debug, Default)]
struct Counts {
    allocated: AtomicUsize,
    submitted: AtomicUsize,
    done: AtomicUsize,
}

impl Page {
    /// A turn of the page's loop: does what was asked for by now.
    fn turn(&self) {
        for work in self.work.try_iter() {
            match work {
                PageWork::Allocate(handle, len) => {
                    let block = Rc::new(RefCell::new(vec![0; len as usize]));
                    self.blocks.borrow_mut().insert(handle, block);
                }
                PageWork::Free(handle) => {
                    self.blocks.borrow_mut().remove(&handle).expect("freed once");
                }
                PageWork::Copy { regions, to_host } => {
                    regions.into_iter().for_each(|region| self.copy(region, to_host));
                    self.counts.done.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    fn copy(&self, Region { from, to, len }: Region, to_host: bool) {
        let (device, host) = if to_host { (from, to) } else { (to, from) };
        let block = self.blocks.borrow()[&device.base.bits()].clone();
        let mut block = block.borrow_mut();
        let bytes = &mut block[device.offset as usize..][..len as usize];
        let host = host.base.as_ptr().cast::<u8>().wrapping_add(host.offset as usize);
        match to_host {
            true => unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host, len as usize) },
            false => unsafe {
                std::ptr::copy_nonoverlapping(host, bytes.as_mut_ptr(), len as usize);
            },
        }
    }
}

/// Numbers that stand for the objects, and a way to their thread. `Send` and `Sync` by itself.
#[derive(Debug)]
struct PageDriver {
    page: Sender<PageWork>,
    counts: Arc<Counts>,
    properties: Properties,
}

impl PageDriver {
    fn open() -> (Page, Device) {
        let (page, work) = channel();
        let counts = Arc::<Counts>::default();
        let properties = Properties::new("a page").with_addressing(Addressing::Handle);
        let properties = properties.with_readiness(Readiness::QueueOrder);
        let driver = Self { page, counts: counts.clone(), properties };
        (Page { work, blocks: RefCell::default(), counts }, Device::new(driver))
    }

    fn send(&self, work: PageWork) -> Result<()> {
        let gone = |_| Error::new(ErrorKind::DeviceLost, "the page is gone").on_device(self.id());
        self.page.send(work).map_err(gone)
    }

    /// An error where so much work would have to be waited for.
    fn require_done(&self, work: usize) -> Result<()> {
        let is_done = self.counts.done.load(Ordering::SeqCst) >= work;
        if is_done { Ok(()) } else { Err(may_not_wait(self.id())) }
    }
}

unsafe impl Driver for PageDriver {
    fn id(&self) -> DeviceId {
        DeviceId::new(DeviceType::WEBGPU, 0)
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "page", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let handle = 1 + self.counts.allocated.fetch_add(1, Ordering::SeqCst);
        self.send(PageWork::Allocate(handle, len))?;
        Ok(Raw::from_bits(handle))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        let _ = self.send(PageWork::Free(memory.bits()));
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        Ok(Raw::NULL)
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        self.require_done(self.counts.submitted.load(Ordering::SeqCst))
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        Ok(unsafe { self.synchronize(queue) }.is_ok())
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, _event: Raw<Event>) {}

    /// How much was submitted before, and one more, so that it is not null.
    unsafe fn record(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        Ok(Raw::from_bits(self.counts.submitted.load(Ordering::SeqCst) + 1))
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        Ok(self.require_done(event.bits() - 1).is_ok())
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, _timeout: Option<Duration>) -> Result<bool> {
        self.require_done(event.bits() - 1).map(|()| true)
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Err(Error::new(ErrorKind::Unsupported, "the order of the queue says it"))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(Error::new(ErrorKind::Unsupported, "the order of the queue says it"))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let to_host = match route {
            Route::ToHost => true,
            Route::FromHost => false,
            _ => return Err(Error::new(ErrorKind::Unsupported, "only to and from the host")),
        };
        self.send(PageWork::Copy { regions: regions.to_vec(), to_host })?;
        self.counts.submitted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

// Requirement: SAF-5, SAF-21
#[test]
fn a_runtime_that_is_bound_to_a_thread_is_driven_from_any() {
    let (page, device) = PageDriver::open();
    let queue = device.open_queue().unwrap();
    let array = list_of_one(list(text())).build().unwrap();
    let there = array.copy_to(&queue).unwrap();
    assert_eq!(there.to_host().unwrap_err().kind(), ErrorKind::NotReady);
    // The page's thread polls, and goes on with its own work meanwhile.
    let mut copy = there.fetch().unwrap();
    let back = loop {
        if let Some(back) = copy.poll().unwrap() {
            break back;
        }
        page.turn();
    };
    assert!(back.equals(&array).unwrap());
    // Another thread uses the device as well, and drops what it has.
    let elsewhere = std::thread::spawn(move || {
        let array = numbers().build().unwrap();
        let own = array.copy_to(&queue).unwrap();
        let mut copy = own.fetch().unwrap();
        drop((own, there, queue));
        let back = loop {
            if let Some(back) = copy.poll().unwrap() {
                break back;
            }
            std::thread::yield_now();
        };
        assert!(back.equals(&array).unwrap());
    });
    while !elsewhere.is_finished() {
        page.turn();
        std::thread::yield_now();
    }
    elsewhere.join().unwrap();
    drop(copy);
    // What others have in hand meanwhile goes a little later.
    let is_empty = || {
        page.turn();
        deferred::release_finished();
        page.turn();
        page.blocks.borrow().is_empty()
    };
    assert!(arrow_device_testkit::release_until(is_empty), "everything was given back");
}
