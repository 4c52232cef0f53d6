//! One allocation that holds the C structs of a whole tree and the owner of its memory.
//!
//! What arrow-rs keeps in many small objects is described here node by node, twice: once to count, once to write. The base
//! structure then owns the block; `arrow-device` imports it, with all the checks of an import, and releases it once. The
//! structs below the base are never released by themselves, because only that import sees them.

use std::alloc::{Layout, LayoutError};
use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::ptr::{self, NonNull};

use arrow_device::abi::ArrowArray;
use arrow_device::{Error, ErrorKind, Result};

/// A node of a tree that is to be shown as C structs.
pub(crate) trait Source: Sized {
    /// Everything about it but what lies below.
    fn node(&self) -> Result<Node>;

    /// The validity bitmap, moved so that its bits begin where the elements do. Asked where [`Validity::Misplaced`].
    fn aligned_validity(&self) -> Vec<u8>;

    /// The address and length of a data buffer of views.
    fn data_buffer(&self, index: usize) -> (*const u8, usize);

    /// A child.
    fn child(&self, index: usize) -> Result<Self>;

    /// The values of a dictionary.
    fn dictionary(&self) -> Result<Self>;
}

/// What a C struct says of a node.
pub(crate) struct Node {
    pub(crate) length: usize,
    pub(crate) offset: usize,
    pub(crate) null_count: usize,
    pub(crate) validity: Validity,
    /// The buffers after the validity bitmap.
    pub(crate) buffers: [*const u8; 2],
    /// How many of them there are.
    pub(crate) buffer_count: usize,
    /// Views have their data buffers after these, and then one more with the sizes of those.
    pub(crate) data_buffers: Option<usize>,
    pub(crate) children: usize,
    pub(crate) has_dictionary: bool,
}

/// The validity bitmap of a node.
pub(crate) enum Validity {
    /// The type has none.
    Never,
    /// There is none, and nothing is null.
    Absent,
    /// The address of the byte that the first bit of the buffers is in.
    At(*const u8),
    /// Its bits do not begin where the elements do.
    Misplaced,
}

impl Node {
    fn validity_count(&self) -> usize {
        usize::from(!matches!(self.validity, Validity::Never))
    }

    fn table_len(&self) -> usize {
        let variadic = self.data_buffers.map_or(0, |buffers| buffers + 1);
        self.validity_count() + self.buffer_count + variadic
    }

    fn below(&self) -> usize {
        self.children + usize::from(self.has_dictionary)
    }
}

/// What a tree needs of a block.
#[derive(Clone, Copy, Default)]
struct Total {
    /// Structs. (One is too many: the base structure is the consumer's.)
    nodes: usize,
    /// Entries of the tables of buffers and children.
    pointers: usize,
    /// Sizes of the data buffers of views.
    sizes: usize,
}

struct Header<T> {
    layout: Layout,
    /// Bitmaps that had to be moved.
    _bitmaps: Vec<Vec<u8>>,
    /// Keeps everything that the tables point to.
    _owner: T,
}

/// A block that is being filled. Dropping it frees the block and leaves the tree's memory alone.
pub(crate) struct Block<T> {
    header: NonNull<Header<T>>,
    layout: Layout,
    nodes: Lane<ArrowArray>,
    pointers: Lane<*const c_void>,
    sizes: Lane<i64>,
    bitmaps: Vec<Vec<u8>>,
}

/// The part of the block that is not handed out yet, of one type.
struct Lane<U> {
    next: *mut U,
    left: usize,
}

impl<U> Lane<U> {
    fn take(&mut self, count: usize) -> Result<*mut U> {
        self.left = self.left.checked_sub(count).ok_or_else(changed)?;
        let first = self.next;
        self.next = first.wrapping_add(count);
        Ok(first)
    }
}

impl<T: Send + Sync + 'static> Block<T> {
    /// Writes the structs of a tree into a new block, and gives the base structure, which has no owner yet.
    pub(crate) fn write(root: &impl Source) -> Result<(Self, ArrowArray)> {
        let mut total = Total::default();
        count(root, &mut total)?;
        let mut block = Self::allocate(total)?;
        let base = block.fill(root)?;
        Ok((block, base))
    }

    /// Gives the block its owner, and the base structure the block.
    pub(crate) fn own(mut self, base: ArrowArray, owner: T) -> ArrowArray {
        let bitmaps = std::mem::take(&mut self.bitmaps);
        let header = Header { layout: self.layout, _bitmaps: bitmaps, _owner: owner };
        // SAFETY: the block begins with room for a header.
        unsafe { self.header.write(header) };
        let private_data = self.header.as_ptr().cast();
        std::mem::forget(self);
        ArrowArray { release: Some(release::<T>), private_data, ..base }
    }

    fn allocate(total: Total) -> Result<Self> {
        let (layout, [nodes, pointers, sizes]) = Self::layout(total)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "the tree is too large"))?;
        // SAFETY: a header is not empty, and so neither is the layout.
        let start = unsafe { std::alloc::alloc(layout) };
        let Some(header) = NonNull::new(start) else {
            return Err(Error::new(ErrorKind::OutOfMemory, "no memory for the structs of a tree"));
        };
        Ok(Self {
            header: header.cast(),
            layout,
            nodes: Lane { next: start.wrapping_add(nodes).cast(), left: total.nodes },
            pointers: Lane { next: start.wrapping_add(pointers).cast(), left: total.pointers },
            sizes: Lane { next: start.wrapping_add(sizes).cast(), left: total.sizes },
            bitmaps: Vec::new(),
        })
    }

    /// The layout of a block, and where its lanes begin.
    fn layout(total: Total) -> Result<(Layout, [usize; 3]), LayoutError> {
        let header = Layout::new::<Header<T>>();
        let (layout, nodes) = header.extend(Layout::array::<ArrowArray>(total.nodes)?)?;
        let (layout, pointers) = layout.extend(Layout::array::<*const c_void>(total.pointers)?)?;
        let (layout, sizes) = layout.extend(Layout::array::<i64>(total.sizes)?)?;
        Ok((layout, [nodes, pointers, sizes]))
    }

    /// Writes what a node has in the block, and everything below it.
    fn fill(&mut self, source: &impl Source) -> Result<ArrowArray> {
        let node = source.node()?;
        let table = self.pointers.take(node.table_len())?;
        let mut next = table;
        let mut push = |address: *const u8| {
            // SAFETY: `take` gave as many places as the table has entries.
            unsafe { next.write(address.cast()) };
            next = next.wrapping_add(1);
        };
        match node.validity {
            Validity::Never => {}
            Validity::Absent => push(ptr::null()),
            Validity::At(address) => push(address),
            Validity::Misplaced => {
                let bitmap = source.aligned_validity();
                push(bitmap.as_ptr());
                self.bitmaps.push(bitmap);
            }
        }
        node.buffers.into_iter().take(node.buffer_count).for_each(&mut push);
        if let Some(count) = node.data_buffers {
            let sizes = self.sizes.take(count)?;
            for index in 0..count {
                let (address, len) = source.data_buffer(index);
                push(address);
                // SAFETY: `take` gave a place for each data buffer.
                unsafe { sizes.wrapping_add(index).write(as_i64(len)) };
            }
            push(sizes.cast());
        }
        let children = self.pointers.take(node.children)?;
        let below = self.nodes.take(node.below())?;
        for index in 0..node.below() {
            let place = below.wrapping_add(index);
            let child = self::below(source, &node, index)?;
            let filled = ArrowArray { release: Some(mark_released), ..self.fill(&child)? };
            // SAFETY: `take` gave a struct for each child and the dictionary.
            unsafe { place.write(filled) };
            if index < node.children {
                // SAFETY: `take` gave a place for each child.
                unsafe { children.wrapping_add(index).write(place.cast_const().cast()) };
            }
        }
        Ok(ArrowArray {
            length: as_i64(node.length),
            null_count: as_i64(node.null_count),
            offset: as_i64(node.offset),
            n_buffers: as_i64(node.table_len()),
            n_children: as_i64(node.children),
            buffers: table.cast(),
            children: children.cast(),
            dictionary: match node.has_dictionary {
                true => below.wrapping_add(node.children),
                false => ptr::null_mut(),
            },
            ..ArrowArray::empty()
        })
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not handed to a base structure: `own` forgets the block.
        unsafe { std::alloc::dealloc(self.header.as_ptr().cast(), self.layout) }
    }
}

/// Adds up what a tree needs.
fn count(source: &impl Source, total: &mut Total) -> Result<()> {
    let node = source.node()?;
    total.nodes += 1;
    total.pointers += node.table_len() + node.children;
    total.sizes += node.data_buffers.unwrap_or(0);
    for index in 0..node.below() {
        count(&below(source, &node, index)?, total)?;
    }
    Ok(())
}

/// A child, or the dictionary after the last one.
fn below<S: Source>(source: &S, node: &Node, index: usize) -> Result<S> {
    if index < node.children { source.child(index) } else { source.dictionary() }
}

/// No length of memory is larger.
fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn changed() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the array changed while it was looked at")
}

/// The release of a base structure.
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
    // SAFETY: allocated with this layout; the header was moved out, and nobody uses the structs after the release.
    unsafe { std::alloc::dealloc(array.private_data.cast(), layout) };
    // The owner may end in anybody's code, and a panic must not reach the caller.
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| drop(header)));
    // What a panic carries may panic in turn when it is dropped.
    std::mem::forget(ended.err());
}

/// The release of a struct below the base, which owns nothing.
unsafe extern "C" fn mark_released(array: *mut ArrowArray) {
    // SAFETY: as for `release`.
    if let Some(array) = unsafe { array.as_mut() } {
        array.release = None;
    }
}
