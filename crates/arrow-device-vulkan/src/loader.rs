//! The Vulkan loader, and the one instance that this crate makes.
//!
//! Both are made by the first call that needs them and stay until the process ends, because memory
//! that was handed out is released through them. `ARROW_DEVICE_VULKAN_LIBRARY` names another
//! library to load.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};
use ash::vk;

use crate::error::check;

/// The function through which all other functions are found.
pub(crate) type GetInstanceProcAddr = vk::PFN_vkGetInstanceProcAddr;

/// Guards the use of Vulkan through any loader, because the application's loader may be the
/// system's.
static LIBRARY: LibraryUse = LibraryUse::new();

/// Returns an error in a child of `fork` whose parent has called this. Has to come before every
/// lock.
pub(crate) fn enter() -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during("load Vulkan"))
}

/// Returns the system's loader.
pub(crate) fn load() -> Result<&'static ash::Entry> {
    enter()?;
    static LOADED: OnceLock<Result<ash::Entry, String>> = OnceLock::new();
    if usize::BITS < u64::BITS {
        let message = "a VkBuffer has 64 bits and does not fit into a pointer of this system";
        return Err(Error::new(ErrorKind::Unsupported, message).during("load Vulkan"));
    }
    let missing = |problem: &String| {
        let message = format!(
            "the Vulkan loader was not found: install it (Debian: libvulkan1) and a driver ({problem})"
        );
        Error::new(ErrorKind::DriverMissing, message).during("load Vulkan")
    };
    LOADED.get_or_init(find).as_ref().map_err(missing)
}

fn find() -> Result<ash::Entry, String> {
    let named = std::env::var_os("ARROW_DEVICE_VULKAN_LIBRARY");
    let found = match &named {
        // SAFETY: loading asks that the library's initialisers are sound; whoever runs the program
        // named it.
        Some(name) => unsafe { ash::Entry::load_from(name) },
        // SAFETY: loading asks that the library's initialisers are sound; the library is the
        // system's Vulkan loader.
        None => unsafe { ash::Entry::load() },
    };
    found.map_err(|error| {
        let name = named.map_or(String::new(), |name| format!("{}: ", name.to_string_lossy()));
        format!("{name}{error}")
    })
}

/// Returns `vkGetInstanceProcAddr`: the given one, or that of the system's loader.
pub(crate) fn proc_addr(given: Option<NonNull<c_void>>) -> Result<GetInstanceProcAddr> {
    match given {
        None => Ok(load()?.static_fn().get_instance_proc_addr),
        Some(given) => {
            // SAFETY: whoever gave it promised that it is this function; a function pointer is as
            // large as any other.
            Ok(unsafe { std::mem::transmute::<NonNull<c_void>, GetInstanceProcAddr>(given) })
        }
    }
}

/// Converts the address of the function to a pointer, for other libraries.
pub(crate) fn as_pointer(get_instance_proc_addr: GetInstanceProcAddr) -> Option<NonNull<c_void>> {
    NonNull::new(get_instance_proc_addr as *mut c_void)
}

/// Loads the functions of an instance.
///
/// # Safety
/// The instance is alive and was made through this function.
pub(crate) unsafe fn instance_functions(
    get_instance_proc_addr: GetInstanceProcAddr,
    instance: vk::Instance,
) -> Result<ash::Instance> {
    const NEEDED: &[&CStr] = &[
        c"vkGetDeviceProcAddr",
        c"vkGetPhysicalDeviceExternalBufferProperties",
        c"vkGetPhysicalDeviceMemoryProperties",
        c"vkGetPhysicalDeviceProperties",
        c"vkGetPhysicalDeviceProperties2",
        c"vkGetPhysicalDeviceFeatures2",
        c"vkGetPhysicalDeviceQueueFamilyProperties",
        c"vkEnumerateDeviceExtensionProperties",
        c"vkCreateDevice",
    ];
    let find = |name: *const c_char| {
        // SAFETY: the instance is alive and was made through this function, as the caller promises;
        // the name ends with a zero.
        unsafe { get_instance_proc_addr(instance, name) }
    };
    require(NEEDED, |name| find(name.as_ptr()).is_some(), "the instance is older than Vulkan 1.1")?;
    let address = |name: &CStr| match find(name.as_ptr()) {
        Some(function) => function as *const c_void,
        None => std::ptr::null(),
    };
    // SAFETY: the addresses are those of the functions of these names, for an instance that is
    // alive.
    Ok(unsafe { ash::Instance::load_with(address, instance) })
}

/// Refuses to go on where a function is missing that will be called, because ash would end the
/// process at the call.
pub(crate) fn require(names: &[&CStr], is_there: impl Fn(&CStr) -> bool, why: &str) -> Result<()> {
    match names.iter().find(|name| !is_there(name)) {
        None => Ok(()),
        Some(missing) => {
            let message = format!("Vulkan has no {}: {why}", missing.to_string_lossy());
            Err(Error::new(ErrorKind::Unsupported, message).during("open"))
        }
    }
}

/// Returns this crate's instance.
pub(crate) fn own_instance() -> Result<ash::Instance> {
    static OWN: Mutex<Option<ash::Instance>> = Mutex::new(None);
    let entry = load()?;
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(instance) = &*own {
        return Ok(instance.clone());
    }
    let instance = create_instance(entry)?;
    LIBRARY.loaded();
    *own = Some(instance.clone());
    Ok(instance)
}

fn create_instance(entry: &ash::Entry) -> Result<ash::Instance> {
    // SAFETY: the loader's own function, which a loader of Vulkan 1.0 does not have.
    let version = check(unsafe { entry.try_enumerate_instance_version() }, "create an instance")?;
    let version = version.unwrap_or(vk::API_VERSION_1_0);
    if version < vk::API_VERSION_1_2 {
        let message = "the Vulkan loader is older than 1.2; install a newer one";
        return Err(Error::new(ErrorKind::Unsupported, message).during("create an instance"));
    }
    // SAFETY: a list of the loader's; no layer is named.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(None) };
    let extensions = check(extensions, "create an instance")?;
    // Drivers that translate to another interface are listed only for callers that ask for them.
    let portability = ash::khr::portability_enumeration::NAME;
    let has_portability =
        extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(portability));
    let application = vk::ApplicationInfo::default()
        .engine_name(c"arrow-device")
        .api_version(version.min(vk::API_VERSION_1_3));
    let names = [portability.as_ptr()];
    let mut info = vk::InstanceCreateInfo::default().application_info(&application);
    if has_portability {
        info = info
            .enabled_extension_names(&names)
            .flags(vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR);
    }
    // SAFETY: everything that the description points to is alive.
    check(unsafe { entry.create_instance(&info, None) }, "create an instance")
}
