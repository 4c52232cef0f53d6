//! Arrays from a function of a shared library.

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::{Array, ArrayStream, ErrorKind, Schema};
use libloading::{Library, Symbol};

use crate::failure::{Failure, Outcome};

type Produce = unsafe extern "C" fn(*mut ArrowSchema, *mut ArrowDeviceArray) -> c_int;
type ProduceStream = unsafe extern "C" fn(*mut ArrowDeviceArrayStream) -> c_int;

/// Calls the function that `library:symbol` names, and takes over what it hands over: one array, or
/// the first ones of a stream.
pub(super) fn arrays(named: &str, is_stream: bool, most: usize) -> Outcome<Vec<Array>> {
    let Some((library, symbol)) = named.rsplit_once(':').filter(|(_, symbol)| !symbol.is_empty())
    else {
        return Err(Failure::misuse(format!(
            "`{named}` names no function; `./libscan.so:produce` does"
        )));
    };
    // SAFETY: the user asks for the library's initialisers to be run.
    let library =
        unsafe { Library::new(library) }.map_err(|error| Failure::from(error).during(library))?;
    // Stays: what it hands over is released through it.
    let library = ManuallyDrop::new(library);
    let missing = |error| Failure::from(error).during(named);
    if is_stream {
        // SAFETY: the user says that the function has this type.
        let produce: Symbol<'_, ProduceStream> =
            unsafe { library.get(symbol.as_bytes()) }.map_err(missing)?;
        let mut stream = ArrowDeviceArrayStream::empty();
        // SAFETY: the user says that the function has this type; the struct may be written.
        check(named, unsafe { produce(&mut stream) })?;
        // SAFETY: the function promises what the C device stream interface says.
        let stream = unsafe { ArrayStream::import(&mut stream) }?;
        return Ok(stream.take(most).collect::<Result<_, _>>()?);
    }
    // SAFETY: UNS-31: the user says that the function has this type.
    let produce: Symbol<'_, Produce> =
        unsafe { library.get(symbol.as_bytes()) }.map_err(missing)?;
    let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    // SAFETY: UNS-31: the user says that the function has this type; both structs may be written.
    check(named, unsafe { produce(&mut schema, &mut array) })?;
    // SAFETY: the function promises what the C data interface says.
    let schema = unsafe { Schema::import(&mut schema) }?;
    // SAFETY: the function promises what the C device data interface says.
    Ok(vec![unsafe { Array::import(&mut array, &schema) }?])
}

fn check(named: &str, errno: c_int) -> Outcome<()> {
    match errno {
        0 => Ok(()),
        errno => {
            Err(Failure::new(format!("{named} returned {errno}: {}", ErrorKind::from_errno(errno))))
        }
    }
}
