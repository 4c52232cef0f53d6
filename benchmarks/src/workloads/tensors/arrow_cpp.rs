//! By Arrow C++. `native/tensors_arrow_cpp.cc` has the functions.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::rc::Rc;

use arrow_device::dlpack::Managed;
use foreign_peers::build::{self, Build};
use libloading::Library;

use super::{COUNT, DEEP, FLAT, Form, dimensions, handed_over, named, numbers, tensor};
use crate::case::{Case, Peer};

pub(super) fn cases() -> Vec<Case> {
    let library = match load() {
        Ok(library) => Rc::new(library),
        Err(reason) => {
            eprintln!("tensors of Arrow C++ are left out: {reason}");
            return Vec::new();
        }
    };
    let mut cases: Vec<Case> =
        [FLAT, DEEP].into_iter().flat_map(|shape| of(&library, shape)).collect();
    let source = TensorSource::new(&library, FLAT);
    let there_and_back = move || assert_eq!(source.array_round_trip(), COUNT);
    cases.push(Case::whole(named("array round trip", FLAT), Peer::ArrowCpp, there_and_back));
    cases
}

fn of(library: &Rc<Library>, shape: &'static str) -> [Case; 3] {
    let source = TensorSource::new(library, shape);
    let export = move |()| source.export();
    let made = tensor(shape);
    let (makes, imports) = (TensorSource::new(library, shape), TensorSource::new(library, shape));
    let before = move || (handed_over(&made), makes.slot());
    let import = move |(managed, slot)| imports.import(managed, slot);
    let source = TensorSource::new(library, shape);
    let there_and_back = move || assert_eq!(source.round_trip(), COUNT);
    [
        Case::step(named("tensor export", shape), Peer::ArrowCpp, || (), export, drop),
        Case::step(named("tensor import", shape), Peer::ArrowCpp, before, import, drop),
        Case::whole(named("tensor round trip", shape), Peer::ArrowCpp, there_and_back),
    ]
}

fn load() -> Result<Library, String> {
    let wheel = build::wheel("pyarrow").ok_or("`cargo xtask test --setup` installs pyarrow")?;
    if !build::has_compiler("CXX", "c++") {
        return Err("there is no C++ compiler".into());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("native/tensors_arrow_cpp.cc");
    let options = ["-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-Werror"];
    let build = Build::new("benchmark-tensors-arrow-cpp", "CXX", "c++", &options)
        .include(&wheel.join("include"), true)
        .source(source, &[])
        .link(&build::file_that_begins(&wheel, "libarrow.so."));
    // SAFETY: the initializers of Arrow C++ may run at any time.
    unsafe { Library::new(build.run()) }.map_err(|error| error.to_string())
}

/// Their tensor and their array over the same numbers, and the functions, looked up once.
struct TensorSource {
    raw: *mut c_void,
    export: unsafe extern "C" fn(*mut c_void) -> *mut Form,
    import: unsafe extern "C" fn(*mut Form, *mut c_void) -> c_int,
    round_trip: unsafe extern "C" fn(*mut c_void) -> i64,
    array_round_trip: unsafe extern "C" fn(*mut c_void) -> i64,
    free: unsafe extern "C" fn(*mut c_void),
    slots: SlotFunctions,
    /// They refer to them.
    _numbers: Vec<i64>,
    _library: Rc<Library>,
}

#[derive(Clone, Copy)]
struct SlotFunctions {
    make: unsafe extern "C" fn() -> *mut c_void,
    clear: unsafe extern "C" fn(*mut c_void),
    free: unsafe extern "C" fn(*mut c_void),
    count: unsafe extern "C" fn(*mut c_void) -> i64,
}

/// Where an imported tensor of theirs is put.
struct TensorSlot(*mut c_void, SlotFunctions);

impl TensorSource {
    fn new(library: &Rc<Library>, shape: &str) -> Self {
        type Make = unsafe extern "C" fn(*const i64, i64, *const i64, i64) -> *mut c_void;
        let (numbers, shape) = (numbers(), dimensions(shape));
        let make: Make = get(library, "tensors_source");
        // SAFETY: both are read as far as their counts say; the numbers stay as long as the source.
        let raw = unsafe { make(numbers.as_ptr(), COUNT, shape.as_ptr(), shape.len() as i64) };
        assert!(!raw.is_null(), "no tensor of theirs");
        let slots = SlotFunctions {
            make: get(library, "tensors_slot"),
            clear: get(library, "tensors_clear"),
            free: get(library, "tensors_slot_free"),
            count: get(library, "tensors_count"),
        };
        Self {
            raw,
            export: get(library, "tensors_export"),
            import: get(library, "tensors_import"),
            round_trip: get(library, "tensors_round_trip"),
            array_round_trip: get(library, "tensors_array_round_trip"),
            free: get(library, "tensors_source_free"),
            slots,
            _numbers: numbers,
            _library: library.clone(),
        }
    }

    fn export(&self) -> Managed<Form> {
        // SAFETY: the source is not freed.
        let made = unsafe { (self.export)(self.raw) };
        // SAFETY: null, or a tensor that was just handed over.
        unsafe { Managed::from_raw(made) }.unwrap()
    }

    fn slot(&self) -> TensorSlot {
        // SAFETY: takes nothing.
        TensorSlot(unsafe { (self.slots.make)() }, self.slots)
    }

    fn import(&self, managed: Managed<Form>, slot: TensorSlot) -> TensorSlot {
        // SAFETY: a tensor that is handed over, and a slot of theirs.
        let failed = unsafe { (self.import)(managed.into_raw(), slot.0) };
        assert_eq!(failed, 0, "it was refused");
        slot
    }

    fn round_trip(&self) -> i64 {
        // SAFETY: the source is not freed.
        unsafe { (self.round_trip)(self.raw) }
    }

    fn array_round_trip(&self) -> i64 {
        // SAFETY: the source is not freed.
        unsafe { (self.array_round_trip)(self.raw) }
    }
}

impl Drop for TensorSource {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe { (self.free)(self.raw) }
    }
}

impl TensorSlot {
    /// How many elements the tensor in it has; -1 where there is none.
    fn count(&self) -> i64 {
        // SAFETY: the slot is not freed.
        unsafe { (self.1.count)(self.0) }
    }
}

impl Drop for TensorSlot {
    fn drop(&mut self) {
        assert_ne!(self.count(), 0);
        // SAFETY: the slot is not freed.
        unsafe { (self.1.clear)(self.0) };
        // SAFETY: freed once, here.
        unsafe { (self.1.free)(self.0) }
    }
}

fn get<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: the types in `TensorSource` are those of the functions in
    // `native/tensors_arrow_cpp.cc`.
    *unsafe { library.get::<T>(name.as_bytes()) }.unwrap()
}

#[cfg(test)]
mod tests {
    use arrow_device_testkit::required::skip;

    use super::*;

    #[test]
    fn its_tensors_are_the_same_numbers() {
        let library = match load() {
            Ok(library) => Rc::new(library),
            Err(reason) => return skip("pyarrow", &reason),
        };
        for shape in [FLAT, DEEP] {
            let source = TensorSource::new(&library, shape);
            super::super::check(source.export(), shape);
            let taken = source.import(handed_over(&tensor(shape)), source.slot());
            assert_eq!(taken.count(), COUNT);
            assert_eq!((source.round_trip(), source.array_round_trip()), (COUNT, COUNT));
        }
    }
}
