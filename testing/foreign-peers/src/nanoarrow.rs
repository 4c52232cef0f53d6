//! nanoarrow's C library from its source distribution. `c/nanoarrow_peer.h` says what the functions
//! do.

use std::ffi::{c_char, c_int};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device_testkit::required::skip;
use libloading::Library;

use crate::build::{self, Build};
use crate::{FourStructs, Structs, text};

/// The loaded library. Its functions can be called by several tests at once.
#[derive(Debug)]
pub struct Nanoarrow {
    library: Library,
}

/// The library; `None`, with a reason printed, where it cannot be.
pub fn nanoarrow() -> Option<&'static Nanoarrow> {
    static LOADED: OnceLock<Result<Nanoarrow, String>> = OnceLock::new();
    match LOADED.get_or_init(load) {
        Ok(loaded) => Some(loaded),
        Err(reason) => {
            skip("nanoarrow", reason);
            None
        }
    }
}

fn load() -> Result<Nanoarrow, String> {
    let version = build::version("nanoarrow");
    let setup = "`cargo xtask test --setup` installs it";
    let unpacked =
        build::unpacked("nanoarrow").ok_or(format!("nanoarrow {version} is not there: {setup}"))?;
    if !build::has_compiler("CC", "cc") {
        return Err(format!("a C compiler is not there: {setup}"));
    }
    let sources = unpacked.join("subprojects/arrow-nanoarrow/src");
    let ours: &[&str] = &["-Wall", "-Wextra", "-Werror"];
    let mut build = Build::new("nanoarrow", "CC", "cc", &["-std=c11", "-O1"])
        .include(&sources, true)
        .include(&configured(&sources, &version), true)
        .include(&build::headers("arrow-device-abi"), false)
        .source(build::here("c/nanoarrow_peer.c"), ours)
        .depends_on(build::here("c/nanoarrow_peer.h"))
        .depends_on(build::headers("arrow-device-abi").join("arrow_device/abi.h"));
    for source in ["common/utils.c", "common/schema.c", "common/array.c", "device/device.c"] {
        build = build.source(sources.join("nanoarrow").join(source), &["-w"]);
    }
    // SAFETY: it has no initializers.
    let library = unsafe { Library::new(build.run()) }.map_err(|error| error.to_string())?;
    let loaded = Nanoarrow { library };
    assert_eq!(loaded.version(), version, "the library is not that of the sources");
    Ok(loaded)
}

/// A folder with the header that nanoarrow's own build would make of its template.
pub fn configured(sources: &Path, version: &str) -> PathBuf {
    let folder = build::folder().join("built").join(format!("nanoarrow-{version}"));
    let template = sources.join("nanoarrow/nanoarrow_config.h.in");
    let mut header = fs::read_to_string(template).expect("nanoarrow has a template");
    let parts = version.split('.').chain(["0"; 3]);
    for (name, part) in ["MAJOR", "MINOR", "PATCH"].into_iter().zip(parts) {
        header = header.replace(&format!("@NANOARROW_VERSION_{name}@"), part);
    }
    let header = header
        .replace("@NANOARROW_VERSION@", version)
        .replace("@NANOARROW_NAMESPACE_DEFINE@", "/* no namespace */");
    fs::create_dir_all(folder.join("nanoarrow")).expect("the target folder is writable");
    let path = folder.join("nanoarrow/nanoarrow_config.h");
    if fs::read_to_string(&path).ok().as_ref() != Some(&header) {
        fs::write(path, header).expect("the target folder is writable");
    }
    folder
}

impl Nanoarrow {
    /// # Safety
    /// The type is that of the function in `c/nanoarrow_peer.h`.
    unsafe fn get<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the type is that of the function in `c/nanoarrow_peer.h`, as the caller promises.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        *found.unwrap_or_else(|error| panic!("{error}"))
    }

    fn text_of(&self, name: &str) -> String {
        type Text = unsafe extern "C" fn() -> *const c_char;
        // SAFETY: both functions that are named are declared so.
        let function = unsafe { self.get::<Text>(name) };
        // SAFETY: takes nothing.
        let found = unsafe { function() };
        // SAFETY: a string that stays until the next call on this thread.
        unsafe { text(found) }
    }

    /// The version that was compiled.
    pub fn version(&self) -> String {
        self.text_of("adf_nano_version")
    }

    /// The name and the version, as the table has it.
    pub fn name(&self) -> String {
        format!("nanoarrow {}", self.version())
    }

    /// Validates, and copies to memory of its own.
    ///
    /// # Safety
    /// The structs are good as the C data interface has it.
    pub unsafe fn copy(&self, structs: Structs) -> Result<Structs, String> {
        // SAFETY: the structs are good as the C data interface has it, as the caller promises.
        unsafe { self.hand_on("adf_nano_copy", structs) }
    }

    /// Validates, and moves the structs on.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    pub unsafe fn relay(&self, structs: Structs) -> Result<Structs, String> {
        // SAFETY: what `Self::copy` asks for, which the caller promises.
        unsafe { self.hand_on("adf_nano_move", structs) }
    }

    /// # Safety
    /// As for [`Self::copy`].
    unsafe fn hand_on(&self, name: &str, mut structs: Structs) -> Result<Structs, String> {
        let (Structs { schema, array }, mut out) = (&mut structs, Structs::empty());
        // SAFETY: as declared.
        let hand_on = unsafe { self.get::<FourStructs>(name) };
        // SAFETY: what `Self::copy` asks for, which the caller promises; the outputs hold nothing.
        let code = unsafe { hand_on(schema, array, &mut out.schema, &mut out.array) };
        self.said(code).map(|()| out)
    }

    /// Builds so many nulls and as many empty elements of this type.
    pub fn build(&self, schema: &mut ArrowSchema, count: i64) -> Result<Structs, String> {
        type Build = unsafe extern "C" fn(
            *mut ArrowSchema,
            i64,
            *mut ArrowSchema,
            *mut ArrowDeviceArray,
        ) -> c_int;
        let mut out = Structs::empty();
        // SAFETY: as declared.
        let build = unsafe { self.get::<Build>("adf_nano_build") };
        // SAFETY: a schema of the library; the outputs hold nothing.
        let code = unsafe { build(schema, count, &mut out.schema, &mut out.array) };
        self.said(code).map(|()| out)
    }

    /// Moves to a device that cannot move.
    pub fn move_to_other_device(&self, mut structs: Structs) -> (c_int, Structs) {
        type Move = unsafe extern "C" fn(*mut ArrowDeviceArray, *mut ArrowDeviceArray) -> c_int;
        let mut out = Structs::empty();
        // SAFETY: as declared.
        let function = unsafe { self.get::<Move>("adf_nano_move_to_other_device") };
        // SAFETY: the input is good, and the output holds nothing.
        let code = unsafe { function(&mut structs.array, &mut out.array) };
        (code, out)
    }

    /// Whether it has a Metal device. Crashes where it was built without.
    ///
    /// # Safety
    /// Only in a child process.
    pub unsafe fn has_metal(&self) -> bool {
        // SAFETY: as declared.
        let has = unsafe { self.get::<unsafe extern "C" fn() -> c_int>("adf_nano_has_metal") };
        // SAFETY: only in a child process, as the caller promises.
        unsafe { has() != 0 }
    }

    fn said(&self, code: c_int) -> Result<(), String> {
        if code == 0 { Ok(()) } else { Err(self.text_of("adf_nano_last_error")) }
    }
}
