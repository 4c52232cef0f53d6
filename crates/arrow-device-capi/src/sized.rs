//! Structs that grow: as many bytes of them are read and written as the other side has.
//!
//! A caller that was compiled with an older header has less of a struct than this library, one that
//! was compiled with a newer header has more. `struct_size`, the first member, tells. The test of
//! the promise compiles this crate with `ardev_grown`, which makes every such struct longer here
//! than in the header.

use std::mem::MaybeUninit;
use std::ptr;

use arrow_device::{Error, ErrorKind, Result};

use crate::call::{invalid, null};

/// A struct of the header that begins with `struct_size`.
///
/// # Safety
/// The struct is `repr(C)`, its first member is `struct_size: usize`, and bytes of zero are a value
/// of it.
pub(crate) unsafe trait Grows: Copy {
    /// The name of the struct in C.
    const NAME: &'static str;
    /// How long it was in version 0.1. A struct that gets a member tells the number.
    const LEAST: usize = size_of::<Self>();

    /// All zero, but for `struct_size`.
    fn nothing() -> Self {
        zeroed::<Self>(size_of::<Self>())
    }
}

/// What this library knows of a struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Known<T> {
    pub(crate) value: T,
    #[cfg(ardev_grown)]
    grown: [u64; 4],
}

// SAFETY: it begins with a struct that grows, and what follows is integers.
unsafe impl<T: Grows> Grows for Known<T> {
    const NAME: &'static str = T::NAME;
}

/// No struct of any version is longer; a `struct_size` above this was not set.
const LONGEST: usize = 1 << 12;

fn zeroed<T: Grows>(struct_size: usize) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the first member is `struct_size`, as `Grows` says.
    unsafe { value.as_mut_ptr().cast::<usize>().write(struct_size) };
    // SAFETY: zeros are a value, as `Grows` says, and any number is a `struct_size`.
    unsafe { value.assume_init() }
}

/// The `struct_size` of a struct, if it can be one.
///
/// # Safety
/// The struct is null, or its first member may be read.
unsafe fn size_of_given<T: Grows>(given: *const T, name: &str) -> Result<usize> {
    if given.is_null() {
        return Err(null(name));
    }
    // SAFETY: it is not null, and its first member may be read, as the caller promises.
    let struct_size = unsafe { given.cast::<usize>().read() };
    if (T::LEAST..=LONGEST).contains(&struct_size) {
        return Ok(struct_size);
    }
    let message =
        format!("`{name}.struct_size` is {struct_size}: set it to sizeof(struct {})", T::NAME);
    Err(invalid(message))
}

/// A struct of the caller's.
///
/// # Safety
/// The struct is null, or has as many bytes as its first member says, and is what the header says.
pub(crate) unsafe fn read<T: Grows>(given: *const T, name: &str) -> Result<T> {
    // SAFETY: rule 6 of the header, which the caller keeps.
    let struct_size = unsafe { size_of_given(given, name) }?;
    let bytes = given.cast::<u8>();
    for at in size_of::<Known<T>>()..struct_size {
        // SAFETY: the struct has `struct_size` bytes, as the caller promises.
        if unsafe { bytes.wrapping_add(at).read() } != 0 {
            let message = format!(
                "`{name}` has a member {at} bytes after its beginning, of which this version knows nothing: set it to zero, or use a newer library"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    let mut known: Known<T> = zeroed(0);
    let len = struct_size.min(size_of::<Known<T>>());
    // SAFETY: both have `len` bytes, and the caller keeps to the types of the header; what is not
    // there stays zero.
    unsafe { ptr::copy_nonoverlapping(bytes, (&raw mut known).cast::<u8>(), len) };
    Ok(known.value)
}

/// A table of the caller's, in which all structs have the size that the first one says.
///
/// # Safety
/// The table is null, or has `len` structs, each as for [`read`].
pub(crate) unsafe fn read_all<T: Grows>(table: *const T, len: usize, name: &str) -> Result<Vec<T>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: rule 6 of the header, which the caller keeps.
    let struct_size = unsafe { size_of_given(table, name) }?;
    let row = |index: usize| {
        let at = table.wrapping_byte_add(index.saturating_mul(struct_size));
        // SAFETY: the caller promises so many structs.
        unsafe { read(at, &format!("{name}[{index}]")) }
    };
    (0..len).map(row).collect()
}

/// A struct of the caller's that a function writes to.
#[must_use]
pub(crate) struct OutGrows<T> {
    place: *mut T,
    struct_size: usize,
}

impl<T: Grows> OutGrows<T> {
    /// The place, which is all zero until something is written.
    ///
    /// # Safety
    /// `out` is null, or has as many bytes as its first member says, which may be written until the
    /// result is dropped.
    pub(crate) unsafe fn new(out: *mut T, name: &str) -> Result<Self> {
        // SAFETY: rule 6 of the header, which the caller keeps.
        let struct_size = unsafe { size_of_given(out, name) }?;
        // SAFETY: the struct has so many bytes, as the caller promises.
        unsafe { out.cast::<u8>().write_bytes(0, struct_size) };
        // SAFETY: its first member is `struct_size`, as `Grows` says.
        unsafe { out.cast::<usize>().write(struct_size) };
        Ok(Self { place: out, struct_size })
    }

    /// The places of a table, in which all structs have the size that the first one says.
    ///
    /// # Safety
    /// `table` is null, or has `len` structs, each as for [`new`](Self::new).
    pub(crate) unsafe fn all(table: *mut T, len: usize, name: &str) -> Result<Vec<Self>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: rule 6 of the header, which the caller keeps.
        let struct_size = unsafe { size_of_given(table, name) }?;
        let place = |index: usize| table.wrapping_byte_add(index.saturating_mul(struct_size));
        Ok((0..len).map(|index| Self { place: place(index), struct_size }).collect())
    }

    pub(crate) fn put(self, value: T) -> Result<()> {
        let mut known: Known<T> = zeroed(0);
        known.value = value;
        #[cfg(ardev_grown)]
        {
            known.grown = [u64::from_ne_bytes(*b"grown!!!"); 4];
        }
        // SAFETY: its first member is `struct_size`, as `Grows` says.
        unsafe { (&raw mut known).cast::<usize>().write(self.struct_size) };
        let len = self.struct_size.min(size_of::<Known<T>>());
        let bytes = (&raw const known).cast::<u8>();
        // SAFETY: the caller's struct has `struct_size` bytes, and this one has `len` at least.
        unsafe { ptr::copy_nonoverlapping(bytes, self.place.cast::<u8>(), len) };
        Ok(())
    }
}

/// Says that structs grow, and makes `Default` a struct of zeros with its `struct_size`.
macro_rules! grows {
    ($($name:literal $type:ty,)*) => {$(
        // SAFETY: the struct is `repr(C)` and begins with `struct_size: usize`, which a test of the
        // header sees to; its members are integers, pointers, functions in an `Option`, and structs
        // of those.
        unsafe impl Grows for $type {
            const NAME: &'static str = $name;
        }

        impl Default for $type {
            fn default() -> Self {
                Self::nothing()
            }
        }
    )*};
}

grows! {
    "ardev_allocator" crate::ArdevAllocator,
    "ardev_array_info" crate::ArdevArrayInfo,
    "ardev_conversion" crate::ArdevConversion,
    "ardev_copy_options" crate::ArdevCopyOptions,
    "ardev_device_info" crate::ArdevDeviceInfo,
    "ardev_driver" crate::ArdevDriver,
    "ardev_held" crate::ArdevHeld,
    "ardev_parts" crate::ArdevParts,
    "ardev_schema_info" crate::ArdevSchemaInfo,
    "ardev_source" crate::ArdevSource,
    "ardev_tensor_info" crate::ArdevTensorInfo,
    "ardev_vulkan_binding" crate::ArdevVulkanBinding,
    "ardev_vulkan_handles" crate::ArdevVulkanHandles,
    "ardev_vulkan_queue" crate::ArdevVulkanQueue,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArdevHeld;

    /// A struct of a caller that is newer than this library.
    #[repr(C)]
    struct Newer {
        held: ArdevHeld,
        more: [u64; 8],
    }

    fn newer(more: u64) -> Newer {
        let struct_size = size_of::<Newer>();
        let held = ArdevHeld { struct_size, staging: 3, ..ArdevHeld::default() };
        Newer { held, more: [0, 0, 0, 0, 0, 0, 0, more] }
    }

    #[test]
    fn members_of_newer_callers_are_refused_unless_they_are_zero() {
        // SAFETY: it has as many bytes as it says.
        let read = |given: &Newer| unsafe { read((&raw const *given).cast::<ArdevHeld>(), "it") };
        assert_eq!(read(&newer(0)).map(|held| held.staging).ok(), Some(3));
        let error = read(&newer(1)).err().map(|error| (error.kind(), error.errno()));
        assert_eq!(error, Some((ErrorKind::Unsupported, 38)));
    }

    #[test]
    fn what_newer_callers_have_beyond_this_library_is_zero() {
        let mut given = newer(7);
        let out = (&raw mut given).cast::<ArdevHeld>();
        // SAFETY: it has as many bytes as it says.
        let out = unsafe { OutGrows::new(out, "out") }.map_err(|error| error.to_string());
        let put = out.and_then(|out| {
            out.put(ArdevHeld { allocated: 9, ..ArdevHeld::default() })
                .map_err(|error| error.to_string())
        });
        assert_eq!(put, Ok(()));
        assert_eq!((given.held.struct_size, given.held.allocated), (size_of::<Newer>(), 9));
        assert_eq!(given.more[7], 0);
    }

    #[test]
    fn a_size_that_no_version_has_is_refused() {
        for struct_size in [0, 1, size_of::<ArdevHeld>() - 1, LONGEST + 1, usize::MAX] {
            let mut held = ArdevHeld { struct_size, ..ArdevHeld::default() };
            // SAFETY: the first member may be read, and nothing else is.
            let refused = unsafe { read(&raw const held, "held") };
            let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains("set it to sizeof(struct ardev_held)"), "{text}");
            // SAFETY: the first member may be read, and nothing else is.
            assert!(unsafe { OutGrows::new(&raw mut held, "out") }.is_err());
        }
    }
}
