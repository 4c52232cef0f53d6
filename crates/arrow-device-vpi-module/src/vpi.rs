//! The functions of the VPI (IEEE 1364-2005, clauses 26 and 27) that the module calls, as safe
//! functions on handles.
//!
//! # Rules
//!
//! * V1: The functions were found by their names in the process that has loaded the module, or are
//!   those of a [`Table`] that a program has filled in, and a simulator has them with the types of
//!   the standard.
//! * V2: The VPI is called on the simulator's thread only, from callbacks of the simulator or where
//!   the program that runs the simulator lets the module work: a [`Vpi`] comes from [`Vpi::load`],
//!   in a start-up routine, or from [`Vpi::given`], and the value is neither `Send` nor `Sync`.
//! * V3: A [`Handle`] came from the simulator, and names an object of the design, which stays as
//!   long as the simulation.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

const SIM_TIME: i32 = 2;
const INT_VAL: i32 = 6;
const VECTOR_VAL: i32 = 9;
const SUPPRESS_VAL: i32 = 13;
const SUPPRESS_TIME: i32 = 3;
const NO_DELAY: i32 = 1;
const TYPE: i32 = 1;
const SIZE: i32 = 4;
const TIME_PRECISION: i32 = 12;
const LEFT_RANGE: i32 = 79;
const RIGHT_RANGE: i32 = 83;
const VALUE_CHANGE: i32 = 1;
const READ_WRITE_SYNCH: i32 = 6;
const AFTER_DELAY: i32 = 9;
const START_OF_SIMULATION: i32 = 11;
const END_OF_SIMULATION: i32 = 12;
const FINISH: i32 = 67;

/// The types of objects with a value: the integer variable, the word of a memory, the net and the
/// register, and the integers and bits of SystemVerilog (IEEE 1800-2005, annex I).
const VALUES: &[i32] = &[25, 30, 36, 48, 610, 611, 612, 614, 620];

/// What the simulator calls back.
pub(crate) type Callback = unsafe extern "C" fn(*mut CallbackData) -> i32;

/// `s_vpi_time`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Time {
    kind: i32,
    high: u32,
    low: u32,
    real: f64,
}

/// `s_vpi_vecval`: 32 bits, two bits for each.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The bit, where it is known; 1 also for `x`.
    pub(crate) a: u32,
    /// 1 where the bit is unknown, `x` or `z`.
    pub(crate) b: u32,
}

#[repr(C)]
union AnyValue {
    integer: i32,
    vector: *mut Chunk,
    // The widest member decides the size.
    _real: f64,
}

/// `s_vpi_value`.
#[repr(C)]
struct Value {
    format: i32,
    value: AnyValue,
}

/// `s_cb_data`.
#[repr(C)]
pub(crate) struct CallbackData {
    reason: i32,
    routine: Option<Callback>,
    object: *mut c_void,
    time: *mut Time,
    value: *mut Value,
    index: i32,
    user_data: *mut c_char,
}

/// `s_vpi_vlog_info`.
#[repr(C)]
struct Information {
    argc: i32,
    argv: *mut *mut c_char,
    product: *mut c_char,
    version: *mut c_char,
}

type RegisterCallback = unsafe extern "C" fn(*mut CallbackData) -> *mut c_void;
type HandleByName = unsafe extern "C" fn(*const c_char, *mut c_void) -> *mut c_void;
type HandleByIndex = unsafe extern "C" fn(*mut c_void, i32) -> *mut c_void;
type HandleOf = unsafe extern "C" fn(i32, *mut c_void) -> *mut c_void;
type Get = unsafe extern "C" fn(i32, *mut c_void) -> i32;
type GetValue = unsafe extern "C" fn(*mut c_void, *mut Value);
type PutValue = unsafe extern "C" fn(*mut c_void, *mut Value, *mut Time, i32) -> *mut c_void;
type GetTime = unsafe extern "C" fn(*mut c_void, *mut Time);
type Control = unsafe extern "C" fn(i32, ...);
type GetInformation = unsafe extern "C" fn(*mut Information) -> i32;
type Release = unsafe extern "C" fn(*mut c_void) -> i32;

/// `ArdevVpiFunctions` of the header: the functions of a simulator in the same program.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Table {
    handle_by_name: Option<HandleByName>,
    handle_by_index: Option<HandleByIndex>,
    handle: Option<HandleOf>,
    get: Option<Get>,
    get_value: Option<GetValue>,
    put_value: Option<PutValue>,
    get_time: Option<GetTime>,
    get_vlog_info: Option<GetInformation>,
    release_handle: Option<Release>,
}

/// An object of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle(NonNull<c_void>);

/// When the simulator calls back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// When all of the design is there and nothing has run.
    Starts,
    /// When the simulation ends.
    Ends,
    /// At the end of this moment of simulated time. What is written then belongs to the moment.
    Settled,
    /// After so much simulated time.
    After(u64),
    /// Whenever the value changes.
    Changes(Handle),
}

/// The functions of a simulator that calls the module back.
#[derive(Clone, Copy)]
struct Calls {
    register_callback: RegisterCallback,
    control: Control,
}

/// The functions.
#[derive(Clone, Copy)]
pub(crate) struct Vpi {
    /// `None` where a program asks the module at each moment of simulated time.
    calls: Option<Calls>,
    /// Where each handle is an object of its own, which somebody has to give back.
    release: Option<Release>,
    handle_by_name: HandleByName,
    handle_by_index: HandleByIndex,
    handle_of: HandleOf,
    get: Get,
    get_value: GetValue,
    put_value: PutValue,
    get_time: GetTime,
    get_information: GetInformation,
    /// Rule V2.
    _of_one_thread: PhantomData<*mut ()>,
}

/// Looks up a function of the process.
fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `dlsym` takes the default handle and a name that ends with a zero (POSIX, `dlsym`).
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Finds a function and gives it its type.
macro_rules! function {
    ($type:ty, $name:literal) => {{
        let found = find($name)?;
        // SAFETY: rule V1: the standard gives the function of this name this type; POSIX lets an
        // address of `dlsym` be converted to a pointer to a function.
        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
    }};
}

impl Vpi {
    /// The functions of the simulator that has loaded the module. `None` in any other process.
    pub(crate) fn load() -> Option<Self> {
        let calls = Calls {
            register_callback: function!(RegisterCallback, c"vpi_register_cb"),
            control: function!(Control, c"vpi_control"),
        };
        Some(Self {
            calls: Some(calls),
            release: None,
            handle_by_name: function!(HandleByName, c"vpi_handle_by_name"),
            handle_by_index: function!(HandleByIndex, c"vpi_handle_by_index"),
            handle_of: function!(HandleOf, c"vpi_handle"),
            get: function!(Get, c"vpi_get"),
            get_value: function!(GetValue, c"vpi_get_value"),
            put_value: function!(PutValue, c"vpi_put_value"),
            get_time: function!(GetTime, c"vpi_get_time"),
            get_information: function!(GetInformation, c"vpi_get_vlog_info"),
            _of_one_thread: PhantomData,
        })
    }

    /// The functions of a simulator in the same program. `None` where one is missing.
    ///
    /// # Safety
    /// The functions are those of a simulator, with the types of the standard (rule V1). The value
    /// is used where the simulator may be called (rule V2).
    pub(crate) unsafe fn given(table: &Table) -> Option<Self> {
        Some(Self {
            calls: None,
            release: Some(table.release_handle?),
            handle_by_name: table.handle_by_name?,
            handle_by_index: table.handle_by_index?,
            handle_of: table.handle?,
            get: table.get?,
            get_value: table.get_value?,
            put_value: table.put_value?,
            get_time: table.get_time?,
            get_information: table.get_vlog_info?,
            _of_one_thread: PhantomData,
        })
    }

    /// Has a function called. Whether the simulator does that. Where a program asks the module at
    /// each moment of simulated time, no call is needed.
    pub(crate) fn call_back(&self, when: When, routine: Callback) -> bool {
        let Some(calls) = self.calls else { return true };
        let (reason, object, delay) = match when {
            When::Starts => (START_OF_SIMULATION, ptr::null_mut(), 0),
            When::Ends => (END_OF_SIMULATION, ptr::null_mut(), 0),
            When::Settled => (READ_WRITE_SYNCH, ptr::null_mut(), 0),
            When::After(delay) => (AFTER_DELAY, ptr::null_mut(), delay),
            When::Changes(handle) => (VALUE_CHANGE, handle.0.as_ptr(), 0),
        };
        let kind = if object.is_null() { SIM_TIME } else { SUPPRESS_TIME };
        let mut time = Time { kind, high: (delay >> 32) as u32, low: delay as u32, real: 0.0 };
        let mut value = Value { format: SUPPRESS_VAL, value: AnyValue { integer: 0 } };
        let mut data = CallbackData {
            reason,
            routine: Some(routine),
            object,
            time: &raw mut time,
            value: &raw mut value,
            index: 0,
            user_data: ptr::null_mut(),
        };
        // SAFETY: rules V1 to V3: the structure is as the standard has it for this reason (27.33),
        // and the simulator takes what it needs from the structure during the call.
        let registered = unsafe { (calls.register_callback)(&raw mut data) };
        !registered.is_null()
    }

    /// The object of this name, by the path from the top of the design. Verilator has one more
    /// module, `TOP`, above the top of the design.
    pub(crate) fn named(&self, name: &str) -> Option<Handle> {
        let found = self.named_exactly(name);
        if found.is_some() || !self.is_in_program() {
            return found;
        }
        self.named_exactly(&format!("TOP.{name}"))
    }

    fn named_exactly(&self, name: &str) -> Option<Handle> {
        let name = CString::new(name).ok()?;
        // SAFETY: rules V1 and V2: a name that ends with a zero, and a null scope for a full path
        // (27.18).
        let found = unsafe { (self.handle_by_name)(name.as_ptr(), ptr::null_mut()) };
        NonNull::new(found).map(Handle)
    }

    /// The word of an array with this index.
    pub(crate) fn word(&self, array: Handle, index: i32) -> Option<Handle> {
        // SAFETY: rules V1 to V3; an index that the array does not have gives null (27.16).
        let found = unsafe { (self.handle_by_index)(array.0.as_ptr(), index) };
        NonNull::new(found).map(Handle)
    }

    /// The lowest index of an array. `None` for an object that is no array.
    pub(crate) fn first_index(&self, array: Handle) -> Option<i32> {
        let bound = |which| {
            // SAFETY: rules V1 to V3; an object without such a bound gives null (27.14).
            let found = unsafe { (self.handle_of)(which, array.0.as_ptr()) };
            let found = NonNull::new(found).map(Handle)?;
            let number = self.integer(found);
            self.give_back(found);
            Some(number)
        };
        Some(bound(LEFT_RANGE)?.min(bound(RIGHT_RANGE)?))
    }

    /// Whether the simulator is in the program that asks the module. Such a simulator is Verilator:
    /// handles are given back, and wide values cannot be read.
    pub(crate) fn is_in_program(&self) -> bool {
        self.calls.is_none()
    }

    /// Gives a handle back that is not used any more, where the simulator wants that.
    pub(crate) fn give_back(&self, handle: Handle) {
        if let Some(release) = self.release {
            // SAFETY: rules V1 to V3; the handle is one that the caller got from the simulator and
            // does not use again (27.28).
            unsafe { release(handle.0.as_ptr()) };
        }
    }

    /// The most bits of an object that can be read.
    pub(crate) fn widest(&self) -> u32 {
        // Verilator ends the process where more are asked for (`VL_VALUE_STRING_MAX_WORDS`).
        if self.is_in_program() { 63 * 32 } else { u32::MAX }
    }

    fn integer(&self, handle: Handle) -> i32 {
        let mut value = Value { format: INT_VAL, value: AnyValue { integer: 0 } };
        // SAFETY: rules V1 to V3; the structure is for the simulator to fill in (27.14).
        unsafe { (self.get_value)(handle.0.as_ptr(), &raw mut value) };
        // SAFETY: the value was made with this member, which is also what the simulator writes for
        // this format; every pattern of 32 bits is a number.
        unsafe { value.value.integer }
    }

    /// The number of bits of an object, or of words of an array.
    pub(crate) fn size(&self, handle: Handle) -> u32 {
        // SAFETY: rules V1 to V3 (27.6).
        let size = unsafe { (self.get)(SIZE, handle.0.as_ptr()) };
        size.max(0).cast_unsigned()
    }

    /// Whether an object has a value of its own: a net, a register, a variable, or a word.
    pub(crate) fn has_value(&self, handle: Handle) -> bool {
        // SAFETY: rules V1 to V3 (27.6).
        let kind = unsafe { (self.get)(TYPE, handle.0.as_ptr()) };
        VALUES.contains(&kind)
    }

    /// The unit of simulated time, as a power of ten of a second.
    pub(crate) fn precision(&self) -> i32 {
        // SAFETY: rules V1 and V2: the property is asked of no object (27.6).
        unsafe { (self.get)(TIME_PRECISION, ptr::null_mut()) }
    }

    /// Reads the value of an object, 32 bits to each chunk. Whether the simulator gives it.
    pub(crate) fn read(&self, handle: Handle, chunks: &mut [Chunk]) -> bool {
        let mut value = Value { format: VECTOR_VAL, value: AnyValue { vector: ptr::null_mut() } };
        // SAFETY: rules V1 to V3; the structure is for the simulator to fill in (27.14).
        unsafe { (self.get_value)(handle.0.as_ptr(), &raw mut value) };
        // SAFETY: the value was made with this member, and the simulator writes it for this format.
        let vector = unsafe { value.value.vector };
        if vector.is_null() {
            return false;
        }
        let count = (self.size(handle).div_ceil(32) as usize).min(chunks.len());
        // SAFETY: the simulator's vector has a chunk for each 32 bits of the object, and stays
        // until the next call of the function (27.14); the chunks of the caller are not the
        // simulator's.
        unsafe { ptr::copy_nonoverlapping(vector, chunks.as_mut_ptr(), count) };
        true
    }

    /// Sets the value of an object, at once. Has a chunk for each 32 bits of the object. `false`
    /// where the simulator says that the object keeps its value.
    pub(crate) fn write(&self, handle: Handle, chunks: &mut [Chunk]) -> bool {
        if chunks.len() < self.size(handle).div_ceil(32) as usize {
            return false;
        }
        let vector = chunks.as_mut_ptr();
        let mut value = Value { format: VECTOR_VAL, value: AnyValue { vector } };
        // SAFETY: rules V1 to V3: a value of the object's size, without a delay, for which no time
        // is needed (27.30).
        let set = unsafe {
            (self.put_value)(handle.0.as_ptr(), &raw mut value, ptr::null_mut(), NO_DELAY)
        };
        // Verilator returns the object where it has set the value. The standard has no answer here.
        !set.is_null() || !self.is_in_program()
    }

    /// The simulated time.
    pub(crate) fn time(&self) -> u64 {
        let mut time = Time { kind: SIM_TIME, high: 0, low: 0, real: 0.0 };
        // SAFETY: rules V1 and V2: no object stands for the simulator's own unit of time (27.12).
        unsafe { (self.get_time)(ptr::null_mut(), &raw mut time) };
        u64::from(time.high) << 32 | u64::from(time.low)
    }

    /// Ends the simulation when the callback returns. A program ends its simulation itself.
    pub(crate) fn finish(&self) {
        if let Some(calls) = self.calls {
            let silent: c_int = 0;
            // SAFETY: rules V1 and V2: this operation takes one number (27.3).
            unsafe { (calls.control)(FINISH, silent) }
        }
    }

    /// The name and the version of the simulator.
    pub(crate) fn simulator(&self) -> String {
        let null = ptr::null_mut();
        let mut found =
            Information { argc: 0, argv: ptr::null_mut(), product: null, version: null };
        // SAFETY: rules V1 and V2: the structure is for the simulator to fill in (27.10).
        if unsafe { (self.get_information)(&raw mut found) } == 0 {
            return String::new();
        }
        let text = |text: *mut c_char| match text.is_null() {
            true => String::new(),
            // SAFETY: a text of the simulator's, which ends with a zero and stays as long as the
            // simulation.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        format!("{} {}", text(found.product), text(found.version)).trim().to_owned()
    }
}

/// A simulator for tests of the module, with one array of five words of eight bytes. The simulator
/// gives no word 2, and no value of word 3.
#[cfg(test)]
pub(crate) mod fake {
    use super::*;
    use std::cell::RefCell;

    const ARRAY: usize = 1;
    const BOUND: usize = 2;
    const FIRST_WORD: usize = 8;

    thread_local! {
        static WORDS: RefCell<[[Chunk; 2]; 5]> = RefCell::default();
    }

    /// The words as they are.
    pub(crate) fn words() -> [[Chunk; 2]; 5] {
        WORDS.with_borrow(|words| *words)
    }

    fn handle(number: usize) -> *mut c_void {
        ptr::without_provenance_mut(number)
    }

    unsafe extern "C" fn register_callback(_: *mut CallbackData) -> *mut c_void {
        ptr::null_mut()
    }

    unsafe extern "C" fn by_name(_: *const c_char, _: *mut c_void) -> *mut c_void {
        handle(ARRAY)
    }

    unsafe extern "C" fn by_index(_: *mut c_void, index: i32) -> *mut c_void {
        match usize::try_from(index) {
            Ok(index @ (0 | 1 | 3 | 4)) => handle(FIRST_WORD + index),
            _ => ptr::null_mut(),
        }
    }

    unsafe extern "C" fn of(which: i32, _: *mut c_void) -> *mut c_void {
        handle(BOUND + usize::from(which == RIGHT_RANGE))
    }

    unsafe extern "C" fn get(property: i32, object: *mut c_void) -> i32 {
        match (property, object.addr()) {
            (SIZE, ARRAY) => 5,
            (SIZE, _) => 64,
            (TYPE, FIRST_WORD..) => 30,
            _ => 29,
        }
    }

    unsafe extern "C" fn get_value(object: *mut c_void, value: *mut Value) {
        // SAFETY: the caller has made the structure, and uses it after the call.
        let value = unsafe { &mut *value };
        let number = object.addr().wrapping_sub(FIRST_WORD);
        if value.format == INT_VAL {
            value.value.integer = if object.addr() == BOUND { 0 } else { 4 };
        } else if number != 3 {
            value.value.vector = WORDS.with_borrow_mut(|words| words[number].as_mut_ptr());
        }
    }

    unsafe extern "C" fn put_value(
        object: *mut c_void,
        value: *mut Value,
        _: *mut Time,
        _: i32,
    ) -> *mut c_void {
        // SAFETY: the caller has made the structure.
        let value = unsafe { &*value };
        // SAFETY: the caller has made the value with this member.
        let vector = unsafe { value.value.vector };
        // SAFETY: the caller has a chunk for each 32 bits of a word.
        let chunks = unsafe { *vector.cast::<[Chunk; 2]>() };
        WORDS.with_borrow_mut(|words| words[object.addr() - FIRST_WORD] = chunks);
        ptr::null_mut()
    }

    unsafe extern "C" fn time(_: *mut c_void, _: *mut Time) {}

    unsafe extern "C" fn information(_: *mut Information) -> i32 {
        0
    }

    unsafe extern "C" {
        // Any function of this type: the tests do not call it.
        #[link_name = "printf"]
        fn control(operation: i32, ...);
    }

    pub(crate) fn vpi() -> Vpi {
        Vpi {
            calls: Some(Calls { register_callback, control }),
            release: None,
            handle_by_name: by_name,
            handle_by_index: by_index,
            handle_of: of,
            get,
            get_value,
            put_value,
            get_time: time,
            get_information: information,
            _of_one_thread: PhantomData,
        }
    }
}
