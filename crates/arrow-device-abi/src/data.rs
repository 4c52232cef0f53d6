//! The C data interface: a struct that describes one type, and a struct with one array.
//!
//! The structs of the device interface are built from these two. The declarations are those of
//! `abi.h` under `ARROW_C_DATA_INTERFACE`. Nothing here allocates, frees or checks.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

/// In [`ArrowSchema::flags`]: the order of the dictionary's values has a meaning.
pub const ARROW_FLAG_DICTIONARY_ORDERED: i64 = 1;
/// In [`ArrowSchema::flags`]: values of this field may be null.
pub const ARROW_FLAG_NULLABLE: i64 = 2;
/// In [`ArrowSchema::flags`]: the keys of each map value are sorted.
pub const ARROW_FLAG_MAP_KEYS_SORTED: i64 = 4;

/// The type of an array: a format string, a name, metadata, and a schema for each child.
///
/// Who allocates: the consumer allocates the base structure (zeroed, see [`empty`](Self::empty))
/// and the producer fills it. Everything it points to, children included, is the producer's, and
/// lives until [`release`](Self::release).
///
/// Who owns: whoever holds the base structure whose `release` is not null. To move it, copy the
/// bytes and set the source's `release` to null without calling it. A child is moved the same way,
/// out of its parent.
///
/// Released: `release` is null. All other fields are then meaningless. A schema and the arrays it
/// describes are released independently, in any order.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowSchema {
    /// The type, as a NUL-terminated format string. Mandatory.
    pub format: *const c_char,
    /// The field's name, NUL-terminated. Null means the same as empty.
    pub name: *const c_char,
    /// Key-value pairs with lengths in front; not NUL-terminated. Null means none.
    pub metadata: *const c_char,
    /// `ARROW_FLAG_*`, combined.
    pub flags: i64,
    /// How many entries [`children`](Self::children) has.
    pub n_children: i64,
    /// A table of pointers to the children. May be null if there are none.
    pub children: *mut *mut ArrowSchema,
    /// The type of the dictionary's values, if this is a dictionary type; null otherwise.
    pub dictionary: *mut ArrowSchema,
    /// Frees everything the structure points to and sets this field to null. Null means released.
    pub release: Option<unsafe extern "C" fn(schema: *mut ArrowSchema)>,
    /// For the producer's own use.
    pub private_data: *mut c_void,
}

impl ArrowSchema {
    /// A released structure with every field zero, for a producer to fill.
    pub const fn empty() -> Self {
        Self {
            format: null_mut(),
            name: null_mut(),
            metadata: null_mut(),
            flags: 0,
            n_children: 0,
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }

    /// Whether `release` is null: nothing is owned here, and no other field means anything.
    pub const fn is_released(&self) -> bool {
        self.release.is_none()
    }
}

/// The values of an array, without their type.
///
/// Who allocates: the consumer allocates the base structure (zeroed, see [`empty`](Self::empty))
/// and the producer fills it. Everything it points to, children included, is the producer's, and
/// lives until [`release`](Self::release).
///
/// Who owns: whoever holds the base structure whose `release` is not null. To move it, copy the
/// bytes and set the source's `release` to null without calling it. A child is moved the same way,
/// out of its parent.
///
/// Released: `release` is null. All other fields are then meaningless. Only the base structure's
/// `release` is called; it releases the children that were not moved out.
///
/// Inside an [`ArrowDeviceArray`](crate::ArrowDeviceArray) the entries of `buffers` belong to the
/// device. The table that holds them, and everything else, is host memory.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArray {
    /// How many values the array has.
    pub length: i64,
    /// How many of them are null; -1 where nobody has counted.
    pub null_count: i64,
    /// How many values at the start of the buffers are not part of the array.
    pub offset: i64,
    /// How many entries [`buffers`](Self::buffers) has.
    pub n_buffers: i64,
    /// How many entries [`children`](Self::children) has.
    pub n_children: i64,
    /// A table of pointers to the buffers.
    pub buffers: *mut *const c_void,
    /// A table of pointers to the children. May be null if there are none.
    pub children: *mut *mut ArrowArray,
    /// The dictionary's values, if the type is a dictionary type; null otherwise.
    pub dictionary: *mut ArrowArray,
    /// Frees everything the structure points to and sets this field to null. Null means released.
    pub release: Option<unsafe extern "C" fn(array: *mut ArrowArray)>,
    /// For the producer's own use.
    pub private_data: *mut c_void,
}

impl ArrowArray {
    /// A released structure with every field zero, for a producer to fill.
    pub const fn empty() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }

    /// Whether `release` is null: nothing is owned here, and no other field means anything.
    pub const fn is_released(&self) -> bool {
        self.release.is_none()
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};

    assert!(size_of::<ArrowSchema>() == 72);
    assert!(align_of::<ArrowSchema>() == 8);
    assert!(offset_of!(ArrowSchema, format) == 0);
    assert!(offset_of!(ArrowSchema, name) == 8);
    assert!(offset_of!(ArrowSchema, metadata) == 16);
    assert!(offset_of!(ArrowSchema, flags) == 24);
    assert!(offset_of!(ArrowSchema, n_children) == 32);
    assert!(offset_of!(ArrowSchema, children) == 40);
    assert!(offset_of!(ArrowSchema, dictionary) == 48);
    assert!(offset_of!(ArrowSchema, release) == 56);
    assert!(offset_of!(ArrowSchema, private_data) == 64);

    assert!(size_of::<ArrowArray>() == 80);
    assert!(align_of::<ArrowArray>() == 8);
    assert!(offset_of!(ArrowArray, length) == 0);
    assert!(offset_of!(ArrowArray, null_count) == 8);
    assert!(offset_of!(ArrowArray, offset) == 16);
    assert!(offset_of!(ArrowArray, n_buffers) == 24);
    assert!(offset_of!(ArrowArray, n_children) == 32);
    assert!(offset_of!(ArrowArray, buffers) == 40);
    assert!(offset_of!(ArrowArray, children) == 48);
    assert!(offset_of!(ArrowArray, dictionary) == 56);
    assert!(offset_of!(ArrowArray, release) == 64);
    assert!(offset_of!(ArrowArray, private_data) == 72);
};
