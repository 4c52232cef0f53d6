//! Modules: an image is a list of names, each a kernel that does nothing. Kernels that do something
//! are a test's closures.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::call::{call, give};
use crate::code::Code;

/// The image is text: PTX, or names.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(out: *mut usize, image: *const c_char) -> c_int {
    call("cuModuleLoadData", &[], |machine| {
        machine.current()?;
        machine.must_be_safe()?;
        if out.is_null() || image.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says: a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(image) }.to_string_lossy().into_owned();
        let module = machine.new_handle();
        machine.modules.insert(module, text);
        // SAFETY: as the module says.
        unsafe { give(out, module) }
    })
}

/// A name that the image does not have is not found.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    out: *mut usize,
    module: usize,
    name: *const c_char,
) -> c_int {
    call("cuModuleGetFunction", &[("module", module as u64)], |machine| {
        machine.current()?;
        if out.is_null() || name.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says: a text that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let text = machine.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let is_word = |c: char| !(c.is_alphanumeric() || c == '_');
        if !text.split(is_word).any(|word| word == name) {
            return Err(Code::NOT_FOUND);
        }
        let function = machine.new_handle();
        machine.modules.insert(function, name);
        // SAFETY: as the module says.
        unsafe { give(out, function) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: usize) -> c_int {
    call("cuModuleUnload", &[("module", module as u64)], |machine| {
        machine.current()?;
        machine.modules.remove(&module).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    })
}

/// Does nothing, in the order of the stream. The stream has to be of the current context.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _shared: c_uint,
    stream: usize,
    _arguments: *const *mut c_void,
    _extra: *const *mut c_void,
) -> c_int {
    let arguments = [("function", function as u64), ("stream", stream as u64)];
    call("cuLaunchKernel", &arguments, |machine| {
        let device = machine.current()?;
        let name = machine.modules.get(&function).cloned().ok_or(Code::INVALID_HANDLE)?;
        if [grid_x, grid_y, grid_z, block_x, block_y, block_z].contains(&0) {
            return Err(Code::INVALID_VALUE);
        }
        machine.must_be_of(stream, device)?;
        machine.submit(Some(device), stream, |hardware, lane| {
            hardware.launch(lane, name, &[], &[], Box::new(|_| {}))
        })?;
        Ok(())
    })
}
