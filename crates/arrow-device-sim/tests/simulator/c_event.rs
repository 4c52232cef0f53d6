//! The C header says what the Rust table is, and a C program uses an event with nothing but the
//! header.

use std::ffi::{CString, c_int, c_void};
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

use arrow_device::ErrorKind;
use arrow_device::driver::SyncEvent;
use arrow_device_sim::{EventTable, Sim};

use crate::support::Bench;

/// A C compiler, with warnings as errors.
fn compiler(language: &str) -> Command {
    let (name, standard) = if language == "c" { ("cc", "-std=c11") } else { ("c++", "-std=c++17") };
    let mut command = Command::new(name);
    command.args(["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"));
    command
}

/// A file of this test's own, in the directory that is for such things.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn layout_checks() -> String {
    let assertion =
        |what: &str, value: u64| format!("ASSERT({what} == UINT64_C({value}), \"{what}\");\n");
    let mut source = String::from(
        "#include <stddef.h>\n#include \"arrow_device/sim.h\"\n#ifdef __cplusplus\n#define ASSERT static_assert\n#else\n\
         #define ASSERT _Static_assert\n#endif\n",
    );
    source += &assertion("ARROW_DEVICE_SIM_EVENT_MAGIC", EventTable::MAGIC);
    source += &assertion("ARROW_DEVICE_SIM_EVENT_VERSION", EventTable::VERSION.into());
    source += &assertion("sizeof(struct ArrowDeviceSimEvent)", size_of::<EventTable>() as u64);
    for (member, offset) in [
        ("magic", offset_of!(EventTable, magic)),
        ("version", offset_of!(EventTable, version)),
        ("size", offset_of!(EventTable, size)),
        ("query", offset_of!(EventTable, query)),
        ("wait", offset_of!(EventTable, wait)),
        ("queue_wait", offset_of!(EventTable, queue_wait)),
        ("context", offset_of!(EventTable, context)),
    ] {
        let what = format!("offsetof(struct ArrowDeviceSimEvent, {member})");
        source += &assertion(&what, offset as u64);
    }
    source
}

fn accepts(language: &str, name: &str, source: &str) -> bool {
    let file = scratch(name);
    std::fs::write(&file, source).unwrap();
    let output = compiler(language).arg("-fsyntax-only").arg(&file).output().unwrap();
    output.status.success()
}

#[test]
fn the_header_declares_the_table_that_rust_has() {
    for language in ["c", "c++"] {
        let checks = layout_checks();
        assert!(accepts(language, &format!("layout_{language}"), &checks), "{language}");
        let wrong = checks.replace("UINT64_C(48)", "UINT64_C(56)");
        assert!(!accepts(language, &format!("wrong_{language}"), &wrong), "{language}");
    }
}

const CONSUMER: &str = r#"
#include <errno.h>
#include "arrow_device/sim.h"

/* Orders a queue behind the event, then waits for it on the host. Returns what went wrong, or 0. */
int consume(void* sync_event, void* queue, void (*use)(void*), void* context);
int consume(void* sync_event, void* queue, void (*use)(void*), void* context) {
  const struct ArrowDeviceSimEvent* event = (const struct ArrowDeviceSimEvent*)sync_event;
  if (event->magic != ARROW_DEVICE_SIM_EVENT_MAGIC) return 1;
  if (event->version < ARROW_DEVICE_SIM_EVENT_VERSION || event->size < sizeof(*event)) return 2;
  if (event->query(event) != EAGAIN) return 3;
  if (event->queue_wait(event, queue) != 0) return 4;
  use(context);
  if (event->wait(event, -1) != 0) return 5;
  return event->query(event);
}
"#;

type Use = unsafe extern "C" fn(*mut c_void);
type Consume = unsafe extern "C" fn(*mut c_void, *mut c_void, Use, *mut c_void) -> c_int;

/// The C function above, compiled and loaded.
fn consumer() -> Consume {
    let (source, library) = (scratch("consumer.c"), scratch("consumer.so"));
    std::fs::write(&source, CONSUMER).unwrap();
    let built = compiler("c").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    let function = unsafe { libc::dlsym(handle, c"consume".as_ptr()) };
    assert!(!function.is_null());
    unsafe { std::mem::transmute::<*mut c_void, Consume>(function) }
}

/// Requirement: ARR-5
#[test]
fn a_c_program_waits_with_nothing_but_the_header() {
    struct Work<'a>(&'a Bench<'a>, arrow_device::driver::Raw<arrow_device::Memory>);
    unsafe extern "C" fn launch(context: *mut c_void) {
        let Work(bench, memory) = unsafe { &*context.cast::<Work<'_>>() };
        bench.consume(&bench.two, *memory, 8);
    }
    let consume = consumer();
    let sim = Sim::builder().build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(8);
    bench.fill(&bench.one, memory, 8);
    let event = bench.one.record().unwrap();
    let SyncEvent::Address(sync_event) = event.sync_event().unwrap() else { unreachable!() };
    let mut work = Work(&bench, memory);
    let queue = bench.two.raw().as_ptr();
    let code = unsafe { consume(sync_event.as_ptr(), queue, launch, (&raw mut work).cast()) };
    assert_eq!(code, 0);
    // A queue that is not the simulator's.
    let elsewhere = std::ptr::without_provenance_mut(77);
    let late = bench.one.record().unwrap();
    let SyncEvent::Address(sync_event) = late.sync_event().unwrap() else { unreachable!() };
    let table = sync_event.as_ptr().cast::<EventTable>();
    let code = unsafe { ((*table).queue_wait.unwrap())(table, elsewhere) };
    assert_eq!(code, ErrorKind::NotReachable.errno());
    bench.idle();
    bench.free(memory, 8);
}
