//! Tables of the functions of a driver's library: [`functions!`](crate::functions) declares a
//! table, and [`Functions`] is the table of the functions that both vendors have.

use std::ffi::{c_char, c_void};

use crate::{Code, PoolProperties};

/// A stream, an event, a context, or an address.
pub type Handle = *mut c_void;
/// `CUhostFn` and `hipHostFn_t`.
pub type HostFunction = extern "system" fn(*mut c_void);

/// `CUmemLocation` and `hipMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryLocation {
    /// The kind of place: none in particular, a device, or another place.
    pub kind: i32,
    /// The device's number.
    pub id: i32,
}

/// `CUmemAllocationProp` and, since HIP 6, `hipMemAllocationProp`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct AllocationProperties {
    /// The kind of memory: 1 for memory that stays where it is.
    pub memory: i32,
    /// The type of handles that are made for other processes: 1 for descriptors.
    pub handles: i32,
    /// The device that the memory is on.
    pub location: MemoryLocation,
    /// Windows only: the security attributes of the handle.
    pub security: usize,
    /// Compression, access by other hardware, and further uses.
    pub flags: u64,
}

/// `CUmemAccessDesc` and `hipMemAccessDesc`.
#[repr(C)]
#[derive(Debug)]
pub struct PoolAccess {
    /// The device that gets access.
    pub location: MemoryLocation,
    /// The kind of access.
    pub flags: i32,
}

/// `CUmemcpyAttributes` and `hipMemcpyAttributes`.
#[repr(C)]
#[derive(Debug)]
pub struct CopyAttributes {
    /// When the source is read.
    pub order: i32,
    /// A hint about where the source is.
    pub from: MemoryLocation,
    /// A hint about where the target is.
    pub to: MemoryLocation,
    /// Further flags.
    pub flags: u32,
}

/// Declares a table of functions, and how each of them is found in a library.
///
/// A row is `required` or `optional`, then a field with the function's type, then the function's
/// name in the library. The table's `find` fails where a required function is missing. A missing
/// optional function is `None`.
///
/// A table that is `named by` another struct has no names in its rows. That struct is declared too,
/// with a name for each row, and is passed to `find`.
#[macro_export]
macro_rules! functions {
    (
        $(#[$about:meta])*
        $vis:vis struct $Table:ident named by $Names:ident {
            $($need:ident $field:ident: fn($($argument:ty),*) -> $result:ty,)*
        }
    ) => {
        #[doc = concat!("What a vendor calls the functions of [`", stringify!($Table), "`].")]
        #[derive(Debug)]
        #[allow(missing_docs, reason = "the names are those of the functions, without prefix")]
        $vis struct $Names {
            $(pub $field: &'static str,)*
        }

        $crate::functions! {
            $(#[$about])*
            $vis struct $Table(names: &$Names) {
                $($need $field: fn($($argument),*) -> $result = names.$field,)*
            }
        }
    };
    (
        $(#[$about:meta])*
        $vis:vis struct $Table:ident $(($names:ident: $Names:ty))? {
            $($need:ident $field:ident: fn($($argument:ty),*) -> $result:ty = $name:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        #[allow(missing_docs, reason = "the names are those of the functions, without prefix")]
        $vis struct $Table {
            $(pub $field: $crate::functions!(
                @$need unsafe extern "system" fn($($argument),*) -> $result
            ),)*
        }

        impl $Table {
            /// Looks up all functions.
            ///
            /// # Safety
            /// Each function has in the library the type that its field has here.
            $vis unsafe fn find(
                library: &$crate::Found,
                $($names: $Names)?
            ) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the name goes with the type of the field, as the caller promises.
                        unsafe { library.$need($name) }?
                    },)*
                })
            }
        }
    };
    (@required $function:ty) => { $function };
    (@optional $function:ty) => { Option<$function> };
}

functions! {
    /// The functions that both vendors have in the same form, under different names.
    ///
    /// Optional functions are missing in older drivers. Everything works without them.
    pub struct Functions named by FunctionNames {
        required init: fn(u32) -> Code,
        required driver_version: fn(*mut i32) -> Code,
        required device_count: fn(*mut i32) -> Code,
        required device_name: fn(*mut c_char, i32, i32) -> Code,
        required device_attribute: fn(*mut i32, i32, i32) -> Code,
        required device_total_memory: fn(*mut usize, i32) -> Code,
        optional device_can_access_peer: fn(*mut i32, i32, i32) -> Code,

        required mem_get_info: fn(*mut usize, *mut usize) -> Code,
        required mem_alloc: fn(*mut Handle, usize) -> Code,
        required mem_free: fn(Handle) -> Code,
        required mem_host_alloc: fn(*mut Handle, usize, u32) -> Code,
        required mem_free_host: fn(Handle) -> Code,
        optional mem_alloc_async: fn(*mut Handle, usize, Handle) -> Code,
        required pointer_attribute: fn(*mut c_void, i32, Handle) -> Code,
        optional mem_get_address_range: fn(*mut Handle, *mut usize, Handle) -> Code,

        required memcpy_host_to_device: fn(Handle, Handle, usize, Handle) -> Code,
        required memcpy_device_to_host: fn(Handle, Handle, usize, Handle) -> Code,
        required memcpy_device_to_device: fn(Handle, Handle, usize, Handle) -> Code,

        required stream_create: fn(*mut Handle, u32) -> Code,
        required stream_destroy: fn(Handle) -> Code,
        required stream_query: fn(Handle) -> Code,
        required stream_synchronize: fn(Handle) -> Code,
        required stream_wait_event: fn(Handle, Handle, u32) -> Code,
        optional launch_host_function: fn(Handle, HostFunction, *mut c_void) -> Code,
        optional stream_is_capturing: fn(Handle, *mut i32) -> Code,
        optional exchange_capture_mode: fn(*mut i32) -> Code,

        required event_create: fn(*mut Handle, u32) -> Code,
        required event_destroy: fn(Handle) -> Code,
        required event_record: fn(Handle, Handle) -> Code,
        required event_query: fn(Handle) -> Code,
        required event_synchronize: fn(Handle) -> Code,

        optional memcpy_batch: fn(
            *mut Handle,
            *mut Handle,
            *mut usize,
            usize,
            *mut CopyAttributes,
            *mut usize,
            usize,
            *mut usize,
            Handle
        ) -> Code,
        optional current_pool: fn(*mut Handle, i32) -> Code,
        optional pool_create: fn(*mut Handle, *const PoolProperties) -> Code,
        optional pool_set_attribute: fn(Handle, i32, *mut c_void) -> Code,
        optional pool_trim: fn(Handle, usize) -> Code,
        optional pool_alloc_async: fn(*mut Handle, usize, Handle, Handle) -> Code,
        optional set_pool_access: fn(Handle, *const PoolAccess, usize) -> Code,
    }
}

functions! {
    /// The functions by which memory is mapped by hand and shared with other processes, under
    /// different names. Where one is missing, no memory is shared. Handles of allocations are
    /// numbers of 8 bytes with CUDA, and pointers with HIP, which has 64-bit systems alone.
    pub struct Mapping named by MappingNames {
        required granularity: fn(*mut usize, *const AllocationProperties, i32) -> Code,
        required create: fn(*mut u64, usize, *const AllocationProperties, u64) -> Code,
        required release: fn(u64) -> Code,
        required reserve: fn(*mut Handle, usize, usize, Handle, u64) -> Code,
        required free_space: fn(Handle, usize) -> Code,
        required map: fn(Handle, usize, usize, u64, u64) -> Code,
        required unmap: fn(Handle, usize) -> Code,
        required set_access: fn(Handle, usize, *const PoolAccess, usize) -> Code,
        required export: fn(*mut c_void, u64, i32, u64) -> Code,
        required import: fn(*mut u64, *mut c_void, i32) -> Code,
        required uuid: fn(*mut [u8; 16], i32) -> Code,
        required bus_id: fn(*mut c_char, i32, i32) -> Code,
    }
}
