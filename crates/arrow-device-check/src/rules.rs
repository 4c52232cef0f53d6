//! The rules that can be checked from outside, with the ids of the project's list of requirements.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The id.
    pub id: &'static str,
    /// The demand of the specification.
    pub sentence: &'static str,
    /// The remedy if the rule is broken.
    pub remedy: &'static str,
}

impl Rule {
    /// The family of rules that the rule belongs to: the letters of its id.
    pub fn group(&self) -> &'static str {
        self.id.split('-').next().unwrap_or(self.id)
    }
}

const fn rule(id: &'static str, sentence: &'static str, remedy: &'static str) -> Rule {
    Rule { id, sentence, remedy }
}

/// Finds a rule and its number by its id.
pub(crate) fn find(id: &str) -> Option<(usize, &'static Rule)> {
    ALL.iter().enumerate().find(|(_, rule)| rule.id == id)
}

/// All rules. `PEER` is the checker's own.
pub const ALL: &[Rule] = &[
    rule(
        "PEER",
        "The peer runs: it is found, its entry point returns, and nothing ends the process.",
        "run the entry point in a debugger with what is said under `seen`",
    ),
    rule(
        "ABI-1",
        "`ArrowDeviceArray` is 128 bytes: array, device_id, device_type, sync_event, reserved, in this order.",
        "use the declarations of the specification's abi.h as they are",
    ),
    rule(
        "ABI-2",
        "`device_type` is an int32_t whose value is never truncated.",
        "keep 32 bits of it, and refuse values that you do not know",
    ),
    rule(
        "ABI-3",
        "The types of devices have the values of the specification.",
        "use the constants of abi.h",
    ),
    rule(
        "ABI-5",
        "`reserved` MUST be zero.",
        "set `reserved` to zero in every export: the consumer's memory may hold anything",
    ),
    rule(
        "SCH-1",
        "`format` is mandatory, and is one of the format strings of the C data interface.",
        "give every node a format string of the specification",
    ),
    rule(
        "SCH-2",
        "`name` is a C string or NULL; metadata is pairs of bytes with lengths.",
        "write the number of pairs, and each length, as an int32_t in the order of the machine",
    ),
    rule("SCH-3", "Flags are kept, unknown ones too.", "hand all bits of `flags` on"),
    rule(
        "SCH-4",
        "`dictionary` is there exactly where the type is dictionary-encoded, and `format` is then that of the index.",
        "give schema and array a dictionary, or neither",
    ),
    rule("SCH-5", "Extension types travel as metadata, known or not.", "hand `metadata` on"),
    rule(
        "SCH-6",
        "Schema and array are released independently of each other, and each once.",
        "let neither own what belongs to the other, and release both",
    ),
    rule(
        "ARR-1",
        "Only the pointers in `buffers` are device pointers; every other part is CPU memory.",
        "put structs and tables into host memory, and all buffers on the device",
    ),
    rule(
        "ARR-2",
        "The host does not read through a device pointer; device data is used after its event, through the device.",
        "copy through the device, and wait first",
    ),
    rule(
        "ARR-3",
        "`device_id` is 64 bits, and says which device.",
        "write all 64 bits of it; -1 on the CPU",
    ),
    rule(
        "ARR-4",
        "`device_type` is the type of device that can access the buffers.",
        "write the type that the memory was allocated on",
    ),
    rule(
        "ARR-5",
        "If `sync_event` is not NULL, the consumer MUST wait on it before it accesses any buffer.",
        "wait on it with the device's own function, on the queue that uses the data; hand it on with the array",
    ),
    rule(
        "ARR-6",
        "If `sync_event` is NULL, the data can be accessed at once.",
        "record an event behind your work, or wait for your work before the export",
    ),
    rule(
        "ARR-7",
        "On types of devices without events, `sync_event` is NULL.",
        "leave it NULL on the CPU, and wait before the export; refuse what comes with one",
    ),
    rule(
        "ARR-8",
        "The event is recorded after the work that makes the data.",
        "record behind the last piece of work, on the queue that does it",
    ),
    rule(
        "ARR-9",
        "The event lives as long as the array, and is freed in its release.",
        "keep the event in private_data, and destroy it in release",
    ),
    rule(
        "ARR-10",
        "`release` frees all that the array holds.",
        "free every buffer, table and event in release",
    ),
    rule(
        "ARR-11",
        "The base structure is the consumer's memory: the producer fills it and touches nothing else.",
        "write the struct through the pointer, once",
    ),
    rule(
        "ARR-12",
        "A struct is moved by copying its bytes and marking the source as released; children can be moved out and outlive their parent.",
        "set the source's release to NULL; give each child an owner of its own data",
    ),
    rule(
        "ARR-13",
        "`release` is called once, frees everything once, and marks the struct as released.",
        "set `release` to NULL in it, and call it once",
    ),
    rule(
        "ARR-14",
        "Length and offset say which elements the array is.",
        "hand both on, or slice the buffers",
    ),
    rule("ARR-15", "Data that is shared is not written to.", "copy before you write"),
    rule(
        "ARR-16",
        "Data is handed on without a copy: buffers keep their addresses.",
        "hand the pointers on",
    ),
    rule(
        "ARR-17",
        "Lengths, offsets, null counts and buffers are those of the type, and cover length + offset elements.",
        "see what is said under `seen`",
    ),
    rule(
        "ARR-18",
        "A consumer calls the release of the base structure alone, and reads nothing after it.",
        "leave the children to their parent's release",
    ),
    rule(
        "ARR-19",
        "No pointer to the struct is kept: it may be moved.",
        "keep what you need behind private_data",
    ),
    rule(
        "ARR-20",
        "The releaser's device work on the data is complete when it calls `release`.",
        "wait for your queue before you release",
    ),
    rule(
        "STR-1",
        "The stream's `device_type` is set from the start.",
        "set it when the stream is made",
    ),
    rule(
        "STR-2",
        "All arrays of a stream are on the stream's type of device; a consumer refuses and releases others.",
        "compare `device_type` of each array with the stream's",
    ),
    rule(
        "STR-3",
        "`get_schema` can be called at any time, any number of times, and gives the same schema.",
        "keep the schema as long as the stream",
    ),
    rule(
        "STR-4",
        "At the end `get_next` returns 0 and a released array, and keeps doing so.",
        "remember the end",
    ),
    rule(
        "STR-5",
        "Errors are errno values above 0 with a UTF-8 text, and an error is not an end.",
        "return the error, again if asked again; leave the output alone",
    ),
    rule(
        "STR-6",
        "Schemas and arrays outlive their stream.",
        "give each array an owner of its own",
    ),
    rule(
        "STR-7",
        "`release` frees the stream once and marks it; nothing is called after it; the struct can be moved.",
        "keep the state behind private_data; move the struct by marking the source",
    ),
    rule("STR-8", "Calls of one stream do not overlap.", "call from one thread, or take a lock"),
    rule(
        "STR-9",
        "`get_last_error` is called only right after an error, and may return NULL.",
        "look at the code first; take NULL for no text",
    ),
    rule(
        "ASY-1",
        "The consumer fills all callbacks of the handler.",
        "set on_schema, on_next_task, on_error and release",
    ),
    rule(
        "ASY-2",
        "The producer sets `handler.producer`, complete, before any callback other than release.",
        "set it first",
    ),
    rule(
        "ASY-3",
        "`on_schema` comes first, once, with a schema.",
        "call it before the first task, unless on_error comes",
    ),
    rule("ASY-4", "No more tasks come than were requested.", "count what was requested"),
    rule("ASY-5", "`request` triggers no synchronous callback.", "note the request and return"),
    rule(
        "ASY-6",
        "A request for nothing or less is an error; after `cancel` a request does nothing.",
        "look at the sign, and at whether it was cancelled",
    ),
    rule(
        "ASY-7",
        "`cancel` is idempotent and leads to no error; then the release comes.",
        "after a cancel call release, and not on_error",
    ),
    rule(
        "ASY-8",
        "The end is `on_next_task(NULL)`: once, last, after success, and without a request.",
        "tell the end before the release",
    ),
    rule(
        "ASY-9",
        "`extract_data` is there, and is called once for each task that was taken, with NULL where the data is not wanted.",
        "extract every task that you took",
    ),
    rule(
        "ASY-10",
        "`extract_data` gives an array and 0, or a code and nothing; a failure is followed by on_error.",
        "return what went wrong, leave the output, and report",
    ),
    rule(
        "ASY-11",
        "After a callback returned an error only the release comes; a refused task is not extracted.",
        "call release, and not on_error; decide before you extract",
    ),
    rule(
        "ASY-12",
        "`on_error` has a code other than 0, and only the release follows it.",
        "stop after it",
    ),
    rule(
        "ASY-13",
        "Callbacks do not overlap; `release` is the last and comes once, whatever happened.",
        "serialise the callbacks, and call release on every path",
    ),
    rule(
        "ASY-14",
        "Nothing is called on the producer after the handler's release.",
        "forget the producer in release",
    ),
    rule("ASY-15", "Metadata is encoded as in ArrowSchema.", "write counts and lengths as int32_t"),
    rule(
        "ASY-16",
        "Neither side blocks a thread waiting for the other.",
        "return, and go on when you are called",
    ),
    rule("ASY-17", "Every array is on the producer's type of device.", "compare them"),
    rule(
        "ASY-18",
        "`on_error` and `release` call no method of the producer; `cancel` calls nothing but on_error.",
        "note it and return",
    ),
    rule(
        "ASY-19",
        "The schema is moved out during `on_schema`.",
        "move the struct, and keep no pointer",
    ),
    rule(
        "ASY-20",
        "Tasks that come after `cancel` are extracted, with NULL.",
        "extract them with NULL",
    ),
    rule(
        "ASY-21",
        "The handler's `release` frees the handler and all that is kept for it.",
        "free the handler, and what it points to, in its release",
    ),
    rule(
        "PYC-1",
        "Capsules have the names of the PyCapsule interface, and others are refused.",
        "name them arrow_schema, arrow_device_array, and so on",
    ),
    rule(
        "PYC-2",
        "A capsule is consumed once; one that nobody consumed releases in its destructor.",
        "give the capsule a destructor that looks at release",
    ),
    rule(
        "PYC-3",
        "Device methods take **kwargs, all of which must be None; others are a NotImplementedError.",
        "add **kwargs, and raise where one is not None",
    ),
    rule(
        "PYC-4",
        "The CPU methods give CPU data; device methods do not copy across devices.",
        "raise where the data is not on the CPU",
    ),
    rule(
        "PYC-5",
        "`requested_schema` is best effort: refused only where it is incompatible.",
        "take the argument, and ignore it where you cannot follow",
    ),
    rule(
        "PYC-6",
        "Objects with only the CPU methods are taken as CPU data, and the device method is preferred.",
        "look for the device method first, then for the other",
    ),
    rule(
        "DLP-3",
        "`__dlpack__` takes stream, max_version, dl_device and copy by keyword, and there is a `__dlpack_device__`.",
        "add the keywords of the array API standard",
    ),
    rule(
        "DLP-4",
        "The type of the elements is one of DLPack's.",
        "use the codes of dlpack.h, with 8, 16, 32 or 64 bits",
    ),
    rule(
        "DLP-6",
        "A tensor is deleted once; its capsule is called dltensor or dltensor_versioned, and used_... when it is consumed.",
        "rename the capsule before anything can fail, and call the deleter once",
    ),
    rule(
        "DLP-7",
        "Shape and strides have `ndim` entries and stay within the data; strides of NULL are compact; a tensor without elements has no data.",
        "see what is said under `seen`",
    ),
    rule(
        "DLP-9",
        "The device is one of DLPack's; a consumer refuses the others.",
        "look at `device` before anything else",
    ),
    rule(
        "DLP-10",
        "The memory stays until the deleter runs.",
        "keep it alive in manager_ctx, and have a deleter",
    ),
    rule(
        "DLP-11",
        "The major version is 1; a tensor of another is deleted and not looked at; the older form is given where nothing newer is asked for.",
        "look at the version first",
    ),
    rule(
        "DLP-12",
        "Flags are honest: read-only data says so, and is not written to.",
        "set the read-only flag, and respect it",
    ),
    rule("SYS-1", "Good data is accepted.", "see what is said under `seen`"),
    rule(
        "SYS-2",
        "What is malformed is refused with an error and released once: no crash, no hang, and not accepted in silence.",
        "check every number and pointer before you use it; release what you refuse",
    ),
];

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_rule_but_the_checkers_own_is_a_requirement_and_stands_here_once() {
        let requirements = include_str!("../../../docs/requirements.md");
        for (number, rule) in ALL.iter().enumerate() {
            let is_known = requirements.contains(&format!("| {} |", rule.id));
            assert!(is_known || rule.id == "PEER", "{}", rule.id);
            assert!(ALL.iter().skip(number + 1).all(|other| other.id != rule.id), "{}", rule.id);
        }
    }
}
