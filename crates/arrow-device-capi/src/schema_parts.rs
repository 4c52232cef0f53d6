//! What a type is made of: its parts read, and its metadata set.

use std::ffi::{c_char, c_int, c_void};

use arrow_device::{Extension, Field, Metadata, Result, Schema};

use crate::call::{Out, get, invalid, run, text, values};
use crate::error::ArdevError;
use crate::schema::ArdevSchema;
use crate::sized::OutGrows;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevBytes {
    pub data: *const c_void,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevPair {
    pub key: ArdevBytes,
    pub value: ArdevBytes,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevSchemaInfo {
    pub struct_size: usize,
    pub format: *const c_char,
    pub name: ArdevBytes,
    pub flags: i64,
    pub n_children: usize,
    pub n_pairs: usize,
    pub has_dictionary: i32,
    pub is_extension: i32,
    pub extension_name: ArdevBytes,
    pub extension_parameters: ArdevBytes,
}

impl ArdevBytes {
    fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }

    /// The bytes; none for a null pointer without a size.
    ///
    /// # Safety
    /// `data` is null or has `size` bytes that live as long as the result is used.
    pub(crate) unsafe fn bytes<'a>(self, name: &str) -> Result<&'a [u8]> {
        // SAFETY: `data` is null or has `size` bytes, as the caller promises.
        unsafe { values(self.data.cast(), self.size, name) }
    }
}

impl ArdevPair {
    const NONE: Self = {
        let nothing = ArdevBytes { data: std::ptr::null(), size: 0 };
        Self { key: nothing, value: nothing }
    };
}

/// A function that makes one type of another.
///
/// # Safety
/// The pointers keep to rules 1 and 2 of the header.
unsafe fn derive(
    schema: *const ArdevSchema,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
    make: impl FnOnce(&Field) -> Result<Field>,
) -> c_int {
    let body = || {
        // SAFETY: rules 1 and 2 of the header, which the caller keeps.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rules 1 and 2 of the header, which the caller keeps.
        let schema = unsafe { get(schema, "schema") }?;
        out.give(ArdevSchema::new(Schema::new(make(schema.0.field())?)?))
    };
    // SAFETY: rules 1 and 2 of the header, which the caller keeps.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_with_metadata(
    schema: *const ArdevSchema,
    pairs: *const ArdevPair,
    n_pairs: usize,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let make = |field: &Field| {
        // SAFETY: the header asks for so many pairs.
        let pairs = unsafe { values(pairs, n_pairs, "pairs") }?;
        let pair = |pair: &ArdevPair| {
            // SAFETY: the header asks for bytes.
            let key = unsafe { pair.key.bytes("pairs[].key") }?;
            // SAFETY: the header asks for bytes.
            Ok((key, unsafe { pair.value.bytes("pairs[].value") }?))
        };
        let pairs = pairs.iter().map(pair).collect::<Result<Vec<_>>>()?;
        Ok(field.clone().with_metadata(Metadata::from_pairs(pairs)?))
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(schema, out, error, make) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_with_extension(
    schema: *const ArdevSchema,
    name: *const c_char,
    parameters: *const ArdevBytes,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let make = |field: &Field| {
        // SAFETY: the header asks for a text.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: rule 1 of the header: null, or bytes of the caller's.
        let parameters = match unsafe { parameters.as_ref() } {
            // SAFETY: the header asks for bytes.
            Some(parameters) => unsafe { parameters.bytes("parameters") }?,
            None => &[],
        };
        field.clone().with_extension(name, parameters)
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(schema, out, error, make) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_inspect(
    schema: *const ArdevSchema,
    out: *mut ArdevSchemaInfo,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 6 of the header.
        let out = unsafe { OutGrows::new(out, "out") }?;
        // SAFETY: rule 2 of the header.
        let schema = unsafe { get(schema, "schema") }?;
        let field = schema.0.field();
        let extension = field.extension();
        let Extension { name, metadata } =
            extension.unwrap_or(Extension { name: "", metadata: &[] });
        out.put(ArdevSchemaInfo {
            struct_size: 0,
            format: schema.format().as_ptr(),
            name: ArdevBytes::of(field.name().as_bytes()),
            flags: field.flags(),
            n_children: field.data_type().child_count(),
            n_pairs: field.metadata().len(),
            has_dictionary: field.data_type().dictionary_values().is_some().into(),
            is_extension: extension.is_some().into(),
            extension_name: ArdevBytes::of(name.as_bytes()),
            extension_parameters: ArdevBytes::of(metadata),
        })
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_pair(
    schema: *const ArdevSchema,
    index: usize,
    out: *mut ArdevPair,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, ArdevPair::NONE, "out") }?;
        // SAFETY: rule 2 of the header.
        let schema = unsafe { get(schema, "schema") }?;
        let metadata = schema.0.field().metadata();
        let (key, value) = metadata.iter().nth(index).ok_or_else(|| {
            invalid(format!("there is no pair {index}: metadata has {}", metadata.len()))
        })?;
        out.put(ArdevPair { key: ArdevBytes::of(key), value: ArdevBytes::of(value) })
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_child(
    schema: *const ArdevSchema,
    index: usize,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let child = |field: &Field| {
        let data_type = field.data_type();
        let none = || invalid(format!("{data_type} has no child {index}"));
        data_type.child(index).cloned().ok_or_else(none)
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(schema, out, error, child) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_schema_dictionary(
    schema: *const ArdevSchema,
    out: *mut *mut ArdevSchema,
    error: *mut ArdevError,
) -> c_int {
    let dictionary = |field: &Field| {
        let data_type = field.data_type();
        let none = || invalid(format!("{data_type} has no dictionary"));
        data_type.dictionary_values().cloned().ok_or_else(none)
    };
    // SAFETY: rules 1 and 2 of the header.
    unsafe { derive(schema, out, error, dictionary) }
}
