//! The lanes of all queues that are used, by the queue's address.
//!
//! A queue has one lane. A second one would know nothing of the copies that the first one still has
//! to bring to the host. Therefore:
//!
//! 1. A queue that this crate made has its lane until the queue is closed. A closed queue can be
//!    named by nobody. Its lane is kept until the work is over, so that a lane never ends with work
//!    that waits for another lane.
//! 2. A queue of the application's gets its lane when it is first used, and is not closed here. The
//!    lane is forgotten when another queue is used for the first time, if all work is over, none of
//!    it failed, and nobody has the lane: no event stands for work of the lane, no other lane waits
//!    for it, and no thread is about to submit to it. Whoever looks a lane up takes a share of it
//!    under the lock under which a lane is forgotten.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_device::{Error, ErrorKind, Result};

use crate::api::Id;
use crate::home::Home;
use crate::lane::{Lane, Owner};
use crate::object::{Object, Pool};

#[derive(Default)]
struct Lanes {
    known: HashMap<usize, Arc<Lane>>,
    /// The lanes of queues that were closed before their work was known to be over.
    closed: VecDeque<Arc<Lane>>,
}

static LANES: Mutex<Option<Lanes>> = Mutex::new(None);

fn with_lanes<R>(change: impl FnOnce(&mut Lanes) -> R) -> R {
    let mut lanes: MutexGuard<'_, _> = LANES.lock().unwrap_or_else(PoisonError::into_inner);
    change(lanes.get_or_insert_default())
}

/// Opens a new queue.
pub(crate) fn open(home: &Arc<Home>) -> Result<Id> {
    go_on_with_closed();
    let queue = home.new_queue()?;
    let key = queue.id();
    let lane = Lane::new(home, queue, Owner::Crate)?;
    with_lanes(|lanes| lanes.known.insert(key.addr(), lane));
    Ok(key)
}

/// Closes a queue. A queue of the application's stays as it is.
pub(crate) fn close(queue: Id) {
    with_lanes(|lanes| {
        let is_own = |lane: &&Arc<Lane>| lane.owner == Owner::Crate;
        if lanes.known.get(&queue.addr()).filter(is_own).is_some() {
            let closed = lanes.known.remove(&queue.addr());
            lanes.closed.extend(closed);
        }
    });
    go_on_with_closed();
}

/// Goes on with the work of closed queues, and lets go of those whose work is over. Stops at the
/// first queue whose work goes on, and begins behind that queue the next time.
pub(crate) fn go_on_with_closed() {
    while let Some(lane) = with_lanes(|lanes| lanes.closed.pop_front()) {
        if !lane.is_over() {
            return with_lanes(|lanes| lanes.closed.push_back(lane));
        }
    }
}

/// Returns the lane of a queue.
///
/// # Safety
/// The queue is alive.
pub(crate) unsafe fn of_queue(home: &Arc<Home>, queue: Id) -> Result<Arc<Lane>> {
    if let Some(lane) = with_lanes(|lanes| lanes.known.get(&queue.addr()).cloned()) {
        return Ok(lane);
    }
    // SAFETY: the queue is alive, as the caller promises.
    let object = unsafe { queue_of(home, NonNull::new(queue)) }?;
    let lane = Lane::new(home, object, Owner::Application)?;
    forget_idle();
    // Another thread may have made a lane meanwhile, which then is the lane of the queue.
    Ok(with_lanes(|lanes| lanes.known.entry(queue.addr()).or_insert(lane).clone()))
}

/// Forgets the queues of the application that nobody uses.
fn forget_idle() {
    let of_application = |lane: &&Arc<Lane>| lane.owner == Owner::Application;
    let asked: Vec<_> =
        with_lanes(|lanes| lanes.known.values().filter(of_application).cloned().collect());
    // Without the lock, because bytes may come to the host now.
    for lane in asked {
        lane.is_over();
    }
    let forgotten: Vec<_> = with_lanes(|lanes| {
        // Nobody can take a share meanwhile: who looks for one waits for the lock, and the one
        // share that there is is here. Asked in this order, because whoever had another share may
        // have submitted work before giving it back.
        let is_free = |lane: &Arc<Lane>| {
            lane.owner == Owner::Application
                && Arc::strong_count(lane) == 1
                && lane.is_forgettable()
        };
        let free: Vec<usize> =
            lanes.known.iter().filter(|(_, lane)| is_free(lane)).map(|(key, _)| *key).collect();
        free.into_iter().filter_map(|key| lanes.known.remove(&key)).collect()
    });
    // The objects are released without the lock.
    drop(forgotten);
}

/// Returns a queue of the application's.
///
/// # Safety
/// The pointer is null or an object that is alive.
pub(crate) unsafe fn queue_of(home: &Arc<Home>, queue: Option<NonNull<c_void>>) -> Result<Object> {
    let api = home.api;
    let _pool = Pool::new(api);
    let refused = |message| {
        Error::new(ErrorKind::InvalidArgument, message).during("use a queue").on_device(home.id)
    };
    // SAFETY: the object is alive, as the caller promises.
    let queue = queue.filter(|queue| unsafe { api.conforms(queue.as_ptr(), c"MTLCommandQueue") });
    let queue = queue.ok_or_else(|| refused("the object is no MTLCommandQueue"))?;
    // SAFETY: the object is alive, as the caller promises.
    let queue = unsafe { Object::retained(api, queue) };
    // SAFETY: `- (id)device` of a queue.
    let device = unsafe { api.send::<Id>(queue.id(), api.selectors.device) };
    if device != home.device.id() {
        return Err(refused("the queue belongs to another MTLDevice"));
    }
    Ok(queue)
}
