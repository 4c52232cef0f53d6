//! Types.

use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use arrow_device::abi::ArrowSchema;
use arrow_device::{DataType, Field, Schema};

use crate::call::{Out, free, get, run, text, values, write_text};
use crate::error::ArdevError;

#[derive(Debug)]
pub struct ArdevSchema(pub(crate) Schema, OnceLock<CString>);

impl ArdevSchema {
    pub(crate) fn new(schema: Schema) -> Self {
        Self(schema, OnceLock::new())
    }

    /// The format string, which lives as long as the object.
    pub(crate) fn format(&self) -> &CString {
        // No format has a NUL.
        self.1.get_or_init(|| CString::new(&*self.0.data_type().format()).unwrap_or_default())
    }
}

/// The header's `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_import(
    c_schema: *mut ArrowSchema,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 3 of the header.
        let schema = unsafe { Schema::import(c_schema) }?;
        out?.give(ArdevSchema::new(schema))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_export(
    schema: *const ArdevSchema,
    out: *mut ArrowSchema,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 3 of the header.
        let out = unsafe { Out::new(out, ArrowSchema::empty(), "out") }?;
        // SAFETY: rule 2 of the header.
        let schema = unsafe { get(schema, "schema") }?;
        let mut exported = ArrowSchema::empty();
        schema.0.export(&mut exported)?;
        out.put(exported)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_new(
    format: *const c_char,
    name: *const c_char,
    flags: i64,
    children: *const *const ArdevSchema,
    n_children: usize,
    dictionary: *const ArdevSchema,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: the header asks for a text.
        let format = unsafe { text(format, "format") }?;
        // SAFETY: the header asks for a text, or null.
        let name = if name.is_null() { "" } else { unsafe { text(name, "name") }? };
        // SAFETY: the header asks for so many schemas.
        let children = unsafe { values(children, n_children, "children") }?;
        let field = |schema: &*const ArdevSchema| {
            // SAFETY: rule 2 of the header.
            Ok(unsafe { get(*schema, "a child") }?.0.field().clone())
        };
        let children: Vec<Field> =
            children.iter().map(field).collect::<arrow_device::Result<_>>()?;
        // SAFETY: rule 2 of the header.
        let dictionary = unsafe { dictionary.as_ref() }.map(|schema| schema.0.field().clone());
        let data_type = DataType::from_format(format, children, dictionary, flags)?;
        let field = Field::new(name, data_type, flags & NULLABLE != 0);
        out.give(ArdevSchema::new(Schema::new(field)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_describe(
    schema: *const ArdevSchema,
    text: *mut c_char,
    capacity: usize,
    size: *mut usize,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let schema = unsafe { get(schema, "schema") };
        let words = || {
            let field = schema?.0.field();
            let words = field.to_string();
            // Most roots have no name, and then there is nothing to separate the type from.
            let start = if field.name().is_empty() { ": " } else { "" };
            Ok(words.strip_prefix(start).unwrap_or(&words).to_owned())
        };
        // SAFETY: the header asks for `capacity` bytes.
        unsafe { write_text(text, capacity, size, words) }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_free(schema: *mut ArdevSchema) {
    // SAFETY: rule 2 of the header.
    unsafe { free(schema) }
}
