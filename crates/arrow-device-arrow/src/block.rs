//! One allocation that holds the C structs of a whole tree and the owner of its memory.
//!
//! arrow-rs keeps an array in many small objects. What the C structs of a tree need is counted
//! first, and then all structs and tables are written into one allocation, the block. The base
//! structure owns the block. `arrow-device` imports that structure and releases it once. The
//! structs below the base are never released by themselves, because only that import sees them.
//! What must stay true: the counting and the writing agree on how much there is. A lane that runs
//! out is an error and not a write outside of the block.

use std::alloc::{Layout, LayoutError};
use std::any::Any;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, PoisonError};

use arrow_device::abi::ArrowArray;
use arrow_device::{Buffer, DeviceId, Error, ErrorKind, Result};

/// How much a tree needs in a block. The base structure is not counted, because the consumer has
/// it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// The number of structs.
    pub(crate) nodes: usize,
    /// The number of entries in the tables of buffers and children.
    pub(crate) pointers: usize,
    /// The number of sizes of the data buffers of views.
    pub(crate) sizes: usize,
}

struct Header<T> {
    layout: Layout,
    /// Bitmaps that were copied because they had to be moved.
    _bitmaps: Vec<Vec<u8>>,
    /// The owner of everything that the tables point to.
    _owner: T,
}

/// The block of a tree while it is being filled. Dropping it frees the block, and does not touch
/// the memory of the tree's arrays.
pub(crate) struct TreeBlock<T> {
    header: NonNull<Header<T>>,
    layout: Layout,
    /// Where the three lanes begin.
    starts: [usize; 3],
    needs: Needs,
    bitmaps: Vec<Vec<u8>>,
}

/// The places of a block that are not written yet.
pub(crate) struct Room<'block> {
    pub(crate) nodes: Lane<'block, ArrowArray>,
    pub(crate) pointers: Lane<'block, *const c_void>,
    pub(crate) sizes: Lane<'block, i64>,
    bitmaps: &'block mut Vec<Vec<u8>>,
    /// Whether all columns that were written so far are plain: the struct of each was seen to keep
    /// to the rules of its type.
    pub(crate) is_plain: bool,
}

/// Places for values of one type, one behind the other. Nobody else uses them.
pub(crate) struct Lane<'block, U> {
    next: *mut U,
    left: usize,
    block: PhantomData<&'block mut U>,
}

impl<U> Lane<'_, U> {
    /// Writes into the first places that are left, and returns their address. `None` where fewer
    /// are left.
    pub(crate) fn put<const N: usize>(&mut self, values: [U; N]) -> Option<*mut U> {
        let first = self.take(N)?.next;
        // SAFETY: so many places were this lane's, in a block that nobody else sees and that is
        // aligned for them, and now they are nobody's.
        unsafe { first.cast::<[U; N]>().write(values) };
        Some(first)
    }

    /// Takes the first places that are left, to be written later. `None` where fewer are left.
    pub(crate) fn take(&mut self, count: usize) -> Option<Self> {
        self.left = self.left.checked_sub(count)?;
        let next = self.next;
        self.next = next.wrapping_add(count);
        Some(Self { next, left: count, block: PhantomData })
    }

    /// Returns the address of the next value.
    pub(crate) fn start(&self) -> *mut U {
        self.next
    }
}

impl Room<'_> {
    /// Keeps a bitmap as long as the block, and returns its address.
    pub(crate) fn keep(&mut self, bitmap: Vec<u8>) -> *const u8 {
        let address = bitmap.as_ptr();
        self.bitmaps.push(bitmap);
        address
    }
}

impl<T: Send + Sync + 'static> TreeBlock<T> {
    /// Allocates a block for a tree that needs this much.
    pub(crate) fn new(needs: Needs) -> Result<Self> {
        let (layout, starts) = Self::layout(needs)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "the tree is too large"))?;
        // SAFETY: a header is not empty, and so neither is the layout.
        let start = unsafe { std::alloc::alloc(layout) };
        let Some(header) = NonNull::new(start) else {
            return Err(Error::new(ErrorKind::OutOfMemory, "no memory for the structs of a tree"));
        };
        Ok(Self { header: header.cast(), layout, starts, needs, bitmaps: Vec::new() })
    }

    /// Returns all places of the block behind the header. They are to be written once.
    pub(crate) fn room(&mut self) -> Room<'_> {
        let [nodes, pointers, sizes] = self.starts;
        let start = self.header.as_ptr().cast::<u8>();
        Room {
            nodes: lane(start.wrapping_add(nodes), self.needs.nodes),
            pointers: lane(start.wrapping_add(pointers), self.needs.pointers),
            sizes: lane(start.wrapping_add(sizes), self.needs.sizes),
            bitmaps: &mut self.bitmaps,
            is_plain: false,
        }
    }

    /// Gives the block to the base structure, and the owner of the memory to the block.
    pub(crate) fn own(mut self, base: ArrowArray, owner: T) -> ArrowArray {
        let bitmaps = std::mem::take(&mut self.bitmaps);
        let header = Header { layout: self.layout, _bitmaps: bitmaps, _owner: owner };
        // SAFETY: the block begins with room for a header.
        unsafe { self.header.write(header) };
        let private_data = self.header.as_ptr().cast();
        std::mem::forget(self);
        ArrowArray { release: Some(release::<T>), private_data, ..base }
    }

    /// Returns the layout of a block, and where its lanes begin.
    fn layout(needs: Needs) -> Result<(Layout, [usize; 3]), LayoutError> {
        let header = Layout::new::<Header<T>>();
        let (layout, nodes) = header.extend(Layout::array::<ArrowArray>(needs.nodes)?)?;
        let (layout, pointers) = layout.extend(Layout::array::<*const c_void>(needs.pointers)?)?;
        let (layout, sizes) = layout.extend(Layout::array::<i64>(needs.sizes)?)?;
        Ok((layout, [nodes, pointers, sizes]))
    }
}

/// Returns the lane at an address where the block has `left` places of this type.
fn lane<'block, U>(start: *mut u8, left: usize) -> Lane<'block, U> {
    Lane { next: start.cast(), left, block: PhantomData }
}

impl<T> Drop for TreeBlock<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not handed to a base structure: `own` forgets the
        // block.
        unsafe { std::alloc::dealloc(self.header.as_ptr().cast(), self.layout) }
    }
}

/// The release callback of a base structure.
unsafe extern "C" fn release<T>(array: *mut ArrowArray) {
    // SAFETY: "The release callback": the consumer passes the struct, at whatever address it is.
    let Some(array) = (unsafe { array.as_mut() }) else { return };
    if array.release.take().is_none() {
        return;
    }
    let header = array.private_data.cast::<Header<T>>();
    // SAFETY: `own` put a header there, and the release of the struct runs once.
    let header = unsafe { header.read() };
    let layout = header.layout;
    // SAFETY: allocated with this layout; the header was moved out, and nobody uses the structs
    // after the release.
    unsafe { std::alloc::dealloc(array.private_data.cast(), layout) };
    // Dropping the owner may run anybody's code, and a panic must not reach the caller.
    if let Err(carried) = catch_unwind(AssertUnwindSafe(|| drop(header))) {
        end_panic(carried);
    }
}

/// Ends the panic of an owner in the way in which the library ends the panics of its own owners,
/// which it also counts. The panic goes on while such an owner is dropped.
#[cold]
fn end_panic(carried: Carried) {
    let owner = GoesOn(Mutex::new(Some(carried)));
    // SAFETY: UNS-17: there are no bytes.
    drop(unsafe { Buffer::foreign(DeviceId::CPU, ptr::null(), 0, owner) });
}

type Carried = Box<dyn Any + Send>;

/// An owner that resumes a panic when it is dropped.
struct GoesOn(Mutex<Option<Carried>>);

impl Drop for GoesOn {
    fn drop(&mut self) {
        if let Some(carried) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            resume_unwind(carried);
        }
    }
}

/// The release callback of a struct below the base, which owns nothing.
pub(crate) unsafe extern "C" fn mark_released(array: *mut ArrowArray) {
    // SAFETY: the only consumer of these structs is the import in `take`, which calls a release
    // callback with the struct that has it, or with null (UNS-14).
    if let Some(array) = unsafe { array.as_mut() } {
        array.release = None;
    }
}

#[cfg(all(test, panic = "unwind"))]
mod tests {
    use std::sync::Arc;

    use arrow_device::deferred::held_back;
    use arrow_device_testkit::process::alone;

    use super::*;

    struct Panics(Arc<()>);

    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(self.0.clone()));
        }
    }

    // Requirement: SAF-14, SAF-30, SAF-31
    #[test]
    fn the_panic_of_an_owner_is_counted_and_what_it_carries_is_dropped() {
        alone(|| {
            let carried = Arc::new(());
            let before = held_back().abandoned;
            let block = TreeBlock::new(Needs::default()).unwrap();
            let mut array = block.own(ArrowArray::empty(), Panics(carried.clone()));
            // SAFETY: the struct was made just now, with this callback.
            unsafe { release::<Panics>(&raw mut array) };
            assert_eq!(Arc::strong_count(&carried), 1);
            assert_eq!(held_back().abandoned, before + 1);
        });
    }
}
