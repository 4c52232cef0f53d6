//! The functions of Metal and of the Objective-C runtime that this crate calls, found at run time.
//!
//! The libraries are loaded once and stay until the process ends, because memory that was handed
//! out is released through them. `ARROW_DEVICE_METAL_LIBRARY` names another library to load, which
//! has Metal's functions and leads to an Objective-C runtime.
//!
//! A message is sent in two steps: the implementation of the selector is found, and called with the
//! types that Apple's headers declare. Apple's runtime has one function for both (`objc_msgSend`),
//! which is called with the types of the implementation; GCC's runtime has `objc_msg_lookup`, which
//! returns the implementation.

use std::ffi::{CStr, OsString, c_char, c_void};
use std::sync::OnceLock;

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};
use libloading::Library;

/// A pointer to an object of Objective-C.
pub(crate) type Id = *mut c_void;
/// A selector.
pub(crate) type Selector = *const c_void;
/// An implementation of a method, of a type that only its caller knows.
type Implementation = unsafe extern "C" fn();

/// How the implementation of a method is found.
#[derive(Clone, Copy)]
enum Lookup {
    /// `objc_msgSend`, which finds the implementation itself.
    Sent(Implementation),
    /// `objc_msg_lookup`.
    Found(unsafe extern "C" fn(Id, Selector) -> Option<Implementation>),
}

pub(crate) struct Api {
    /// Kept here so that tools which look for leaks find the libraries.
    _libraries: &'static [Library],
    lookup: Lookup,
    register: unsafe extern "C" fn(*const c_char) -> Selector,
    protocol: unsafe extern "C" fn(*const c_char) -> Id,
    pub(crate) push_pool: unsafe extern "C" fn() -> *mut c_void,
    pub(crate) pop_pool: unsafe extern "C" fn(*mut c_void),
    pub(crate) default_device: unsafe extern "C" fn() -> Id,
    /// Not on all of Apple's systems.
    pub(crate) all_devices: Option<unsafe extern "C" fn() -> Id>,
    pub(crate) selectors: Selectors,
}

/// Declares the selectors, each with its name in Objective-C.
macro_rules! selectors {
    ($($field:ident = $name:literal,)*) => {
        /// The selectors of all messages that this crate sends.
        pub(crate) struct Selectors {
            $(pub(crate) $field: Selector,)*
        }

        impl Selectors {
            fn register(register: impl Fn(&'static CStr) -> Selector) -> Self {
                Self { $($field: register($name),)* }
            }
        }
    };
}

selectors! {
    retain = c"retain",
    release = c"release",
    responds = c"respondsToSelector:",
    conforms = c"conformsToProtocol:",
    utf8 = c"UTF8String",
    count = c"count",
    object_at = c"objectAtIndex:",
    code = c"code",
    name = c"name",
    registry_id = c"registryID",
    working_set = c"recommendedMaxWorkingSetSize",
    most_length = c"maxBufferLength",
    new_buffer = c"newBufferWithLength:options:",
    new_buffer_around = c"newBufferWithBytesNoCopy:length:options:deallocator:",
    new_queue = c"newCommandQueueWithMaxCommandBufferCount:",
    new_shared_event = c"newSharedEvent",
    device = c"device",
    contents = c"contents",
    length = c"length",
    storage_mode = c"storageMode",
    command_buffer = c"commandBuffer",
    blit_encoder = c"blitCommandEncoder",
    copy = c"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:",
    end_encoding = c"endEncoding",
    encode_signal = c"encodeSignalEvent:value:",
    encode_wait = c"encodeWaitForEvent:value:",
    commit = c"commit",
    status = c"status",
    error = c"error",
    signaled_value = c"signaledValue",
    set_signaled_value = c"setSignaledValue:",
    wait_until = c"waitUntilSignaledValue:timeoutMS:",
}

// SAFETY: functions, selectors and libraries may be used on any thread, and nothing here changes.
unsafe impl Send for Api {}
// SAFETY: functions, selectors and libraries may be used on several threads at once, and nothing
// here changes.
unsafe impl Sync for Api {}

static LIBRARY: LibraryUse = LibraryUse::new();

/// Returns an error in a child of `fork` whose parent has used Metal.
pub(crate) fn enter() -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during("load Metal"))
}

/// Returns the functions. The first call loads them. In a child of `fork` whose parent has called
/// this, every call is an error, because Metal does not work there.
pub(crate) fn load() -> Result<&'static Api> {
    static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();
    // Comes first: a thread of the parent may have been in the middle of what follows.
    enter()?;
    let first = || {
        let api = open()?;
        LIBRARY.loaded();
        Ok(api)
    };
    LOADED.get_or_init(first).as_ref().map_err(|message| {
        Error::new(ErrorKind::DriverMissing, message.clone()).during("load Metal")
    })
}

/// The libraries of Apple's systems. The default device exists only in processes that have loaded
/// Core Graphics, which is not there on all systems.
#[cfg(target_vendor = "apple")]
const LIBRARIES: &[(&str, bool)] = &[
    ("/usr/lib/libobjc.A.dylib", true),
    ("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics", false),
    ("/System/Library/Frameworks/Metal.framework/Metal", true),
];

#[cfg(not(target_vendor = "apple"))]
const LIBRARIES: &[(&str, bool)] = &[];

fn open() -> Result<Api, String> {
    let names: Vec<(OsString, bool)> = match std::env::var_os("ARROW_DEVICE_METAL_LIBRARY") {
        Some(name) => vec![(name, true)],
        None => LIBRARIES.iter().map(|(name, is_needed)| (name.into(), *is_needed)).collect(),
    };
    let mut libraries = Vec::new();
    for (name, is_needed) in names {
        // SAFETY: `Library::new` asks that the library's initialisers are sound; these names are
        // those of the system's frameworks, or one that whoever runs the program gave.
        match unsafe { Library::new(&name) } {
            Ok(library) => libraries.push(library),
            Err(error) if is_needed => {
                return Err(format!("Metal was not found: {}: {error}", name.to_string_lossy()));
            }
            Err(_) => {}
        }
    }
    if libraries.is_empty() {
        return Err("Metal is a part of macOS and iOS, and not there on other systems".into());
    }
    // Never dropped, because memory that was handed out is released through the libraries.
    find_all(libraries.leak())
}

/// Looks up all functions.
fn find_all(libraries: &'static [Library]) -> Result<Api, String> {
    // SAFETY: UNS-31: the type is that of Apple's `objc/message.h`, where the function has no type
    // before it is cast.
    let sent = unsafe { symbol::<Implementation>(libraries, "objc_msgSend") }.map(Lookup::Sent);
    // SAFETY: UNS-31: the type is that of GCC's `objc/message.h`.
    let found = unsafe { symbol(libraries, "objc_msg_lookup") }.map(Lookup::Found);
    #[allow(clippy::multiple_unsafe_ops_per_block)]
    // SAFETY: UNS-31: `symbol` asks that each name has the type of the field it goes to. The fields
    // are declared after the headers of Metal and of the Objective-C runtimes.
    let mut api = unsafe {
        Api {
            _libraries: libraries,
            lookup: sent.or(found)?,
            register: symbol(libraries, "sel_registerName")?,
            protocol: symbol(libraries, "objc_getProtocol")?,
            push_pool: symbol(libraries, "objc_autoreleasePoolPush")?,
            pop_pool: symbol(libraries, "objc_autoreleasePoolPop")?,
            default_device: symbol(libraries, "MTLCreateSystemDefaultDevice")?,
            all_devices: symbol(libraries, "MTLCopyAllDevices").ok(),
            selectors: Selectors::register(|_| std::ptr::null()),
        }
    };
    api.selectors = Selectors::register(|name| {
        // SAFETY: the name ends with a zero.
        unsafe { (api.register)(name.as_ptr()) }
    });
    Ok(api)
}

/// # Safety
/// `T` is the type of the function of that name.
unsafe fn symbol<T: Copy>(libraries: &'static [Library], name: &str) -> Result<T, String> {
    let mut problem = String::new();
    for library in libraries {
        // SAFETY: `T` is the type of the function of that name, as the caller promises.
        match unsafe { library.get::<T>(name.as_bytes()) } {
            Ok(symbol) => return Ok(*symbol),
            Err(error) => problem = error.to_string(),
        }
    }
    Err(format!("the library is not Metal: {name}: {problem}"))
}

/// Declares a function that sends messages with this number of arguments.
macro_rules! senders {
    ($($name:ident($($argument:ident: $kind:ident),*);)*) => {
        impl Api {
            $(
                /// Sends a message.
                ///
                /// # Safety
                /// The object is alive and has a method of this selector, whose arguments and
                /// result are of the types with which this is called; the method throws nothing
                /// for these arguments.
                #[allow(clippy::too_many_arguments)]
                pub(crate) unsafe fn $name<R $(, $kind)*>(
                    &self,
                    object: Id,
                    selector: Selector
                    $(, $argument: $kind)*
                ) -> R {
                    // SAFETY: the object is alive and has the method, as the caller promises.
                    let implementation = unsafe { self.implementation(object, selector) };
                    // SAFETY: a method is a C function with two more arguments in front, says the
                    // Objective-C runtime's reference; the types are as the caller promises.
                    // `objc_msgSend` is called with the type of the method.
                    let method = unsafe {
                        std::mem::transmute::<
                            Implementation,
                            unsafe extern "C" fn(Id, Selector $(, $kind)*) -> R,
                        >(implementation)
                    };
                    // SAFETY: the object is alive, and the types are those of the method, as the
                    // caller promises.
                    unsafe { method(object, selector $(, $argument)*) }
                }
            )*
        }
    };
}

senders! {
    send();
    send_1(one: A);
    send_2(one: A, two: B);
    send_4(one: A, two: B, three: C, four: D);
    send_5(one: A, two: B, three: C, four: D, five: E);
}

impl Api {
    /// # Safety
    /// The object is alive.
    unsafe fn implementation(&self, object: Id, selector: Selector) -> Implementation {
        match self.lookup {
            Lookup::Sent(send) => send,
            Lookup::Found(lookup) => {
                // SAFETY: the object is alive, as the caller promises.
                unsafe { lookup(object, selector) }.unwrap_or(no_method)
            }
        }
    }

    /// Whether the object has a method.
    ///
    /// # Safety
    /// The object is alive.
    pub(crate) unsafe fn responds(&self, object: Id, selector: Selector) -> bool {
        // SAFETY: the object is alive, as the caller promises; every object that is used with
        // Metal has this method of the protocol `NSObject`.
        unsafe { self.send_1::<u8, _>(object, self.selectors.responds, selector) != 0 }
    }

    /// Whether the object says that it is of a protocol of this name.
    ///
    /// # Safety
    /// The object is alive.
    pub(crate) unsafe fn conforms(&self, object: Id, protocol: &CStr) -> bool {
        // SAFETY: the name ends with a zero.
        let protocol = unsafe { (self.protocol)(protocol.as_ptr()) };
        // SAFETY: the object is alive, as the caller promises; every object that is used with
        // Metal has this method of the protocol `NSObject`.
        !protocol.is_null()
            && unsafe { self.send_1::<u8, _>(object, self.selectors.conforms, protocol) != 0 }
    }

    /// The text of an `NSString`, which may be null.
    ///
    /// # Safety
    /// The object is null or a string that is alive, and there is a pool.
    pub(crate) unsafe fn text(&self, string: Id) -> String {
        if string.is_null() {
            return String::new();
        }
        // SAFETY: `- (const char *)UTF8String` of a string that is alive, as the caller promises.
        let text = unsafe { self.send::<*const c_char>(string, self.selectors.utf8) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the text ends with a zero, and lives as long as the string or the pool.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Stands for a method that is not there, which GCC's runtime never returns for a living object.
unsafe extern "C" fn no_method() {
    std::process::abort();
}
