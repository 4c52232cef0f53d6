//! Arrow C++ and nanoarrow, behind the functions of `native/exchange.h`.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use foreign_peers::build::{self, Build};
use libloading::Library;

use super::data::Data;
use super::party::Party;
use crate::case::Peer;

type HoldData = unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray, c_int) -> *mut c_void;
type Know = unsafe extern "C" fn(*mut ArrowSchema, c_int, *mut c_void) -> c_int;
type Import = unsafe extern "C" fn(*mut c_void, *mut ArrowDeviceArray, *mut c_void) -> c_int;
type ImportBoth =
    unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray, c_int, *mut c_void) -> c_int;
type Validate = unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray, c_int) -> c_int;

#[derive(Debug)]
struct ExchangeFunctions {
    hold: HoldData,
    export: unsafe extern "C" fn(*const c_void, *mut ArrowDeviceArray) -> c_int,
    export_schema: unsafe extern "C" fn(*const c_void, *mut ArrowSchema) -> c_int,
    know: Know,
    forget: unsafe extern "C" fn(*mut c_void),
    import: Import,
    import_both: ImportBoth,
    clear: unsafe extern "C" fn(*mut c_void),
    column: unsafe extern "C" fn(*const c_void, i64) -> i64,
    number: unsafe extern "C" fn(*const c_void, i64, i64) -> i64,
    #[cfg_attr(
        not(all(test, feature = "peers")),
        allow(dead_code, reason = "tests look at the outcome")
    )]
    validate: Validate,
}

/// Arrow C++ or nanoarrow, as a library that exports and imports.
#[derive(Clone, Copy, Debug)]
pub(super) struct NativeParty {
    peer: Peer,
    functions: &'static ExchangeFunctions,
}

/// Arrow C++, or `None`, with a reason printed, where it cannot be.
pub(super) fn arrow_cpp() -> Option<NativeParty> {
    static LOADED: OnceLock<Result<ExchangeFunctions, String>> = OnceLock::new();
    native(Peer::ArrowCpp, LOADED.get_or_init(load_arrow_cpp))
}

/// nanoarrow, or `None`, with a reason printed, where it cannot be.
pub(super) fn nanoarrow() -> Option<NativeParty> {
    static LOADED: OnceLock<Result<ExchangeFunctions, String>> = OnceLock::new();
    native(Peer::Nanoarrow, LOADED.get_or_init(load_nanoarrow))
}

fn native(peer: Peer, loaded: &'static Result<ExchangeFunctions, String>) -> Option<NativeParty> {
    match loaded {
        Ok(functions) => Some(NativeParty { peer, functions }),
        Err(reason) => {
            println!("left out: {peer}: {reason}");
            None
        }
    }
}

fn here(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("native").join(file)
}

fn load_arrow_cpp() -> Result<ExchangeFunctions, String> {
    let wheel = build::wheel("pyarrow").ok_or("its wheel is not there")?;
    if !build::has_compiler("CXX", "c++") {
        return Err("a C++ compiler is not there".to_owned());
    }
    let options = ["-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-Werror"];
    let build = Build::new("exchange-arrow-cpp", "CXX", "c++", &options)
        .include(&wheel.join("include"), true)
        .include(&build::headers("arrow-device-abi"), false)
        .source(here("exchange_arrow_cpp.cc"), &[])
        .depends_on(here("exchange.h"))
        .link(&build::file_that_begins(&wheel, "libarrow.so."));
    load(&build)
}

fn load_nanoarrow() -> Result<ExchangeFunctions, String> {
    let unpacked = build::unpacked("nanoarrow").ok_or("its sources are not there")?;
    if !build::has_compiler("CC", "cc") {
        return Err("a C compiler is not there".to_owned());
    }
    let sources = unpacked.join("subprojects/arrow-nanoarrow/src");
    let configured = foreign_peers::nanoarrow::configured(&sources, &build::version("nanoarrow"));
    let ours: &[&str] = &["-Wall", "-Wextra", "-Werror"];
    let mut build = Build::new("exchange-nanoarrow", "CC", "cc", &["-std=c11", "-O3", "-DNDEBUG"])
        .include(&sources, true)
        .include(&configured, true)
        .include(&build::headers("arrow-device-abi"), false)
        .source(here("exchange_nanoarrow.c"), ours)
        .depends_on(here("exchange.h"));
    for source in ["common/utils.c", "common/schema.c", "common/array.c", "device/device.c"] {
        build = build.source(sources.join("nanoarrow").join(source), &["-w"]);
    }
    load(&build)
}

fn load(build: &Build) -> Result<ExchangeFunctions, String> {
    // SAFETY: the initializers of Arrow C++ may run at any time, and nanoarrow has none.
    let library = unsafe { Library::new(build.run()) }.map_err(|error| error.to_string())?;
    let library: &'static Library = Box::leak(Box::new(library));
    Ok(ExchangeFunctions {
        hold: get(library, "hold"),
        export: get(library, "export"),
        export_schema: get(library, "export_schema"),
        know: get(library, "know"),
        forget: get(library, "forget"),
        import: get(library, "import"),
        import_both: get(library, "import_both"),
        clear: get(library, "clear"),
        column: get(library, "column"),
        number: get(library, "number"),
        validate: get(library, "validate"),
    })
}

fn get<T: Copy>(library: &'static Library, name: &str) -> T {
    let name = format!("exchange_{name}");
    // SAFETY: each member of `ExchangeFunctions` is declared in `exchange.h` as the function of its
    // name is.
    *unsafe { library.get::<T>(name.as_bytes()) }.unwrap()
}

/// Something of theirs, which is never freed and does not change.
#[derive(Debug)]
pub(super) struct Held(*mut c_void);

// SAFETY: both libraries let any thread export what nobody changes.
unsafe impl Send for Held {}
// SAFETY: both libraries let any thread export what nobody changes.
unsafe impl Sync for Held {}

/// `EXCHANGE_PLACE` bytes. Whoever put something there takes it away.
#[derive(Debug)]
#[repr(C, align(16))]
pub(super) struct ImportTarget([u64; 64]);

impl Default for ImportTarget {
    fn default() -> Self {
        Self([0; 64])
    }
}

/// A schema, at a place that does not move.
#[derive(Debug)]
pub(super) struct KnownSchema(Box<ImportTarget>, &'static ExchangeFunctions);

impl Drop for KnownSchema {
    fn drop(&mut self) {
        // SAFETY: it was filled when this was made.
        unsafe { (self.1.forget)(at(&mut self.0)) };
    }
}

fn at(place: &mut ImportTarget) -> *mut c_void {
    (&raw mut *place).cast()
}

impl NativeParty {
    /// Whether everything about an array is valid. Both structs are released.
    #[cfg(test)]
    pub(super) fn is_valid(
        self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
        is_batch: bool,
    ) -> bool {
        // SAFETY: both keep to the interface.
        unsafe { (self.functions.validate)(schema, array, is_batch.into()) == 0 }
    }
}

impl Party for NativeParty {
    type Held = Held;
    type Known = KnownSchema;
    type Target = ImportTarget;

    fn peer(self) -> Peer {
        self.peer
    }

    fn hold(self, data: &Data) -> Held {
        let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
        data.export_schema(&mut schema);
        data.export(&mut array);
        // SAFETY: both keep to the interface, and are taken over.
        let held = unsafe { (self.functions.hold)(&mut schema, &mut array, data.is_batch.into()) };
        assert!(!held.is_null());
        Held(held)
    }

    fn export(self, held: &Held, out: &mut ArrowDeviceArray) {
        // SAFETY: something of theirs, and a struct that may be written.
        assert_eq!(unsafe { (self.functions.export)(held.0, out) }, 0);
    }

    fn export_schema(self, held: &Held, out: &mut ArrowSchema) {
        // SAFETY: something of theirs, and a struct that may be written.
        assert_eq!(unsafe { (self.functions.export_schema)(held.0, out) }, 0);
    }

    fn know(self, schema: &mut ArrowSchema, is_batch: bool) -> KnownSchema {
        let mut place = Box::<ImportTarget>::default();
        // SAFETY: a schema that keeps to the interface, and a place with nothing in it.
        assert_eq!(unsafe { (self.functions.know)(schema, is_batch.into(), at(&mut place)) }, 0);
        KnownSchema(place, self.functions)
    }

    fn import(
        self,
        known: &mut KnownSchema,
        array: &mut ArrowDeviceArray,
        place: &mut ImportTarget,
    ) {
        // SAFETY: a schema, an array of it that keeps to the interface, and a place with nothing in
        // it.
        assert_eq!(unsafe { (self.functions.import)(at(&mut known.0), array, at(place)) }, 0);
    }

    fn import_both(
        self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
        is_batch: bool,
        place: &mut ImportTarget,
    ) {
        let import = self.functions.import_both;
        // SAFETY: both keep to the interface, and the place has nothing in it.
        assert_eq!(unsafe { import(schema, array, is_batch.into(), at(place)) }, 0);
    }

    fn clear(self, place: &mut ImportTarget) {
        // SAFETY: something was imported to the place.
        unsafe { (self.functions.clear)(at(place)) };
    }

    fn column(self, place: &ImportTarget, column: usize) -> usize {
        // SAFETY: a batch was imported to the place, which has such a column.
        unsafe { (self.functions.column)((&raw const *place).cast(), column as i64) as usize }
    }

    fn number(self, place: &ImportTarget, column: usize, row: usize) -> Option<i64> {
        let number = self.functions.number;
        // SAFETY: a batch was imported to the place, which has such a column, with numbers in the
        // column.
        let number = unsafe { number((&raw const *place).cast(), column as i64, row as i64) };
        (number >= 0).then_some(number)
    }
}
